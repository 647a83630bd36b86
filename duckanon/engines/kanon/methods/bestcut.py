"""Bestcut: split the records top-down, each time at the attribute and position that leave the least loss.

A cut of a node into n1 and n2 records (each at least k) with box losses R1 and R2 costs n1 R1 + n2 R2. The leaves, left
to right, are an order of the records in which each leaf is consecutive, so `consecutive.best_consecutive` over this
order is at least as good as the leaves themselves. Each level costs O(n m^2): every attribute is sorted once and the
sorted lists are split stably, as decision trees do.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inner
from duckanon.engines.kanon.kernels.loss import range_loss, tree_loss, values_loss
from duckanon.engines.kanon.orders import lexicographic
from duckanon.engines.kanon.records import Codes, Floats, Order, Records, Space


class _Room(NamedTuple):
    """What `_split` writes to."""

    losses: Floats  # (2, n): of the first t + 1 records of a node, from the left and from the right
    left: npt.NDArray[np.bool_]  # (n,)
    moved: Codes  # (n,)
    stack: npt.NDArray[np.int64]  # (n // k + 2, 3): start, stop and depth of what is still to be split
    widths: Floats  # (m,): what a record of a node loses on each attribute, in the order of the space
    met: npt.NDArray[np.int64]  # (q, codes): the last scan that met each code of each categorical attribute


@inner
def _equal(codes: Codes, order: Codes, at: int, step: int, most: int) -> int:
    """How many records from `at` on have its code of the attribute by which they are sorted; `most` at most."""
    code = codes[order[at]]
    found, jump = 1, 1
    while jump > 0:
        if found + jump <= most and codes[order[at + step * (found + jump - 1)]] == code:
            found += jump
            jump *= 2
        else:
            jump //= 2
    return found


@inner
def _reaching(space: Space, axis: int, one: int, other: int, distinct: int) -> float:
    """What a record loses on an attribute by which the class is sorted, from record `one` to record `other`."""
    p, measured = space.points.shape[1], space.caps.shape[0]
    if axis >= p:
        q = axis - p
        null = space.nulls[q]
        has_null = space.symbols[one, q] == null or space.symbols[other, q] == null
        return float(values_loss(distinct, has_null, space.units[q], space.whole[q]))
    low, high = space.points[one, axis], space.points[other, axis]
    if low > high:
        low, high = high, low
    if axis < measured:
        return float(range_loss(low, high, space.caps[axis]))
    return float(tree_loss(space.trees, axis - measured, low, high))


@inner
def _width(space: Space, codes: Codes, order: Codes, start: int, stop: int, axis: int) -> float:
    """What a record of a node loses on an attribute by which the node is sorted."""
    distinct = 1
    if axis >= space.points.shape[1]:
        t = start + _equal(codes, order, start, 1, stop - start)
        while t < stop:
            distinct += 1
            t += _equal(codes, order, t, 1, stop - t)
    return _reaching(space, axis, order[start], order[stop - 1], distinct)


@inner
def _widen_range(
    space: Space, order: Codes, at: int, step: int, reach: int, axis: int, full: float, filled: int, base: float,
    losses: Floats,
) -> int:  # fmt: skip
    """Add the part of a measured attribute, or one with a hierarchy, to the losses, up to where it is as wide as in the
    node; returns where.
    """
    measured = space.caps.shape[0]
    low = high = space.points[order[at], axis]
    for t in range(reach):
        v = space.points[order[at + step * t], axis]
        low = v if v < low else low
        high = v if v > high else high
        if axis < measured:
            loss = range_loss(low, high, space.caps[axis])
        else:
            loss = tree_loss(space.trees, axis - measured, low, high)
        losses[t] = (losses[t] if t < filled else base) + loss
        if loss >= full:
            return t + 1
    return reach


@inner
def _widen_set(
    space: Space, order: Codes, at: int, step: int, reach: int, q: int, full: float, filled: int, base: float,
    losses: Floats, met: npt.NDArray[np.int64], scan: int,
) -> int:  # fmt: skip
    """The same for a categorical attribute. scan: a number of this scan alone."""
    distinct, has_null, loss = 0, False, 0.0
    for t in range(reach):
        code = space.symbols[order[at + step * t], q]
        if met[q, code] != scan:
            met[q, code] = scan
            distinct += 1
            has_null |= code == space.nulls[q]
            loss = values_loss(distinct, has_null, space.units[q], space.whole[q])
        losses[t] = (losses[t] if t < filled else base) + loss
        if loss >= full:
            return t + 1
    return reach


@inner
def _prefix_losses(
    space: Space, codes: Codes, order: Codes, at: int, step: int, reach: int, axis: int, widths: Floats,
    losses: Floats, met: npt.NDArray[np.int64], scan: int,
) -> None:  # fmt: skip
    """The losses of the first 1, 2 .. `reach` records of a node that is sorted by the attribute `axis`.

    One attribute after the other, each up to where it is as wide as in the whole node: all others are from `filled` on,
    where they lose `base` together.
    """
    filled, base = 0, 0.0
    p = space.points.shape[1]
    for other in range(widths.shape[0]):
        full = widths[other]
        if other == axis or full <= 0.0:
            continue
        if other < p:
            until = _widen_range(space, order, at, step, reach, other, full, filled, base, losses)
        else:
            until = _widen_set(space, order, at, step, reach, other - p, full, filled, base, losses, met, scan)
        for t in range(until, filled):
            losses[t] += full
        if until > filled:
            filled = until
        base += full
    t, distinct = 0, 0
    while t < reach:
        distinct += 1
        own = _reaching(space, axis, order[at], order[at + step * t], distinct)
        end = t + _equal(codes, order, at + step * t, step, reach - t)
        while t < end:
            losses[t] = (losses[t] if t < filled else base) + own
            t += 1


@compiled
def _split(space: Space, codes: Codes, lists: Codes, axes: Codes, k: int, deep: int, room: _Room) -> None:
    """Split `lists` (m, n), the records sorted by each attribute, in place; the leaves come out left to right.

    codes: (m, n), of each attribute. axes: (m,), where each stands in the space: `Records.axes`.
    """
    m, n = lists.shape
    losses, left, moved, stack, widths, met = room
    scan = 0
    # The left half is next, so each depth leaves one behind.
    stack[0, 0] = 0
    stack[0, 1] = n
    stack[0, 2] = 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        start = stack[waiting, 0]
        stop = stack[waiting, 1]
        depth = stack[waiting, 2]
        count = stop - start
        if count < 2 * k:
            continue
        whole = 0.0
        for j in range(m):
            widths[axes[j]] = _width(space, codes[j], lists[j], start, stop, axes[j])
            whole += widths[axes[j]]
        if whole <= 0.0:
            continue
        best = count * whole
        best_list = -1
        best_cut = 0
        first = k
        last = count - k
        if depth > deep:
            # A long chain of thin slices would cost O(n^2): from here on halve.
            first = count // 2
            last = first
        in_order = False
        for j in range(m):
            if widths[axes[j]] <= 0.0:
                # The lists of attributes that are alike in the whole node are the same: records by their numbers.
                if in_order:
                    continue
                in_order = True
            _prefix_losses(space, codes[j], lists[j], start, 1, last, axes[j], widths, losses[0], met, scan)
            _prefix_losses(
                space, codes[j], lists[j], stop - 1, -1, count - first, axes[j], widths, losses[1], met, scan + 1
            )
            scan += 2
            for t in range(first, last + 1):
                cost = t * losses[0, t - 1] + (count - t) * losses[1, count - t - 1]
                # Sums that differ in the last bits only are ties, and the first cut wins a tie.
                if cost < best - 1e-12:
                    best = cost
                    best_list = j
                    best_cut = t
        if best_list < 0:
            continue
        for t in range(start, stop):
            left[lists[best_list, t]] = t < start + best_cut
        for j in range(m):
            into_left = start
            into_right = 0
            for t in range(start, stop):
                # Written to both sides, kept on one: a branch would be guessed wrong half of the time.
                i = lists[j, t]
                goes_left = left[i]
                lists[j, into_left] = i
                moved[into_right] = i
                into_left += goes_left
                into_right += 1 - goes_left
            for t in range(into_right):
                lists[j, into_left + t] = moved[t]
        stack[waiting, 0] = start + best_cut
        stack[waiting, 1] = stop
        stack[waiting, 2] = depth + 1
        stack[waiting + 1, 0] = start
        stack[waiting + 1, 1] = start + best_cut
        stack[waiting + 1, 2] = depth + 1
        waiting += 2


def bestcut(records: Records, k: int) -> Order:
    """The leaves of the best-cut tree, left to right, as an order of the records. Shape (n,)."""
    n, m = len(records), len(records.attributes)
    lists = np.empty((m, n), dtype=np.int32)
    for j in range(m):
        lists[j] = lexicographic(records, [j])
    deep = 2 * math.ceil(math.log2(max(n // k, 1) + 1)) + 8
    space = records.space
    room = _Room(
        np.empty((2, n)),
        np.empty(n, np.bool_),
        np.empty(n, np.int32),
        np.empty((n // k + 2, 3), np.int64),
        np.empty(m),
        np.full((len(space.units), max(space.nulls + 1, default=0)), -1, np.int64),
    )
    codes = np.array([a.codes for a in records.attributes], dtype=np.int32)
    _split(space, codes, lists, records.axes, k, deep, room)
    leaves: Order = lists[0]
    return leaves
