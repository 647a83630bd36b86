"""Prior knowledge of an attacker: bounds on sums of a row's cells become bounds on its nu (section 2 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from duckanon.cancellation import check
from duckanon.engines.cells.knapsack import FREE, Ints, Knapsack, knapsack
from duckanon.engines.cells.residues import residues
from duckanon.errors import Infeasible


@dataclass(frozen=True)
class Fact:
    """lower <= the sum of some cells of a row <= upper.

    row: position of the row among the nonzero rows. part: those cells' reduced counts together.
    upper: None for no upper bound.
    """

    row: int
    part: int
    lower: int
    upper: int | None


def _contradiction(name: str) -> Infeasible:
    return Infeasible(f"No table has these proportions and what known says of {name}: correct or remove those facts.")


def bounds_of_nu(rows: int, facts: Sequence[Fact], name: Callable[[int], str]) -> tuple[list[int], list[int | None]]:
    """Lower and upper bounds of each row's nu.

    From l <= (nu + 1) part <= u follows ceil(l / part) - 1 <= nu <= floor(u / part) - 1. (The paper prints a floor
    at both ends; the lower one needs a ceiling.) Raises Infeasible, with the row's name, if none is left.
    """
    lower: list[int] = [0] * rows
    upper: list[int | None] = [None] * rows
    for fact in facts:
        if fact.part == 0:
            # These cells are zero whatever nu is.
            if fact.lower > 0 or (fact.upper is not None and fact.upper < 0):
                raise _contradiction(name(fact.row))
            continue
        lower[fact.row] = max(lower[fact.row], -(-fact.lower // fact.part) - 1)
        if fact.upper is not None:
            most = fact.upper // fact.part - 1
            before = upper[fact.row]
            upper[fact.row] = most if before is None else min(before, most)
        top = upper[fact.row]
        if top is not None and top < lower[fact.row]:
            raise _contradiction(name(fact.row))
    return lower, upper


def _knapsack(
    sums: Ints, target: int, lower: Sequence[int], upper: Sequence[int | None]
) -> tuple[Knapsack, Ints] | None:
    """The knapsack that is left above the lower bounds, and each row's kind; None if the bounds exceed the target."""
    left = target - sum(int(r) * low for r, low in zip(sums, lower, strict=True) if low)
    if left < 0:
        return None
    room = [FREE if top is None else min(top - low, left) for low, top in zip(lower, upper, strict=True)]
    problem, kind = knapsack(sums, left, np.array(room, dtype=np.int64))
    return problem, kind.astype(np.int64)


def _possible(problem: Knapsack) -> bool:
    """Whether there is a solution."""
    return bool(residues(problem).count.all())


def with_facts(
    sums: Ints, target: int, facts: Sequence[Fact], name: Callable[[int], str]
) -> tuple[Knapsack, Ints, list[int]]:
    """The knapsack under the facts, each row's kind, and the lower bound that each row's nu starts from.

    name: how to call a row in an error. Raises Infeasible if no table fits all facts; it names the first row, in the
    order of the rows, whose facts contradict those of the rows before it.
    """
    lower, upper = bounds_of_nu(len(sums), facts, name)
    collapsed = _knapsack(sums, target, lower, upper)
    if collapsed is not None and _possible(collapsed[0]):
        return *collapsed, lower
    concerned = sorted({fact.row for fact in facts})
    # More facts never make more tables possible, so bisection finds the first row that leaves none.
    good, bad = 0, len(concerned)
    while bad - good > 1:
        check()
        middle = (good + bad) // 2
        held = set(concerned[:middle])
        part = _knapsack(
            sums,
            target,
            [low if i in held else 0 for i, low in enumerate(lower)],
            [top if i in held else None for i, top in enumerate(upper)],
        )
        if part is not None and _possible(part[0]):
            good = middle
        else:
            bad = middle
    raise _contradiction(name(concerned[bad - 1]))
