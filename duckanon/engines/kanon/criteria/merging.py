"""Join each class that fails with the neighbour where it adds least to the loss, until none fails."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import allocating, compiled, inner, inner_allocating
from duckanon.engines.kanon.criteria.classes import ClassBoxes, Counts, absorb, added_loss, joined_loss
from duckanon.engines.kanon.criteria.diversity import Tally
from duckanon.engines.kanon.criteria.privacy_criteria import CriteriaArrays, meets, tally_for
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Codes, Floats

Flags = npt.NDArray[np.bool_]

# Members of a large class whose neighbours are looked at.
_ASKED = 64


def failing(criteria: CriteriaArrays, size: Counts) -> Flags:
    """Which units fail by themselves. size: their records, shape (u,)."""
    every = np.arange(len(size), dtype=np.int32)
    fails = np.empty(len(every), np.bool_)
    _failing(criteria, size, tally_for(criteria), every, fails)
    return fails


def meet(criteria: CriteriaArrays, members: Codes, size: int) -> bool:
    """Whether these units, joined, meet the criteria. size: their records."""
    return bool(_meet(criteria, members, size, tally_for(criteria)))


@compiled
def _meet(criteria: CriteriaArrays, members: Codes, size: int, tally: Tally) -> bool:
    return meets(criteria, members, members.shape[0], size, tally)


@compiled
def _failing(criteria: CriteriaArrays, size: Counts, tally: Tally, every: Codes, fails: Flags) -> None:
    for u in range(fails.shape[0]):
        fails[u] = not meets(criteria, every[u:], 1, size[u], tally)


def penalties(units: ClassBoxes, near: Codes, flagged: Flags) -> Floats:
    """What joining each unit of `flagged` with its best neighbour adds to the loss; 0 for the others. Shape (u,)."""
    added = np.zeros(len(units.size))
    if flagged.any():
        _penalties(units, near, flagged, added)
    return added


@compiled
def _penalties(units: ClassBoxes, near: Codes, flagged: Flags, added: Floats) -> None:
    count = units.size.shape[0]
    for u in range(count):
        if not flagged[u]:
            continue
        least = np.inf
        for t in range(near.shape[1] if near.shape[1] > 0 else count):
            v = near[u, t] if near.shape[1] > 0 else t
            if v >= 0 and v != u:
                adds = added_loss(units, u, v)
                least = adds if adds < least else least
        added[u] = least


@inner
def _owner(parent: Codes, u: int) -> int:
    while parent[u] != u:
        parent[u] = parent[parent[u]]
        u = parent[u]
    return u


class _Joins(NamedTuple):
    """The classes while they are joined, each named by one of its u units."""

    fails: Flags  # (u,)
    parent: Codes  # (u,): towards the name of each unit's class
    after: Codes  # (u,): the next unit of the same class, -1 for none
    last: Codes  # (u,): the last unit of each class
    alive: Flags  # (u,)
    stamp: Counts  # (u,): grows when a class does: older entries of the heap are stale
    best: Floats  # (u,): the least that joining each class with a neighbour was found to add
    held: Floats  # (u,): loss of each class
    met: Counts  # (u,): the search in which each class was last met
    members: Codes  # (u,)
    joins: Codes  # (u, 2): what was joined with what


def join(units: ClassBoxes, near: Codes, criteria: CriteriaArrays, fails: Flags) -> tuple[Labels, Codes]:
    """Join until no class fails: of all joins of a failing class with a neighbour always the one that adds least.

    near: as from `near_boxes`. fails: as from `failing`. Returns the class of each unit, named by one of its units, and
    the joins in order, shape (joins, 2). The units' boxes are changed. If everything together fails, one class is left.
    """
    count = len(units.size)
    every = np.arange(count, dtype=np.int32)
    state = _Joins(
        fails.copy(),
        every,
        np.full(count, -1, np.int32),
        every.copy(),
        np.ones(count, np.bool_),
        np.zeros(count, np.int64),
        np.full(count, np.inf),
        np.empty(count),
        np.full(count, -1, np.int64),
        np.empty(count, np.int32),
        np.empty((count, 2), np.int32),
    )
    joined = _join(units, near, criteria, tally_for(criteria), state)
    return state.parent, state.joins[:joined]


@allocating
def _join(units: ClassBoxes, near: Codes, criteria: CriteriaArrays, tally: Tally, state: _Joins) -> int:
    """As `join`; how many joins. state.parent: the name of each unit's class, afterwards."""
    count = units.size.shape[0]
    for u in range(count):
        state.held[u] = units.size[u] * joined_loss(units, u, u)
    heap = [(np.inf, 0, 0, np.int64(0), np.int64(0))]
    heap.pop()
    joined = 0
    looks = 0
    while looks < count or (len(heap) > 0 and joined < count - 1):
        looks += 1
        a = looks - 1  # first every class looks for a neighbour
        if looks > count:
            cost, a, b, own_stamp, other_stamp = heappop(heap)
            if not state.alive[a] or not state.fails[a] or state.stamp[a] != own_stamp:
                continue
            if state.alive[b] and state.stamp[b] == other_stamp:
                state.joins[joined, 0] = a
                state.joins[joined, 1] = b
                joined += 1
                _unite(units, criteria, tally, state, a, b)
            elif cost != state.best[a]:
                continue
            state.best[a] = np.inf
        elif not state.fails[a]:
            continue
        _look(units, near, state, looks, heap, a)
    for u in range(count):
        state.parent[u] = _owner(state.parent, u)
    return joined


