"""The double-geometric (discrete Laplace) distribution: its variance, and the tails of a draw and of differences.

Tails are never taken to be smaller than they are.

X has P(v) = (1 - a) / (1 + a) a^|v| with a = exp(-1 / scale), as `randomness.double_geometric` draws it.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1

import numpy as np

from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats

# If the chances 1 - a of two scales are nearer to each other than that both get the larger scale. X is symmetric and
# unimodal, so this makes tails larger (Birnbaum 1948), not smaller.
_NEAR = 1.01


def beyond(scales: tuple[Fraction, ...], v: Ints) -> Floats:
    """P(X > v), v >= 0, X one draw or the difference of two.

    P(X >= k) = a^k / (1 + a) for k > 0. The difference of two of one scale has
    P(X = v) = ((1 - a) / (1 + a))^2 a^|v| (|v| + c) with c = (1 + a^2) / (1 - a^2), so
    P(X >= k) = a^k ((k + c) (1 - a) + a) / (1 + a)^2. With b of the other, b < a, it is, by partial fractions,
    P(X >= k) = (a^(k+1) (1 - b)^2 / (1 + a) - b^(k+1) (1 - a)^2 / (1 + b)) / ((a - b) (1 - a b)).
    """
    wide, narrow, k = max(scales), min(scales), v + 1.0
    a, rest = exp(-1 / wide), -expm1(-1 / wide)
    power = np.exp(-k / float(wide))
    if len(scales) == 1:
        return np.asarray(power / (1 + a))
    b, other = exp(-1 / narrow), -expm1(-1 / narrow)
    if other < _NEAR * rest:
        return np.asarray(power * (k * rest + (1 + a * a) / (1 + a) + a) / (1 + a) ** 2)
    # 1 - a and 1 - b have small relative errors, and are not near to each other, so differences lose nothing.
    both = power * a * other**2 / (1 + a) - np.exp(-(k + 1) / float(narrow)) * rest**2 / (1 + b)
    return np.asarray(both / ((other - rest) * (rest + other - rest * other)))


def variance(scale: Fraction) -> float:
    """2 a / (1 - a)^2, but at least 1e-12, so that it can be divided by."""
    a = exp(-1 / scale)
    return max(2 * a / expm1(-1 / scale) ** 2, 1e-12)
