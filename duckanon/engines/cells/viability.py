"""Algorithm 3.1 of the paper on bit sets: one bit for each sum up to N - R, set if the other rows can make the sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckanon.engines.cells.knapsack import FREE, Extremes, Feasible, Knapsack, consecutive, feasible

# The most bits in one set: 128 MiB.
LONGEST = 2**30


@dataclass(frozen=True)
class _Viable:
    """Sums that can be made: c <= gamma if bit c of `bits` is set, and every c from gamma + 1 to the target."""

    bits: int
    gamma: int

    def __contains__(self, c: int) -> bool:
        return c > self.gamma or bool(self.bits >> c & 1)


def _cut(bits: int, gamma: int) -> _Viable:
    """Drop the bits above the largest sum that cannot be made (section 3.2, note two)."""
    mask = (1 << (gamma + 1)) - 1
    gamma = (~bits & mask).bit_length() - 1
    return _Viable(bits & ((1 << (gamma + 1)) - 1), gamma)


def _update(viable: _Viable, item: int, supply: int, *, plain: bool) -> _Viable:
    """Let sums use `item` up to `supply` times: Update 3.2 if `plain`, else Update 3.3.

    plain: no row is bounded, so an item that the others can make adds nothing. Shifts by 1, 2, 4, ... times the
    item, and by the rest, make every multiple up to the supply.
    """
    bits, gamma = viable.bits, viable.gamma
    if item > gamma or supply == 0 or (plain and bits >> item & 1):
        return viable
    mask = (1 << (gamma + 1)) - 1
    left = gamma // item if supply == FREE else min(supply, gamma // item)
    part = 1
    while left > 0:
        part = min(part, left)
        bits |= bits << part * item & mask
        left -= part
        part *= 2
    return _cut(bits, gamma)


def _read(viable: _Viable, item: int, upper: int, target: int) -> list[range]:
    """Every nu from 0 to upper for which target - nu * item can be made (Algorithm 3.1, step 1)."""
    top = target // item if upper == FREE else min(upper, target // item)
    runs: list[range] = []
    nu = 0
    if target > viable.gamma:
        nu = min(top, (target - viable.gamma - 1) // item) + 1
        runs.append(range(nu))
    # No smaller nu can be found: its bit lies beyond the last one that is set.
    first = max(nu, -((viable.bits.bit_length() - 1 - target) // item))
    multiples = [n for n in range(first, top + 1) if viable.bits >> (target - n * item) & 1]
    runs += consecutive(multiples)
    if len(runs) > 1 and runs[0].stop == runs[1].start:
        runs[:2] = [range(runs[0].start, runs[1].stop)]
    return runs


def simplify(problem: Knapsack) -> Extremes:
    """Bounds of nu by the three simplifications of section 3.2; -1 where they give none.

    They hold only without prior knowledge: if a row has an upper bound, all are -1.
    """
    k = len(problem)
    lower, upper = np.full(k, -1, dtype=np.int64), np.full(k, -1, dtype=np.int64)
    if problem.bounded or not k:
        return Extremes(lower, upper)
    sums, target = problem.sums, problem.target
    single = problem.copies == 1
    never = (sums > target) | ((target - sums.min() < sums) & (sums < target))
    lower[never] = upper[never] = 0
    for special in np.flatnonzero((sums == target) | (sums == 1)):
        others = np.ones(k, dtype=bool)
        others[special] = not single[special]
        lower[others] = 0
        if sums[special] == target:
            upper[special] = 1
        if sums[special] == 1:
            upper[:] = target // sums
    return Extremes(lower, upper)


def _simplified(problem: Knapsack) -> list[list[range] | None]:
    """The feasible nu of the kinds that the simplifications settle; None for the others."""
    known = simplify(problem)
    unit_rows = int(problem.copies[problem.sums == 1].sum()) if not problem.bounded else 0
    answers: list[list[range] | None] = []
    for k in range(len(problem)):
        others = unit_rows - (problem.sums[k] == 1)
        if known.lower[k] == 0 == known.upper[k]:
            answers.append([range(1)])
        elif others > 0:
            answers.append([range(int(known.upper[k]) + 1)])
        else:
            answers.append(None)
    return answers


def _supplies(problem: Knapsack) -> list[tuple[int, int]]:
    """Each kind's sum, and how often all its rows together can use it."""
    return [
        (int(r), FREE if u == FREE else int(u) * int(c))
        for r, u, c in zip(problem.sums, problem.uppers, problem.copies, strict=True)
    ]


def _rest(problem: Knapsack, k: int) -> int:
    """How often the kind's sum can be used once one of its rows is left out."""
    upper, others = int(problem.uppers[k]), int(problem.copies[k]) - 1
    return FREE if upper == FREE and others else max(upper, 0) * others


def viability(problem: Knapsack, only: int | None = None) -> Feasible:
    """Every feasible nu of each kind, or of one only, in O((N - R) kinds log(kinds) / 64) steps.

    Rows of a kind are equal: leaving one out leaves the kind with one row less.

    Source: Wright and Smucker 2014, Algorithm 3.1, Updates 3.2 and 3.3 and the notes of section 3.2.
    """
    target, plain = problem.target, not problem.bounded
    supplies = _supplies(problem)
    answers: list[list[range] | None] = [None] * len(problem)

    def leaf(k: int, viable: _Viable) -> None:
        item = supplies[k][0]
        answers[k] = _read(_update(viable, item, _rest(problem, k), plain=plain), item, int(problem.uppers[k]), target)

    def take(viable: _Viable, kinds: list[int]) -> _Viable:
        for k in kinds:
            viable = _update(viable, *supplies[k], plain=plain)
        return viable

    def divide(kinds: list[int], viable: _Viable) -> None:
        if len(kinds) == 1:
            leaf(kinds[0], viable)
            return
        half = len(kinds) // 2
        divide(kinds[half:], take(viable, kinds[:half]))
        divide(kinds[:half], take(viable, kinds[half:]))

    empty = _cut(1, target)
    if only is not None:
        leaf(only, take(empty, [k for k in range(len(problem)) if k != only]))
        return feasible([answers[only] or []])
    answers = _simplified(problem)
    # Kinds that supply as much with one row less are in every set of the others, so they go in first.
    always = [k for k in range(len(problem)) if _rest(problem, k) == supplies[k][1]]
    single = [k for k in range(len(problem)) if _rest(problem, k) != supplies[k][1]]
    base = take(empty, always)
    unsettled = [k for k in single if answers[k] is None]
    base = take(base, [k for k in single if answers[k] is not None])
    if unsettled:
        divide(unsettled, base)
    whole = [k for k in always if answers[k] is None]
    if whole or not unsettled:
        full = take(base, unsettled)
        if target not in full:
            # There is no solution, which the simplifications presuppose.
            return feasible([[] for _ in answers])
        for k in whole:
            leaf(k, full)
    elif not any(answers[k] for k in unsettled):
        return feasible([[] for _ in answers])
    return feasible([answer or [] for answer in answers])
