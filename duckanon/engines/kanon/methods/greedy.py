"""Greedy Search (Algorithm 2): grow each class around the next free record, always by the record that adds least loss.

O(n^2 m / 2), with ties going to the first record in variance order. A record left over at the end joins the class
where it adds least to the total; the paper's Table 7 puts it where the resulting class loses least, which is worse
(`leftovers="class"` keeps that rule for the table's test).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.kernels.box import Box, clear, new_box
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.kernels.loss import range_loss, tree_loss, values_loss
from duckanon.engines.kanon.records import Codes, Floats, Space

# Records whose losses are held at a time: they fit the nearest cache.
_BLOCK = 512

# Comparisons between two progress reports: a few tenths of a second.
_STRIDE = 200_000_000


class _Free(NamedTuple):
    """Records in no class yet, column by column: a block's loss is summed an attribute at a time, by vectors."""

    names: Codes  # (free,)
    columns: Floats  # (p + r, free)
    codes: Codes  # (q, free)
    barred: Floats  # (free,): infinite for a record that is taken, until the columns are packed again


class _Class(NamedTuple):
    """The class that grows."""

    box: Box
    extra: Floats  # (q, codes): what one more record adds to the class's loss on each attribute, by its code
    members: Codes  # (k,)
    losses: Floats  # (_BLOCK,)


def _columns(space: Space, free: Codes) -> _Free:
    points, symbols = space.points[free].T, space.symbols[free].T
    return _Free(free.copy(), np.ascontiguousarray(points), np.ascontiguousarray(symbols), np.zeros(len(free)))


def _class(space: Space, k: int) -> _Class:
    extra = np.zeros((len(space.nulls), max(space.nulls + 1, default=0)))
    for j, distinct in enumerate(space.nulls):
        extra[j, :distinct] = space.units[j]
    return _Class(new_box(space), extra, np.empty(k, np.int32), np.empty(_BLOCK))


@compiled
def _farthest(space: Space, free: _Free, head: int, last: int) -> tuple[int, int]:
    """The places of the first free record, at or behind `head`, and of the free record farthest from record `last`."""
    points, caps, symbols, nulls, units, whole, trees = space
    names, columns, codes, barred = free
    p = caps.shape[0]
    while barred[head] > 0.0:
        head += 1
    most = -1.0
    chosen = head
    for t in range(head, names.shape[0]):
        if barred[t] > 0.0:
            continue
        apart = 0.0
        for j in range(caps.shape[0]):
            width = abs(columns[j, t] - points[last, j])
            apart += width if width < caps[j] else caps[j]
        for j in range(p, columns.shape[0]):
            x = columns[j, t]
            y = points[last, j]
            apart += tree_loss(trees, j - p, x if x < y else y, y if x < y else x)
        for j in range(units.shape[0]):
            code = symbols[last, j]
            if codes[j, t] != code:
                apart += values_loss(2, code == nulls[j] or codes[j, t] == nulls[j], units[j], whole[j])
        if apart > most + 1e-12:
            most = apart
            chosen = t
    return head, chosen


@compiled
def _grow(
    space: Space,
    free: _Free,
    growing: _Class,
    head: int,
    first: int,
    label: int,
    left: int,
    stride: int,
    labels: Labels,
) -> tuple[int, int, int, int]:
    """Grow classes from the free records: one around the record at place `first`, or, if that is -1, many.

    Then each grows around the first free record, none of which lies before place `head`, until `stride` comparisons are
    spent, an eighth of the records behind `head` are taken, or fewer than k are left.

    label: the first class's. left: how many records are free.
    Returns the new `head`, the next label, how many records are free, and the comparisons spent.
    """
    caps, nulls, units, whole = space.caps, space.nulls, space.units, space.whole
    names, columns, codes, barred = free
    box, extra, members, losses = growing
    low, high, distinct, has_null = box
    p = caps.shape[0]
    r = columns.shape[0]
    q = units.shape[0]
    k = members.shape[0]
    stored = names.shape[0]
    spent = 0
    more = True
    while more:
        while barred[head] > 0.0:
            head += 1
        chosen = head if first < 0 else first
        clear(box)
        for member in range(k):
            if member > 0:
                base = 0.0
                for j in range(p):
                    base += range_loss(low[j], high[j], caps[j])
                for j in range(p, r):
                    base += tree_loss(space.trees, j - p, low[j], high[j])
                least = np.inf
                for start in range(head, stored, _BLOCK):
                    count = min(_BLOCK, stored - start)
                    for t in range(count):
                        losses[t] = barred[start + t] - base
                    for j in range(p):
                        bottom = low[j]
                        top = high[j]
                        cap = caps[j]
                        for t in range(count):
                            v = columns[j, start + t]
                            losses[t] += range_loss(v if v < bottom else bottom, v if v > top else top, cap)
                    for j in range(p, r):
                        bottom = low[j]
                        top = high[j]
                        for t in range(count):
                            v = columns[j, start + t]
                            losses[t] += tree_loss(
                                space.trees, j - p, v if v < bottom else bottom, v if v > top else top
                            )
                    for j in range(q):
                        if has_null[j] and distinct[j] > 1:
                            continue
                        if has_null[j]:
                            for t in range(count):
                                if codes[j, start + t] != nulls[j]:
                                    losses[t] += whole[j]
                        else:
                            for t in range(count):
                                losses[t] += extra[j, codes[j, start + t]]
                    smallest = np.inf
                    for t in range(count):
                        smallest = losses[t] if losses[t] < smallest else smallest
                    # Sums that differ in the last bits only are ties, and the first record wins a tie.
                    if smallest < least - 1e-12:
                        for t in range(count):
                            if losses[t] < least - 1e-12:
                                least = losses[t]
                                chosen = start + t
                    spent += count
                    if least <= 1e-12:
                        break
            for j in range(r):
                v = columns[j, chosen]
                low[j] = v if v < low[j] else low[j]
                high[j] = v if v > high[j] else high[j]
            for j in range(q):
                code = codes[j, chosen]
                if code == nulls[j]:
                    if not has_null[j]:
                        has_null[j] = True
                        distinct[j] += 1
                elif distinct[j] == 0 or extra[j, code] > 0.0:
                    extra[j, code] = 0.0
                    distinct[j] += 1
                    extra[j, nulls[j]] = whole[j] - (distinct[j] - 1) * units[j]
            barred[chosen] = np.inf
            members[member] = chosen
            labels[names[chosen]] = label
            left -= 1
        for member in range(k):
            for j in range(q):
                code = codes[j, members[member]]
                if code != nulls[j]:
                    extra[j, code] = units[j]
        label += 1
        more = first < 0 and left >= k and spent < stride and 8 * left >= 7 * (stored - head)
    return head, label, left, spent


