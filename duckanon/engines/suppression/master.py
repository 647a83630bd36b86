"""The master program of Fischetti and Salazar (2000): the cheapest pattern that all capacity constraints so far allow.

min cost . y over 0 <= y <= 1, one y for each cell that may be suppressed besides the primary ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.attacker import Target
from duckanon.engines.suppression.problem import Problem, no_whole_pattern
from duckanon.engines.suppression.solver import Choice, Program

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Cut:
    """shares @ y[cells] >= 1 for every whole y that protects. cells are positions among the free ones."""

    cells: Ints
    shares: Floats


@dataclass(frozen=True)
class Decided:
    """pattern: shape (cells,), 1 for cells that are never published. bound: no protecting pattern costs less.

    Duals of this program prove that. reduced: shape (free cells,), what each one adds to the bound if it is suppressed.
    """

    pattern: Floats
    bound: float
    reduced: Floats


@dataclass(frozen=True)
class Whole:
    """pattern: shape (cells,). bound: no pattern that meets the cuts costs less, as the solver has it.

    least: whether that is the pattern's own cost. work: simplex iterations times cuts.
    """

    pattern: Bools
    bound: float
    least: bool
    work: int


class Master:
    """The linear program, with cuts added as they are found."""

    def __init__(self, problem: Problem) -> None:
        self._always = problem.always
        self.free = np.flatnonzero(problem.free)
        self.cost = problem.cost[self.free]
        self.cuts: list[Cut] = []
        zeros = np.zeros(len(self.free))
        self._program = Program(self.cost, zeros, np.ones(len(self.free)), primal=False)
        self._entered = 0

    def cut(self, target: Target, capacities: Floats, pattern: Floats) -> bool:
        """Take in the constraint capacities @ y >= demand. False if the pattern meets it already.

        The capacities of cells that are never published are subtracted from the demand, and each capacity is cut to
        what is then left.
        """
        left = target.demand - float(capacities[self._always].sum())
        if left <= 1e-9 * target.demand:
            return False
        shares = np.minimum(capacities[self.free] / left, 1.0)
        cells = np.flatnonzero(shares > 0)
        if shares[cells] @ pattern[self.free[cells]] >= 1 - 1e-5:
            return False
        self._take(Cut(cells, shares[cells]))
        return True

    def forbid(self, pattern: Bools) -> None:
        """No pattern within this one protects: something else has to be suppressed too."""
        others = np.flatnonzero(~pattern[self.free])
        self._take(Cut(others, np.ones(len(others))))

    def _take(self, cut: Cut) -> None:
        if not len(cut.cells):
            raise no_whole_pattern()
        self.cuts.append(cut)

    def solve(self) -> Decided:
        """The optimum of the linear relaxation."""
        if self._entered < len(self.cuts):
            rows = self._rows(self.cuts[self._entered :])
            self._program.add(rows, np.ones(rows.shape[0]), np.full(rows.shape[0], np.inf))
            self._entered = len(self.cuts)
        optimum = self._program.solve()
        assert optimum is not None, "suppressing every free cell meets every cut"
        prices = np.maximum(optimum.duals, 0.0)
        reduced = self.cost - (self._rows(self.cuts).T @ prices if self.cuts else 0.0)
        bound = float(prices.sum() + np.minimum(reduced, 0.0).sum())
        pattern = self._always.astype(np.float64)
        pattern[self.free] = np.clip(optimum.x, 0.0, 1.0)
        # The sums are rounded: stay below what they are in truth.
        return Decided(pattern, bound * (1 - 1e-9), reduced)

    def choose(self, nodes: int) -> Whole:
        """A cheap whole pattern that meets all cuts, the best of a search tree of that many nodes."""
        pattern = self._always.copy()
        if not self.cuts:
            return Whole(pattern, 0.0, True, 0)
        choice = Choice(self.cost, nodes)
        choice.add(self._rows(self.cuts))
        chosen = choice.solve()
        assert chosen is not None, "suppressing every free cell meets every cut"
        pattern[self.free] = chosen.y
        cost = float(self.cost[chosen.y].sum())
        least = cost <= chosen.bound + 1e-6 * max(1.0, cost)
        return Whole(pattern, chosen.bound, least, chosen.iterations * len(self.cuts))

    def _rows(self, cuts: list[Cut]) -> csr_array:
        from scipy.sparse import csr_array

        starts = np.concatenate([[0], np.cumsum([len(cut.cells) for cut in cuts])])
        cells = np.concatenate([cut.cells for cut in cuts])
        shares = np.concatenate([cut.shares for cut in cuts])
        return csr_array((shares, cells, starts), shape=(len(cuts), len(self.free)))
