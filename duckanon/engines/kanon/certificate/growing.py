"""Classes that prices exceed, grown from each point among the points near it: fast, and not always the best ones."""

from __future__ import annotations

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.certificate.nodes import Nodes, begin, new_nodes, stretched, widen
from duckanon.engines.kanon.certificate.points import Distinct, Points, Whole
from duckanon.engines.kanon.certificate.search import Classes
from duckanon.engines.kanon.kernels.neighbours import neighbours, shuffled_orders
from duckanon.engines.kanon.records import Codes

# How near points are looked for: orders, neighbours in each, and how many are kept.
_ORDERS, _WINDOW, _NEAR = 6, 12, 32
# Numbers in all classes together, at most.
_ROOM = 1 << 25
_FAR = 1 << 62


@compiled
def _grow(points: Points, nodes: Nodes, near: Codes, prices: Whole, k: int, held: Whole, classes: Classes) -> int:
    """Grow a class from each point, and put those that prices exceed into `classes`; how many there are.

    near: shape (points, most), near points of each, -1 where there are no more. held: room, shape (most + 1,).
    """
    count = 0
    most = near.shape[1]
    for a in range(near.shape[0]):
        if prices[a] <= 0:
            continue
        begin(points, nodes, 0, a)
        for c in range(most + 1):
            held[c] = 0
        held[most] = 1
        paid = prices[a]
        members = classes.members[count]
        times = classes.times[count]
        for g in range(members.shape[0]):
            members[g] = -1
            times[g] = 1
        members[0] = a
        best = 0
        size = 0
        for s in range(2, 2 * k):
            # The record that leaves the class worth most.
            chosen = -1
            worth = -_FAR
            for c in range(most + 1):
                t = a if c == most else near[a, c]
                if t < 0 or held[c] >= points.copies[t]:
                    continue
                gain = prices[t] - s * stretched(points, nodes, 0, t, _FAR)
                if gain > worth:
                    worth = gain
                    chosen = c
            if chosen < 0:
                break
            t = a if chosen == most else near[a, chosen]
            widen(points, nodes, 0, t)
            held[chosen] += 1
            members[s - 1] = t
            if s >= k and paid + worth > best:
                best = paid + worth
                size = s
            paid += prices[t]
        if size > 0:
            for g in range(size, members.shape[0]):
                members[g] = -1
            # A point that was taken again counts where it stands first.
            for g in range(1, size):
                for h in range(g):
                    if members[h] == members[g]:
                        times[h] += 1
                        members[g] = -1
                        break
            count += 1
            if count == classes.members.shape[0]:
                break
    return count


def near_points(distinct_points: Distinct, threads: int) -> Codes:
    """For each distinct point near ones, the nearest first, -1 where there are no more. Shape (points, at most 32)."""
    orders = shuffled_orders(distinct_points.records, _ORDERS, threads)
    return neighbours(distinct_points.records, orders, _WINDOW, min(_NEAR, max(len(distinct_points) - 1, 1)), threads)[
        0
    ]


def grown(distinct_points: Distinct, near: Codes, prices: Whole, k: int) -> tuple[Codes, Codes]:
    """Classes that prices exceed, as `Pool.add` takes them. near: as `near_points` has it. prices: in grains."""
    n, most = near.shape
    largest = 2 * k - 1
    room = min(n, _ROOM // largest)
    classes = Classes(np.empty((room, largest), np.int32), np.empty((room, largest), np.int32))
    nodes = new_nodes(distinct_points.points, distinct_points.tree, 1)
    count = _grow(distinct_points.points, nodes, near, prices, k, np.zeros(most + 1, np.int64), classes)
    return classes.members[:count], classes.times[:count]
