"""A system as linear and integer programs for HiGHS, and what can be proven with them without relying on floats.

An optimum's x, rounded, is a witness if it solves the system in whole numbers. Its duals, rounded, give a bound that
weak duality proves for any duals: both are computed in integers here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.highs import new_highs, solve
from duckanon.engines.tables.cells import Ints
from duckanon.engines.tables.released import UNBOUNDED
from duckanon.engines.tables.system import System

Floats = npt.NDArray[np.float64]

# Duals are rounded to multiples of 1 / _GRID.
_GRID = 2**20
# Sums of so large numbers are left to Python's integers.
_WORD = 2.0**61


@dataclass(frozen=True, eq=False)
class Optimum:
    """x: shape (columns,). bound: the least whole value that the objective may have, proven."""

    x: Floats
    bound: int


class LinearProgram:
    """The linear relaxation of a system, over the columns that are not settled; objectives and bounds change.

    dual: by the dual simplex method, which is faster after a change of bounds; the primal one, after one of objectives.
    """

    def __init__(self, system: System, lower: Ints, upper: Ints, *, dual: bool = False) -> None:
        import highspy

        self._lower, self._upper = lower.copy(), upper.copy()
        self.free = np.flatnonzero(lower < upper)
        self._at = np.full(system.columns, -1, dtype=np.int64)
        self._at[self.free] = np.arange(len(self.free))
        self._reduce(system)
        self._highs = new_highs(simplex_strategy=1 if dual else 4)
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._infeasible = highspy.HighsModelStatus.kInfeasible
        self._all = np.arange(len(self.free), dtype=np.int32)
        self._highs.passModel(self._program(highspy))

    def _reduce(self, system: System) -> None:
        """The rows that still have free columns, the settled ones' part taken off."""
        row_of = system.row_of_terms()
        free = self._at[system.column] >= 0
        settled = np.zeros(system.rows, dtype=np.int64)
        np.add.at(settled, row_of[~free], system.coefficient[~free] * self._lower[system.column[~free]])
        used = np.bincount(row_of[free], minlength=system.rows) > 0
        number = np.cumsum(used) - 1
        self._row, self._column = number[row_of[free]], self._at[system.column[free]]
        self._coefficient = system.coefficient[free]
        none_below, none_above = system.least[used] == -UNBOUNDED, system.most[used] == UNBOUNDED
        self._none_below, self._none_above = none_below, none_above
        self._least = np.where(none_below, 0, system.least[used] - settled[used])
        self._most = np.where(none_above, 0, system.most[used] - settled[used])

    def _program(self, highspy: Any) -> Any:
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(self.free), len(self._least)
        program.col_cost_ = np.zeros(len(self.free))
        program.col_lower_ = self._lower[self.free].astype(float)
        program.col_upper_ = self._upper[self.free].astype(float)
        program.row_lower_ = np.where(self._none_below, -highspy.kHighsInf, self._least.astype(float))
        program.row_upper_ = np.where(self._none_above, highspy.kHighsInf, self._most.astype(float))
        order = np.lexsort((self._row, self._column))
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        begin = np.searchsorted(self._column[order], np.arange(len(self.free) + 1))
        program.a_matrix_.start_ = begin.astype(np.int32)
        program.a_matrix_.index_ = self._row[order].astype(np.int32)
        program.a_matrix_.value_ = self._coefficient[order].astype(float)
        return program

    def confine(self, lower: Ints, upper: Ints) -> None:
        """Narrow the columns' bounds, or widen them again; settled columns stay."""
        self._lower[self.free], self._upper[self.free] = lower[self.free], upper[self.free]
        low, high = lower[self.free].astype(float), upper[self.free].astype(float)
        self._highs.changeColsBounds(len(self.free), self._all, low, high)

    def minimise(self, columns: Ints, sign: int, seconds: float) -> Optimum | None:
        """The least of sign times the sum of some columns; None if HiGHS finds none in that time."""
        at = self._at[columns]
        cost = np.zeros(len(self.free), dtype=np.int64)
        cost[at[at >= 0]] = sign
        settled = sign * int(self._lower[columns[at < 0]].sum())
        self._highs.changeColsCost(len(self.free), self._all, cost.astype(float))
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(seconds, 0.0))
        solve(self._highs)
        if self._highs.getModelStatus() != self._optimal:
            return None
        solution = self._highs.getSolution()
        x = self._lower.astype(float)
        x[self.free] = np.array(solution.col_value)
        return Optimum(x, settled + self.proven(cost, np.array(solution.row_dual)))

    def empty(self) -> bool:
        """Whether the last program had no solution, proven by its dual ray in whole numbers (Farkas' lemma)."""
        if self._highs.getModelStatus() != self._infeasible:
            return False
        _, there_is, ray = self._highs.getDualRay()
        if not there_is:
            return False
        ray = np.array(ray)
        size = np.abs(ray).max(initial=0)
        if not 0 < size < float("inf"):
            return False
        nothing = np.zeros(len(self.free), dtype=np.int64)
        return any(self.proven(nothing, sign * ray / size) > 0 for sign in (1, -1))

    def proven(self, cost: Ints, duals: Floats) -> int:
        """The least whole value that cost . x may have, by weak duality with these duals, in integers."""
        y = np.rint(duals * _GRID).astype(np.int64)
        y[(y > 0) & self._none_below] = 0
        y[(y < 0) & self._none_above] = 0
        products = np.abs(self._coefficient).max(initial=0) * float(np.abs(y).max(initial=0))
        if products * max(len(self._coefficient), 1) >= _WORD:
            return -UNBOUNDED
        reduced = cost * _GRID
        np.subtract.at(reduced, self._column, self._coefficient * y[self._row])
        low, high = self._lower[self.free], self._upper[self.free]
        bound = _dot(y, np.where(y > 0, self._least, self._most)) + _dot(reduced, np.where(reduced > 0, low, high))
        return -(-bound // _GRID)


def _dot(first: Ints, second: Ints) -> int:
    """The dot product, without overflow."""
    if float(np.abs(first).astype(float) @ np.abs(second).astype(float)) < _WORD:
        return int(first @ second)
    return sum(a * b for a, b in zip(first.tolist(), second.tolist(), strict=True))


class IntegerProgram:
    """The system as an integer program: for witnesses that the relaxation does not give."""

    def __init__(self, relaxed: LinearProgram) -> None:
        import highspy

        self._relaxed = relaxed
        self._highs = new_highs(mip_rel_gap=0.0, mip_abs_gap=0.5)
        self._highs.passModel(relaxed._program(highspy))
        size = len(relaxed.free)
        kinds = np.full(size, highspy.HighsVarType.kInteger)
        self._highs.changeColsIntegrality(size, np.arange(size, dtype=np.int32), kinds)

    def minimise(self, column: int, sign: int, lower: Ints, upper: Ints, seconds: float) -> Floats | None:
        """The best x found for sign times a free column within these bounds; None if there is none."""
        relaxed = self._relaxed
        size = len(relaxed.free)
        positions = np.arange(size, dtype=np.int32)
        low, high = lower[relaxed.free].astype(float), upper[relaxed.free].astype(float)
        self._highs.changeColsBounds(size, positions, low, high)
        cost = np.zeros(size)
        if relaxed._at[column] >= 0:
            cost[relaxed._at[column]] = sign
        self._highs.changeColsCost(size, positions, cost)
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(seconds, 0.0))
        solve(self._highs)
        solution = np.array(self._highs.getSolution().col_value)
        if len(solution) != size or not np.isfinite(solution).all():
            return None
        x = relaxed._lower.astype(float)
        x[relaxed.free] = solution
        return x
