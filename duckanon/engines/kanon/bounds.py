"""A lower bound on the loss of every k-anonymous partition: the box bound.

A class that holds record i holds k - 1 others, so its box is no smaller than the smallest box around i and any k - 1
others. What that box loses is found by branch and bound over the records near i. Where the search is cut short, boxes
that it has not looked at count with the least that they could lose, so the bound holds at any size; it only gets
weaker. For large k it counts the farthest of the k - 1 nearest records alone.
"""

from collections.abc import Callable

import numpy as np

from duckanon.engines.compiled import allocating, inner_allocating
from duckanon.engines.kanon.kernels.boxtree import Tree, nearest, new_tree
from duckanon.engines.kanon.kernels.growth import begin, new_boxes, put, stretched
from duckanon.engines.kanon.orders import hilbert
from duckanon.engines.kanon.points import runs
from duckanon.engines.kanon.records import Codes, Floats, Records, Space
from duckanon.engines.parallel import spread

# Up to this k the smallest box is searched for; above, the distance of the (k - 1)-th nearest record stands for it.
_SEARCHED = 12
# Near points that are looked at for a record, and steps of its branch and bound.
_NEAR = 192
_STEPS = 4000
# Work of all records together: leaves of the tree, and steps.
_LEAVES = 60_000_000
_ALL_STEPS = 40_000_000
# Points a thread takes at a time.
_SHARE = 1024


@inner_allocating
def _greedy(space: Space, copies: Codes, i: int, k: int, near: Codes, count: int) -> float:
    """Loss of a box around point i and k - 1 other records, grown by what adds least; infinity if there are too few."""
    box = new_boxes(space, 1)
    codes = np.empty((k + 1, space.units.shape[0]), np.int32)
    begin(space, box, 0, codes, i)
    size = copies[i]
    members = 1
    chosen = np.zeros(count, np.bool_)
    loss = 0.0
    while size < k:
        least = np.inf
        best = -1
        for t in range(count):
            if not chosen[t]:
                added = stretched(space, box, 0, codes, members, near[t])
                if added < least:
                    least = added
                    best = t
        if best < 0:
            return np.inf
        chosen[best] = True
        put(space, box, 0, 0, codes, members, near[best])
        members += 1
        size += copies[near[best]]
        loss = least
    return loss


@inner_allocating
def _smallest_box(
    space: Space, copies: Codes, i: int, k: int, near: Codes, apart: Floats, count: int, best: float, steps: int
) -> float:
    """Least loss of a box around point i and k - 1 other records, all near, if it is below `best`.

    near: candidates, the nearest first; apart: their distances. Falls back on the distance of the farthest of the
    k - 1 nearest records when the steps run out.
    """
    size = copies[i]
    fallback = best
    reached = size
    for t in range(count):
        reached += copies[near[t]]
        if reached >= k:
            fallback = min(best, apart[t])
            break
    if reached < k:
        return best
    q = space.units.shape[0]
    depth = k + 1
    boxes = new_boxes(space, depth)
    codes = np.empty((depth, q), np.int32)
    lists = np.empty((depth, count), np.int32)
    counts = np.zeros(depth, np.int64)
    next_one = np.zeros(depth, np.int64)
    sizes = np.zeros(depth, np.int64)
    begin(space, boxes, 0, codes, i)
    sizes[0] = size
    for t in range(count):
        lists[0, t] = near[t]
    counts[0] = count
    level = 0
    spent = 0
    while level >= 0:
        if next_one[level] >= counts[level]:
            level -= 1
            continue
        here = lists[level, next_one[level]]
        next_one[level] += 1
        loss = stretched(space, boxes, level, codes, level + 1, here)
        spent += 1
        if loss >= best - 1e-12:
            continue
        if sizes[level] + copies[here] >= k:
            best = loss
            continue
        # Candidates after this one that still fit; enough of them must be left.
        put(space, boxes, level, level + 1, codes, level + 1, here)
        kept = 0
        left = sizes[level] + copies[here]
        for t in range(next_one[level], counts[level]):
            other = lists[level, t]
            spent += 1
            if stretched(space, boxes, level + 1, codes, level + 2, other) < best - 1e-12:
                lists[level + 1, kept] = other
                kept += 1
                left += copies[other]
        if left >= k:
            sizes[level + 1] = sizes[level] + copies[here]
            counts[level + 1] = kept
            next_one[level + 1] = 0
            level += 1
        if spent > steps:
            return min(best, fallback)
    return best


@allocating
def _least_losses(
    space: Space, tree: Tree, copies: Codes, start: int, stop: int, k: int, leaves: int, steps: int
) -> Floats:
    """The box bound of points start .. stop - 1. Shape (stop - start,)."""
    n = copies.shape[0]
    losses = np.zeros(stop - start)
    searched = k <= _SEARCHED
    room = min(_NEAR if searched else k, n)
    near = np.empty(room, np.int32)
    apart = np.empty(room)
    for i in range(start, stop):
        if copies[i] >= k:
            continue
        # Nothing is farther than a box that loses everything.
        if not searched:
            count, complete = nearest(space, tree, i, 2.0, leaves, near, apart)
            size = copies[i]
            for t in range(count):
                size += copies[near[t]]
                if size >= k:
                    complete = min(complete, apart[t])
                    break
            losses[i - start] = min(complete, 1.0)
            continue
        # Points that follow one another are near: a first box, no smaller than the smallest.
        around = 0
        for other in range(max(i - 2 * k, 0), min(i + 2 * k + 1, n)):
            if other != i and around < near.shape[0]:
                near[around] = other
                around += 1
        within = _greedy(space, copies, i, k, near, around)
        count, complete = nearest(space, tree, i, min(within + 1e-12, 2.0), leaves, near, apart)
        best = min(within, _greedy(space, copies, i, k, near, count))
        least = _smallest_box(space, copies, i, k, near, apart, count, best, steps)
        losses[i - start] = min(least, complete)
    return losses


def box_losses(
    records: Records, k: int, threads: int = 1, progress: Callable[[float], None] = lambda _: None
) -> Floats:
    """For each record a loss that it cannot stay below in any class of k or more, beside the floor. Shape (n,).

    2 <= k <= n; records in canonical order.
    """
    starts = runs(records)
    points, copies = records.take(starts[:-1], threads), np.diff(starts)
    along = hilbert(points, threads)
    points, counts = points.take(along, threads), copies[along]
    space, n = points.space, len(points)
    tree = new_tree(space)
    leaves, steps = max(_LEAVES // n, 16), min(_STEPS, max(_ALL_STEPS // n, 16))
    least = np.empty(n)
    done = 0

    def share(start: int) -> None:
        nonlocal done
        stop = min(start + _SHARE, n)
        least[along[start:stop]] = _least_losses(space, tree, counts, start, stop, k, leaves, steps)
        done += stop - start
        progress(done / n)

    spread(share, range(0, n, _SHARE), threads)
    return np.repeat(least, copies)
