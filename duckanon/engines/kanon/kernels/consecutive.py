"""The best partition of a fixed order into classes of consecutive records, by dynamic programming.

A class of 2k or more records can be split into two of k or more without raising any record's range, so sizes
k .. 2k - 1 suffice and the cost is O(n k m) for n records and m attributes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inner
from duckanon.engines.kanon.kernels.loss import range_loss, tree_loss, values_loss
from duckanon.engines.kanon.records import Codes, Floats, Order, Space
from duckanon.engines.parallel import spread

Labels = npt.NDArray[np.int32]

# Up to this k every border is tried; beyond it borders fall on a grid that keeps about this many to a class.
FINEST = 64
_NEVER = 2**31 - 1
# A longer order is solved in stretches of about this many records, side by side.
SEGMENT = 131_072
# What `sampled_loss` looks at: this many stretches of this many records, or at a glance of so many.
_STRETCHES = 8
_STRETCH, _GLANCE = 4096, 512
# Ends whose windows are looked at side by side: few enough that all of it stays in the processor's nearest memory.
ENDS = 256


class Room(NamedTuple):
    """What the dynamic program works in. A class has at least `fewest` cells and at most `most`; a cell is `grid`
    records.
    """

    # One attribute of the records before and below some ends, cell by cell: its positions, or of a categorical one
    # where the same code is next in the order; and for each record 1 if a categorical one is NULL, otherwise 0.
    lines: Floats  # (2, grid, most + ENDS)
    # The window before each end: its least and greatest position, or how many codes, and 1 if NULL is one of them.
    windows: Floats  # (2, ENDS)
    losses: Floats  # (most - fewest + 1, ENDS): what a record loses in the window of so many cells before each end
    best: Floats  # (cells + 1,): the least loss of the records of the first cells


def room_for(n: int, fewest: int, most: int, grid: int) -> Room:
    """Room for an order of n records and classes of `fewest` to `most` cells of `grid` records."""
    return Room(
        np.zeros((2, grid, most + ENDS)),
        np.empty((2, ENDS)),
        np.empty((most - fewest + 1, ENDS)),
        np.full(-(-n // grid) + 1, np.inf),
    )


# How an order is cut: by the space, the order, k and the grid, the loss of the best partition, and for each end the
# size of the class that stops there.
Cut = Callable[[Space, Order, int, int], tuple[float, Codes]]


def best_sizes(space: Space, order: Order, k: int, grid: int) -> tuple[float, Codes]:
    """As `Cut`, where a class may be any k records."""
    n = len(order)
    room = room_for(n, -(-k // grid), (2 * k + 2 * grid - 3) // grid, grid)
    size = np.zeros(n + 1, np.int32)
    _fill(space, order, following(space.symbols[order]), k, grid, room, size)
    return float(room.best[-1]), size


def following(symbols: Codes) -> Codes:
    """Where the same code is next, for each categorical attribute; shape (n, q), `_NEVER` for nowhere."""
    next_same = np.full(symbols.shape, _NEVER, np.int32)
    for j in range(symbols.shape[1]):
        by_code = np.argsort(symbols[:, j], kind="stable")
        again = symbols[by_code[1:], j] == symbols[by_code[:-1], j]
        next_same[by_code[:-1][again], j] = by_code[1:][again]
    return next_same


@compiled
def _fill(space: Space, order: Order, following: Codes, k: int, grid: int, room: Room, size: Codes) -> None:
    """The table of the dynamic program over records in the given order: for each end the size of the best last class.

    Each attribute adds its part to the losses of all windows before a share of the ends, window by window, in loops
    that work on several ends at once.
    """
    n, best = order.shape[0], room.best
    cells, most = best.shape[0] - 1, room.lines.shape[2] - ENDS
    fewest = most + 1 - room.losses.shape[0]
    best[0] = 0.0
    for first in range(fewest, cells + 1, ENDS):
        for e in range(fill_losses(space, order, following, first, room)):
            cell = first + e
            end = cell * grid if cell * grid < n else n
            for window in range(fewest, most + 1):
                count = end - (cell - window) * grid
                if window <= cell and k <= count <= 2 * k + grid - 2:
                    total = best[cell - window] + count * room.losses[window - fewest, e]
                    if total < best[cell]:
                        best[cell] = total
                        size[end] = count


@inner
def fill_losses(space: Space, order: Order, following: Codes, first: int, room: Room) -> int:
    """Fill in what a record loses in all windows before the ends from cell `first` on; how many ends."""
    cells, most = room.best.shape[0] - 1, room.lines.shape[2] - ENDS
    fewest = most + 1 - room.losses.shape[0]
    left = cells + 1 - first
    ends = left if left < ENDS else ENDS
    for window in range(room.losses.shape[0]):
        for e in range(ends):
            room.losses[window, e] = 0.0
    for axis in range(space.points.shape[1]):
        _add_range(space, order, axis, first, ends, fewest, most, room)
    for q in range(space.units.shape[0]):
        _add_set(space, order, following, q, first, ends, fewest, most, room)
    return ends


@inner
def _add_range(
    space: Space, order: Order, axis: int, first: int, ends: int, fewest: int, most: int, room: Room
) -> None:
    """Add what a measured attribute, or one with a hierarchy, loses in the windows before the ends from `first` on."""
    grid, measured, n = room.lines.shape[1], space.caps.shape[0], order.shape[0]
    low, high = room.windows[0], room.windows[1]
    for r in range(grid):
        for t in range(most + ends - 1):
            # Windows that would begin before the first record are never looked at; the last cell may be incomplete.
            i = (first - most + t) * grid + r
            i = 0 if i < 0 else i if i < n else n - 1
            room.lines[0, r, t] = space.points[order[i], axis]
    for e in range(ends):
        low[e] = np.inf
        high[e] = -np.inf
    for window in range(1, most + 1):
        for r in range(grid):
            line = room.lines[0, r, most - window :]
            for e in range(ends):
                low[e] = line[e] if line[e] < low[e] else low[e]
                high[e] = line[e] if line[e] > high[e] else high[e]
        if window < fewest:
            continue
        losses = room.losses[window - fewest]
        if axis < measured:
            cap = space.caps[axis]
            for e in range(ends):
                losses[e] += range_loss(low[e], high[e], cap)
        else:
            for e in range(ends):
                losses[e] += tree_loss(space.trees, axis - measured, low[e], high[e])


@inner
def _add_set(
    space: Space, order: Order, following: Codes, q: int, first: int, ends: int, fewest: int, most: int, room: Room
) -> None:
    """The same for a categorical attribute. A window has as many codes as records whose code comes no more in it."""
    grid, n = room.lines.shape[1], order.shape[0]
    distinct, has_null = room.windows[0], room.windows[1]
    for r in range(grid):
        for t in range(most + ends - 1):
            i = (first - most + t) * grid + r
            inside = 0 <= i < n
            room.lines[0, r, t] = following[i, q] if inside else -1
            room.lines[1, r, t] = 1.0 if inside and space.symbols[order[i], q] == space.nulls[q] else 0.0
    for e in range(ends):
        distinct[e] = 0.0
        has_null[e] = 0.0
    for window in range(1, most + 1):
        for r in range(grid):
            line, null = room.lines[0, r, most - window :], room.lines[1, r, most - window :]
            for e in range(ends):
                distinct[e] += 1.0 if line[e] >= (first + e) * grid else 0.0
                has_null[e] = null[e] if null[e] > has_null[e] else has_null[e]
        if window >= fewest:
            losses, unit, whole = room.losses[window - fewest], space.units[q], space.whole[q]
            for e in range(ends):
                losses[e] += values_loss(distinct[e], has_null[e] > 0.0, unit, whole)


def _labels(size: Codes) -> Labels:
    """The class of each position, the last class 0. size: for each end the size of the class that stops there."""
    sizes, back, end = [], size.tolist(), len(size) - 1
    while end > 0:
        sizes.append(back[end])
        end -= back[end]
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[::-1]


def _grid(k: int) -> int:
    return 1 if k <= FINEST else k // FINEST + 1


def best_consecutive(
    space: Space, order: Order, k: int, threads: int = 1, cut: Cut = best_sizes
) -> tuple[float, Labels]:
    """The partition of `order` into runs of at least k records that loses least, by `cut`.

    order: record numbers, shape (n,). Returns the loss summed over records (each between 0 and 1) and labels of shape
    (n,) by record. Exact up to `SEGMENT` records and k = `FINEST`. A longer order is cut into stretches of about
    `SEGMENT` records, each solved exactly; for a larger k borders fall on every (k // FINEST + 1)-th position, which
    keeps the cost at O(n FINEST m).
    """
    stretches = np.array_split(order, max(1, len(order) // max(SEGMENT, 4 * k)))
    solved = spread(lambda stretch: cut(space, stretch, k, _grid(k)), stretches, threads)
    labels = np.empty(len(order), dtype=np.int32)
    loss, used = 0.0, 0
    for stretch, (stretch_loss, size) in zip(stretches, solved, strict=True):
        runs = _labels(size)
        labels[stretch] = runs + used
        loss, used = loss + stretch_loss, used + int(runs[0]) + 1
    return loss, labels


def sampled_loss(space: Space, order: Order, k: int, *, glance: bool = False) -> float:
    """An estimate of `best_consecutive`'s loss from a few stretches of the order, for choosing between orders.

    A small table is solved whole. glance: whether a rough estimate will do; 0 for a small table.
    """
    n = len(order)
    stretch = max(_GLANCE if glance else _STRETCH, 4 * k)
    if n <= 2 * _STRETCHES * stretch:
        return 0.0 if glance else best_consecutive(space, order, k)[0]
    starts = np.linspace(0, n - stretch, _STRETCHES).astype(np.intp)
    return sum(best_sizes(space, order[at : at + stretch], k, _grid(k))[0] for at in starts)
