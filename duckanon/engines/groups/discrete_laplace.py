"""The double-geometric (discrete Laplace) distribution: its variance, and the tails of draws, differences and means.

Tails are never taken to be smaller than they are.

X has P(v) = (1 - a) / (1 + a) a^|v| with a = exp(-1 / scale), as `randomness.double_geometric` draws it.
The noise of one number is a single draw or the difference of two, which may have different scales: a tuple of scales.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1

import numpy as np

from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats

# Means are taken over so many values; 0 stands for a value that is known.
WINDOWS = (0, 1, 4, 16, 64, 256)
# A bound on the rounding error of probabilities here.
_SLACK = 1e-9
# If the chances 1 - a of two scales are nearer to each other than that both get the larger scale. X is symmetric and
# unimodal, so this makes tails larger (Birnbaum 1948), not smaller.
_NEAR = 1.01
Noise = tuple[Fraction, ...]
# Noise of a larger scale is approximated on a lattice of several units.
_LATTICE = 256


def beyond(noise: Noise, v: Ints) -> Floats:
    """P(X > v), v >= 0, X one draw or the difference of two.

    P(X >= k) = a^k / (1 + a) for k > 0. The difference of two of one scale has
    P(X = v) = ((1 - a) / (1 + a))^2 a^|v| (|v| + c) with c = (1 + a^2) / (1 - a^2), so
    P(X >= k) = a^k ((k + c) (1 - a) + a) / (1 + a)^2. With b of the other, b < a, it is, by partial fractions,
    P(X >= k) = (a^(k+1) (1 - b)^2 / (1 + a) - b^(k+1) (1 - a)^2 / (1 + b)) / ((a - b) (1 - a b)).
    """
    wide, narrow, k = max(noise), min(noise), v + 1.0
    a, rest = exp(-1 / wide), -expm1(-1 / wide)
    power = np.exp(-k / float(wide))
    if len(noise) == 1:
        return np.asarray(power / (1 + a))
    b, other = exp(-1 / narrow), -expm1(-1 / narrow)
    if other < _NEAR * rest:
        return np.asarray(power * (k * rest + (1 + a * a) / (1 + a) + a) / (1 + a) ** 2)
    # 1 - a and 1 - b have small relative errors, and are not near to each other, so differences lose nothing.
    both = power * a * other**2 / (1 + a) - np.exp(-(k + 1) / float(narrow)) * rest**2 / (1 + b)
    return np.asarray(both / ((other - rest) * (rest + other - rest * other)))


def quantiles(noise: Noise, chances: Floats) -> Ints:
    """For each chance p < 1/2 the smallest v >= 0 with P(X > v) <= p, X as in `beyond`."""
    allowed = chances * (1 - _SLACK)
    low, high = np.full(len(chances), -1), np.full(len(chances), 1)
    while (beyond(noise, high) > allowed).any():
        high *= 2
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = beyond(noise, middle) <= allowed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


@lru_cache(maxsize=1024)
def reach(scale: Fraction, many: int, other: int, chance: float) -> float:
    """A q with P(N > q) <= chance, N = (mean of so many draws) - (mean of so many other draws), each as in WINDOWS.

    q is exact up to 1/500 of the scale, upward. Wide noise: a geometric draw of scale b is floor(b E), E exponential,
    so with c = ceil(b / _LATTICE) a draw of scale b lies in c G .. c G + c - 1, G geometric of scale b / c. So
    X <= c X' + c - 1 and X >= c X' - (c - 1), X' of scale b / c: its means stand for those of X, c - 1 wider a side.
    """
    if many < other:
        # X is symmetric, so either may come first.
        return reach(scale, other, many, chance)
    if many == 0:
        return 0.0
    unit = ceil(scale / _LATTICE)
    narrow = float(scale) / unit
    sides = 1 if other == 0 else 2
    q = _difference(_sum(narrow, many), many, _sum(narrow, other) if other else None, other, narrow, chance)
    return unit * q + sides * (unit - 1)


@lru_cache(maxsize=16)
def _sum(scale: float, many: int) -> Floats:
    """P(S = v) for v in -h..h, S the sum of so many draws, by its characteristic function (Fourier).

    What lies outside, and what wraps around, is less than 1e-12: h is 8 standard deviations and 40 scales.
    """
    a = exp(-1 / scale)
    half = ceil(8 * scale * (2 * many) ** 0.5 + 40 * scale) + 1
    length = 1 << (2 * half).bit_length()
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    logs = 2 * np.log1p(-a) - np.log1p(a * a - 2 * a * np.cos(angles))
    chances = np.maximum(np.fft.irfft(np.exp(many * logs), length), 0.0)
    return np.concatenate([chances[-half:], chances[: half + 1]])


def _difference(one: Floats, many: int, two: Floats | None, other: int, scale: float, chance: float) -> float:
    """A q >= 0 with P(A / many - B / other > q) <= chance, A and B with these chances, centred; B may be missing.

    q goes up in steps of 1 / many, the lattice of the difference (other divides many), or of scale / 512 if wider.
    """
    step = max(1, int(many * scale / 512))
    # P(B < v) for v from the lowest on, B's middle in the middle.
    below = np.array([0.0, 1.0]) if two is None else np.concatenate([[0.0], np.cumsum(two)])
    low, high = -1, 1
    while _beyond(one, below, many, other, high * step) > chance - _SLACK:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _beyond(one, below, many, other, middle * step) > chance - _SLACK:
            low = middle
        else:
            high = middle
    return high * step / many


def _beyond(one: Floats, below: Floats, many: int, other: int, q: int) -> float:
    """P(A - many / other B > q), or P(A > q) with other = 0: for each a, the chance that B < (a - q) other / many."""
    a = np.arange(len(one)) - len(one) // 2
    if other == 0:
        chances = one[a > q]
    else:
        # B is whole: less than x is less than x rounded up.
        least = -((q - a) * other // many)
        chances = one * below[np.clip(least + (len(below) - 1) // 2, 0, len(below) - 1)]
    return float(np.cumsum(chances)[-1]) if len(chances) else 0.0


def variance(scale: Fraction) -> float:
    """2 a / (1 - a)^2, but at least 1e-12, so that it can be divided by."""
    a = exp(-1 / scale)
    return max(2 * a / expm1(-1 / scale) ** 2, 1e-12)


def margin(noise: Noise, level: float) -> int:
    """The smallest q with P(|X| <= q) >= level, X being one draw, or the difference of two."""
    return int(quantiles(noise, np.array([(1 - level) / 2]))[0])