@inner
def _unite(units: ClassBoxes, criteria: CriteriaArrays, tally: Tally, state: _Joins, a: int, b: int) -> None:
    """Join class b to class a."""
    absorb(units, a, units, b)
    state.held[a] = units.size[a] * joined_loss(units, a, a)
    state.alive[b] = False
    state.parent[b] = a
    state.after[state.last[a]] = b
    state.last[a] = state.last[b]
    state.stamp[a] += 1
    inside = 0
    t = a
    while t >= 0:
        state.members[inside] = t
        inside += 1
        t = state.after[t]
    state.fails[a] = not meets(criteria, state.members, inside, units.size[a], tally)


@inner_allocating
def _look(units, near, state, look, heap, a) -> None:  # type: ignore[no-untyped-def]
    """Find class a's best neighbour, if it fails; make class a the best neighbour of failing classes for which it
    is.
    """
    fails, after, stamp, best, held, met = state.fails, state.after, state.stamp, state.best, state.held, state.met
    count = units.size.shape[0]
    inside = 0
    t = a
    while t >= 0:
        inside += 1
        t = after[t]
    stride = max(1, inside // _ASKED)
    least = np.inf
    chosen = -1
    any_met = False
    for wide in range(2):
        if wide == 1 and any_met:
            break
        every = wide == 1 or near.shape[1] == 0
        place = 0
        t = a
        while t >= 0:
            if place % stride == 0:
                for x in range(count if every else near.shape[1]):
                    v = x if every else near[t, x]
                    if v < 0:
                        break
                    b = _owner(state.parent, v)
                    if b == a or met[b] == look:
                        continue
                    met[b] = look
                    any_met = True
                    cost = (units.size[a] + units.size[b]) * joined_loss(units, a, b) - held[a] - held[b]
                    if cost < least or (cost == least and b < chosen):
                        least = cost
                        chosen = b
                    if fails[b] and cost < best[b]:
                        best[b] = cost
                        heappush(heap, (cost, b, a, stamp[b], stamp[a]))
            if every:
                break
            place += 1
            t = after[t]
    if fails[a] and chosen >= 0 and least < best[a]:
        best[a] = least
        heappush(heap, (least, a, chosen, stamp[a], stamp[chosen]))
