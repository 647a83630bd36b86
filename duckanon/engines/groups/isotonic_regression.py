"""Isotonic regression by pool-adjacent-violators: linear time, exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.compiled import compiled
from duckanon.engines.groups.hierarchy import Ints

Floats = NDArray[np.float64]


def pool(values: Floats, weights: Floats) -> Floats:
    """The non-decreasing sequence nearest to each row of `values` in weighted squares. All: (rows, length).

    Rounding it to whole numbers gives the nearest non-decreasing whole numbers: a block's squared distance grows evenly
    on both sides of its mean, and rounding keeps the order of the blocks.
    """
    fitted = np.empty(values.shape)
    _pool(
        np.ascontiguousarray(values),
        np.ascontiguousarray(weights),
        fitted,
        np.empty((2, values.shape[1])),
        np.empty(values.shape[1], dtype=np.int64),
    )
    return fitted


@compiled
def _pool(values: Floats, weights: Floats, fitted: Floats, spare: Floats, size: Ints) -> None:
    """Blocks of each row: means in spare[0], weights in spare[1], lengths in size."""
    for row in range(len(values)):
        blocks = 0
        for i in range(values.shape[1]):
            mean, weight, length = values[row, i], weights[row, i], 1
            while blocks > 0 and spare[0, blocks - 1] >= mean:
                blocks -= 1
                both = spare[1, blocks] + weight
                mean = spare[0, blocks] + (mean - spare[0, blocks]) * weight / both
                weight = both
                length += size[blocks]
            spare[0, blocks], spare[1, blocks], size[blocks] = mean, weight, length
            blocks += 1
        at = 0
        for block in range(blocks):
            for _ in range(size[block]):
                fitted[row, at] = spare[0, block]
                at += 1


def pool_rows(values: Floats, low: float, high: float, weights: Floats | None = None) -> Floats:
    """`pool`, cut to [low, high], which keeps it the nearest there. weights: of a row's values; None: equal ones."""
    every = np.ones(values.shape) if weights is None else np.broadcast_to(weights, values.shape)
    return np.clip(pool(values, every), low, high)


def whole_rows(values: Ints, low: int, high: int) -> Ints:
    """The nearest non-decreasing whole numbers in [low, high], row by row."""
    return np.rint(pool_rows(values.astype(np.float64), float(low), float(high))).astype(np.int64)


# By how many standard deviations the mean of a block must be above zero to count as clearly above zero.
_CLEAR = 2.0


def sparse(noisy: Floats, variance: float) -> tuple[Floats, Floats]:
    """Estimates of n_s >= 0 from noisy ones, and their variances. noisy: (sizes,), all with the same `variance`.

    Numbers above the universal threshold are kept as they are; the largest of so many draws of Laplace noise exceeds
    it one time in four (Donoho and Johnstone 1994, for normal noise). The other true numbers are rarely large, and
    mostly decrease with the size, so they are replaced by the nearest decreasing sequence (isotonic regression), and
    by zero after its last block that is clearly above zero. Whatever the data, no estimate is off by much more than
    the threshold; without noise none is off.
    """
    clear = noisy > np.sqrt(variance / 2) * np.log(2 * len(noisy))
    estimates, variances = np.maximum(noisy, 0.0), np.full(len(noisy), variance)
    rest = np.ascontiguousarray(noisy[~clear][::-1])
    fitted = pool(rest[None, :], np.ones((1, len(rest))))[0]
    # Blocks in the order from the largest size to the smallest, so their means increase.
    means, block, lengths = np.unique(fitted, return_inverse=True, return_counts=True)
    held = np.maximum.accumulate(means > _CLEAR * np.sqrt(variance / lengths))
    estimates[~clear] = np.where(held, np.maximum(means, 0.0), 0.0)[block][::-1]
    variances[~clear] = (variance / lengths)[block][::-1]
    return estimates, variances
