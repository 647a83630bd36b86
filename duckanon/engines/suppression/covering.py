"""Patterns for large systems: for each target a deviation that protects it, all of them together over few other cells.

A target alone asks for the cheapest deviation through the cells near it: a small linear program (Fischetti and Salazar
2000, section 5), whose cost counts only cells that no other deviation uses yet. Targets are served one after another;
then the dearest deviations are sought again, now that they know of all others. The pattern is what they use together.

Deviations are whole numbers, and are checked as such. All limits are numbers of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check
from duckanon.engines.suppression.attacker import Target
from duckanon.engines.suppression.blocks import Deviation, reached
from duckanon.engines.suppression.local_equations import EquationsByCells, LocalEquations
from duckanon.engines.suppression.neighbourhood import Neighbourhoods, Reach
from duckanon.engines.suppression.problem import DOWN, UP, Problem
from duckanon.engines.suppression.solver import Program, whole_optimum

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A unit through a cell that costs nothing, in shares of the least cost: short ways are better than long ones.
_DETOUR = 1e-3
# A deviation in halves or thirds is whole when it is doubled or trebled.
_MULTIPLES = (1, 2, 3, 4, 6)
# Targets between two reports of progress: some tenths of a second.
_TOLD = 100
# Rounds in which the others of each equation limit a cell.
_SWEEPS = 4
# What a solver's answer may be off.
_NOTHING = 1e-7


@dataclass(frozen=True)
class _Search:
    """Which neighbourhoods are tried. least, most: cells of each. above: whether sums above the target's own cell are
    among them. fractions: see `Covering.widen`.
    """

    least: int
    most: int
    above: bool = True
    fractions: bool = False

    def reaches(self, dimensions: int) -> tuple[Reach, ...]:
        """In ascending order. Two nodes beside a cell's own in each of five dimensions are 243 cells, and three 1,024,
        so programs over the former come first there. In four they would hold only dearer deviations than three do.
        """
        return _BESIDE[dimensions < _MANY :] + (_ABOVE if self.above else ())


_MANY = 5
# Cells beside the target's own, and then sums above it, too, with those beside them.
_BESIDE = tuple(Reach(width, 0) for width in (2, 3, 4, 6, 8, 12))
_ABOVE = tuple(Reach(width, 1) for width in (2, 3, 4, 6, 12)) + tuple(Reach(width, 9) for width in (2, 4, 8, 20, 40))
# Where small neighbourhoods do not suffice, large ones hold cheaper deviations than those just large enough.
_NEAR = _Search(150, 2000, above=False)
_FAR = _Search(1500, 2000)
_WIDEST = _Search(1500, 8000, fractions=True)
# Suppressed cells among which an audit seeks tables for a cell first: a program over ten times as many takes minutes.
_MOST_NEAR = 3000


@dataclass
class _Use:
    """A deviation that is used. owners: the numbers of the targets that rely on it."""

    deviation: Deviation
    owners: list[int] = field(default_factory=list)


class Covering:
    """Deviations for the targets of a problem."""

    def __init__(self, problem: Problem, targets: Sequence[Target]) -> None:
        self._problem, self._targets = problem, targets
        self._near = Neighbourhoods(problem)
        self._equations = EquationsByCells(problem.table.equations)
        self._uses = np.zeros(problem.table.cells, dtype=np.int64)
        # What it costs to use each cell now.
        self._price = np.where(problem.always, 0.0, problem.cost)
        self._served: list[_Use | None] = [None] * len(targets)
        self._of: dict[int, list[int]] = {}
        for number, target in enumerate(targets):
            self._of.setdefault(target.cell, []).append(number)

    @property
    def pattern(self) -> Bools:
        """Shape (cells,): what is suppressed."""
        return self._problem.always | (self._uses > 0)

    @property
    def deviations(self) -> list[Deviation]:
        """Those that are used."""
        return [use.deviation for use in {id(use): use for use in self._served if use is not None}.values()]

    @property
    def open_(self) -> list[Target]:
        """The targets without a deviation."""
        return [target for target, use in zip(self._targets, self._served, strict=True) if use is None]

    def cover(self, progress: Callable[[float], None] = lambda _: None) -> None:
        """Serve the targets that cells nearby protect, the largest demands first, then those that need cells far away.

        The others come last, when most cells that they need are used already. progress: called with the share that is
        done, each of four passes being taken for a fourth.
        """
        for part, search in enumerate((_NEAR, _FAR)):
            count = len(self._targets)
            for number in range(count):
                check()
                if number % _TOLD == 0:
                    progress((2 * part + number / count) / 4)
                if self._served[number] is None:
                    self._serve(number, search)
            self._improve()
            progress((part + 1) / 2)

    def _improve(self) -> None:
        """Seek again the deviations with cells that no other one uses, the dearest first."""
        uses = list({id(use): use for use in self._served if use is not None}.values())
        own = [self._own_cost(use) for use in uses]
        for at in sorted(range(len(uses)), key=lambda i: -own[i]):
            check()
            if self._own_cost(uses[at]) > 0:
                self._replace(uses[at])

    def widen(self, cells: Ints) -> bool:
        """Seek further deviations for the targets of cells that stay too narrow. False if none is found.

        Where only a deviation in fractions is found its cells are suppressed: an audit may find a whole one in them.
        """
        more = False
        for number in (number for cell in cells.tolist() for number in self._of.get(cell, ())):
            check()
            before, self._served[number] = self._served[number], None
            more |= self._serve(number, _WIDEST)
            self._served[number] = self._served[number] or before
        return more

    def near(self, cell: int) -> Ints:
        """The suppressed cells of the widest crossing around a target's that has few enough of them."""
        near, pattern = self._near.near(self._targets[self._of[cell][0]], self._price), self.pattern
        widest = np.zeros(0, dtype=np.int64)
        for reach in _BESIDE + _ABOVE:
            cells = near.around(reach)
            cells = cells[pattern[cells]]
            if len(widest) < len(cells) <= _MOST_NEAR:
                widest = cells
        return widest

    def _serve(self, number: int, search: _Search) -> bool:
        """Use a cheap deviation for a target."""
        target = self._targets[number]
        for cells in self._neighbourhoods(target, search):
            deviation = self._cheapest(target, cells, fractions=search.fractions)
            if deviation is not None:
                self._take(deviation)
                return True
        return False

    def _neighbourhoods(self, target: Target, search: _Search) -> Iterator[Ints]:
        """The neighbourhoods to try, each larger than the one before; the largest if all have too few cells."""
        few, size = np.zeros(0, dtype=np.int64), 0
        near = self._near.near(target, self._price)
        for reach in search.reaches(len(self._problem.table.dimensions)):
            cells = near.around(reach)
            if search.least <= len(cells) <= search.most and len(cells) > size:
                size = len(cells)
                yield cells
            elif len(few) < len(cells) < search.least:
                few = cells
        if size == 0 and len(few):
            yield few

    def _use(self, cells: Ints, times: int) -> None:
        """Note that so many deviations more, or fewer, use the cells."""
        self._uses[cells] += times
        free = (self._uses[cells] > 0) | self._problem.always[cells]
        self._price[cells] = np.where(free, 0.0, self._problem.cost[cells])

    def _take(self, deviation: Deviation) -> None:
        """Use a deviation, and its opposite where there is room for it, for all open targets that they protect."""
        for candidate in (deviation, Deviation(deviation.cells, -deviation.units)):
            if not candidate.units.any() or not self._fits(candidate):
                continue
            numbers = [
                n for cell in candidate.cells.tolist() for n in self._of.get(cell, ()) if self._served[n] is None
            ]
            met = reached([self._targets[n] for n in numbers], candidate)
            use = _Use(candidate, [n for n, done in zip(numbers, met.tolist(), strict=True) if done])
            for n in use.owners:
                self._served[n] = use
            if use.owners:
                self._use(candidate.cells, 1)

    def _replace(self, use: _Use) -> None:
        """Seek a cheaper deviation for the targets of one; keep that one if there is none."""
        before = self._own_cost(use)
        self._use(use.deviation.cells, -1)
        for n in use.owners:
            self._served[n] = None
        replacements: list[_Use] = []
        for n in use.owners:
            if self._served[n] is None and self._serve(n, _FAR):
                served = self._served[n]
                assert served is not None
                replacements.append(served)
        if any(self._served[n] is None for n in use.owners) or self._cost_of(replacements) >= before - 1e-9:
            for replacement in replacements:
                self._use(replacement.deviation.cells, -1)
            for n in use.owners:
                self._served[n] = use
            self._use(use.deviation.cells, 1)

    def _own_cost(self, use: _Use) -> float:
        """The cost of the cells that no other deviation uses."""
        cells = use.deviation.cells
        return float(self._problem.cost[cells[(self._uses[cells] == 1) & ~self._problem.always[cells]]].sum())

    def _cost_of(self, uses: Sequence[_Use]) -> float:
        """The cost of the cells that only these use."""
        count = np.zeros(0, dtype=np.int64)
        if uses:
            count = np.concatenate([use.deviation.cells for use in uses])
        cells, times = np.unique(count, return_counts=True)
        return float(self._problem.cost[cells[(self._uses[cells] == times) & ~self._problem.always[cells]]].sum())

    def _fits(self, deviation: Deviation) -> bool:
        room = self._problem.room
        return bool(
            (deviation.units <= room[UP][deviation.cells]).all()
            and (-deviation.units <= room[DOWN][deviation.cells]).all()
        )

    def _cheapest(self, target: Target, cells: Ints, *, fractions: bool = False) -> Deviation | None:
        """A cheap deviation of these cells that protects the target, or None."""
        among = self._equations.of(cells)
        at, width, demand = int(np.searchsorted(cells, target.cell)), len(cells), float(target.demand)
        room = np.concatenate([self._problem.room[UP][cells], self._problem.room[DOWN][cells]])
        if not _can_move(among, np.maximum(room[:width], room[width:]), at, demand):
            return None
        upper, lower = np.minimum(room, 4 * demand), np.zeros(2 * width)
        ahead, back = (at, width + at) if target.direction == UP else (width + at, at)
        lower[ahead], upper[ahead], upper[back] = demand, demand, 0.0
        unit = np.concatenate([self._price[cells], self._price[cells]]) + _DETOUR
        amounts = _solved(unit / np.maximum(1.0, np.minimum(upper, demand)), lower, upper, among)
        if amounts is None:
            return None
        moved = amounts[:width] - amounts[width:]
        for times in _MULTIPLES:
            units = np.rint(times * moved).astype(np.int64)
            deviation = Deviation(cells[units != 0], units[units != 0])
            if not among.differences(units).any() and self._fits(deviation):
                return deviation
        whole = self._whole(cells, among, moved, lower, np.floor(upper))
        if whole is None and fractions:
            used = cells[np.abs(moved) > _NOTHING]
            self._use(used, 1)
            return Deviation(used, np.zeros(len(used), dtype=np.int64))
        return whole

    def _whole(
        self, cells: Ints, among: LocalEquations, moved: Floats, lower: Floats, upper: Floats
    ) -> Deviation | None:
        """A whole deviation of the cells that a fractional one uses, by a search of few nodes."""
        used = np.flatnonzero(np.abs(moved) > _NOTHING)
        few = among.of(used)
        both = np.concatenate([used, used + len(cells)])
        right = np.zeros(few.rows, dtype=np.int64)
        amounts = whole_optimum(np.ones(len(both)), lower[both], upper[both], few.both_ways(), right)
        if amounts is None:
            return None
        units = amounts[: len(used)] - amounts[len(used) :]
        deviation = Deviation(cells[used[units != 0]], units[units != 0])
        return deviation if not few.differences(units).any() and self._fits(deviation) else None


def _can_move(among: LocalEquations, room: Floats, at: int, demand: float) -> bool:
    """Whether a cell might move by the demand: false only where no deviation does that.

    A cell moves no further than all others of each of its equations together. Most neighbourhoods that are too small
    for a target are told so, in a hundredth of the time that a linear program takes. room: shape (cells,), how far a
    cell may move either way.
    """
    row, cell = among.row, among.cell
    most = np.minimum(room, 4 * demand)
    for _ in range(_SWEEPS):
        before = most.copy()
        others = np.bincount(row, most[cell], among.rows)[row] - most[cell]
        np.minimum.at(most, cell, others)
        if most[at] < demand * (1 - _NOTHING):
            return False
        if (most == before).all():
            break
    return True


def _solved(cost: Floats, lower: Floats, upper: Floats, among: LocalEquations) -> Floats | None:
    """The x and y of least cost with equations of x - y within bounds; None where there is none."""
    program = Program(cost, lower, upper, primal=False, largest=float(upper.max(initial=1.0)), presolve=False)
    right = np.zeros(among.rows)
    program.add(among.both_ways(), right, right)
    optimum = program.solve()
    return None if optimum is None else optimum.x
