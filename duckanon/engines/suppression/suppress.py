"""Secondary suppression of least cost: capacity constraints until the cheapest pattern that they allow protects.

1. Primary cells that the primary suppressions alone protect need no more attention.
2. The master program's linear relaxation, with a capacity constraint for every target that an attacker of its
   fractional pattern hits: a lower bound on the cost of any pattern (Fischetti and Salazar 2000).
3. The master program in whole numbers; attackers add constraints until its pattern protects. It then costs least.
   Where the search ends before that, its last patterns are repaired, and the cheapest of them is taken.
4. An audit of the published table alone.

Where that is too much work, patterns are made of deviations that protect one target each (`covering`), and the audit
checks these. All limits are numbers of steps, not seconds: the pattern is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check
from duckanon.engines.suppression.attacker import Attacker, Target, capacities
from duckanon.engines.suppression.audit import Intervals, Published, Witness, intervals, witnessed
from duckanon.engines.suppression.blocks import Deviation, protected_together
from duckanon.engines.suppression.covering import Covering
from duckanon.engines.suppression.master import Master
from duckanon.engines.suppression.problem import DOWN, UP, Problem, no_whole_pattern, too_narrow
from duckanon.engines.suppression.repair import repaired, thinned
from duckanon.errors import Infeasible, InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# The relaxation ends where this many rounds of constraints raise its bound by less than this share.
_PATIENCE, _PROGRESS = 5, 5e-4
# Nodes of the search tree for a whole pattern at most; the work of all trees together that an effort of 1 allows
# (simplex iterations times constraints), of which each tree takes a least share; whole patterns repaired in the end.
_NODES, _WORK, _ROUND, _STARTS = 40, 30_000_000, 150_000, 4
# With more constraints a single tree takes longer than all else, and gains a few percent: the relaxation is repaired.
_MOST_CUTS = 1500
# Cells up to which an audit finds the last possible end of every interval. Above, and where it would be wasted on a
# pattern to come, tables that reach what is demanded will do.
_ALL_ENDS = 6000
# The relaxation has a program for each target in each round: up to so many targets, and targets times cells.
_MOST_TARGETS, _RELAXED = 300, 4_000_000
# It has a program for each sensitive cell, over all suppressed ones. In three dimensions and more, where these are no
# flows, that takes seconds for so many cells times cells, and minutes for a million.
_MOST_ENDS = 60_000
# The shares of the work that the relaxation is taken to be, and all before the audit.
_FIRST, _SOUGHT = 0.4, 0.9
# Rounds in which cells that the audit leaves open are protected by more cells.
_ROUNDS = 4
# Cells that the relaxation suppresses for that share at least are a good start.
_HALF = 0.45


@dataclass(frozen=True)
class Suppression:
    """A pattern, and what is proven about it.

    primary, secondary: in the table's shape. cells: shape (primary cells,), their flat numbers; lower, upper: the
    values between which attackers can exclude nothing, in units, attained by whole tables (upper may be infinite);
    exact: whether these are proven to be all that attackers hold for possible. demand_lower, demand_upper: the values
    that the rule demands them to hold for possible; demand_width: how far apart these are at least. cost: of the
    secondary suppressions. bound: no protecting pattern
    costs less (linear relaxation with capacity constraints, proven by its duals). solver_bound: the same from whole
    patterns, as the integer solver has it. optimal: whether the pattern is one of least cost, as that solver has it.
    """

    primary: Bools
    secondary: Bools
    cells: Ints
    lower: Floats
    upper: Floats
    exact: Bools
    demand_lower: Ints
    demand_upper: Ints
    demand_width: Ints
    cost: float
    bound: float
    solver_bound: float
    optimal: bool

    @property
    def undecided(self) -> Bools:
        """Shape (primary cells,): which ones no table shows to be protected; only in large systems are there any."""
        narrow = self.upper - self.lower < self.demand_width
        return narrow | (self.lower > self.demand_lower) | (self.upper < self.demand_upper)

    @property
    def gap(self) -> float:
        """How far the cost may be from the least one, relative to the bound."""
        return 0.0 if self.cost <= self.bound else (self.cost - self.bound) / max(self.bound, 1e-12)


def suppress(problem: Problem, effort: int = 1, progress: Callable[[float], None] = lambda _: None) -> Suppression:
    """A pattern that protects every primary cell.

    Where intervals slide, half of their width is sought to each side; if no pattern gives that, as much as it can be.

    effort: how much work the search for the cheapest may take; 0 repairs what the relaxation suggests. progress: called
    with the share that is done, roughly.
    Raises InvalidInput for a negative effort, and Infeasible if no pattern protects.
    """
    if effort < 0:
        raise InvalidInput("The effort of a suppression is a whole number, 0 or more.")
    try:
        return _suppressed(problem, effort, progress)
    except Infeasible:
        if not problem.required.width.any():
            raise
        return _suppressed(slid(problem), effort, progress)


def slid(problem: Problem) -> Problem:
    """The problem with intervals where they can lie if all is suppressed that may be. Raises Infeasible."""
    required, lower, upper = problem.required, problem.lower.copy(), problem.upper.copy()
    attacker, narrow = Attacker(problem, (problem.always | problem.free).astype(np.float64)), 0
    for cell in np.flatnonzero(required.width).tolist():
        check()
        width = int(max(required.width[cell], required.lower[cell] + required.upper[cell]))
        rooms = {way: min(width, problem.room[way][cell]) for way in (UP, DOWN)}
        up, down = (
            int(attacker.attack(Target(cell, way, int(rooms[way]))).reached + 1e-6) if rooms[way] >= 1 else 0
            for way in (UP, DOWN)
        )
        if up + down < required.width[cell] or up < required.upper[cell] or down < required.lower[cell]:
            narrow += 1
            continue
        upper[cell] = min(up, max(int(required.upper[cell]), (width + 1) // 2, int(required.width[cell]) - down))
        lower[cell] = max(int(required.lower[cell]), int(required.width[cell]) - int(upper[cell]))
    if narrow:
        raise too_narrow(narrow)
    return replace(problem, lower=lower, upper=upper)


def _suppressed(problem: Problem, effort: int, progress: Callable[[float], None]) -> Suppression:
    search = _Search(problem, progress)
    if search.large:
        bound, solver_bound, optimal = 0.0, 0.0, False
        pattern, audit = search.cover()
    else:
        bound = search.relax()
        pattern, audit, optimal = search.choose(effort)
        solver_bound = search.solver_bound
    progress(1.0)
    if problem.required.width.any():
        # Other ways to lie would make other patterns, of which nothing is shown.
        bound, solver_bound, optimal = 0.0, 0.0, False
    shape, cells = problem.table.units.shape, audit.cells
    return Suppression(
        problem.primary.reshape(shape),
        (pattern & ~problem.always).reshape(shape),
        cells,
        audit.lower,
        audit.upper,
        audit.exact_lower & audit.exact_upper,
        problem.table.flat[cells] - problem.required.lower[cells],
        problem.table.flat[cells] + problem.required.upper[cells],
        problem.required.width[cells],
        problem.cost_of(pattern),
        bound,
        max(bound, solver_bound),
        optimal,
    )


def audited(problem: Problem, pattern: Bools) -> Intervals:
    """The primary cells' intervals, from the published table alone. pattern: shape (cells,)."""
    published = Published.of(problem.table, pattern, problem.least, problem.most)
    return intervals(published, np.flatnonzero(problem.primary).tolist())


