"""The vector of least cost in the cone, by a simplex method on spanning trees.

Minimise a . g over g_i <= exp(w_ij) g_j with g_root = 1: the dual of a generalised network flow. With u = log(g) an
extreme ray is a spanning tree of tight edges: each node stands either `below` its parent (u_i = u_p - w) or above it
(u_i = u_p + w). The sign of the sum of a_i exp(u_i) over a subtree decides whether it should move; it then moves until
another edge out of it becomes tight, which connects it from then on. Source: papers' README, section 4.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.array_kernels import argsort
from duckanon.engines.compiled import allocating, compiled, inner, inner_allocating

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Flags = npt.NDArray[np.int8]

# A subtree's sum below this share of the sum of its terms' sizes is taken for zero: it is rounding.
_CANCELLED = 1e-11
# Before sums are computed again, all subtrees are moved whose gain is at least this share of the largest.
_WORTHWHILE = 0.05


@inner
def _depth_first(
    root: int,
    parent: Ints32,
    order: Ints32,
    place: Ints32,
    size: Ints32,
    first: Ints32,
    following: Ints32,
    stack: Ints32,
) -> None:
    """Depth-first order of the tree, each node's place in it, and the sizes of subtrees.

    first, following, stack: space for the lists of children and for nodes still to be visited.
    """
    n = len(parent)
    for i in range(n):
        first[i] = -1
    for i in range(n):
        if i != root:
            following[i] = first[parent[i]]
            first[parent[i]] = i
    stack[0] = root
    waiting, done = 1, 0
    while waiting:
        waiting -= 1
        i = stack[waiting]
        order[done], place[i], size[i] = i, done, 1
        done += 1
        child = first[i]
        while child >= 0:
            stack[waiting] = child
            waiting += 1
            child = following[child]
    for t in range(n - 1, 0, -1):
        size[parent[order[t]]] += size[order[t]]


@inner
def _mark_ancestors(node: int, root: int, parent: Ints32, touched: Ints32) -> None:
    while node != root:
        touched[node] = 1
        node = parent[node]


@inner_allocating
def cheapest(
    root: int,
    cost: Floats,
    parent: Ints32,
    edge: Ints32,
    above: Flags,
    logs: Floats,
    ptr: Ints,
    idx: Ints,
    length: Floats,
    most: int,
    floats: Floats,
    ints: Ints32,
) -> tuple[float, int]:
    """The least cost . exp(logs), and how many subtrees moved; `most` of them or more means it may not be the least.

    parent, edge, above: the tree to start from and where it ends: each node's parent, the directed edge between them
    (by either direction), and 1 if it stands above the parent. logs: filled in. cost: shape (n,). floats, ints: space
    to work in, shapes (4, n) and (8, n).
    """
    n = len(cost)
    order, place, size, wanting, touched = ints[0], ints[1], ints[2], ints[3], ints[4]
    sums, sizes, gains = floats[0], floats[1], floats[2]
    moves = 0
    while True:
        _depth_first(root, parent, order, place, size, ints[5], ints[6], ints[7])
        logs[root] = 0.0
        for t in range(1, n):
            i = order[t]
            step = length[edge[i]]
            logs[i] = logs[parent[i]] + (step if above[i] else -step)
        for i in range(n):
            sums[i] = cost[i] * np.exp(logs[i])
            sizes[i] = abs(sums[i])
        for t in range(n - 1, 0, -1):
            i = order[t]
            sums[parent[i]] += sums[i]
            sizes[parent[i]] += sizes[i]
        count, best = 0, 0.0
        for t in range(1, n):
            i = order[t]
            gain = sums[i] if above[i] else -sums[i]
            if gain > _CANCELLED * sizes[i]:
                wanting[count] = i
                gains[count] = -gain
                count += 1
                best = gain if gain > best else best
        if count == 0 or moves >= most:
            return sums[root], moves
        for i in range(n):
            touched[i] = 0
        best_first = argsort(gains[:count])
        for rank in range(count):
            c = best_first[rank]
            if -gains[c] < _WORTHWHILE * best:
                break
            top = wanting[c]
            if touched[top]:
                continue
            # A subtree below its parent moves up, one above it down, until the first edge out of it is tight.
            low, high = place[top], place[top] + size[top]
            rising = not above[top]
            shift, inside, hanger = np.inf, -1, -1
            for t in range(low, high):
                i = order[t]
                for e in range(ptr[i], ptr[i + 1]):
                    j = idx[e]
                    if place[j] < low or place[j] >= high:
                        room = length[e] + (logs[j] - logs[i] if rising else logs[i] - logs[j])
                        if room < shift:
                            shift, inside, hanger = room, i, e
            for t in range(low, high):
                logs[order[t]] += shift if rising else -shift
                touched[order[t]] = 1
            _mark_ancestors(parent[top], root, parent, touched)
            _mark_ancestors(idx[hanger], root, parent, touched)
            # The subtree now hangs by `inside`: parent and child change places on the path from there to its old top.
            node, up, by, high_end = inside, np.int32(idx[hanger]), np.int32(hanger), np.int8(rising)
            while True:
                old_up, old_by, old_end = parent[node], edge[node], above[node]
                parent[node], edge[node], above[node] = up, by, high_end
                if node == top:
                    break
                up, by, high_end = np.int32(node), old_by, np.int8(1 - old_end)
                node = old_up
            moves += 1


@allocating
def cheapest_of(
    which: Ints,
    roots: Ints,
    costs: Floats,
    prices: Floats,
    parents: Ints32,
    edges: Ints32,
    aboves: Flags,
    logs: Floats,
    ptr: Ints,
    idx: Ints,
    length: Floats,
    most: int,
    least_costs: Floats,
    moves: Ints,
) -> None:
    """`cheapest` of costs[k] - prices for each k in `which`: least_costs[k] and moves[k] are filled in."""
    n = len(prices)
    floats, ints = np.empty((4, n)), np.empty((8, n), dtype=np.int32)
    cost = floats[3]
    for place in range(len(which)):
        k = which[place]
        for i in range(n):
            cost[i] = costs[k, i] - prices[i]
        least_costs[k], moves[k] = cheapest(
            roots[k], cost, parents[k], edges[k], aboves[k], logs[k], ptr, idx, length, most, floats, ints
        )


@compiled
def shortest_path_tree(
    root: int, paths: Floats, ptr: Ints, idx: Ints, length: Floats, parent: Ints32, edge: Ints32
) -> None:
    """The tree of shortest paths to the root; paths: their lengths from each node, shape (n,)."""
    for i in range(len(parent)):
        parent[i], edge[i] = root, -1
        nearest = np.inf
        if i != root:
            for e in range(ptr[i], ptr[i + 1]):
                over = paths[idx[e]] + length[e]
                if over < nearest:
                    nearest, parent[i], edge[i] = over, idx[e], e


@compiled
def raise_into_cone(logs: Floats, ptr: Ints, idx: Ints, length: Floats) -> None:
    """Raise logarithms to the least vector with logs[i] >= logs[j] - w_ij along every edge, in place."""
    n = len(logs)
    changed, upward = True, True
    while changed:
        changed = False
        for t in range(n):
            i = t if upward else n - 1 - t
            for e in range(ptr[i], ptr[i + 1]):
                least = logs[idx[e]] - length[e]
                if least > logs[i]:
                    logs[i] = least
                    changed = True
        upward = not upward
