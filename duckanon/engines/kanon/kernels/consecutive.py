"""The best partition of a fixed order into classes of consecutive records, by dynamic programming.

A class of 2k or more records can be split into two of k or more without raising any record's range, so sizes
k .. 2k - 1 suffice and the cost is O(n k m) for n records and m attributes.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.kernels.box import Box, clear, new_box
from duckanon.engines.kanon.records import Codes, Floats, Order, Space
from duckanon.engines.parallel import spread

Labels = npt.NDArray[np.int32]

# Up to this k every border is tried; beyond it borders fall on a grid that keeps about this many to a class.
FINEST = 64
# A longer order is solved in stretches of about this many records, side by side.
SEGMENT = 131_072
# What `sampled_loss` looks at: this many stretches of this many records.
_STRETCHES = 8
_STRETCH = 4096


def _next_occurrence(space: Space, order: Order) -> Codes:
    """For each position of the order the next one with the same code, n if there is none. Shape (n, q)."""
    n, q = len(order), len(space.nulls)
    following = np.empty((n, q), np.int32)
    last = np.full((q, max(space.nulls + 1, default=0)), n, np.int32)
    _walk_back(space.symbols, order, last, following)
    return following


@compiled
def _walk_back(symbols: Codes, order: Order, last: Codes, following: Codes) -> None:
    """Fill in `following`. last: (q, codes), where each code was met last; n as long as it was not."""
    for i in range(order.shape[0] - 1, -1, -1):
        for j in range(last.shape[0]):
            code = symbols[order[i], j]
            following[i, j] = last[j, code]
            last[j, code] = i


class _Window(NamedTuple):
    """Records in the order's sequence: a chunk of them, after the last ones of the chunk before."""

    near: Floats  # (reach + chunk, p): points
    codes: Codes  # (reach + chunk, q)
    reach: int
    chunk: int


def _best_sizes(space: Space, order: Order, k: int, grid: int) -> tuple[float, Codes]:
    """Loss of the best partition, and for each end the size of the class that stops there."""
    n = len(order)
    best, size = np.full(n + 1, np.inf), np.zeros(n + 1, np.int32)
    best[0] = 0.0
    reach = min(n, 2 * k + grid - 2)
    chunk = max(4096, 4 * reach)
    rows = reach + min(chunk, n)
    window = _Window(np.empty((rows, len(space.caps))), np.empty((rows, len(space.nulls)), np.int32), reach, chunk)
    _fill(space, order, k, grid, _next_occurrence(space, order), new_box(space), window, best, size)
    return float(best[n]), size


@compiled
def _fill(
    space: Space,
    order: Order,
    k: int,
    grid: int,
    following: Codes,
    box: Box,
    window: _Window,
    best: Floats,
    size: Codes,
) -> None:
    """The table of the dynamic program. best: (n + 1,), the least loss of the records up to each end, infinite so far
    but for the first.
    """
    points, caps, symbols, nulls, units, whole = space
    low, high, distinct, has_null = box
    near, codes, reach, chunk = window
    n = order.shape[0]
    p = points.shape[1]
    q = symbols.shape[1]
    for start in range(0, n, chunk):
        stop = min(start + chunk, n)
        if start > 0:
            for r in range(reach):
                for j in range(p):
                    near[r, j] = near[chunk + r, j]
                for j in range(q):
                    codes[r, j] = codes[chunk + r, j]
        for i in range(start, stop):
            for j in range(p):
                near[reach + i - start, j] = points[order[i], j]
            for j in range(q):
                codes[reach + i - start, j] = symbols[order[i], j]
        for end in range(max(start + 1, k), stop + 1):
            if end % grid and end != n:
                continue
            clear(box)
            for s in range(1, min(end, reach) + 1):
                i = end - s
                row = reach + i - start
                loss = 0.0
                for j in range(p):
                    v = near[row, j]
                    low[j] = min(low[j], v)
                    high[j] = max(high[j], v)
                    loss += min(high[j] - low[j], caps[j])
                for j in range(q):
                    # Walking backwards, a value is new to the window if its next occurrence lies beyond the end.
                    if following[i, j] >= end:
                        distinct[j] += 1
                    if codes[row, j] == nulls[j]:
                        has_null[j] = True
                    if has_null[j] and distinct[j] > 1:
                        loss += whole[j]
                    else:
                        loss += (distinct[j] - 1) * units[j]
                if s >= k and i % grid == 0:
                    total = best[i] + s * loss
                    if total < best[end]:
                        best[end] = total
                        size[end] = s


def _labels(size: Codes) -> Labels:
    """The class of each position, the last class 0. size: for each end the size of the class that stops there."""
    sizes, back, end = [], size.tolist(), len(size) - 1
    while end > 0:
        sizes.append(back[end])
        end -= back[end]
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[::-1]


def _grid(k: int) -> int:
    return 1 if k <= FINEST else k // FINEST + 1


def best_consecutive(space: Space, order: Order, k: int, threads: int = 1) -> tuple[float, Labels]:
    """The partition of `order` into runs of at least k records that loses least.

    order: record numbers, shape (n,). Returns the loss summed over records (each between 0 and 1) and labels of shape
    (n,) by record. Exact up to `SEGMENT` records and k = `FINEST`. A longer order is cut into stretches of about
    `SEGMENT` records, each solved exactly; for a larger k borders fall on every (k // FINEST + 1)-th position, which
    keeps the cost at O(n FINEST m).
    """
    stretches = np.array_split(order, max(1, len(order) // max(SEGMENT, 4 * k)))
    found = spread(lambda stretch: _best_sizes(space, stretch, k, _grid(k)), stretches, threads)
    labels = np.empty(len(order), dtype=np.int32)
    loss, used = 0.0, 0
    for stretch, (stretch_loss, size) in zip(stretches, found, strict=True):
        runs = _labels(size)
        labels[stretch] = runs + used
        loss, used = loss + stretch_loss, used + int(runs[0]) + 1
    return loss, labels


def sampled_loss(space: Space, order: Order, k: int) -> float:
    """An estimate of `best_consecutive`'s loss from a few stretches of the order, for choosing between orders."""
    n = len(order)
    stretch = max(_STRETCH, 4 * k)
    if n <= 2 * _STRETCHES * stretch:
        return best_consecutive(space, order, k)[0]
    starts = np.linspace(0, n - stretch, _STRETCHES).astype(np.intp)
    return sum(_best_sizes(space, order[at : at + stretch], k, _grid(k))[0] for at in starts)
