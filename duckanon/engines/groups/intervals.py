"""Intervals from the noise alone: no model, so they hold for any data."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.measurements import Measurements
from duckanon.engines.groups.noise import margin, variance

LEVEL = 0.95


def from_noise(measured: Measurements, levels: tuple[Ints, ...]) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """95 % intervals around what was measured, cut to what is possible and widened to hold what is released."""
    low, high = [], []
    for level, (noisy, released) in enumerate(zip(measured.histograms(), levels, strict=True)):
        q = margin(measured.scales[level], measured.query.terms, LEVEL)
        most = np.iinfo(np.int64).max if measured.totals is None else measured.totals[level][:, None]
        low.append(np.minimum(np.clip(noisy - q, 0, most), released))
        high.append(np.maximum(np.clip(noisy + q, 0, most), released))
    return tuple(low), tuple(high)


def tail(above: Ints, scale: Fraction) -> Ints:
    """Upper bounds of t_s from noisy ones: t only falls, so but for noise the mean of a run that ends at s is above.

    Runs of 16, 64, 256, ... values, three standard deviations each. above: (regions, values). Without a run of 16 there
    is no bound: 2^62.
    """
    bound = np.full(above.shape, np.inf)
    sums = np.cumsum(above, axis=1, dtype=np.float64)
    run = 16
    while run <= above.shape[1]:
        means = (sums[:, run - 1 :] - np.column_stack([np.zeros(len(above)), sums[:, :-run]])) / run
        reach = 3 * np.sqrt(variance(scale) / run)
        bound[:, run - 1 :] = np.minimum(bound[:, run - 1 :], np.maximum(means, 0) + reach)
        run *= 4
    found: Ints = np.ceil(np.minimum(bound, 2.0**62)).astype(np.int64)
    return found
