"""Exact bounds at a cost that does not depend on N: the smallest sum in each residue class.

Let m be the reduced sum of a row without an upper bound. For each residue q mod m keep the smallest number congruent
to q that the other rows can make; c can be made exactly if it is no smaller than the number kept for c mod m, since
the rest is filled with m. Each row is left out once by divide and conquer (Wright and Smucker 2014, section 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from duckanon.engines.array_kernels import assign
from duckanon.engines.cells.bit_sets import window, windows
from duckanon.engines.cells.knapsack import FREE, Feasible, Ints, Knapsack
from duckanon.engines.cells.reachable_sums import reachable_sums
from duckanon.engines.cells.residue_tables import NEVER, append_run, gcd, shape, take_in, take_in_all
from duckanon.engines.cells.viability import LONGEST, viability
from duckanon.engines.compiled import allocating, inner_allocating

# The most numbers in the tables of all levels together: 1 GiB.
_ROOM = 2**27


@inner_allocating
def _read(
    table: Ints, divisor: int, most: int, item: int, upper: int, target: int, runs: Ints, used: int
) -> tuple[Ints, int]:
    """Append every nu from 0 to upper for which target - nu * item can be made; returns the runs, and how many.

    divisor, most: the table's shape.
    """
    m = len(table)
    top = target // item
    if upper >= 0:
        top = min(top, upper)
    period = m // gcd(m, item % m)
    if top >= period and (most < 0 or most // item > period):
        # All nu of a class mod period have the same residue, so all of them up to a last one are feasible.
        for nu in range(period):
            least = table[(target - nu * item) % m]
            if least <= target - nu * item:
                last = min(top, (target - least) // item)
                runs = append_run(runs, used, nu, period, (last - nu) // period + 1)
                used += 1
        return runs, used
    step, nu = 1, 0
    if most >= 0:
        # The rest is a multiple of the divisor for only one class of nu.
        step = divisor // gcd(divisor, item % divisor)
        while nu < step and (target - (nu % divisor) * (item % divisor)) % divisor:
            nu += 1
        if nu == step:
            return runs, used
    first, size = nu, 0
    if most >= 0 and target >= most:
        last = min(top, (target - most) // item)
        if last >= nu:
            size = (last - nu) // step + 1
            nu += step * size
    while nu <= top:
        rest = target - nu * item
        if table[rest % m] <= rest:
            if size == 0:
                first = nu
            size += 1
        elif size:
            runs = append_run(runs, used, first, step, size)
            used, size = used + 1, 0
        nu += step
    if size:
        runs = append_run(runs, used, first, step, size)
        used += 1
    return runs, used


@allocating
def _leave_out(
    modulus: int,
    target: int,
    items: Ints,
    supplies: Ints,
    kept: int,
    owner: Ints,
    questions: Ints,
    whole: Ints,
    plain: bool,
    depth: int,
) -> tuple[Ints, Ints]:
    """Feasible nu for each question.

    items, supplies: all sums but the modulus; the first `kept` are never left out.
    questions: for each the supply of its sum that remains, and the upper bound of nu.
    owner: item i >= kept is left out for the questions owner[i - kept] to owner[i - kept + 1] - 1.
    whole: sums and upper bounds to be read where nothing is left out.
    Returns the begin and end of each question's runs, `questions` before `whole`, and the runs as first, step, size.
    """
    leaves = len(items) - kept
    places = np.zeros((len(questions) + len(whole), 2), dtype=np.int64)
    runs = np.empty((64, 3), dtype=np.int64)
    used = 0
    tables = np.empty((depth + 2, modulus), dtype=np.int64)
    shapes = np.empty((depth + 2, 2), dtype=np.int64)
    spare = np.empty(modulus, dtype=np.int64)
    tables[0, :] = NEVER
    tables[0, 0] = 0
    take_in_all(tables[0], spare, items, supplies, 0, kept, target, plain)
    assign(shapes[0], shape(tables[0]))
    # A node: its leaves begin..end-1, its sibling's leaves, which it takes in, the level of its parent's table, and
    # the first level that no node above it needs.
    nodes = np.empty((2 * depth + 4, 6), dtype=np.int64)
    pending = 0
    if leaves:
        assign(nodes[0], (kept, kept + leaves, 0, 0, 0, 1))
        pending = 1
    while pending:
        pending -= 1
        begin, end, sibling_begin, sibling_end, level, spot = nodes[pending]
        while (
            plain
            and sibling_begin < sibling_end
            and tables[level, items[sibling_begin] % modulus] <= items[sibling_begin]
        ):
            sibling_begin += 1
        if sibling_begin < sibling_end:
            assign(tables[spot], tables[level])
            take_in_all(tables[spot], spare, items, supplies, sibling_begin, sibling_end, target, plain)
            assign(shapes[spot], shape(tables[spot]))
            level, spot = spot, spot + 1
        if end - begin > 1:
            middle = (begin + end) // 2
            assign(nodes[pending], (begin, middle, middle, end, level, spot))
            assign(nodes[pending + 1], (middle, end, begin, middle, level, spot))
            pending += 2
            continue
        for question in range(owner[begin - kept], owner[begin - kept + 1]):
            own = level
            if questions[question, 0]:
                own = spot
                assign(tables[own], tables[level])
                take_in(tables[own], spare, items[begin], questions[question, 0], target)
                assign(shapes[own], shape(tables[own]))
            places[question, 0] = used
            runs, used = _read(
                tables[own], shapes[own, 0], shapes[own, 1], items[begin], questions[question, 1], target, runs, used
            )
            places[question, 1] = used
    if len(whole):
        table = tables[0]
        take_in_all(table, spare, items, supplies, kept, kept + leaves, target, plain)
        divisor, most = shape(table)
        for i in range(len(whole)):
            places[len(questions) + i, 0] = used
            runs, used = _read(table, divisor, most, whole[i, 0], whole[i, 1], target, runs, used)
            places[len(questions) + i, 1] = used
    return places, runs[:used]


def _room(modulus: int, leaves: int) -> bool:
    """Whether the tables for leaving out so many rows one by one fit into memory."""
    return modulus * (leaves.bit_length() + 4) <= _ROOM


@dataclass(frozen=True, eq=False)
class _DistinctSums:
    """The rows of a problem by their sum.

    distinct: these sums, ascending. of: which of them each kind has, shape (kinds,). free: how many rows of each
    have no upper bound.
    """

    problem: Knapsack
    distinct: Ints
    of: npt.NDArray[np.intp]
    free: Ints

    @classmethod
    def in_problem(cls, problem: Knapsack) -> _DistinctSums:
        starts = np.flatnonzero(np.diff(problem.sums, prepend=0))
        of = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(problem)))
        free = np.add.reduceat(np.where(problem.uppers == FREE, problem.copies, 0), starts)
        return cls(problem, problem.sums[starts], of, free)

    @cached_property
    def supplies(self) -> Ints:
        """How often each sum can be used by all its rows: FREE if one of them has no bound."""
        supplies = np.where(self.free > 0, FREE, 0)
        if self.problem.bounded:
            for g in np.unique(self.of[self.problem.uppers > 0]):
                if not self.free[g]:
                    supplies[g] = self.bounded_supply(int(g))
        return supplies.astype(np.int64)

    def bounded_supply(self, g: int, less: int = 0) -> int:
        """How often a sum can be used by its bounded rows, but for `less`, up to what the target allows."""
        problem, supply = self.problem, -less
        for k in np.flatnonzero(self.of == g):
            if problem.uppers[k] != FREE:
                supply += int(problem.uppers[k]) * int(problem.copies[k])
        return min(supply, problem.target // int(self.distinct[g]) + 1)

    def remaining(self, kind: int) -> int:
        """How often a kind's sum can be used by the other rows of that sum, of which at most one is free."""
        g, upper = int(self.of[kind]), int(self.problem.uppers[kind])
        if upper == FREE:
            return self.bounded_supply(g)
        return FREE if self.free[g] else self.bounded_supply(g, upper)


