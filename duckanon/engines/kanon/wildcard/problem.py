"""What is searched: who must lose values at least, and what a release costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check
from duckanon.engines.kanon.wildcard.matching import Groups, Ints, Kinds, possible

# Groups times patterns that are looked at before a record loses all its values.
_MOST_CELLS = 50_000_000
# Differences of costs below this are rounding.
ROUNDING = 1e-9

# How many records of each group are released with each pattern.
Released = list[Counter[int]]
# A pattern, and the number of a cell of it: all persons whom a record there covers.
Hub = tuple[int, int]


class Problem:
    """Groups of persons, k, and what a suppressed value of each column costs.

    choices: for each group whose records cover fewer than k persons, the cheapest patterns by which they cover k.
    bound: no release costs less.
    """

    def __init__(self, groups: Groups, k: int, costs: npt.NDArray[np.float64]) -> None:
        self.groups, self.k, self.costs = groups, k, [float(cost) for cost in costs]
        self.missing: list[int] = groups.missing.tolist()
        self.sizes: list[int] = groups.sizes.tolist()
        self.choices, least = _choices(self)
        self.bound = sum(self.sizes[group] * cost for group, cost in least.items())

    def unchanged(self) -> Released:
        """All records as they are."""
        return [Counter({own: count}) for own, count in zip(self.missing, self.sizes, strict=True)]

    def cost(self, group: int, pattern: int) -> float:
        """What a record of this group loses by this pattern."""
        lost = pattern & ~self.missing[group]
        return sum(cost for column, cost in enumerate(self.costs) if lost >> column & 1)

    def total(self, released: Released) -> float:
        return sum(
            self.cost(group, pattern) * count for group, own in enumerate(released) for pattern, count in own.items()
        )

    def persons(self, pattern: int) -> Ints:
        """How many persons a record of each group covers with this pattern."""
        cells = self.groups.cells(pattern)
        return np.bincount(cells, self.groups.sizes)[cells].astype(np.int64)

    def hub(self, group: int, pattern: int) -> Hub:
        return pattern, int(self.groups.cells(pattern)[group])

    def members(self, hub: Hub) -> list[int]:
        """The groups whose persons a record at this hub covers."""
        return self.groups.members(*hub)

    def failing(self, released: Released) -> tuple[Kinds, set[int]]:
        """What is released, and the groups of which a record may be of too few, or a person have too few."""
        kinds = kinds_of(released)
        matches = possible(self.groups, kinds)
        few = set[int](kinds.groups[matches.persons < self.k].tolist())
        return kinds, few.union(np.flatnonzero(matches.records < self.k).tolist())


def kinds_of(released: Released) -> Kinds:
    rows = [(group, pattern, count) for group, own in enumerate(released) for pattern, count in sorted(own.items())]
    groups, patterns, counts = np.array(rows, np.int64).reshape(-1, 3).T
    return Kinds(groups, patterns, counts)


def change(own: Counter[int], old: int, new: int) -> None:
    """Release one record of a group by another pattern."""
    own[new] += 1
    own[old] -= 1
    if not own[old]:
        del own[old]


# --- what a record that covers too few persons may lose ---------------------------------------------------------------


def _choices(problem: Problem) -> tuple[dict[int, list[int]], dict[int, float]]:
    """For each group whose records cover fewer than k persons, the cheapest patterns by which they cover k, and what
    the cheapest costs at least. Where too many patterns would have to be looked at, all values are lost.
    """
    choices: dict[int, list[int]] = {}
    least: dict[int, float] = {}
    looks = _MOST_CELLS // len(problem.sizes)
    waiting = {
        mask: np.flatnonzero((problem.groups.missing == mask) & (problem.persons(mask) < problem.k))
        for mask in sorted(set(problem.missing))
    }
    for cost, pattern in cheapest_first(problem.costs):
        check()
        looks -= 1
        if looks < 0:
            whole = (1 << len(problem.costs)) - 1
            for group in (
                waiting_group
                for groups in waiting.values()
                for waiting_group in groups.tolist()
                if waiting_group not in choices
            ):
                choices[group], least[group] = [whole], cost
            break
        for mask, groups in waiting.items():
            if pattern & mask or not len(groups):
                continue
            enough = groups[problem.persons(pattern | mask)[groups] >= problem.k]
            for group in enough.tolist():
                own = choices.setdefault(group, [])
                least.setdefault(group, cost)
                if not own or cost <= problem.cost(group, own[0]) + ROUNDING:
                    own.append(pattern | mask)
            # (Those of equal cost are still to come.)
            done = [g for g in groups.tolist() if g in choices and cost > problem.cost(g, choices[g][0]) + ROUNDING]
            waiting[mask] = np.setdiff1d(groups, done)
        if not any(len(groups) for groups in waiting.values()):
            break
    return choices, least


def cheapest_first(costs: list[float]) -> Iterator[tuple[float, int]]:
    """All patterns that suppress a column at least, with their costs, which never fall."""
    order = sorted(range(len(costs)), key=lambda column: (costs[column], column))
    heap = [(costs[order[0]], 0, 1 << order[0])]
    while heap:
        cost, last, pattern = heappop(heap)
        yield cost, pattern
        if last + 1 < len(order):
            here, after = order[last], order[last + 1]
            heappush(heap, (cost + costs[after], last + 1, pattern | 1 << after))
            heappush(heap, (cost + costs[after] - costs[here], last + 1, pattern & ~(1 << here) | 1 << after))
