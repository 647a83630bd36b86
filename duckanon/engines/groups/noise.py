"""Facts of the double-geometric distribution, P(v) = (1 - a) / (1 + a) * a^|v| with a = exp(-1 / scale)."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np


def variance(scale: Fraction) -> float:
    """2 a / (1 - a)^2, and where the noise is next to none, not quite zero, so that it can be divided by."""
    a = exp(-1 / scale)
    return max(2 * a / (1 - a) ** 2, 1e-12)


def margin(scale: Fraction, terms: int, level: float) -> int:
    """The smallest q with P(|X| <= q) >= level, X being one draw, or (terms = 2) the difference of two.

    The difference has P(X = v) = ((1 - a) / (1 + a))^2 a^|v| (|v| + (1 + a^2) / (1 - a^2)).
    """
    a = exp(-1 / scale)
    v = np.arange(int(40 * scale) + 40, dtype=np.float64)
    p = a**v * (1 - a) / (1 + a)
    if terms == 2:
        p *= (1 - a) / (1 + a) * (v + (1 + a * a) / (1 - a * a))
    return int(np.searchsorted(2 * np.cumsum(p) - p[0], level))
