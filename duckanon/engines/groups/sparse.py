"""Noisy numbers of groups, most of which are next to none, without the noise that adds up over all of them."""

from __future__ import annotations

import numpy as np

from duckanon.engines.groups.isotonic import Floats, pool

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
