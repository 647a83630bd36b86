"""Intervals from the noise alone: no model, so they hold for any data."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np

from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.measurements import Measurements

LEVEL = 0.95


def margin(scale: Fraction, terms: int, level: float = LEVEL) -> int:
    """The smallest q with P(|X| <= q) >= level, X one double-geometric draw or the difference of two.

    The difference of two has P(X = v) = ((1 - a) / (1 + a))^2 a^|v| (|v| + (1 + a^2) / (1 - a^2)), a = exp(-1 / scale).
    """
    a = exp(-1 / scale)
    reach = int(40 * scale) + 40
    v = np.arange(reach + 1, dtype=np.float64)
    p = a**v * (1 - a) / (1 + a)
    if terms == 2:
        p *= (1 - a) / (1 + a) * (v + (1 + a * a) / (1 - a * a))
    inside = 2 * np.cumsum(p) - p[0]
    return int(np.searchsorted(inside, level))


def from_noise(measured: Measurements, levels: tuple[Ints, ...]) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """95 % intervals around what was measured, cut to what is possible and widened to hold what is released."""
    low, high = [], []
    for level, (noisy, released) in enumerate(zip(measured.histograms(), levels, strict=True)):
        q = margin(measured.scales[level], measured.query.terms)
        most = np.iinfo(np.int64).max if measured.totals is None else measured.totals[level][:, None]
        low.append(np.minimum(np.clip(noisy - q, 0, most), released))
        high.append(np.maximum(np.clip(noisy + q, 0, most), released))
    return tuple(low), tuple(high)
