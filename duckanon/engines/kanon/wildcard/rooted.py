"""A start of the search: a few records lose all their values, and everything leads to the group that they are of.

k - 1 records of the largest group, the root, lose all values, so every person has k records: these and the own one.
They count where a way leads back, from each record through persons whom it covers, and their records, to the root.
Records that have to lose a value anyway take a pattern by which they cover somebody from whom there is such a way.
Where none does, one record of a large group that many of them cover loses the values that tell it from a group with a
way, and the search goes on from there.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from duckanon.cancellation import check
from duckanon.engines.kanon.wildcard.problem import Hub, Problem, Released, change, cheapest_first


def rooted(problem: Problem) -> Released:
    """Such a release; whatever it leaves open is for the caller to mend."""
    released = problem.unchanged()
    root = int(np.argmax(problem.groups.sizes))
    for _ in range(min(problem.k - 1, problem.sizes[root])):
        change(released[root], problem.missing[root], (1 << len(problem.costs)) - 1)
    _Ways(problem, released).lead_to(root)
    return released


class _Ways:
    """The groups with a way to the root, and those that wait for one.

    hubs: which waiting groups may use a hub. inside: how many persons with a way it covers. crowds: how many waiting
    groups may cover each large group.
    """

    def __init__(self, problem: Problem, released: Released) -> None:
        self._problem, self._released = problem, released
        self._waiting = set(problem.choices)
        self._patterns = sorted({pattern for own in problem.choices.values() for pattern in own})
        self._has = np.zeros(len(released), np.bool_)
        self._hubs = defaultdict[Hub, list[int]](list)
        self._inside = Counter[Hub]()
        self._large = dict[int, list[int]]()
        self._crowds = Counter[int]()
        for group, own in problem.choices.items():
            near = set[int]()
            for pattern in own:
                hub = problem.hub(group, pattern)
                self._hubs[hub].append(group)
                near.update(member for member in problem.members(hub) if member not in problem.choices)
            self._large[group] = sorted(near)
            self._crowds.update(near)

    def lead_to(self, root: int) -> None:
        self._reach([root])
        while self._waiting:
            check()
            open_groups = [(crowd, -group) for group, crowd in self._crowds.items() if crowd and not self._has[group]]
            if not open_groups:
                break
            group = -max(open_groups)[1]
            change(self._released[group], self._problem.missing[group], self._way_from(group))
            self._reach([group])
        for group in self._waiting:
            self._released[group] = Counter({self._problem.choices[group][0]: self._problem.sizes[group]})

    def _way_from(self, group: int) -> int:
        """The cheapest pattern by which a record of the group covers somebody with a way."""
        missing = self._problem.missing[group]
        for _, pattern in cheapest_first(self._problem.costs):
            cells = self._problem.groups.cells(pattern | missing)
            if self._has[cells == cells[group]].any():
                return pattern | missing
        raise AssertionError("the pattern of all columns covers everybody")

    def _reach(self, groups: list[int]) -> None:
        """Note that these have a way, and give one to all waiting groups that may cover enough persons with one."""
        while groups:
            group = groups.pop()
            self._has[group] = True
            for pattern in self._patterns:
                hub = self._problem.hub(group, pattern)
                if hub not in self._hubs:
                    continue
                self._inside[hub] += self._problem.sizes[group]
                for other in [candidate for candidate in self._hubs[hub] if candidate in self._waiting]:
                    persons = self._problem.sizes[other]
                    if self._inside[hub] + persons >= self._problem.k:
                        self._waiting.remove(other)
                        self._released[other] = Counter({pattern: persons})
                        self._crowds.subtract(self._large[other])
                        groups.append(other)