def under_protected(problem: Problem, audit: Intervals) -> Bools:
    """Shape (primary cells,): whose interval is narrower than its rule demands."""
    return problem.required.narrow(problem.table.flat, audit.cells, audit.lower, audit.upper)


class _Search:
    def __init__(self, problem: Problem, progress: Callable[[float], None]) -> None:
        self._problem, self._master, self._progress = problem, Master(problem), progress
        self._everything = problem.always | problem.free
        self._all = all_targets(problem)
        self._targets, self._known = protected_together(problem, problem.always, self._all)
        count = len(self._targets)
        self.large = count > _MOST_TARGETS or count * problem.table.cells > _RELAXED
        if self.large:
            return
        first = Attacker(problem, problem.always.astype(np.float64))
        last = Attacker(problem, self._everything.astype(np.float64))
        self._targets = [target for target in self._targets if not first.attack(target).protects(target)]
        narrow = {target.cell for target in self._targets if not last.attack(target).protects(target)}
        if narrow:
            raise too_narrow(len(narrow))

    def cover(self) -> tuple[Bools, Intervals]:
        """A pattern of deviations, and its audit."""
        targets = self._targets
        covering = Covering(self._problem, targets)
        covering.cover(lambda share: self._progress(_SOUGHT * share))
        covering.widen(np.unique([target.cell for target in covering.open_]).astype(np.int64))
        for _ in range(_ROUNDS):
            pattern = covering.pattern
            audit = self._audited(pattern, [*self._known, *covering.deviations], covering.near)
            narrow = audit.cells[under_protected(self._problem, audit)]
            if not len(narrow) or not covering.widen(narrow):
                break
        return pattern, audit

    def _audited(
        self, pattern: Bools, known: Sequence[Deviation], near: Callable[[int], Ints] | None = None
    ) -> Intervals:
        """The primary cells' intervals: all of each, or as much as is demanded where that is too much work."""
        problem = self._problem
        cells = np.flatnonzero(problem.primary)
        is_quick = len(problem.table.dimensions) <= 2 or len(cells) * int(pattern.sum()) <= _MOST_ENDS
        if problem.table.cells <= _ALL_ENDS and is_quick and not self.large:
            return audited(problem, pattern)
        published = Published.of(problem.table, pattern, problem.least, problem.most)
        low, high = (problem.table.flat - problem.lower)[cells], (problem.table.flat + problem.upper)[cells]
        witnesses = [Witness(deviation.cells, sign * deviation.units) for deviation in known for sign in (1, -1)]
        return witnessed(published, problem.table.flat, witnesses, cells, low, high, near)

    def relax(self) -> float:
        """The bound of the linear relaxation."""
        bounds = []
        while True:
            check()
            decided = self._master.solve()
            bounds.append(decided.bound)
            # Nobody knows how many rounds there will be.
            self._progress(_FIRST * (1 - 0.9 ** len(bounds)))
            slow = len(bounds) > _PATIENCE and decided.bound < bounds[-1 - _PATIENCE] * (1 + _PROGRESS)
            if not self._separate(decided.pattern) or slow:
                self._relaxed = decided.pattern
                return max(0.0, max(bounds))

    def choose(self, effort: int) -> tuple[Bools, Intervals, bool]:
        """The pattern, shape (cells,), its audit, and whether the pattern is proven to cost least."""
        self.solver_bound = 0.0
        starts, work = [self._problem.always | (self._relaxed > _HALF)], 0
        while work < effort * _WORK and len(self._master.cuts) <= _MOST_CUTS:
            check()
            self._progress(_FIRST + (_SOUGHT - _FIRST) * work / (effort * _WORK))
            whole = self._master.choose(_NODES)
            work += whole.work + _ROUND
            self.solver_bound = max(self.solver_bound, whole.bound)
            starts = [*starts[-_STARTS:], whole.pattern]
            if self._separate(whole.pattern.astype(np.float64)):
                continue
            audit = self._audited(whole.pattern, self._known)
            if under_protected(self._problem, audit).any():
                self._master.forbid(whole.pattern)
            elif whole.least:
                return whole.pattern, audit, True
            else:
                break
        return (*self._best([self._repaired(pattern) for pattern in starts]), False)

    def _best(self, known: list[Bools]) -> tuple[Bools, Intervals]:
        """The cheapest pattern that passes its audit."""
        for pattern in [*sorted(known, key=self._problem.cost_of), self._everything]:
            audit = self._audited(pattern, self._known)
            if not under_protected(self._problem, audit).any():
                return pattern, audit
        raise no_whole_pattern()

    def _repaired(self, pattern: Bools) -> Bools:
        """A pattern that protects, near this one; cells that the relaxation suppresses in part are cheap."""
        cost = self._problem.cost * np.maximum(1 - self._relaxed, 0.02)
        protecting = repaired(self._problem, self._targets, pattern, cost)
        return thinned(self._problem, self._targets, protecting)

    def _separate(self, pattern: Floats) -> int:
        """Add constraints that the pattern violates; how many."""
        added = 0
        attacker = Attacker(self._problem, pattern)
        for target in self._targets:
            attack = attacker.attack(target)
            if not attack.protects(target):
                added += self._master.cut(target, capacities(self._problem, target, attack.duals), pattern)
        return added


def all_targets(problem: Problem) -> list[Target]:
    """The primary cells and directions that patterns have to protect, the largest demands first."""
    targets = [
        Target(cell, direction, int(problem.demand[direction][cell]))
        for cell in np.flatnonzero(problem.primary).tolist()
        for direction in problem.directions
        if problem.demand[direction][cell] > 0
    ]
    return sorted(targets, key=lambda target: -target.demand)
