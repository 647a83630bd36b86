"""From the root down: each region's groups are split over its children by least squares, in whole numbers."""

from __future__ import annotations

import numpy as np

from duckanon.engines.array_kernels import argsort
from duckanon.engines.compiled import allocating
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.measurements import Estimate, Measurements


def topdown(measured: Measurements) -> Estimate:
    """TopDown as Fioretto, Van Hentenryck and Zhu 2021, section 10, describe it (after Abowd 2018).

    The root is the nearest vector of whole numbers >= 0 that adds up to G (or, where G is private, the nearest one);
    then, for each region and size, the children are the nearest whole numbers >= 0 that add up to the region's.
    """
    noisy = measured.histograms()
    upper = np.maximum(noisy[0], 0)
    if measured.total is not None:
        column = np.ascontiguousarray(noisy[0].T)
        upper = np.empty_like(column)
        split(column, np.array([[measured.total]]), np.array([0, len(column)]), upper)
        upper = np.ascontiguousarray(upper.T)
    for level, starts in enumerate(measured.hierarchy.starts):
        lower = np.empty_like(noisy[level + 1])
        split(noisy[level + 1], upper, starts, lower)
        upper = lower
    return Estimate(upper)


@allocating
def nearest(noisy: Ints, total: int, turn: int, out: Ints) -> None:
    """The whole numbers >= 0 that add up to `total` and are nearest, in squares, to the whole numbers `noisy`.

    All numbers change by the same k, cut off at zero. What is left over is given out in units of one, starting with
    number `turn`, so that no child always comes first.
    """
    order = argsort(noisy)
    # The largest set of values that all stay >= 0 if they alone are changed to add up to the total.
    k, sofar = 0, 0
    for j in range(len(noisy)):
        largest = noisy[order[-1 - j]]
        sofar += largest
        price = (total - sofar) // (j + 1)
        if j > 0 and largest + price < 0:
            break
        k = price
    left = total
    for i in range(len(noisy)):
        out[i] = max(0, noisy[i] + k)
        left -= out[i]
    i = turn % len(noisy)
    while left > 0:
        if noisy[i] + k >= 0:
            out[i] += 1
            left -= 1
        i = i + 1 if i + 1 < len(noisy) else 0


@allocating
def split(noisy: Ints, above: Ints, starts: Ints, out: Ints) -> None:
    """`nearest` for each parent and size. noisy, out: (regions, sizes); above: (parents, sizes)."""
    for p in range(len(starts) - 1):
        for s in range(noisy.shape[1]):
            nearest(noisy[starts[p] : starts[p + 1], s], above[p, s], s, out[starts[p] : starts[p + 1], s])
