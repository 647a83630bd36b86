"""The suppression problem: what attackers know of each cell, what must be protected, and what suppressing costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.rules import Levels
from duckanon.engines.suppression.system import Additive
from duckanon.engines.suppression.table import whole_units
from duckanon.errors import Infeasible, InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UP, DOWN = 1, -1


@dataclass(frozen=True)
class Required:
    """How wide the interval of a cell must be, shape (cells,) each, in units: to both sides, and from end to end."""

    lower: Ints
    upper: Ints
    width: Ints

    def narrow(self, true: Ints, cells: Ints, lower: Floats, upper: Floats) -> Bools:
        """Which of some cells have narrower intervals. true: of all cells; lower, upper: shape (k,), of these."""
        narrow: Bools = (lower > true[cells] - self.lower[cells]) | (upper < true[cells] + self.upper[cells])
        return narrow | (upper - lower < self.width[cells])


@dataclass(frozen=True)
class Problem:
    """Everything flat, shape (cells,), in units.

    least, most: attackers know least <= cell <= most beforehand; most may be infinite. lower, upper: protection levels.
    cost: of suppressing a cell. free: cells that may be suppressed in addition to the primary ones. closed: cells that
    nobody publishes whatever the pattern: sums that are protected as cells are. required: what the rules require, which
    an audit checks; lower and upper are the same, and more where intervals slide.
    """

    table: Additive
    least: Ints
    most: Floats
    primary: Bools
    lower: Ints
    upper: Ints
    cost: Floats
    free: Bools
    closed: Bools
    required: Required

    @cached_property
    def always(self) -> Bools:
        """Cells that no pattern publishes."""
        return self.primary | self.closed

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
        touched = self.always | self.free
        same = (self.room[UP] == self.room[DOWN])[touched].all() and (self.upper == self.lower).all()
        return (UP,) if same else (UP, DOWN)

    def cost_of(self, secondary: Bools) -> float:
        """The cost of a pattern's secondary suppressions."""
        return float(np.sort(self.cost[secondary & ~self.always]).sum())


def problem(
    table: Additive,
    levels: Levels,
    known: tuple[npt.ArrayLike | None, npt.ArrayLike | None] = (None, None),
    cost: npt.ArrayLike | None = None,
    keep: npt.ArrayLike | None = None,
    hidden: npt.ArrayLike | None = None,
) -> Problem:
    """The problem for these levels.

    known: bounds that attackers have beforehand, in the table's shape each; by default at least one unit (empty cells
    are published, so a cell that is not published is not empty) and no upper bound. cost: in the table's shape, by
    default log(1 + value). keep: in the table's shape, cells that have to be published. hidden: cells
    that no table has, so that they may be empty.
    Raises InvalidInput for bounds that the table itself contradicts, and Infeasible if a demand exceeds them.
    """
    flat = table.flat
    apart = _flags(hidden, table)
    own = np.where(apart, 0, np.minimum(flat, 1))
    least = own if known[0] is None else whole_units(known[0], table.step).reshape(-1)
    most = np.full(table.cells, np.inf) if known[1] is None else _upper(known[1], table.step)
    if least.shape != flat.shape or most.shape != flat.shape:
        raise InvalidInput("What attackers know has the shape of the table.")
    if (least > flat).any() or (most < flat).any():
        raise InvalidInput("What attackers know contradicts the table: some cells lie outside their known bounds.")
    prices = np.log1p(flat * table.step) if cost is None else np.asarray(cost, dtype=np.float64).reshape(-1)
    kept, closed = _flags(keep, table), apart
    if prices.shape != flat.shape or not (np.isfinite(prices).all() and (prices >= 0).all()):
        raise InvalidInput("Costs have the shape of the table, and are at least 0.")
    contradicted = int((kept & (levels.primary | closed)).sum())
    if contradicted:
        raise Infeasible(f"apriori publishes {counted(contradicted, 'sensitive cell')}: say NULL for suppressed there.")
    least = _added_up(table, least)
    lower = np.minimum(levels.lower, np.where(levels.primary, flat - least, 0))
    if (flat + levels.upper > most).any():
        raise Infeasible(
            "Attackers know some sensitive cells more narrowly than the rule allows: suppression is no help."
        )
    free = ~levels.primary & ~kept & ~closed & (flat > 0)
    width = np.zeros(table.cells, dtype=np.int64) if levels.width is None else levels.width
    required = Required(lower, levels.upper, width)
    down, up = halved(required, flat - least, most - flat)
    return Problem(table, least, most, levels.primary, down, up, prices, free, closed, required)


def halved(required: Required, down: npt.NDArray[np.number], up: npt.NDArray[np.number]) -> tuple[Ints, Ints]:
    """How far an interval goes to both sides at least, so that it is as wide as required: half, if there is room.

    down, up: shape (cells,), the room. Raises Infeasible where there is less.
    """
    if not required.width.any():
        return required.lower, required.upper
    room_down, room_up = (np.minimum(room, 2.0**52).astype(np.int64) for room in (down, up))
    lower = np.clip(required.width // 2, required.lower, np.maximum(room_down, required.lower))
    upper = np.clip(required.width - lower, required.upper, np.maximum(room_up, required.upper))
    lower = np.where(
        required.width > 0,
        np.clip(required.width - upper, required.lower, np.maximum(room_down, required.lower)),
        lower,
    )
    short = int((lower + upper < required.width).sum())
    if short:
        raise too_narrow(short)
    return np.where(required.width > 0, lower, required.lower), np.where(required.width > 0, upper, required.upper)


def too_narrow(cells: int) -> Infeasible:
    """The refusal where so many cells cannot be protected."""
    return Infeasible(
        f"{counted(cells, 'sensitive cell')} cannot be protected even if every cell is suppressed that may be: name "
        "fewer or wider columns, or leave cells that must be published out of apriori."
    )


def no_whole_pattern() -> Infeasible:
    """The refusal where cells are protected in fractions of units only."""
    return Infeasible(
        "In whole units no pattern protects all sensitive cells: give larger digits, name fewer or wider columns, or "
        "leave cells that must be published out of apriori."
    )


def counted(number: int, noun: str) -> str:
    """As in '1 cell' and '2 cells'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _flags(marked: npt.ArrayLike | None, table: Additive) -> Bools:
    flags = np.zeros(table.cells, dtype=bool) if marked is None else np.asarray(marked, dtype=bool).reshape(-1)
    if flags.shape != (table.cells,):
        raise InvalidInput("What is said of each cell has the shape of the table.")
    return flags


def _upper(known_upper: npt.ArrayLike, step: float) -> Floats:
    """Upper bounds in units; infinite ones stay so."""
    bounds = np.asarray(known_upper, dtype=np.float64).reshape(-1)
    finite = np.isfinite(bounds)
    most = np.full(bounds.shape, np.inf)
    most[finite] = whole_units(bounds[finite], step)
    return most


def _added_up(table: Additive, least: Ints) -> Ints:
    """Lower bounds, where those of a total's parts add up to more than its own."""
    rows = table.equations.tocoo()
    is_total, is_part = rows.data > 0, rows.data < 0
    totals = np.zeros(rows.shape[0], dtype=np.int64)
    totals[rows.row[is_total]] = rows.col[is_total]
    of, parts = rows.row[is_part], rows.col[is_part]
    while True:
        sums = np.zeros(rows.shape[0], dtype=np.int64)
        np.add.at(sums, of, least[parts])
        higher = least.copy()
        np.maximum.at(higher, totals, sums)
        if (higher == least).all():
            return least
        least = higher
