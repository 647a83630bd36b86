"""Greedy Search (Algorithm 2): grow each class around the next free record, always by the record that adds least loss.

O(n^2 m / 2), with ties going to the first record in variance order. A record left over at the end joins the class
where it adds least to the total; the paper's Table 7 puts it where the resulting class loses least, which is worse
(`leftovers="class"` keeps that rule for the table's test).
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.kernels.box import admit, clear, loss_of, new_box, new_marks
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Codes, Space

# Records whose losses are held at a time: they fit the nearest cache.
_BLOCK = 512

# Comparisons between two progress reports: a few tenths of a second.
_STRIDE = 200_000_000


@compiled
def _grow(
    space: Space, free: Codes, k: int, first_label: int, labels: Labels, stride: int, farthest: bool, last: int
) -> tuple[Codes, int, int]:
    """Grow classes from the records in `free` (kept in order) until `stride` comparisons are spent.

    farthest: whether each class after the first grows around the record farthest from the one before grew around,
    which is `last` (-1 for none), or around the first free record. Returns the records still free, the next label, and
    the record that the last class grew around.
    """
    points, caps, symbols, nulls, units, whole = space
    p = points.shape[1]
    q = symbols.shape[1]
    stored = free.shape[0]
    # Free records lie column by column, so that the loss of a whole block is summed one attribute at a time, in
    # vector instructions. A taken record keeps its place, at infinite cost, until the columns are packed again.
    names = free.copy()
    columns = np.empty((p, stored))
    for j in range(p):
        for t in range(stored):
            columns[j, t] = points[free[t], j]
    codes = np.empty((q, stored), np.int32)
    widest = 0
    for j in range(q):
        widest = max(widest, nulls[j] + 1)
        for t in range(stored):
            codes[j, t] = symbols[free[t], j]
    taken = np.zeros(stored)
    # What one more record adds to the class's loss on each categorical attribute, by its code.
    extra = np.zeros((q, widest))
    for j in range(q):
        for code in range(nulls[j]):
            extra[j, code] = units[j]
    box = new_box(space)
    low, high, distinct, has_null = box
    members = np.empty(k, np.int32)
    losses = np.empty(_BLOCK)
    left = stored
    head = 0
    label = first_label
    spent = 0
    while left >= k and spent < stride:
        if 8 * left < 7 * (stored - head):
            kept = 0
            for t in range(head, stored):
                if taken[t] == 0.0:
                    names[kept] = names[t]
                    for j in range(p):
                        columns[j, kept] = columns[j, t]
                    for j in range(q):
                        codes[j, kept] = codes[j, t]
                    kept += 1
            taken[:kept] = 0.0
            stored = kept
            head = 0
        while taken[head] > 0.0:
            head += 1
        clear(box)
        chosen = head
        if farthest and last >= 0:
            most = -1.0
            for t in range(head, stored):
                if taken[t] > 0.0:
                    continue
                apart = 0.0
                for j in range(p):
                    apart += min(abs(columns[j, t] - points[last, j]), caps[j])
                for j in range(q):
                    code = symbols[last, j]
                    if codes[j, t] != code:
                        apart += whole[j] if code == nulls[j] or codes[j, t] == nulls[j] else units[j]
                if apart > most + 1e-12:
                    most = apart
                    chosen = t
            spent += stored - head
        last = names[chosen]
        for member in range(k):
            if member > 0:
                base = 0.0
                for j in range(p):
                    base += min(high[j] - low[j], caps[j])
                least = np.inf
                for start in range(head, stored, _BLOCK):
                    stop = min(start + _BLOCK, stored)
                    width = stop - start
                    for t in range(width):
                        losses[t] = taken[start + t] - base
                    for j in range(p):
                        bottom = low[j]
                        top = high[j]
                        cap = caps[j]
                        for t in range(width):
                            v = columns[j, start + t]
                            reach = (v if v > top else top) - (v if v < bottom else bottom)
                            losses[t] += reach if reach < cap else cap
                    for j in range(q):
                        if has_null[j] and distinct[j] > 1:
                            continue
                        if has_null[j]:
                            for t in range(width):
                                if codes[j, start + t] != nulls[j]:
                                    losses[t] += whole[j]
                        else:
                            for t in range(width):
                                losses[t] += extra[j, codes[j, start + t]]
                    smallest = np.inf
                    for t in range(width):
                        smallest = losses[t] if losses[t] < smallest else smallest
                    # Sums that differ in the last bits only are ties, and the first record wins a tie.
                    if smallest < least - 1e-12:
                        for t in range(width):
                            if losses[t] < least - 1e-12:
                                least = losses[t]
                                chosen = start + t
                    spent += width
                    if least <= 1e-12:
                        break
            for j in range(p):
                v = columns[j, chosen]
                low[j] = min(low[j], v)
                high[j] = max(high[j], v)
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
            taken[chosen] = np.inf
            members[member] = chosen
            labels[names[chosen]] = label
            left -= 1
        for member in range(k):
            for j in range(q):
                code = codes[j, members[member]]
                if code != nulls[j]:
                    extra[j, code] = units[j]
        label += 1
    rest = np.empty(left, np.int32)
    kept = 0
    for t in range(head, stored):
        if taken[t] == 0.0:
            rest[kept] = names[t]
            kept += 1
    return rest, label, last


@compiled
def _place(
    space: Space, rest: Codes, classes: int, members: npt.NDArray[np.intp], labels: Labels, by_class: bool
) -> None:
    """Put each record of `rest` into the class where it adds least to the total (or whose loss it makes least).

    members: all records class by class, those of `rest` first.
    """
    unplaced = rest.shape[0]
    starts = np.zeros(classes + 1, np.int64)
    for t in range(unplaced, labels.shape[0]):
        starts[labels[members[t]] + 1] += 1
    starts[0] = unplaced
    for c in range(classes):
        starts[c + 1] += starts[c]
    box = new_box(space)
    marks = new_marks(space)
    token = 0
    joined = np.full(unplaced, -1, np.int64)
    for r in range(unplaced):
        least = np.inf
        for c in range(classes):
            token += 1
            clear(box)
            size = starts[c + 1] - starts[c]
            for t in range(starts[c], starts[c + 1]):
                admit(box, space, members[t], marks, token)
            for before in range(r):
                if joined[before] == c:
                    admit(box, space, rest[before], marks, token)
                    size += 1
            without = loss_of(box, space)
            admit(box, space, rest[r], marks, token)
            after = loss_of(box, space)
            cost = after if by_class else (size + 1) * after - size * without
            if cost < least - 1e-12:
                least = cost
                joined[r] = c
    for r in range(unplaced):
        labels[rest[r]] = joined[r]


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
    while len(free) >= k:
        free, label, last = _grow(space, free, k, label, labels, _STRIDE, farthest, last)
        progress(1.0 - (len(free) / n) ** 2)
    if len(free):
        _place(space, free, label, np.argsort(labels, kind="stable"), labels, leftovers == "class")
    return labels
