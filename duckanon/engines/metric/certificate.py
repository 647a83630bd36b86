"""The check of a finished mechanism: the ratio of probabilities for every pair of neighbours and every output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.parallel import spread

Floats = npt.NDArray[np.float64]

# The rounding error of the division, the logarithm and the product with epsilon, at most, relative to 1 + epsilon d.
_ROUNDING = 2.0**-50


@dataclass(frozen=True)
class Certificate:
    """pairs: how many pairs of records are neighbours.

    max_violation: the largest logarithm of a ratio of probabilities, less epsilon times the distance, plus
        more than the rounding error: if it is not above 0, every ratio is proved to hold. -inf without pairs.
    row_sum_error: how far the probabilities of a record are from adding up to 1, at most.
    """

    pairs: int
    max_violation: float
    row_sum_error: float

    @property
    def holds(self) -> bool:
        return self.max_violation <= 0


def _sums(matrix: Floats) -> Floats:
    """Sums of rows, to the last digit but one (Neumaier 1974)."""
    total, lost = np.zeros(len(matrix)), np.zeros(len(matrix))
    for x in np.ascontiguousarray(matrix.T):
        more = total + x
        larger = np.abs(total) >= np.abs(x)
        lost += np.where(larger, total, x) - more + np.where(larger, x, total)
        total = more
    return total + lost


@compiled
def _worst(
    matrix: Floats, sums: Floats, distances: Floats, epsilon: float, radius: float, begin: int, end: int
) -> tuple[int, float]:
    """Directed pairs among the records begin..end-1 and all, and the largest violation."""
    n, width = matrix.shape
    pairs, worst = 0, -np.inf
    for i in range(begin, end):
        for j in range(n):
            if i == j or not distances[i, j] <= radius or distances[i, j] == np.inf:
                continue
            pairs += 1
            ratio = 0.0
            for k in range(width):
                if matrix[j, k] > 0:
                    ratio = max(ratio, matrix[i, k] / matrix[j, k])
                elif matrix[i, k] > 0:
                    ratio = np.inf
            allowed = epsilon * distances[i, j]
            # Equal rows need no logarithm: their ratio is 1 whatever the rounding.
            if ratio == 1.0 and sums[i] == sums[j]:
                worst = max(worst, -allowed)
            else:
                worst = max(worst, np.log(ratio * (sums[j] / sums[i])) - allowed + _ROUNDING * (1 + allowed))
    return pairs, worst


def certify(
    matrix: Floats, distances: Floats, epsilon: float, radius: float | None = None, threads: int = 1
) -> Certificate:
    """Check the mechanism whose record i gives output k with probability matrix[i, k] / sum(matrix[i]).

    matrix: shape (records, outputs), nothing negative. distances: shape (records, records), infinity where two
    records are no neighbours whatever the radius.
    """
    matrix = np.ascontiguousarray(matrix)
    sums = _sums(matrix)
    pieces = np.linspace(0, len(matrix), 4 * threads + 1).astype(int)
    parts = spread(
        lambda piece: _worst(matrix, sums, distances, epsilon, np.inf if radius is None else radius, *piece),
        list(zip(pieces[:-1].tolist(), pieces[1:].tolist(), strict=True)),
        threads,
    )
    return Certificate(
        sum(part[0] for part in parts) // 2,
        float(max(part[1] for part in parts)),
        float(np.abs(sums - 1.0).max()),
    )