def residues(problem: Knapsack) -> Feasible:
    """Every feasible nu of each kind, for any N up to 10^18, in O(kinds log(kinds) m) steps.

    m is the smallest reduced sum of a row without an upper bound. If only one row has it, that row itself is left out
    with the second smallest such sum as m. Where small tables show that all sums from some number on can be made
    whichever row is left out, bit sets up to that number replace the tables (`windows`). Where no other row is without
    an upper bound, bit sets are used (`viability`), and where the tables for m would take more than 1 GiB, lists of all
    reachable sums (`reachable_sums`).

    Source: papers' README, section 1; Wright and Smucker 2014, section 3. Raises InvalidInput if every way is too
    large.
    """
    width = window(problem)
    if width is not None:
        return windows(problem, width)
    if not (problem.uppers == FREE).any():
        return by_all_sums(problem)
    sums = _DistinctSums.in_problem(problem)
    smallest = int(np.flatnonzero(sums.free)[0])
    usable = sums.supplies != 0
    usable[smallest] = False
    single = np.flatnonzero(usable & (sums.free < 2))
    if not _room(int(sums.distinct[smallest]), len(single)):
        return reachable_sums(problem)
    return _by_residues(sums, smallest, single, np.flatnonzero(usable & (sums.free >= 2)))


