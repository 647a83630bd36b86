"""Bestcut: split the records top-down, each time at the attribute and position that leave the least loss.

A cut of a node into n1 and n2 records (each at least k) with box losses R1 and R2 costs n1 R1 + n2 R2. The leaves, left
to right, are an order of the records in which each leaf is consecutive, so `consecutive.best_consecutive` over this
order is at least as good as the leaves themselves. Each level costs O(n m^2): every attribute is sorted once and the
sorted lists are split stably, as decision trees do.
"""

import math

import numpy as np

from duckanon.engines.array_kernels import assign
from duckanon.engines.compiled import compiled, inner
from duckanon.engines.kanon.kernels.box import Box, Marks, clear, new_box, new_marks
from duckanon.engines.kanon.orders import lexicographic
from duckanon.engines.kanon.records import Codes, Floats, Order, Records, Space


@inner
def _prefix_losses(space: Space, members: Codes, box: Box, marks: Marks, token: int, losses: Floats) -> None:
    """Box loss of the first t members, for t = 1 .. len(members), into losses[t - 1]."""
    # The hot loop: `admit` and `loss_of` written out, on arrays taken out of their tuples once.
    points, caps, symbols, nulls, units, whole = space
    low, high, distinct, has_null = box
    clear(box)
    for t in range(members.shape[0]):
        i = members[t]
        loss = 0.0
        for j in range(low.shape[0]):
            v = points[i, j]
            low[j] = min(low[j], v)
            high[j] = max(high[j], v)
            loss += min(high[j] - low[j], caps[j])
        for j in range(distinct.shape[0]):
            code = symbols[i, j]
            if marks[j, code] != token:
                marks[j, code] = token
                distinct[j] += 1
                if code == nulls[j]:
                    has_null[j] = True
            if has_null[j] and distinct[j] > 1:
                loss += whole[j]
            else:
                loss += (distinct[j] - 1) * units[j]
        losses[t] = loss


@compiled
def _split(space: Space, lists: Codes, k: int, deep: int) -> Codes:
    """Split `lists` (m, n), the records sorted by each attribute, in place; the leaves come out left to right."""
    m, n = lists.shape
    box = new_box(space)
    marks = new_marks(space)
    token = 0
    forward = np.empty(n)
    backward = np.empty(n)
    left = np.zeros(n, np.bool_)
    moved = np.empty(n, np.int32)
    # What is still to be split: start, stop and depth. The left half is next, so each depth leaves one behind.
    stack = np.empty((n // k + 2, 3), np.int64)
    assign(stack[0], (0, n, 0))
    waiting = 1
    while waiting > 0:
        waiting -= 1
        start, stop, depth = stack[waiting]
        count = stop - start
        if count < 2 * k:
            continue
        best = np.inf
        best_list = -1
        best_cut = 0
        first = k
        last = count - k
        if depth > deep:
            # A long chain of thin slices would cost O(n^2): from here on halve.
            first = count // 2
            last = first
        for j in range(m):
            members = lists[j, start:stop]
            token += 1
            _prefix_losses(space, members, box, marks, token, forward)
            token += 1
            _prefix_losses(space, members[::-1], box, marks, token, backward)
            if j == 0:
                if forward[count - 1] <= 0.0:
                    break
                best = count * forward[count - 1]
            for t in range(first, last + 1):
                cost = t * forward[t - 1] + (count - t) * backward[count - t - 1]
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
                i = lists[j, t]
                if left[i]:
                    lists[j, into_left] = i
                    into_left += 1
                else:
                    moved[into_right] = i
                    into_right += 1
            for t in range(into_right):
                lists[j, into_left + t] = moved[t]
        assign(stack[waiting], (start + best_cut, stop, depth + 1))
        assign(stack[waiting + 1], (start, start + best_cut, depth + 1))
        waiting += 2
    leaves: Codes = lists[0]
    return leaves


def bestcut(records: Records, k: int) -> Order:
    """The leaves of the best-cut tree, left to right, as an order of the records. Shape (n,)."""
    n = len(records)
    lists = np.empty((len(records.attributes), n), dtype=np.int32)
    for j in range(len(records.attributes)):
        lists[j] = lexicographic(records, [j])
    deep = 2 * math.ceil(math.log2(max(n // k, 1) + 1)) + 8
    return _split(records.space, lists, k, deep)
