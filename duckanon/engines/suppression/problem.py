"""The suppression problem: what attackers know of each cell, what must be protected, and what suppressing costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.rules import Levels
from duckanon.engines.suppression.table import Table, whole_units
from duckanon.errors import Infeasible, InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UP, DOWN = 1, -1


@dataclass(frozen=True)
class Problem:
    """Everything flat, shape (cells,), in units.

    least, most: attackers know least <= cell <= most beforehand; most may be infinite. lower, upper: protection levels.
    cost: of suppressing a cell. free: cells that may be suppressed in addition to the primary ones.
    """

    table: Table
    least: Ints
    most: Floats
    primary: Bools
    lower: Ints
    upper: Ints
    cost: Floats
    free: Bools

    @cached_property
    def room(self) -> dict[int, Floats]:
        """How far a cell may deviate, by direction."""
        return {UP: self.most - self.table.flat, DOWN: (self.table.flat - self.least).astype(np.float64)}

    @property
    def largest(self) -> float:
        """The largest of the finite rooms and of the demands."""
        rooms = (room[np.isfinite(room)].max(initial=1.0) for room in self.room.values())
        return float(max(*rooms, self.lower.max(initial=1), self.upper.max(initial=1)))

    @property
    def demand(self) -> dict[int, Ints]:
        """How far attackers must not be able to exclude that a cell deviates, by direction."""
        return {UP: self.upper, DOWN: self.lower}

    @cached_property
    def directions(self) -> tuple[int, ...]:
        """The directions to look at: where rooms and demands are the same both ways, one stands for both."""
        touched = self.primary | self.free
        same = (self.room[UP] == self.room[DOWN])[touched].all() and (self.upper == self.lower).all()
        return (UP,) if same else (UP, DOWN)

    def cost_of(self, secondary: Bools) -> float:
        """The cost of a pattern's secondary suppressions."""
        return float(np.sort(self.cost[secondary & ~self.primary]).sum())


def problem(
    table: Table,
    levels: Levels,
    known: tuple[npt.ArrayLike | None, npt.ArrayLike | None] = (None, None),
    cost: npt.ArrayLike | None = None,
    keep: npt.ArrayLike | None = None,
) -> Problem:
    """The problem for these levels.

    known: bounds that attackers have beforehand, shape (rows, columns) each; by default at least one unit (empty cells
    are published, so a cell that is not published is not empty) and no upper bound. cost: shape (rows, columns), by
    default log(1 + value). keep: shape (rows, columns), cells that have to be published.
    Raises InvalidInput for bounds that the table itself contradicts, and Infeasible if a demand exceeds them.
    """
    shape, flat = table.units.shape, table.flat
    least = np.minimum(flat, 1) if known[0] is None else whole_units(known[0], table.step).reshape(-1)
    most = np.full(table.cells, np.inf) if known[1] is None else _upper(known[1], table.step)
    if least.shape != flat.shape or most.shape != flat.shape:
        raise InvalidInput("What attackers know has the rows and columns of the table.")
    if (least > flat).any() or (most < flat).any():
        raise InvalidInput("What attackers know contradicts the table: some cells lie outside their known bounds.")
    prices = np.log1p(flat * table.step) if cost is None else np.asarray(cost, dtype=np.float64).reshape(-1)
    kept = np.zeros(flat.shape, dtype=bool) if keep is None else np.asarray(keep, dtype=bool).reshape(-1)
    if (
        prices.shape != flat.shape
        or kept.shape != flat.shape
        or not (np.isfinite(prices).all() and (prices >= 0).all())
    ):
        raise InvalidInput(
            f"Costs and cells to keep have {shape[0]} rows and {shape[1]} columns; costs are at least 0."
        )
    if (kept & levels.primary).any():
        raise Infeasible("Some cells that must be kept are sensitive: let them be suppressed.")
    least = _added_up(table, least)
    lower = np.minimum(levels.lower, np.where(levels.primary, flat - least, 0))
    if (flat + levels.upper > most).any():
        raise Infeasible(
            "Attackers know some sensitive cells more narrowly than the rule allows: suppression is no help."
        )
    free = ~levels.primary & ~kept & (flat > 0)
    return Problem(table, least, most, levels.primary, lower, levels.upper, prices, free)


def _upper(values: npt.ArrayLike, step: float) -> Floats:
    """Upper bounds in units; infinite ones stay so."""
    given = np.asarray(values, dtype=np.float64).reshape(-1)
    finite = np.isfinite(given)
    most = np.full(given.shape, np.inf)
    most[finite] = whole_units(given[finite], step)
    return most


def _added_up(table: Table, least: Ints) -> Ints:
    """Lower bounds, where those of a total's parts add up to more than its own."""
    grid = least.reshape(table.units.shape).copy()
    for side, axis in ((grid, table.rows), (grid.T, table.columns)):
        for node in axis.upward.tolist():
            parts = np.flatnonzero(axis.parents == node)
            if len(parts):
                side[node] = np.maximum(side[node], side[parts].sum(axis=0))
    return grid.ravel()
