"""Facts of the double-geometric distribution, P(v) = (1 - a) / (1 + a) * a^|v| with a = exp(-1 / scale)."""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1

import numpy as np

from duckanon.engines.groups.tails import quantiles


def variance(scale: Fraction) -> float:
    """2 a / (1 - a)^2, and where the noise is next to none, not quite zero, so that it can be divided by."""
    a = exp(-1 / scale)
    return max(2 * a / expm1(-1 / scale) ** 2, 1e-12)


def margin(scale: Fraction, terms: int, level: float) -> int:
    """The smallest q with P(|X| <= q) >= level, X being one draw, or (terms = 2) the difference of two."""
    return int(quantiles(scale, terms, np.array([(1 - level) / 2]))[0])
