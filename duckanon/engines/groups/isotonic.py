"""Isotonic regression by pool-adjacent-violators: linear time, exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.compiled import compiled
from duckanon.engines.groups.hierarchy import Ints

Floats = NDArray[np.float64]


@compiled
def pool(values: Floats, weights: Floats, fitted: Floats) -> None:
    """The non-decreasing sequence nearest to `values` in weighted squares, into `fitted`.

    Rounding it to whole numbers gives the nearest non-decreasing whole numbers: a block's squared distance grows evenly
    on both sides of its mean, and rounding keeps the order of the blocks.
    """
    mean, weight, size = np.empty(len(values)), np.empty(len(values)), np.empty(len(values), np.int64)
    blocks = 0
    for i in range(len(values)):
        mean[blocks], weight[blocks], size[blocks] = values[i], weights[i], 1
        while blocks > 0 and mean[blocks - 1] >= mean[blocks]:
            both = weight[blocks - 1] + weight[blocks]
            mean[blocks - 1] += (mean[blocks] - mean[blocks - 1]) * weight[blocks] / both
            weight[blocks - 1] = both
            size[blocks - 1] += size[blocks]
            blocks -= 1
        blocks += 1
    at = 0
    for block in range(blocks):
        for _ in range(size[block]):
            fitted[at] = mean[block]
            at += 1


@compiled
def pool_rows(values: Floats, low: float, high: float) -> Floats:
    """`pool` of each row with equal weights, cut to [low, high], which keeps it the nearest there."""
    fitted = np.empty_like(values)
    weights = np.ones(values.shape[1])
    for row in range(len(values)):
        pool(values[row], weights, fitted[row])
        for i in range(values.shape[1]):
            fitted[row, i] = min(max(fitted[row, i], low), high)
    return fitted


def whole_rows(values: Ints, low: int, high: int) -> Ints:
    """The nearest non-decreasing whole numbers in [low, high], row by row."""
    return np.rint(pool_rows(values.astype(np.float64), float(low), float(high))).astype(np.int64)