def _by_residues(
    sums: _DistinctSums, smallest: int, single: npt.NDArray[np.intp], kept: npt.NDArray[np.intp]
) -> Feasible:
    """Every feasible nu of each kind, modulo the smallest sum.

    single, kept: the other sums that can be used; those that have one free row at most, and those that have more.
    Where a single sum's row is left out the table changes: only the bounded rows of that sum remain.
    """
    problem, of = sums.problem, sums.of
    is_single = np.isin(np.arange(len(sums.distinct)), single)
    moved = is_single[of] & (problem.uppers != 0)
    alone = (problem.uppers == FREE) & (of == smallest) & (sums.free[smallest] == 1)
    left_out, whole = np.flatnonzero(moved), np.flatnonzero(~moved & ~alone)
    remaining = np.zeros(len(left_out), dtype=np.int64)
    if problem.bounded:
        remaining = np.array([sums.remaining(int(k)) for k in left_out], dtype=np.int64)
    listed = np.concatenate([kept, single])
    places, runs = _leave_out(
        int(sums.distinct[smallest]),
        problem.target,
        sums.distinct[listed],
        sums.supplies[listed],
        len(kept),
        np.searchsorted(of[left_out], np.append(single, len(sums.distinct))),
        np.stack([remaining, problem.uppers[left_out]], axis=1),
        np.stack([problem.sums[whole], problem.uppers[whole]], axis=1),
        not problem.bounded,
        len(single).bit_length() + 1,
    )
    begin, end = np.empty(len(problem), dtype=np.int64), np.empty(len(problem), dtype=np.int64)
    order = np.concatenate([left_out, whole])
    begin[order], end[order] = places[:, 0], places[:, 1]
    for k in np.flatnonzero(alone):
        more = _without_the_only(sums, int(k))
        begin[k], end[k] = len(runs), len(runs) + len(more)
        runs = np.concatenate([runs, more])
    first, step, size = np.ascontiguousarray(runs.T)
    return Feasible(begin, end, first, step, size)


def _without_the_only(sums: _DistinctSums, kind: int) -> Ints:
    """Runs of the smallest sum's only free row: with it left out, another sum is the modulus."""
    problem, smallest = sums.problem, int(sums.of[kind])
    others = np.flatnonzero(sums.free)[1:]
    if not len(others) or not _room(int(sums.distinct[others[0]]), 0):
        feasible = by_all_sums(problem, kind)
        return np.stack([feasible.first, feasible.step, feasible.size], axis=1)
    supplies = sums.supplies.copy()
    supplies[others[0]] = 0
    supplies[smallest] = sums.bounded_supply(smallest)
    listed = np.flatnonzero(supplies)
    nothing = np.zeros((0, 2), dtype=np.int64)
    _, runs = _leave_out(
        int(sums.distinct[others[0]]),
        problem.target,
        sums.distinct[listed],
        supplies[listed],
        len(listed),
        np.zeros(1, dtype=np.int64),
        nothing,
        np.array([[sums.distinct[smallest], FREE]], dtype=np.int64),
        not problem.bounded,
        0,
    )
    return runs


def by_all_sums(problem: Knapsack, only: int | None = None) -> Feasible:
    """Feasible nu without residue tables: by bit sets if all sums fit into them, otherwise by lists of sums."""
    most = 0
    for k in range(len(problem)):
        upper, copies = int(problem.uppers[k]), int(problem.copies[k]) - (k == only)
        if copies and upper:
            most += problem.target if upper == FREE else int(problem.sums[k]) * upper * copies
    if min(most, problem.target) <= LONGEST:
        return viability(problem, only)
    return reachable_sums(problem, only)
