"""Join classes that fail with those where they add least, then move and swap them while that loses less."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import allocating, inner, inner_allocating
from duckanon.engines.kanon.criteria.classes import Units, absorb, added_loss, joined_loss
from duckanon.engines.kanon.criteria.criteria import Demands, meets, new_tally
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Codes, Floats

Flags = npt.NDArray[np.bool_]

# Members of a large class whose neighbours are looked at.
_ASKED = 64


@allocating
def failing(demands: Demands, units: Units) -> Flags:
    """Which units fail by themselves. Shape (u,)."""
    tally = new_tally(demands)
    alone = np.empty(1, np.int32)
    fails = np.empty(units.size.shape[0], np.bool_)
    for u in range(fails.shape[0]):
        alone[0] = u
        fails[u] = not meets(demands, alone, 1, units.size[u], tally)
    return fails


@allocating
def penalties(units: Units, near: Codes, asked: Flags) -> Floats:
    """What joining each unit of `asked` with its best neighbour adds to the loss; 0 for the others. Shape (u,)."""
    count = units.size.shape[0]
    added = np.zeros(count)
    for u in range(count):
        if not asked[u]:
            continue
        least = np.inf
        for t in range(near.shape[1] if near.shape[1] else count):
            v = near[u, t] if near.shape[1] else t
            if v >= 0 and v != u:
                least = min(least, added_loss(units, u, v))
        added[u] = least
    return added


@inner
def _owner(parent: Codes, u: int) -> int:
    while parent[u] != u:
        parent[u] = parent[parent[u]]
        u = parent[u]
    return u


@allocating
def join(units: Units, near: Codes, demands: Demands) -> tuple[Labels, Codes]:
    """Join until no class fails: of all joins of a failing class with a neighbour always the one that adds least.

    near: as from `near_units`. Returns the class of each unit, named by one of its units, and the joins in order, shape
    (joins, 2). The units' boxes are changed. If everything together fails, one class is left.
    """
    count = units.size.shape[0]
    tally = new_tally(demands)
    fails = failing(demands, units)
    parent = np.empty(count, np.int32)
    after = np.full(count, -1, np.int32)  # members of a class as a chain
    last = np.empty(count, np.int32)
    alive = np.ones(count, np.bool_)
    stamp = np.zeros(count, np.int64)  # grows when a class does: older entries of the heap are stale
    best = np.full(count, np.inf)
    held = np.empty(count)  # loss of each class
    for u in range(count):
        parent[u] = last[u] = u
        held[u] = units.size[u] * joined_loss(units, u, u)
    seen = np.full(count, -1, np.int64)  # by which look each class was met
    looks = 0
    members = np.empty(count, np.int32)
    joins = np.empty((count, 2), np.int32)
    joined = 0
    left = count
    heap = [(np.inf, 0, 0, np.int64(0), np.int64(0))]
    heap.pop()
    for u in range(count + 1):
        # (The last turn makes a heap of what the others found.)
        if u == count:
            heapify(heap)
            break
        if fails[u]:
            looks += 1
            _look(units, near, fails, parent, after, stamp, best, held, seen, looks, heap, u, False)
    while len(heap) > 0 and left > 1:
        cost, a, b, mine, its = heappop(heap)
        if not alive[a] or not fails[a] or stamp[a] != mine:
            continue
        if not alive[b] or stamp[b] != its:
            if cost == best[a]:
                best[a] = np.inf
                looks += 1
                _look(units, near, fails, parent, after, stamp, best, held, seen, looks, heap, a, True)
            continue
        joins[joined, 0] = a
        joins[joined, 1] = b
        joined += 1
        left -= 1
        absorb(units, a, units, b)
        held[a] = units.size[a] * joined_loss(units, a, a)
        alive[b] = False
        parent[b] = a
        after[last[a]] = b
        last[a] = last[b]
        stamp[a] += 1
        best[a] = np.inf
        inside = 0
        t = a
        while t >= 0:
            members[inside] = t
            inside += 1
            t = after[t]
        fails[a] = not meets(demands, members, inside, units.size[a], tally)
        looks += 1
        _look(units, near, fails, parent, after, stamp, best, held, seen, looks, heap, a, True)
    labels = np.empty(count, np.int32)
    for u in range(count):
        labels[u] = _owner(parent, u)
    return labels, joins[:joined]


@inner_allocating
def _look(  # type: ignore[no-untyped-def]
    units, near, fails, parent, after, stamp, best, held, seen, look, heap, a, sorted_heap
) -> None:
    """Find class a's best neighbour, if it fails; tell failing neighbours of class a if it is better than theirs."""
    count = units.size.shape[0]
    inside = 0
    t = a
    while t >= 0:
        inside += 1
        t = after[t]
    stride = max(1, inside // _ASKED)
    least = np.inf
    chosen = -1
    found = False
    for wide in range(2):
        if wide == 1 and found:
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
                    b = _owner(parent, v)
                    if b == a or seen[b] == look:
                        continue
                    seen[b] = look
                    found = True
                    cost = (units.size[a] + units.size[b]) * joined_loss(units, a, b) - held[a] - held[b]
                    if cost < least or (cost == least and b < chosen):
                        least = cost
                        chosen = b
                    if fails[b] and cost < best[b]:
                        best[b] = cost
                        entry = (cost, b, a, stamp[b], stamp[a])
                        if sorted_heap:
                            heappush(heap, entry)
                        else:
                            heap.append(entry)
            if every:
                break
            place += 1
            t = after[t]
    if fails[a] and chosen >= 0 and least < best[a]:
        best[a] = least
        entry = (least, a, chosen, stamp[a], stamp[chosen])
        if sorted_heap:
            heappush(heap, entry)
        else:
            heap.append(entry)
