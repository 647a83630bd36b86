"""The class of one point that its prices exceed most: branch and bound over boxes.

A class of k to 2k - 1 records is worth the sum of their prices less what each of them loses. A node of the search is a
box that every class must cover, and the candidates that it may hold. A class that loses L holds only candidates with
which the box loses no more, so it is worth no more than the dearest k - 1 of these beside the point itself, and as
many more as are dearer than L: the greatest of that over all L bounds the node. If the class that attains it covers no
more, the node is done. Otherwise the direction in which that class stretches the box most is halved: either no record
lies beyond, or the box reaches the nearest one that does.

A search that is cut short has an upper bound too: that of the nodes it has left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from duckanon.engines.compiled import inlined, inner
from duckanon.engines.kanon.certificate.nodes import (
    Nodes,
    begin,
    box_loss,
    copy,
    measured_loss,
    new_nodes,
    stretched,
    to_tree_node,
    tree_loss,
    widen,
)
from duckanon.engines.kanon.certificate.points import LEAF, POINT_BITS, Distinct, Points, Tree, Whole, Words
from duckanon.engines.kanon.records import Codes

# Nodes from the root of a search down to any other.
_DEPTH = 200
# Nodes of the kd-tree that wait at a time.
_WAITING = 128
# No class is worth less.
_NOTHING = -(1 << 62)
_POINT = (1 << POINT_BITS) - 1
# Ways to halve a direction: upwards, downwards, or by a code.
_UP, _DOWN, _CODE = 0, 1, 2


class Classes(NamedTuple):
    """Room for classes: the points of each, and how many records of each point."""

    members: Codes  # (room, 2k - 1), -1 behind the last
    times: Codes  # (room, 2k - 1)


class Room(NamedTuple):
    """What a search works in. Its nodes are those from the root to the one at hand, and a last one for a class."""

    nodes: Nodes
    keys: Whole  # candidates of each node: what the box loses with it, times 2^POINT_BITS, plus its number
    scratch: Whole  # (points + 1,)
    start: Whole  # (depth,): where the candidates of each node start
    held: Whole  # (depth,): how many there are
    bound: Whole  # (depth,): what no class of each node is worth more than
    limit: Whole  # (depth,): no class of the node that loses as much is worth more than the best
    side: Whole  # (depth,): how each node was halved
    axis: Whole  # (depth,): along which attribute, or by a code in which word of the sets
    cut: Whole  # (depth,): at which place
    bit: Words  # (depth,): by which code
    price: Whole  # (2k,): of the dearest candidates, falling
    times: Whole  # (2k,): how many records of each
    point: Whole  # (2k,): their numbers
    waiting: Whole  # nodes of the kd-tree


def new_room(distinct_points: Distinct, k: int) -> Room:
    """Room for searches among some points."""
    n = len(distinct_points)

    def levels() -> Whole:
        return np.zeros(_DEPTH, np.int64)

    return Room(
        nodes=new_nodes(distinct_points.points, distinct_points.tree, _DEPTH + 1),
        keys=np.zeros(6 * n + (1 << 16), np.int64),
        scratch=np.zeros(n + 1, np.int64),
        start=levels(),
        held=levels(),
        bound=levels(),
        limit=levels(),
        side=levels(),
        axis=levels(),
        cut=levels(),
        bit=np.zeros(_DEPTH, np.uint64),
        price=np.zeros(2 * k, np.int64),
        times=np.zeros(2 * k, np.int64),
        point=np.zeros(2 * k, np.int64),
        waiting=np.zeros(_WAITING, np.int64),
    )


@inner
def _sort(keys: Whole, start: int, count: int, scratch: Whole) -> None:
    """Sort keys[start : start + count]: by insertion in runs of 16, then by merging runs that are not in order yet."""
    stop = start + count
    first = start
    while first < stop:
        last = min(first + 16, stop)
        for i in range(first + 1, last):
            key = keys[i]
            place = i
            while place > first and keys[place - 1] > key:
                keys[place] = keys[place - 1]
                place -= 1
            keys[place] = key
        first = last
    width = 16
    while width < count:
        left = start
        while left + width < stop:
            middle = left + width
            right = min(middle + width, stop)
            if keys[middle - 1] > keys[middle]:
                for i in range(left, middle):
                    scratch[i - left] = keys[i]
                left_at = 0
                right_at = middle
                place = left
                while left_at < width:
                    if right_at < right and keys[right_at] < scratch[left_at]:
                        keys[place] = keys[right_at]
                        right_at += 1
                    else:
                        keys[place] = scratch[left_at]
                        left_at += 1
                    place += 1
            left = right
        width *= 2


@inner
def _gather(points: Points, tree: Tree, room: Room, rank: Codes, a: int, most: int) -> tuple[int, int]:
    """Candidates of the root: points behind point a in rank with which it loses less than `most`, and its own copies.

    Returns how many there are, and how many nodes of the tree and points were looked at.
    """
    keys, waiting = room.keys, room.waiting
    count = 0
    if points.copies[a] > 1:
        keys[0] = a
        count = 1
    n = points.copies.shape[0]
    waiting[0] = 1
    left = 1
    spent = 0
    while left > 0:
        left -= 1
        v = waiting[left]
        spent += 1
        if to_tree_node(points, tree, a, v) >= most:
            continue
        if v < tree.leaves:
            waiting[left] = 2 * v
            waiting[left + 1] = 2 * v + 1
            left += 2
            continue
        first = (v - tree.leaves) * LEAF
        for t in range(first, min(first + LEAF, n)):
            if rank[t] <= rank[a]:
                continue
            spent += 1
            loss = stretched(points, room.nodes, 0, t, most)
            if loss < most:
                keys[count] = (loss << POINT_BITS) | t
                count += 1
    return count, spent


@inner
def _narrow(points: Points, room: Room, level: int) -> None:
    """Keep the candidates of a node with which its box loses less than its limit, by rising loss."""
    keys = room.keys
    start = room.start[level]
    most = room.limit[level]
    kept = start
    for s in range(start, start + room.held[level]):
        t = keys[s] & _POINT
        loss = stretched(points, room.nodes, level, t, most)
        if loss < most:
            keys[kept] = (loss << POINT_BITS) | t
            kept += 1
    room.held[level] = kept - start
    _sort(keys, start, kept - start, room.scratch)


@inner
def _admit(room: Room, length: int, total: int, most: int, price: int, copies: int, t: int) -> tuple[int, int]:
    """Put a candidate among the dearest, of which `most` records are kept: how many points and records there are."""
    prices, times, point = room.price, room.times, room.point
    copies = min(copies, most)
    place = length
    while place > 0 and prices[place - 1] < price:
        prices[place] = prices[place - 1]
        times[place] = times[place - 1]
        point[place] = point[place - 1]
        place -= 1
    prices[place] = price
    times[place] = copies
    point[place] = t
    length += 1
    total += copies
    while total - times[length - 1] >= most:
        length -= 1
        total -= times[length]
    if total > most:
        times[length - 1] -= total - most
        total = most
    return length, total


@inlined
def _worth(room: Room, length: int, need: int, loss: int) -> int:
    """What `need` of the dearest add to a class that loses so much, and more of them that are dearer than that."""
    worth = 0
    for g in range(length):
        gain = room.price[g] - loss
        if gain > 0:
            worth += room.times[g] * gain
            need -= room.times[g]
        elif need > 0:
            worth += min(room.times[g], need) * gain
            need -= room.times[g]
        else:
            break
    return worth


@inner
def _relaxed(points: Points, room: Room, prices: Whole, level: int, a: int, k: int, best: int) -> tuple[int, int, int]:
    """The bound of a node whose candidates are in order, the loss that attains it, and a loss as in `Room.limit`."""
    keys = room.keys
    s = room.start[level]
    stop = s + room.held[level]
    own = prices[a]
    length = 0
    total = 0
    most = 2 * k - 2
    bound = 1 * _NOTHING  # (a variable that starts as a constant of the module could not change)
    at = 0
    limit = 0
    while s < stop:
        loss = keys[s] >> POINT_BITS
        changed = False
        while s < stop and keys[s] >> POINT_BITS == loss:
            t = keys[s] & _POINT
            s += 1
            if total < most or prices[t] > room.price[length - 1]:
                copies = points.copies[t] - 1 if t == a else points.copies[t]
                length, total = _admit(room, length, total, most, prices[t], copies, t)
                changed = True
        if not changed or total < k - 1:
            continue
        here = own - loss + _worth(room, length, k - 1, loss)
        if here > best:
            limit = max(limit, loss + (here - best) // k + 1)
        if here > bound:
            bound = here
            at = loss
    return bound, at, limit


@inner
def _attain(
    points: Points, room: Room, prices: Whole, level: int, a: int, k: int, at: int, classes: Classes, to: int
) -> tuple[int, int]:
    """The class that attains a node's bound at the loss `at`: what it is worth, and what it loses.

    Its box becomes the last node, and its points class `to`.
    """
    nodes, keys = room.nodes, room.keys
    hull = nodes.low.shape[0] - 1
    copy(nodes, level, hull)
    length = 0
    total = 0
    most = 2 * k - 2
    start = room.start[level]
    for s in range(start, start + room.held[level]):
        if keys[s] >> POINT_BITS > at:
            break
        t = keys[s] & _POINT
        if total < most or prices[t] > room.price[length - 1]:
            copies = points.copies[t] - 1 if t == a else points.copies[t]
            length, total = _admit(room, length, total, most, prices[t], copies, t)
    need = k - 1
    chosen = 0
    while chosen < length and (need > 0 or room.price[chosen] > at):
        widen(points, nodes, hull, room.point[chosen])
        need -= room.times[chosen]
        chosen += 1
    loss = box_loss(points, nodes, hull)
    worth = prices[a] - loss
    need = k - 1
    classes.members[to, 0] = a
    classes.times[to, 0] = 1
    held = 1
    for g in range(chosen):
        times = room.times[g]
        if room.price[g] <= loss:
            times = min(times, need)
        if times <= 0:
            break
        worth += times * (room.price[g] - loss)
        need -= times
        classes.members[to, held] = room.point[g]
        classes.times[to, held] = times
        held += 1
    for g in range(held, classes.members.shape[1]):
        classes.members[to, g] = -1
    return worth, loss


@inner
def _halve(points: Points, room: Room, level: int) -> None:
    """Choose the direction in which the class at hand stretches the box of a node most, and where to cut it."""
    nodes = room.nodes
    low, high, sets, distinct, null = nodes
    hull = low.shape[0] - 1
    p = points.caps.shape[0]
    most = -1
    for j in range(low.shape[1]):
        if j < p:
            cap = points.caps[j]
            here = measured_loss(low[level, j], high[level, j], cap)
            up = measured_loss(low[level, j], high[hull, j], cap) - here
            down = measured_loss(low[hull, j], high[level, j], cap) - here
        else:
            here = tree_loss(points.tops, points.powers, j - p, low[level, j], high[level, j])
            up = tree_loss(points.tops, points.powers, j - p, low[level, j], high[hull, j]) - here
            down = tree_loss(points.tops, points.powers, j - p, low[hull, j], high[level, j]) - here
        if up > most:
            most = up
            room.side[level] = _UP
            room.axis[level] = j
            room.cut[level] = high[level, j] + (high[hull, j] - high[level, j]) // 2
        if down > most:
            most = down
            room.side[level] = _DOWN
            room.axis[level] = j
            room.cut[level] = low[level, j] - (low[level, j] - low[hull, j]) // 2
    # The class's own points say which codes it adds.
    for j in range(distinct.shape[1]):
        if distinct[hull, j] == distinct[level, j]:
            continue
        for g in range(room.price.shape[0]):
            t = room.point[g]
            word = points.words[t, j]
            bit = points.bits[t, j]
            if sets[hull, word] & bit and not sets[level, word] & bit:
                more = points.whole[j] if points.nulls[t, j] or null[level, j] else points.units[j]
                if more > most:
                    most = more
                    room.side[level] = _CODE
                    room.axis[level] = word
                    room.bit[level] = bit
                    room.cut[level] = j
                break


@inlined
def _is_beyond(points: Points, room: Room, level: int, t: int) -> bool:
    """Whether point t lies beyond the cut of a node."""
    side = room.side[level]
    axis = room.axis[level]
    if side == _UP:
        return bool(points.places[t, axis] > room.cut[level])
    if side == _DOWN:
        return bool(points.places[t, axis] < room.cut[level])
    j = room.cut[level]
    return bool(points.words[t, j] == axis and points.bits[t, j] == room.bit[level])


@inner
def _forbid(points: Points, room: Room, level: int) -> None:
    """Take from a node the candidates that lie beyond its cut."""
    keys = room.keys
    start = room.start[level]
    kept = start
    for s in range(start, start + room.held[level]):
        if not _is_beyond(points, room, level, keys[s] & _POINT):
            keys[kept] = keys[s]
            kept += 1
    room.held[level] = kept - start


@inner
def _force(points: Points, room: Room, level: int) -> None:
    """Make the node below one whose box reaches the nearest candidate beyond the cut."""
    nodes, keys = room.nodes, room.keys
    low, high, sets, distinct, null = nodes
    below = level + 1
    copy(nodes, level, below)
    start = room.start[level]
    count = room.held[level]
    room.start[below] = start + count
    room.held[below] = count
    room.limit[below] = room.limit[level]
    room.bound[below] = room.bound[level]
    side = room.side[level]
    axis = room.axis[level]
    is_reached = False
    for s in range(start, start + count):
        keys[s + count] = keys[s]
        t = keys[s] & _POINT
        if not _is_beyond(points, room, level, t):
            continue
        if side == _CODE:
            if not is_reached:
                sets[below, axis] |= room.bit[level]
                distinct[below, room.cut[level]] += 1
                null[below, room.cut[level]] |= points.nulls[t, room.cut[level]]
        elif side == _UP:
            place = points.places[t, axis]
            high[below, axis] = min(high[below, axis], place) if is_reached else place
        else:
            place = points.places[t, axis]
            low[below, axis] = max(low[below, axis], place) if is_reached else place
        is_reached = True


@inner
def search(
    points: Points,
    tree: Tree,
    room: Room,
    rank: Codes,
    prices: Whole,
    a: int,
    most: int,
    k: int,
    steps: int,
    classes: Classes,
    first: int,
    keep: int,
) -> tuple[int, int, int, int]:
    """What no class of point a and points behind it in rank is worth more than; 0 at least.

    most: no price of these points is above. steps: after how many candidates looked at the search is cut short. The
    last `keep` classes that were better than all before them are put into `classes` from `first` on, a last place
    being for trials. Returns the bound, 1 if the search was cut short or else 0, all that was looked at, and how many
    classes are there.
    """
    begin(points, room.nodes, 0, a)
    room.start[0] = 0
    room.limit[0] = most
    room.bound[0] = most * (2 * k - 1)
    room.held[0], looked = _gather(points, tree, room, rank, a, most)
    spent = 0
    better = 0
    best = 0
    trial = classes.members.shape[0] - 1
    level = 0
    short = 0
    while level >= 0:
        spent += room.held[level] + 1
        _narrow(points, room, level)
        bound, at, limit = _relaxed(points, room, prices, level, a, k, best)
        room.bound[level] = min(room.bound[level], bound)
        done = True
        if bound > best:
            room.limit[level] = min(room.limit[level], limit)
            worth, loss = _attain(points, room, prices, level, a, k, at, classes, trial)
            if worth > best:
                best = worth
                if keep > 0:
                    to = first + better % keep
                    for g in range(classes.members.shape[1]):
                        classes.members[to, g] = classes.members[trial, g]
                        classes.times[to, g] = classes.times[trial, g]
                    better += 1
            done = loss <= at or room.bound[level] <= best
        if not done:
            full = room.start[level] + 2 * room.held[level] > room.keys.shape[0]
            if spent > steps or full or level + 1 >= room.start.shape[0]:
                short = 1
                break
            _halve(points, room, level)
            _force(points, room, level)
            level += 1
            continue
        level -= 1
        if level >= 0:
            _forbid(points, room, level)
    top = best
    if short:
        for g in range(level + 1):
            top = max(top, room.bound[g])
    return top, short, spent + looked, min(better, keep)
