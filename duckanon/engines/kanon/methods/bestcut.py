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

from duckanon.engines.compiled import compiled, inlined, inner
from duckanon.engines.kanon.kernels.box import Box, axis_loss, clear, new_box, widen, widen_axis
from duckanon.engines.kanon.orders import lexicographic
from duckanon.engines.kanon.records import Codes, Floats, Order, Records, Space


class _Room(NamedTuple):
    """What `_split` writes to."""

    box: Box
    losses: Floats  # (2, n): of the first t + 1 records of a node, from the left and from the right
    left: npt.NDArray[np.bool_]  # (n,)
    moved: Codes  # (n,)
    stack: npt.NDArray[np.int64]  # (n // k + 2, 3): start, stop and depth of what is still to be split
    widths: Floats  # (m,): what a record of a node loses on each attribute, in the order of the space


@inlined
def _value(space: Space, i: int, axis: int) -> float:
    p = space.points.shape[1]
    return float(space.points[i, axis] if axis < p else space.symbols[i, axis - p])


@inner
def _equal(space: Space, order: Codes, at: int, step: int, most: int, axis: int) -> int:
    """How many records from `at` on have its value on an attribute by which they are sorted; `most` at most."""
    value = _value(space, order[at], axis)
    far = 1
    while far < most and _value(space, order[at + step * far], axis) == value:
        far *= 2
    low, high = far // 2, min(far, most)
    while low + 1 < high:
        middle = (low + high) // 2
        if _value(space, order[at + step * middle], axis) == value:
            low = middle
        else:
            high = middle
    return high


@compiled
def _split(space: Space, lists: Codes, axes: Codes, k: int, deep: int, room: _Room) -> None:
    """Split `lists` (m, n), the records sorted by each attribute, in place; the leaves come out left to right.

    axes: (m,), where each list's attribute stands in the space: `Records.axes`.
    """
    m, n = lists.shape
    box, losses, left, moved, stack, widths = room
    boxes = 0
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
        best = np.inf
        best_list = -1
        best_cut = 0
        whole = 0.0
        first = k
        last = count - k
        if depth > deep:
            # A long chain of thin slices would cost O(n^2): from here on halve.
            first = count // 2
            last = first
        for j in range(m):
            for side in range(2):
                boxes += 1
                clear(box)
                # As soon as the other attributes are as wide as in the whole node, only this one can widen.
                others = np.inf if j == 0 and side == 0 else whole - widths[axes[j]]
                wide = others - 1e-12
                alone = False
                # The longest part that a cut leaves; once the whole node.
                reach = last if side == 0 else count - first
                if j == 0 and side == 0:
                    reach = count
                at, step, t = (start, 1, 0) if side == 0 else (stop - 1, -1, 0)
                while t < reach:
                    i = lists[j, at + step * t]
                    if alone:
                        loss = others + widen_axis(space, i, box, boxes, axes[j])
                        equal = t + _equal(space, lists[j], at + step * t, step, reach - t, axes[j])
                        while t < equal:
                            losses[side, t] = loss
                            t += 1
                    else:
                        loss = widen(space, i, box, boxes)
                        losses[side, t] = loss
                        alone = loss >= wide and loss - axis_loss(space, box, axes[j]) >= wide
                        t += 1
                if j == 0 and side == 0:
                    whole = losses[0, count - 1]
                    best = count * whole
                    for a in range(m):
                        widths[a] = axis_loss(space, box, a)
            if whole <= 0.0:
                break
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
        new_box(space),
        np.empty((2, n)),
        np.empty(n, np.bool_),
        np.empty(n, np.int32),
        np.empty((n // k + 2, 3), np.int64),
        np.empty(m),
    )
    _split(space, lists, records.axes, k, deep, room)
    leaves: Order = lists[0]
    return leaves
