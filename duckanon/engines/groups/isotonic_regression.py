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


# Standard deviations by which the mean of a block must be above zero if it is to end the numbers that are not.
_CLEAR = 2.0


def sparse(noisy: Floats, variance: float) -> tuple[Floats, Floats]:
    """Estimates of n_s >= 0 from noisy ones, and their variances. noisy: (sizes,), all with the same `variance`.

    What stands out of the noise is kept as it is: what is above the universal threshold, which the largest of so many
    draws of Laplace noise exceeds one time in four (Donoho and Johnstone 1994 for normal noise). The others are hardly
    ever large, and mostly fewer the larger the size: they get the nearest sequence that falls (isotonic regression),
    and none from where on its blocks are not clearly above zero. No estimate is off by much more than the threshold,
    whatever the data, and none without noise.
    """
    clear = noisy > np.sqrt(variance / 2) * np.log(2 * len(noisy))
    found, doubt = np.maximum(noisy, 0.0), np.full(len(noisy), variance)
    rest = np.ascontiguousarray(noisy[~clear][::-1])
    fitted = np.empty_like(rest)
    pool(rest, np.ones(len(rest)), fitted)
    # Blocks from the largest size on: each rises over the one before.
    means, block, many = np.unique(fitted, return_inverse=True, return_counts=True)
    held = np.maximum.accumulate(means > _CLEAR * np.sqrt(variance / many))
    found[~clear] = np.where(held, np.maximum(means, 0.0), 0.0)[block][::-1]
    doubt[~clear] = (variance / many)[block][::-1]
    return found, doubt
