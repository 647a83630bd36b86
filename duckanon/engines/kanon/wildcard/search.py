"""The fewest values to suppress, where a suppressed value may stand for any: a search, and a bound below it.

1. A record that covers fewer than k persons must lose a value. It takes the cheapest pattern by which it covers k; of
   equally cheap ones the one that most such records share (`_widened`). Their costs together are the bound.
2. While some person can have fewer than k records, or a record fewer than k persons, by a perfect matching, one more
   record is widened for each hub at which such persons have records of their own, the cheapest first (`_join`). A hub
   covers at least k persons, so this ends.
3. Every value that is not needed any more is shown again (`_narrow`), and records of a few hubs are taken back and
   widened anew, as long as there are tries (`_rebuilt`). The result that costs least is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check
from duckanon.engines.kanon.wildcard.matching import Groups, Ints, Kinds, Matches, possible

# Groups times patterns that are looked at before a record loses all its values.
_MOST_CELLS = 50_000_000
# Groups times tries of the last step: some seconds. And groups times looks at a release in step 3.
_STEPS, _MOST_TRIES = 20_000, 50
_LOOKS = 4_000_000
# Differences of costs below this are rounding.
_ROUNDING = 1e-9
# How many hubs of those that serve failing groups get a record in one round: this part of them.
_SHARE = 4

# How many records of each group are released with each pattern.
Released = list[Counter[int]]
# A pattern, and the number of a cell of it: all persons whom a record there covers.
Hub = tuple[int, int]


@dataclass(frozen=True)
class Suppression:
    """kinds: what is released. lost: the cost of all suppressed values. bound: no release costs less."""

    kinds: Kinds
    lost: float
    bound: float


def suppress(groups: Groups, k: int, costs: npt.NDArray[np.float64], *, tries: int | None = None) -> Suppression:
    """A release in which every record may belong to k persons, and every person may have k records. costs: per column.

    There must be k persons. The result follows from the groups and their order alone.
    """
    problem, random = _Problem(groups, k, costs), Random(0)
    best = _widened(problem)
    _join(problem, best, random)
    _narrow(problem, best, range(len(best)))
    lost = problem.total(best)
    for _ in range(min(_MOST_TRIES, _STEPS // len(best)) if tries is None else tries):
        if lost <= problem.bound + _ROUNDING:
            break
        other = _rebuilt(problem, best, random)
        total = problem.total(other)
        if total <= lost + _ROUNDING:
            best, lost = other, total
    return Suppression(_kinds(best), lost, problem.bound)


class _Problem:
    """Groups of persons, k, and what a suppressed value of each column costs.

    choices: for each group whose records cover fewer than k persons, the cheapest patterns by which they cover k.
    bound: no release costs less.
    """

    def __init__(self, groups: Groups, k: int, costs: npt.NDArray[np.float64]) -> None:
        self.groups, self.k, self.costs = groups, k, [float(one) for one in costs]
        self.missing: list[int] = groups.missing.tolist()
        self.sizes: list[int] = groups.sizes.tolist()
        self.choices, least = _choices(self)
        self.bound = sum(self.sizes[group] * cost for group, cost in least.items())

    def cost(self, group: int, pattern: int) -> float:
        """What a record of this group loses by this pattern."""
        lost = pattern & ~self.missing[group]
        return sum(cost for column, cost in enumerate(self.costs) if lost >> column & 1)

    def total(self, released: Released) -> float:
        return sum(
            self.cost(group, pattern) * many for group, own in enumerate(released) for pattern, many in own.items()
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
        kinds = _kinds(released)
        matches = possible(self.groups, kinds)
        few = set[int](kinds.groups[matches.persons < self.k].tolist())
        return kinds, few.union(np.flatnonzero(matches.records < self.k).tolist())


def _kinds(released: Released) -> Kinds:
    rows = [(group, pattern, many) for group, own in enumerate(released) for pattern, many in sorted(own.items())]
    groups, patterns, counts = np.array(rows, np.int64).reshape(-1, 3).T
    return Kinds(groups, patterns, counts)


# --- what a record that covers too few persons may lose ---------------------------------------------------------------


def _choices(problem: _Problem) -> tuple[dict[int, list[int]], dict[int, float]]:
    """For each group whose records cover fewer than k persons, the cheapest patterns by which they cover k, and what
    the cheapest costs at least. Where too many patterns would have to be looked at, all values are lost.
    """
    found: dict[int, list[int]] = {}
    least: dict[int, float] = {}
    looks = _MOST_CELLS // len(problem.sizes)
    waiting = {
        mask: np.flatnonzero((problem.groups.missing == mask) & (problem.persons(mask) < problem.k))
        for mask in sorted(set(problem.missing))
    }
    for cost, pattern in _cheapest_first(problem.costs):
        check()
        looks -= 1
        if looks < 0:
            whole = (1 << len(problem.costs)) - 1
            for group in (one for groups in waiting.values() for one in groups.tolist() if one not in found):
                found[group], least[group] = [whole], cost
            break
        for mask, groups in waiting.items():
            if pattern & mask or not len(groups):
                continue
            enough = groups[problem.persons(pattern | mask)[groups] >= problem.k]
            for group in enough.tolist():
                own = found.setdefault(group, [])
                least.setdefault(group, cost)
                if not own or cost <= problem.cost(group, own[0]) + _ROUNDING:
                    own.append(pattern | mask)
            # (Those of equal cost are still to come.)
            done = [g for g in groups.tolist() if g in found and cost > problem.cost(g, found[g][0]) + _ROUNDING]
            waiting[mask] = np.setdiff1d(groups, done)
        if not any(len(groups) for groups in waiting.values()):
            break
    return found, least


def _cheapest_first(costs: list[float]) -> Iterator[tuple[float, int]]:
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


# --- the steps --------------------------------------------------------------------------------------------------------


def _widened(problem: _Problem) -> Released:
    """All records as they are, but those that cover too few persons: these share patterns where they can."""
    shared = Counter[Hub]()
    for group, patterns in problem.choices.items():
        for pattern in patterns:
            shared[problem.hub(group, pattern)] += problem.sizes[group]
    released = [Counter({own: many}) for own, many in zip(problem.missing, problem.sizes, strict=True)]
    for group, patterns in problem.choices.items():
        best = max(patterns, key=lambda one: shared[problem.hub(group, one)])
        released[group] = Counter({best: problem.sizes[group]})
    return released


def _join(problem: _Problem, released: Released, random: Random) -> set[int]:
    """Widen records until the release holds. Returns the groups that they are of."""
    touched = set[int]()
    while True:
        kinds, failing = problem.failing(released)
        if not failing:
            return touched
        hubs = dict[Hub, set[int]]()
        for group, pattern in zip(kinds.groups.tolist(), kinds.patterns.tolist(), strict=True):
            if group in failing:
                hubs.setdefault(problem.hub(group, pattern), set()).add(group)
        # (A few at a time: what closes one cycle often closes others.)
        few = max(1, len(hubs) // _SHARE)
        for hub, served in sorted(hubs.items(), key=lambda one: (-len(one[1]), one[0]))[:few]:
            if served & failing:
                touched.add(_widen_one(problem, released, hub, random))
                failing -= served


def _widen_one(problem: _Problem, released: Released, hub: Hub, random: Random) -> int:
    """Let one more record cover all persons of a hub, the cheapest. Returns its group."""
    pattern = hub[0]
    found = [
        (problem.cost(group, own | pattern) - problem.cost(group, own), random.random(), group, own)
        for group in problem.members(hub)
        for own in released[group]
        if own | pattern != own
    ]
    _, _, group, own = min(found)
    _change(released[group], own, own | pattern)
    return group


def _change(own: Counter[int], old: int, new: int) -> None:
    """Release one record of a group by another pattern."""
    own[new] += 1
    own[old] -= 1
    if not own[old]:
        del own[old]


def _narrow(problem: _Problem, released: Released, among: Iterable[int]) -> None:
    """Show values again that need not be suppressed, the dearest first, as long as there are looks at the release."""
    tries, looks = list[tuple[float, int, int]](), _LOOKS // len(released)
    for group in among:
        least = problem.cost(group, problem.choices[group][0]) if group in problem.choices else 0.0
        for pattern in released[group]:
            cost = problem.cost(group, pattern)
            if cost > least + _ROUNDING:
                tries.append((least - cost, group, pattern))
    for _, group, pattern in sorted(tries):
        for new in [*problem.choices.get(group, [problem.missing[group]]), *_shown_one_more(problem, group, pattern)]:
            while looks and released[group][pattern] and problem.cost(group, new) < problem.cost(group, pattern):
                looks -= 1
                before = released[group].copy()
                _change(released[group], pattern, new)
                if problem.failing(released)[1]:
                    released[group] = before
                    break
        released[group] = +released[group]


def _shown_one_more(problem: _Problem, group: int, pattern: int) -> list[int]:
    """The patterns that show one column more."""
    lost = pattern & ~problem.missing[group]
    return [pattern & ~(1 << column) for column in range(len(problem.costs)) if lost >> column & 1]


def _rebuilt(problem: _Problem, released: Released, random: Random) -> Released:
    """Another release: the records around one hub are taken back, and widened anew by patterns chosen at random."""
    found = [own.copy() for own in released]
    centre = random.choice(sorted(problem.choices))
    near = set[int]()
    for pattern in sorted({*problem.choices[centre], *found[centre]}):
        near.update(problem.members(problem.hub(centre, pattern)))
    for group in sorted(near):
        patterns = problem.choices.get(group, [problem.missing[group]])
        many = problem.sizes[group]
        found[group] = Counter(random.choices(patterns, k=many) if len(patterns) > 1 else {patterns[0]: many})
    _narrow(problem, found, sorted(_join(problem, found, random) | near))
    return found
