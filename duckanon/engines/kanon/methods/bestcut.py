"""Bestcut: split the records top-down, each time at the attribute and position that leave the least loss.

A cut of a node into n1 and n2 records (each at least k) with box losses R1 and R2 costs n1 R1 + n2 R2. The leaves, left
to right, are an order of the records in which each leaf is consecutive, so `consecutive.best_consecutive` over this
order is at least as good as the leaves themselves. Where classes must meet criteria, both parts of each cut must: if
the best cut of an attribute fails, all are asked, from both ends. Each level costs O(n m^2): every attribute is sorted
once and the sorted lists are split stably, as decision trees do.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inlined, inner
from duckanon.engines.kanon.criteria.consecutive import Conditions
from duckanon.engines.kanon.criteria.diversity import Tally
from duckanon.engines.kanon.criteria.privacy_criteria import (
    CriteriaArrays,
    add,
    begin,
    counted_meet,
    forget,
    no_criteria,
    tally_for,
)
from duckanon.engines.kanon.kernels.loss import range_loss, tree_loss, values_loss
from duckanon.engines.kanon.orders import lexicographic
from duckanon.engines.kanon.records import Codes, Floats, Order, Records, Space

Flags = npt.NDArray[np.bool_]


class _Room(NamedTuple):
    """What `_split` writes to."""

    losses: Floats  # (2, n): of the first t + 1 records of a node on all attributes but one, from left and from right
    left: npt.NDArray[np.bool_]  # (n,)
    moved: Codes  # (n,)
    stack: npt.NDArray[np.int64]  # (n // k + 2, 3): start, stop and depth of what is still to be split
    widths: Floats  # (m,): what a record of a node loses on each attribute, in the order of the space
    four: Codes  # (4,): the measured attributes that are looked at side by side
    met: npt.NDArray[np.int64]  # (q, codes): the last scan that met each code of each categorical attribute
    allowed: Flags  # (n,): whether the node may be cut before the record there


class Required(NamedTuple):
    """The criteria that both parts of a cut must meet."""

    criteria: CriteriaArrays
    numbers: Codes  # (n,): which of the units of the criteria each record is; (0,) if there are no criteria
    tally: Tally


@inner
def _equal(codes: Codes, order: Codes, at: int, most: int) -> int:
    """How many records from `at` on have its code of the attribute by which they are sorted; `most` at most."""
    code = codes[order[at]]
    count, jump = 1, 1
    while jump > 0:
        if count + jump <= most and codes[order[at + count + jump - 1]] == code:
            count += jump
            jump *= 2
        else:
            jump //= 2
    return count


@inner
def _reaching(space: Space, axis: int, first: int, last: int, distinct: int) -> float:
    """What a record loses on an attribute by which the class is sorted, from record `first` to record `last`."""
    p, measured = space.points.shape[1], space.caps.shape[0]
    if axis >= p:
        q = axis - p
        null = space.nulls[q]
        has_null = space.symbols[first, q] == null or space.symbols[last, q] == null
        return float(values_loss(distinct, has_null, space.units[q], space.whole[q]))
    low, high = space.points[first, axis], space.points[last, axis]
    if low > high:
        low, high = high, low
    if axis < measured:
        return float(range_loss(low, high, space.caps[axis]))
    return float(tree_loss(space.trees, axis - measured, low, high))


@inner
def _distinct(codes: Codes, order: Codes, start: int, stop: int) -> int:
    """How many codes some records have of the attribute by which they are sorted."""
    t, count = start, 0
    while t < stop:
        count += 1
        t += _equal(codes, order, t, stop - t)
    return count


@inner
def _width(space: Space, codes: Codes, order: Codes, start: int, stop: int, axis: int) -> float:
    """What a record of a node loses on an attribute by which the node is sorted."""
    distinct = _distinct(codes, order, start, stop) if axis >= space.points.shape[1] else 0
    return _reaching(space, axis, order[start], order[stop - 1], distinct)


@inlined
def _of(numbers: Floats, axis: int) -> float:
    """The number of a measured attribute; 0 for none, which is called -1."""
    return numbers[axis] if axis >= 0 else 0.0


@inner
def _widen_ranges(
    space: Space, order: Codes, at: int, step: int, least: int, reach: int, four: Codes, full: float, filled: int,
    base: float, losses: Floats,
) -> int:  # fmt: skip
    """Add the parts of up to four measured attributes to the losses, up to where all are as wide as in the node; return
    where. Side by side they take little more than one. four: their numbers; -1 for none.
    """
    points = space.points
    # (-1 reads some column, whose part is 0.)
    a, b, c, d = four[0], four[1], four[2], four[3]
    cap_a, cap_b, cap_c, cap_d = (
        _of(space.caps, four[0]),
        _of(space.caps, four[1]),
        _of(space.caps, four[2]),
        _of(space.caps, four[3]),
    )
    low_a = low_b = low_c = low_d = np.inf
    high_a = high_b = high_c = high_d = -np.inf
    for t in range(reach):
        i = order[at + step * t]
        at_a, at_b, at_c, at_d = points[i, a], points[i, b], points[i, c], points[i, d]
        low_a = at_a if at_a < low_a else low_a
        low_b = at_b if at_b < low_b else low_b
        low_c = at_c if at_c < low_c else low_c
        low_d = at_d if at_d < low_d else low_d
        high_a = at_a if at_a > high_a else high_a
        high_b = at_b if at_b > high_b else high_b
        high_c = at_c if at_c > high_c else high_c
        high_d = at_d if at_d > high_d else high_d
        if t < least - 1:
            continue
        loss = (range_loss(low_a, high_a, cap_a) + range_loss(low_b, high_b, cap_b)) + (
            range_loss(low_c, high_c, cap_c) + range_loss(low_d, high_d, cap_d)
        )
        losses[t] = (losses[t] if t < filled else base) + loss
        if loss >= full:
            return t + 1
    return reach


@inner
def _widen_tree(
    space: Space, order: Codes, at: int, step: int, reach: int, axis: int, full: float, filled: int, base: float,
    losses: Floats,
) -> int:  # fmt: skip
    """The same for an attribute with a hierarchy."""
    tree = axis - space.caps.shape[0]
    low = high = space.points[order[at], axis]
    for t in range(reach):
        v = space.points[order[at + step * t], axis]
        low = v if v < low else low
        high = v if v > high else high
        loss = tree_loss(space.trees, tree, low, high)
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
def _next_four(space: Space, axis: int, widths: Floats, other: int, four: Codes) -> int:
    """The next measured attributes, from `other` on, on which some records of a node differ, but for `axis`.

    four: their numbers are written to it, then -1. Returns where to go on.
    """
    count = 0
    while other < space.caps.shape[0] and count < 4:
        if other != axis and widths[other] > 0.0:
            four[count] = other
            count += 1
        other += 1
    for rest in range(count, 4):
        four[rest] = -1
    return other


@inner
def _prefix_losses(
    space: Space, order: Codes, at: int, step: int, least: int, reach: int, axis: int, widths: Floats, losses: Floats,
    four: Codes, met: npt.NDArray[np.int64], scan: int,
) -> tuple[int, float]:  # fmt: skip
    """The losses of the first `least` .. `reach` records of a node on all attributes but `axis`, by which it is sorted.

    Some attributes after the others, each up to where it is as wide as in the whole node. Returns how many records that
    takes, and what any more of them lose, which is not written to `losses`.
    """
    filled, base = 0, 0.0
    p, measured = space.points.shape[1], space.caps.shape[0]
    other = 0
    while other < widths.shape[0]:
        if other < measured:
            other = _next_four(space, axis, widths, other, four)
            full = 0.0
            if four[0] >= 0:
                full = (_of(widths, four[0]) + _of(widths, four[1])) + (_of(widths, four[2]) + _of(widths, four[3]))
                until = _widen_ranges(space, order, at, step, least, reach, four, full, filled, base, losses)
        else:
            full = widths[other] if other != axis else 0.0
            if full > 0.0 and other < p:
                until = _widen_tree(space, order, at, step, reach, other, full, filled, base, losses)
            elif full > 0.0:
                until = _widen_set(space, order, at, step, reach, other - p, full, filled, base, losses, met, scan)
            other += 1
        if full <= 0.0:
            continue
        for t in range(until, filled):
            losses[t] += full
        if until > filled:
            filled = until
        base += full
    return filled, base


@inner
def _best_cut(
    space: Space, codes: Codes, order: Codes, start: int, count: int, first: int, last: int, axis: int,
    losses: Floats, from_left: tuple[int, float], from_right: tuple[int, float], best: float,
    some: bool, allowed: Flags,
) -> tuple[float, int]:  # fmt: skip
    """The least that a node loses in two parts, cut after `first` to `last` records, and that cut; 0 for none below
    `best`. The node is sorted by the attribute `axis`.

    from_left, from_right: what `_prefix_losses` returns from there. Where either part is as wide as
    the node on all other attributes, a cut among records that are equal on this one is not better than one before or
    after them. some: whether only the cuts `allowed` are looked at, by where they are in the order.
    """
    filled_left, base_left = from_left
    filled_right, base_right = from_right
    cut, stop = 0, start + count
    distinct_left, distinct_right = 0, 0
    if axis >= space.points.shape[1]:
        distinct_left = _distinct(codes, order, start, start + first)
        distinct_right = _distinct(codes, order, start + first, stop)
    t = first
    while True:
        own_left = _reaching(space, axis, order[start], order[start + t - 1], distinct_left)
        own_right = _reaching(space, axis, order[start + t], order[stop - 1], distinct_right)
        loss_left = (losses[0, t - 1] if t <= filled_left else base_left) + own_left
        loss_right = (losses[1, count - t - 1] if count - t <= filled_right else base_right) + own_right
        cost = t * loss_left + (count - t) * loss_right
        # Sums that differ in the last bits only are ties, and the first cut wins a tie.
        if cost < best - 1e-12 and (not some or allowed[start + t]):
            best = cost
            cut = t
        if t >= last:
            return best, cut
        passed = 1
        most = (last if last < count - filled_right else count - filled_right) - t
        if t >= filled_left and most > 1 and not some:
            passed = _equal(codes, order, start + t, most)
        # The left part has a code more with the first of these records, the right part one less after the last.
        code = codes[order[start + t]]
        if code != codes[order[start + t - 1]]:
            distinct_left += 1
        t += passed
        if code != codes[order[start + t]]:
            distinct_right -= 1


@inner
def _meet(required: Required, order: Codes, start: int, stop: int) -> bool:
    """Whether records start .. stop - 1 of the order meet the criteria."""
    begin(required.tally)
    for t in range(start, stop):
        add(required.criteria, required.numbers[order[t]], required.tally)
    good = counted_meet(required.criteria, stop - start, required.tally)
    forget(required.criteria, required.tally)
    return bool(good)


@inner
def _both_meet(required: Required, order: Codes, start: int, middle: int, stop: int) -> bool:
    """Whether both parts of a node meet the criteria, if it is cut before record `middle` of the order."""
    return _meet(required, order, start, middle) and _meet(required, order, middle, stop)


@inner
def _allow(required: Required, order: Codes, start: int, stop: int, allowed: Flags) -> None:
    """Fill in after which records of a node it may be cut: where both parts meet the criteria."""
    begin(required.tally)
    for t in range(start, stop):
        allowed[t] = counted_meet(required.criteria, t - start, required.tally)
        add(required.criteria, required.numbers[order[t]], required.tally)
    forget(required.criteria, required.tally)
    begin(required.tally)
    for t in range(stop - 1, start - 1, -1):
        add(required.criteria, required.numbers[order[t]], required.tally)
        allowed[t] &= counted_meet(required.criteria, stop - t, required.tally)
    forget(required.criteria, required.tally)


@compiled
def _split(
    space: Space, codes: Codes, lists: Codes, axes: Codes, k: int, deep: int, required: Required, room: _Room
) -> None:
    """Split `lists` (m, n), the records sorted by each attribute, in place; the leaves come out left to right.

    codes: (m, n), of each attribute. axes: (m,), where each stands in the space: `Records.axes`.
    """
    m, n = lists.shape
    losses, left, moved, stack, widths, four, met, allowed = room
    scan, conditioned = 0, required.numbers.shape[0] > 0
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
            axis, order = axes[j], lists[j]
            from_left = _prefix_losses(space, order, start, 1, first, last, axis, widths, losses[0], four, met, scan)
            from_right = _prefix_losses(
                space, order, stop - 1, -1, count - last, count - first, axis, widths, losses[1], four, met, scan + 1
            )
            scan += 2
            for some in range(2):
                lowest, cut = _best_cut(
                    space, codes[j], order, start, count, first, last, axis, losses, from_left, from_right, best,
                    some > 0, allowed,
                )  # fmt: skip
                if some > 0 or cut == 0 or not conditioned or _both_meet(required, order, start, start + cut, stop):
                    break
                _allow(required, order, start, stop, allowed)
            if cut > 0:
                best = lowest
                best_list, best_cut = j, cut
        if best_list < 0:
            continue
        for t in range(start, stop):
            left[lists[best_list, t]] = t < start + best_cut
        # The leaves are read from the first list alone.
        for j in range(m if best_cut >= 2 * k or count - best_cut >= 2 * k else 1):
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


def bestcut(records: Records, k: int, conditions: Conditions | None = None) -> Order:
    """The leaves of the best-cut tree, left to right, as an order of the records. Shape (n,).

    conditions: what both parts of each cut must meet. (So all leaves do, if all records together do.)
    """
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
        np.empty(4, np.int32),
        np.full((len(space.units), max(space.nulls + 1, default=0)), -1, np.int64),
        np.empty(n, np.bool_),
    )
    criteria = no_criteria(k) if conditions is None else conditions.criteria
    numbers = np.empty(0, np.int32) if conditions is None else conditions.numbers
    required = Required(criteria, numbers, tally_for(criteria))
    codes = np.array([a.codes for a in records.attributes], dtype=np.int32)
    _split(space, codes, lists, records.axes, k, deep, required, room)
    leaves: Order = lists[0]
    return leaves
