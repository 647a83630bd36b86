"""The fewest values to suppress, where a suppressed value may stand for any: a search, and a bound below it.

1. A record that covers fewer than k persons must lose a value. It takes the cheapest pattern by which it covers k; of
   equally cheap ones the one that most such records share (`_widened`), or one that leads to records which lose
   everything (`rooted`); both starts go on. Their costs together are the bound.
2. While some person can have fewer than k records, or a record fewer than k persons, by a perfect matching, one more
   record is widened for each hub at which such persons have records of their own, the cheapest first (`_join`). A hub
   covers at least k persons, so this ends.
3. Every value that is not needed any more is shown again (`_narrow`), and records of a few hubs are taken back and
   widened anew, as long as there are tries (`_rebuilt`). The result that costs least is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.wildcard.matching import Groups, Kinds
from duckanon.engines.kanon.wildcard.problem import ROUNDING, Hub, Problem, Released, change, kinds_of
from duckanon.engines.kanon.wildcard.rooted import rooted

# Groups times tries of the last step: some seconds. And groups times looks at a release in step 3.
_STEPS, _MOST_TRIES = 20_000, 50
_LOOKS = 4_000_000
# How many hubs of those that serve failing groups get a record in one round: this part of them.
_SHARE = 4


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
    problem, random = Problem(groups, k, costs), Random(0)  # noqa: S311 - a search, the same every time
    starts = [_widened(problem), rooted(problem)]
    for start in starts:
        _join(problem, start, random)
        _narrow(problem, start, range(len(start)))
    best = min(starts, key=problem.total)
    lost = problem.total(best)
    for _ in range(min(_MOST_TRIES, _STEPS // len(best)) if tries is None else tries):
        if lost <= problem.bound + ROUNDING:
            break
        other = _rebuilt(problem, best, random)
        total = problem.total(other)
        if total <= lost + ROUNDING:
            best, lost = other, total
    return Suppression(kinds_of(best), lost, problem.bound)


# --- the steps --------------------------------------------------------------------------------------------------------


def _widened(problem: Problem) -> Released:
    """All records as they are, but those that cover too few persons: these share patterns where they can."""
    shared = Counter[Hub]()
    for group, patterns in problem.choices.items():
        for pattern in patterns:
            shared[problem.hub(group, pattern)] += problem.sizes[group]
    released = problem.unchanged()
    for group, patterns in problem.choices.items():
        best = max(patterns, key=lambda pattern: shared[problem.hub(group, pattern)])
        released[group] = Counter({best: problem.sizes[group]})
    return released


def _join(problem: Problem, released: Released, random: Random) -> set[int]:
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
        for hub, served in sorted(hubs.items(), key=lambda served_hub: (-len(served_hub[1]), served_hub[0]))[:few]:
            if served & failing:
                touched.add(_widen_one(problem, released, hub, random))
                failing -= served


def _widen_one(problem: Problem, released: Released, hub: Hub, random: Random) -> int:
    """Let one more record cover all persons of a hub, the cheapest. Returns its group."""
    pattern = hub[0]
    widenings = [
        (problem.cost(group, own | pattern) - problem.cost(group, own), random.random(), group, own)
        for group in problem.members(hub)
        for own in released[group]
        if own | pattern != own
    ]
    _, _, group, own = min(widenings)
    change(released[group], own, own | pattern)
    return group


def _narrow(problem: Problem, released: Released, among: Iterable[int]) -> None:
    """Show values again that need not be suppressed, the dearest first, as long as there are looks at the release."""
    tries, looks = list[tuple[float, int, int]](), _LOOKS // len(released)
    for group in among:
        least = problem.cost(group, problem.choices[group][0]) if group in problem.choices else 0.0
        for pattern in released[group]:
            cost = problem.cost(group, pattern)
            if cost > least + ROUNDING:
                tries.append((least - cost, group, pattern))
    for _, group, pattern in sorted(tries):
        for new in [*problem.choices.get(group, [problem.missing[group]]), *_shown_one_more(problem, group, pattern)]:
            while looks and released[group][pattern] and problem.cost(group, new) < problem.cost(group, pattern):
                looks -= 1
                before = released[group].copy()
                change(released[group], pattern, new)
                if problem.failing(released)[1]:
                    released[group] = before
                    break
        released[group] = +released[group]


def _shown_one_more(problem: Problem, group: int, pattern: int) -> list[int]:
    """The patterns that show one column more."""
    lost = pattern & ~problem.missing[group]
    return [pattern & ~(1 << column) for column in range(len(problem.costs)) if lost >> column & 1]


def _rebuilt(problem: Problem, released: Released, random: Random) -> Released:
    """Another release: the records around one hub are taken back, and widened anew by patterns chosen at random."""
    rebuilt = [own.copy() for own in released]
    # (Where nobody has to lose a value for itself, some record does for a person without one.)
    wide = (group for group, own in enumerate(rebuilt) if any(problem.cost(group, pattern) for pattern in own))
    centre = random.choice(sorted(problem.choices) or list(wide))
    near = set[int]()
    for pattern in sorted({*problem.choices.get(centre, ()), *rebuilt[centre]}):
        near.update(problem.members(problem.hub(centre, pattern)))
    for group in sorted(near):
        patterns = problem.choices.get(group, [problem.missing[group]])
        count = problem.sizes[group]
        rebuilt[group] = Counter(random.choices(patterns, k=count) if len(patterns) > 1 else {patterns[0]: count})
    _narrow(problem, rebuilt, sorted(_join(problem, rebuilt, random) | near))
    return rebuilt
