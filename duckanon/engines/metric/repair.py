"""Makes any matrix satisfy metric differential privacy exactly, at the least loss that scaling and one column allow.

The vectors that a column may be form a cone: g >= 0 and g_i <= exp(w_ij) g_j along every edge. It is closed under
sums, scaling and maxima. Source: papers' README, section 4; every step is checked in floating point by `certificate`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.metric.graph import Edges

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# The least probability of an output that is used: smaller numbers lose digits, and zeros would exclude records.
FLOOR = 2.0**-1000
# Outputs whose probability is below this for every record are not used at all.
_UNUSED = 1e-12
# Longer edges count as this long where exp would overflow; that is stricter than necessary.
_LONGEST = 600.0


@compiled
def _close(matrix: Floats, ptr: Ints, idx: Ints, factor: Floats) -> None:
    """Raise entries, in place, to the least matrix with matrix[i] >= factor * matrix[j] along every edge."""
    n, width = matrix.shape
    changed, upward = True, True
    while changed:
        changed = False
        for t in range(n):
            i = t if upward else n - 1 - t
            for e in range(ptr[i], ptr[i + 1]):
                j, f = idx[e], factor[e]
                raised = 0
                for k in range(width):
                    least = f * matrix[j, k]
                    if least > matrix[i, k]:
                        matrix[i, k] = least
                        raised += 1
                if raised:
                    changed = True
        upward = not upward


def closure(matrix: Floats, edges: Edges) -> Floats:
    """The smallest matrix above `matrix` (shape (nodes, outputs)) whose every column lies in the cone."""
    closed = np.ascontiguousarray(np.maximum(matrix, 0.0))
    _close(closed, edges.ptr, edges.idx, np.exp(-edges.length))
    return closed


def repair(matrix: Floats, edges: Edges, cost: Floats) -> Floats:
    """A stochastic matrix near `matrix` whose every column lies in the cone. Both have shape (nodes, outputs).

    edges: lengths less a margin (`Edges.inner`). cost: the loss of each entry times the prior. Outputs that are hardly
    ever given are not used; the columns of the others have no zeros.
    """
    used = np.flatnonzero(matrix.max(axis=0) > _UNUSED)
    closed = closure(np.maximum(matrix[:, used], FLOOR), edges)
    sums = closed.sum(axis=1)
    largest = sums.max(initial=0.0)
    missing = np.maximum(1.0 - sums / largest, 0.0) if largest else np.ones(len(matrix))
    # What rows lack is added to one output. A constant added to all records brings that column into the cone.
    first, second = edges.ends
    growth = np.expm1(np.minimum(edges.length, _LONGEST))
    short = (missing[first] - missing[second] - growth * missing[second]) / growth
    tau = max(0.0, float(short.max(initial=0.0))) * (1 + 2.0**-40)
    if len(growth):
        tau += 2.0**-50 * float(missing.max()) / float(growth.min())
    delta = tau / (1 + tau)
    extra = delta + (1 - delta) * missing
    repaired = np.zeros_like(matrix)
    if largest:
        repaired[:, used] = closed * ((1 - delta) / largest)
    if extra.any():
        repaired[:, int((extra @ cost).argmin())] += np.maximum(extra, FLOOR)
    return repaired
