"""The program in scaled variables u: Z_ik = exp(-D_ir) u_ik, where r is the node at which output k costs least.

Ratios of u are near 1. Ratios of Z span hundreds of orders of magnitude, so a solver's tolerance would leave small
entries undetermined (papers' README, section 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.metric.problem import Program

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Larger bounds, as logarithms of ratios, are left to the repair, because the solver cannot handle them.
_WIDEST = 60.0
# The solver would drop coefficients smaller than exp(-this).
_FARTHEST = 18.0
# The smallest tolerance that HiGHS accepts.
FINEST = 1e-10


class Scaled:
    """A program's coefficients in u.

    anchor: exp(-D_ir), shape (nodes, outputs). scale: the largest cost of Z. cost: of u, divided by `scale`.
    """

    def __init__(self, program: Program) -> None:
        self._reach = np.minimum(program.paths[:, program.roots], _FARTHEST)
        self.anchor = np.exp(-self._reach)
        self.scale = float(program.cost.max()) or 1.0
        self.cost = program.cost / self.scale * self.anchor

    def ratios(self, first: Ints, second: Ints, length: Floats, place: Ints, width: int) -> csr_array:
        """Rows of exp(-a/2) u_i - exp(a/2) u_j <= 0 with a = w_ij + D_ir - D_jr, an edge's outputs together.

        place: where each node's variables begin. width: how many variables there are.
        """
        from scipy.sparse import coo_array

        outputs = self.anchor.shape[1]
        allowed = np.minimum(length[:, None] + self._reach[first] - self._reach[second], _WIDEST).ravel()
        row = np.arange(len(first) * outputs)
        k = np.tile(np.arange(outputs), len(first))
        here, there = np.repeat(place[first], outputs) + k, np.repeat(place[second], outputs) + k
        coefficients: Any = np.concatenate([np.exp(-allowed / 2), -np.exp(allowed / 2)])
        return coo_array(
            (coefficients, (np.concatenate([row, row]), np.concatenate([here, there]))), shape=(len(row), width)
        ).tocsr()

    def sums(self, nodes: Ints, place: Ints, width: int) -> csr_array:
        """A row for each of the nodes: the sum of its probabilities."""
        from scipy.sparse import csr_array

        outputs = self.anchor.shape[1]
        columns = (place[nodes][:, None] + np.arange(outputs)).ravel()
        return csr_array(
            (self.anchor[nodes].ravel(), columns, np.arange(len(nodes) + 1) * outputs), shape=(len(nodes), width)
        )