def _place(space: Space, rest: Codes, classes: int, labels: Labels, by_class: bool) -> None:
    """Put each record of `rest` into the class where it adds least to the total (or whose loss it makes least).

    labels: -1 for the records of `rest`.
    """
    points, caps, symbols, nulls, units, whole, trees = space
    p, q = len(caps), len(units)
    members = np.argsort(labels, kind="stable")[len(rest) :]
    size = np.bincount(labels[members], minlength=classes)
    starts = np.cumsum(size) - size
    low, high = (end.reduceat(points[members], starts).T for end in (np.minimum, np.maximum))
    pairs = [np.unique(labels[members] * np.int64(nulls[j] + 1) + symbols[members, j]) for j in range(q)]
    distinct = [np.bincount(pairs[j] // (nulls[j] + 1)) for j in range(q)]
    has_null = [np.bincount(pairs[j] // (nulls[j] + 1), pairs[j] % (nulls[j] + 1) == nulls[j]) > 0 for j in range(q)]

    def loss(
        low: Floats, high: Floats, distinct: list[npt.NDArray[np.intp]], has_null: list[npt.NDArray[np.bool_]]
    ) -> Floats:
        total = np.zeros(classes)
        for j in range(p):
            total += np.minimum(high[j] - low[j], caps[j])
        for j in range(len(trees.tops)):
            first, last = low[p + j].astype(np.intp), high[p + j].astype(np.intp)
            step = trees.powers[last - first]
            total += np.where(
                first == last, 0.0, np.maximum(trees.tops[j, step, first], trees.tops[j, step, last - (1 << step)])
            )
        for j in range(q):
            total += np.where(has_null[j] & (distinct[j] > 1), whole[j], (distinct[j] - 1) * units[j])
        return total

    for i in rest:
        without = loss(low, high, distinct, has_null)
        wider = [np.ones(classes, np.int64) for _ in range(q)]
        for j in range(q):
            wider[j][labels[(symbols[:, j] == symbols[i, j]) & (labels >= 0)]] = 0
        wider = [distinct[j] + wider[j] for j in range(q)]
        null = [has_null[j] | (symbols[i, j] == nulls[j]) for j in range(q)]
        point = points[i][:, np.newaxis]
        after = loss(np.minimum(low, point), np.maximum(high, point), wider, null)
        cost = after if by_class else (size + 1) * after - size * without
        c = _first_least(cost)
        low[:, c], high[:, c] = np.minimum(low[:, c], points[i]), np.maximum(high[:, c], points[i])
        for j in range(q):
            distinct[j][c], has_null[j][c] = wider[j][c], null[j][c]
        size[c] += 1
        labels[i] = c


def _first_least(costs: Floats) -> int:
    """The first of the least costs, where those that differ in the last bits only are ties."""
    first = 0
    falls = np.flatnonzero(costs[1:] < np.minimum.accumulate(costs)[:-1]) + 1
    for c in falls:
        if costs[c] < costs[first] - 1e-12:
            first = int(c)
    return first


def greedy(
    space: Space, k: int, progress: Callable[[float], None], leftovers: str = "total", *, farthest: bool = False
) -> Labels:
    """Classes of k records each, over records in variance order. Labels of shape (n,).

    leftovers: "total" places the last n mod k records where the total grows least, "class" by the rule of Table 7.
    farthest: K-Member (Byun et al. 2007): each class after the first grows around the free record farthest from the one
    that the class before grew around, which need not be the first in variance order.
    """
    n = space.points.shape[0]
    labels = np.full(n, -1, dtype=np.int32)
    free = np.arange(n, dtype=np.int32)
    label, last = 0, -1
    growing = _class(space, k)
    while len(free) >= k:
        columns = _columns(space, free)
        head, left, spent = 0, len(free), 0
        while left >= k and spent < _STRIDE and 8 * left >= 7 * (len(free) - head):
            first = -1
            if farthest:
                first = 0
                if last >= 0:
                    head, first = _farthest(space, columns, head, last)
                    spent += len(free) - head
                last = int(columns.names[first])
            head, label, left, more = _grow(space, columns, growing, head, first, label, left, _STRIDE - spent, labels)
            spent += more
        free = columns.names[columns.barred == 0.0]
        progress(1.0 - (len(free) / n) ** 2)
    if len(free):
        _place(space, free, label, labels, leftovers == "class")
    return labels
