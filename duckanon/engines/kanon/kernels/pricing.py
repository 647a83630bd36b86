"""Classes that would improve a linear program over partitions: branch and bound over sets of k .. 2k - 1 records.

A class S of a partition costs |S| times its box's loss. Given a price u for each record, its reduced cost is that
less the prices of its records. Each class is looked for from its dearest record, its seed, so that each is met once.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.array_kernels import argsort
from duckanon.engines.compiled import allocating
from duckanon.engines.kanon.kernels.growth import begin, new_boxes, put, stretched
from duckanon.engines.kanon.records import Codes, Floats, Space


class Found(NamedTuple):
    """What `price` found.

    members: (classes, 2k - 1), -1 behind the last member. cost: (classes,), what each class loses. reduced: (classes,).
    least: (n,), for each seed the least reduced cost below the threshold, or the threshold. complete: whether no seed's
    search was cut short, and no class left out for want of room. spent: records tried by all searches.
    """

    members: Codes
    cost: Floats
    reduced: Floats
    least: Floats
    complete: bool
    spent: int


@allocating
def price(space: Space, prices: Floats, k: int, threshold: float, keep: int, room: int, steps: int) -> Found:
    """Classes of reduced cost below the threshold: the `keep` best of each seed, or all if it is 0.

    room: how many are kept in all. steps: how many records a seed's search may try.
    """
    n = prices.shape[0]
    q = space.units.shape[0]
    largest = min(2 * k - 1, n)
    order = argsort(-prices)
    u = np.empty(n)
    for a in range(n):
        u[a] = prices[order[a]]
    members = np.full((room, 2 * k - 1), -1, np.int32)
    cost = np.empty(room)
    reduced = np.empty(room)
    count = 0
    least = np.full(n, threshold)
    complete = True
    total = 0
    spent = 0
    depth = largest + 1
    boxes = new_boxes(space, depth)
    codes = np.empty((depth, q), np.int32)
    lists = np.empty((depth, n), np.int32)
    counts = np.zeros(depth, np.int64)
    following = np.zeros(depth, np.int64)
    paid = np.zeros(depth)
    loss = np.zeros(depth)
    chain = np.empty(depth, np.int32)
    for a in range(n):
        first = count
        limit = threshold
        total += spent
        spent = 0
        chain[0] = a
        begin(space, boxes, 0, codes, order[a])
        loss[0] = 0.0
        paid[0] = u[a]
        for s in range(k, largest + 1):
            if a + s > n or -s * u[a] >= limit:
                continue
            kept = 0
            for t in range(a + 1, n):
                if u[a] + u[t] + (s - 2) * u[a + 1] <= -limit:
                    break
                wide = stretched(space, boxes, 0, codes, 1, order[t])
                if s * wide - (u[a] + u[t] + (s - 2) * u[a + 1]) < limit:
                    lists[0, kept] = t
                    kept += 1
            counts[0] = kept
            following[0] = 0
            level = 0
            while level >= 0:
                need = s - level - 1
                at = following[level]
                if at + need > counts[level]:
                    level -= 1
                    continue
                if spent > steps:
                    complete = False
                    break
                dearest = paid[level]
                for z in range(need):
                    dearest += u[lists[level, at + z]]
                if s * loss[level] - dearest >= limit:
                    level -= 1
                    continue
                t = lists[level, at]
                following[level] = at + 1
                spent += 1
                wide = stretched(space, boxes, level, codes, level + 1, order[t])
                dearest = paid[level] + u[t]
                for z in range(1, need):
                    if at + z < counts[level]:
                        dearest += u[lists[level, at + z]]
                    else:
                        dearest = -np.inf
                if s * wide - dearest >= limit:
                    continue
                chain[level + 1] = t
                if need == 1:
                    reduced_cost = s * wide - dearest
                    least[order[a]] = min(least[order[a]], reduced_cost)
                    place = count
                    if keep > 0 and count - first == keep:
                        place = first
                        for z in range(first, count):
                            if reduced[z] > reduced[place]:
                                place = z
                    elif count == room:
                        complete = False
                        break
                    else:
                        count += 1
                    for z in range(2 * k - 1):
                        members[place, z] = order[chain[z]] if z < s else -1
                    cost[place] = s * wide
                    reduced[place] = reduced_cost
                    if keep > 0 and count - first == keep:
                        limit = -np.inf
                        for z in range(first, count):
                            limit = max(limit, reduced[z])
                    continue
                put(space, boxes, level, level + 1, codes, level + 1, order[t])
                loss[level + 1] = wide
                paid[level + 1] = paid[level] + u[t]
                kept = 0
                for z in range(at + 1, counts[level]):
                    other = lists[level, z]
                    best = paid[level + 1] + u[other] + (need - 2) * u[lists[level, at + 1]]
                    # Records are listed by falling price: none behind this one can pay for the box as it is.
                    if s * wide - best >= limit:
                        break
                    spent += 1
                    if s * stretched(space, boxes, level + 1, codes, level + 2, order[other]) - best < limit:
                        lists[level + 1, kept] = other
                        kept += 1
                counts[level + 1] = kept
                following[level + 1] = 0
                level += 1
    return Found(members[:count], cost[:count], reduced[:count], least, complete, total + spent)


def as_class(members: npt.NDArray[np.int32]) -> tuple[int, ...]:
    """The records of one row of `Found.members`, ascending."""
    return tuple(sorted(int(i) for i in members if i >= 0))
