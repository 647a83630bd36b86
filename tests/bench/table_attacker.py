"""A reader of published tables, who has an integer program and nothing of duckanon.

The reader sees cells of tables, each a set of categories in each dimension, with a number or without; knows that a cell
without a number is not empty, and which cells add up to which; and asks for the least and the largest value of any sum
of cells. Two readers: of sums of published cells alone, and of the numbers of all combinations of categories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_array

Node = frozenset[str]
Place = tuple[Node, ...]
# What a node of a dimension is the sum of, as a hierarchy has it.
Split = tuple[Node, tuple[Node, ...]]


@dataclass(frozen=True)
class Seen:
    """shown: the cells of all tables, with None where there is no number. splits: for each dimension."""

    shown: Mapping[Place, int | None]
    splits: Sequence[Sequence[Split]]

    @cached_property
    def equations(self) -> list[tuple[Place, tuple[Place, ...]]]:
        """Each cell with cells that add up to it, where all of them stand in tables."""
        equations = []
        for place, (d, splits) in product(self.shown, enumerate(self.splits)):
            for total, parts in splits:
                cells = tuple((*place[:d], part, *place[d + 1 :]) for part in parts)
                if place[d] == total and len(parts) > 1 and all(cell in self.shown for cell in cells):
                    equations.append((place, cells))
        return equations

    def all_hidden(self) -> Seen:
        """The same tables with no number but zeros."""
        return Seen({place: None if number != 0 else 0 for place, number in self.shown.items()}, self.splits)


@dataclass
class Attacker:
    """A program with an unknown for each cell without a number; or, `jointly`, for each combination of categories."""

    seen: Seen
    most: int
    jointly: bool = False
    _columns: dict[Place, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.jointly:
            ends = [{leaf for _, parts in splits for part in parts for leaf in part} for splits in self.seen.splits]
            unknown: Iterable[Place] = (
                tuple(frozenset({leaf}) for leaf in place) for place in product(*map(sorted, ends))
            )
        else:
            unknown = (place for place, number in self.seen.shown.items() if number is None)
        self._columns = {place: at for at, place in enumerate(unknown)}
        self._constraint = self._jointly() if self.jointly else self._by_equations()
        least = 0 if self.jointly else 1
        self._bounds = Bounds(np.full(len(self._columns), least), np.full(len(self._columns), self.most))

    def ends(self, cells: Sequence[Place]) -> tuple[int, int]:
        """The least and the largest sum of these cells, none of which has a number."""
        goal = np.zeros(len(self._columns))
        for place in cells:
            for column in self._within(place):
                goal[column] += 1
        values = []
        for sign in (1, -1):
            solved = milp(
                sign * goal, constraints=self._constraint, bounds=self._bounds, integrality=np.ones(len(goal))
            )
            if solved.status != 0:
                raise RuntimeError(f"the integer program ended with: {solved.message}")
            values.append(sign * round(solved.fun))
        return values[0], values[1]

    def _within(self, place: Place) -> list[int]:
        if not self.jointly:
            return [self._columns[place]]
        return [self._columns[tuple(frozenset({leaf}) for leaf in cell)] for cell in product(*place)]

    def _by_equations(self) -> LinearConstraint | tuple[()]:
        shown = self.seen.shown
        lines = []
        for total, parts in self.seen.equations:
            signs = [(1, total), *((-1, part) for part in parts)]
            line = {self._columns[cell]: sign for sign, cell in signs if shown[cell] is None}
            known = sum(sign * (shown[cell] or 0) for sign, cell in signs)
            if line:
                lines.append((line, -known, -known))
            elif known:
                raise RuntimeError("numbers of the tables do not add up")
        return self._rows(lines)

    def _jointly(self) -> LinearConstraint | tuple[()]:
        lines = []
        for place, number in self.seen.shown.items():
            low, high = (1, self.most) if number is None else (number, number)
            lines.append((dict.fromkeys(self._within(place), 1), low, high))
        return self._rows(lines)

    def _rows(self, lines: Sequence[tuple[dict[int, int], int, int]]) -> LinearConstraint | tuple[()]:
        if not lines:
            return ()
        matrix = lil_array((len(lines), len(self._columns)))
        for at, (line, _, _) in enumerate(lines):
            for column, sign in line.items():
                matrix[at, column] = sign
        return LinearConstraint(matrix.tocsr(), [low for _, low, _ in lines], [high for _, _, high in lines])


@dataclass(frozen=True)
class Demand:
    """A sum of cells that must stay open from `least` to `most`, or from what is known if all numbers are hidden."""

    cells: tuple[Place, ...]
    least: int
    most: int


def exposed(seen: Seen, demands: Iterable[Demand], limit: int, *, jointly: bool = False) -> list[Demand]:
    """The demands that are not met. limit: no cell is larger."""
    attacker, before = Attacker(seen, limit, jointly), None
    narrow = []
    for demand in demands:
        if any(seen.shown[cell] is not None for cell in demand.cells):
            narrow.append(demand)
            continue
        low, high = attacker.ends(demand.cells)
        if low > demand.least:
            before = before or Attacker(seen.all_hidden(), limit, jointly)
            low = demand.least if low <= before.ends(demand.cells)[0] else low
        if low > demand.least or high < demand.most:
            narrow.append(demand)
    return narrow
