"""The best partition of a fixed order into classes of consecutive records, by dynamic programming.

A class of 2k or more records can be split into two of k or more without raising any record's range, so sizes
k .. 2k - 1 suffice and the cost is O(n k m) for n records and m attributes.
"""

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.kernels.box import Box, clear, new_box, widen
from duckanon.engines.kanon.records import Codes, Floats, Order, Space
from duckanon.engines.parallel import spread

Labels = npt.NDArray[np.int32]

# Up to this k every border is tried; beyond it borders fall on a grid that keeps about this many to a class.
FINEST = 64
# A longer order is solved in stretches of about this many records, side by side.
SEGMENT = 131_072
# What `sampled_loss` looks at: this many stretches of this many records, or at a glance of so many.
_STRETCHES = 8
_STRETCH, _GLANCE = 4096, 512


def _best_sizes(space: Space, order: Order, k: int, grid: int) -> tuple[float, Codes]:
    """Loss of the best partition, and for each end the size of the class that stops there."""
    n = len(order)
    best, size = np.full(n + 1, np.inf), np.zeros(n + 1, np.int32)
    best[0] = 0.0
    here = space._replace(points=space.points[order], symbols=space.symbols[order])
    _fill(here, k, grid, new_box(space), best, size)
    return float(best[n]), size


@compiled
def _fill(space: Space, k: int, grid: int, box: Box, best: Floats, size: Codes) -> None:
    """The table of the dynamic program over records in the order of the space.

    best: (n + 1,), the least loss of the records up to each end, infinite so far but for the first.
    """
    n = best.shape[0] - 1
    for end in range(k, n + 1):
        if end % grid != 0 and end != n:
            continue
        clear(box)
        for i in range(end - 1, max(end - 2 * k - grid + 2, 0) - 1, -1):
            loss = widen(space, i, box, end)
            if end - i >= k and i % grid == 0:
                total = best[i] + (end - i) * loss
                if total < best[end]:
                    best[end] = total
                    size[end] = end - i


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


def sampled_loss(space: Space, order: Order, k: int, *, glance: bool = False) -> float:
    """An estimate of `best_consecutive`'s loss from a few stretches of the order, for choosing between orders.

    A small table is solved whole. glance: whether a rough estimate will do; 0 for a small table.
    """
    n = len(order)
    stretch = max(_GLANCE if glance else _STRETCH, 4 * k)
    if n <= 2 * _STRETCHES * stretch:
        return 0.0 if glance else best_consecutive(space, order, k)[0]
    starts = np.linspace(0, n - stretch, _STRETCHES).astype(np.intp)
    return sum(_best_sizes(space, order[at : at + stretch], k, _grid(k))[0] for at in starts)
