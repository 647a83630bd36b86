"""Feasible multiples from sorted lists of all reachable sums: for few rows with very large reduced sums."""

from __future__ import annotations

import numpy as np

from duckanon.engines.cells.knapsack import FREE, Feasible, Ints, Knapsack, consecutive, feasible
from duckanon.errors import InvalidInput

# The longest list of sums.
_MOST = 2**21


def _update(sums: Ints, item: int, supply: int, target: int) -> Ints:
    """The sums with up to `supply` times `item` added, by shifts of 1, 2, 4, ... and the rest."""
    left = target // item if supply == FREE else min(supply, target // item)
    part = 1
    while left > 0:
        part = min(part, left)
        moved = sums + np.int64(part * item)
        sums = np.union1d(sums, moved[moved <= target])
        if len(sums) > _MOST:
            raise InvalidInput(
                "The reduced row sums are so large and so many that their combinations cannot be listed: "
                "omit or merge categories of the rows."
            )
        left -= part
        part *= 2
    return sums


def _read(sums: Ints, item: int, upper: int, target: int) -> list[range]:
    """Every nu from 0 to upper for which target - nu * item is one of the sums."""
    rest = target - sums
    multiples = np.sort(rest[rest % item == 0] // item)
    if upper != FREE:
        multiples = multiples[multiples <= upper]
    return consecutive(multiples.tolist())


def reachable_sums(problem: Knapsack, only: int | None = None) -> Feasible:
    """Every feasible nu of each kind, or of one only, from lists of all sums of the others up to the target.

    The cost depends on the number of different sums, not on their size. Raises InvalidInput beyond 2^21 sums.
    Source: Wright and Smucker 2014, section 3.1 (Tables 3 to 5), where the sums are listed too.
    """
    target = problem.target
    answers: list[list[range]] = [[] for _ in range(len(problem))]

    def supply(k: int, copies: int) -> int:
        upper = int(problem.uppers[k])
        return 0 if not copies else upper if upper == FREE else upper * copies

    def take(sums: Ints, kinds: list[int], less: int = 0) -> Ints:
        for k in kinds:
            sums = _update(sums, int(problem.sums[k]), supply(k, int(problem.copies[k]) - less), target)
        return sums

    def divide(kinds: list[int], sums: Ints) -> None:
        if len(kinds) == 1:
            (k,) = kinds
            answers[k] = _read(take(sums, kinds, 1), int(problem.sums[k]), int(problem.uppers[k]), target)
            return
        half = len(kinds) // 2
        divide(kinds[half:], take(sums, kinds[:half]))
        divide(kinds[:half], take(sums, kinds[half:]))

    start = np.zeros(1, dtype=np.int64)
    if only is not None:
        divide([only], take(start, [k for k in range(len(problem)) if k != only]))
        return feasible([answers[only]])
    if len(problem):
        divide(list(range(len(problem))), start)
    return feasible(answers)
