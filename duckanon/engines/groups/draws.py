"""The noise on one number: its variance, and the tails of draws, of differences and of means.

Tails are never taken to be smaller than they are. The noise of one number is a single draw or the difference of two,
which may have different scales: a tuple. All draws are of one kind, discrete Laplace or discrete Gaussian noise.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, pi, sqrt

import numpy as np

from duckanon.engines.groups import discrete_gaussian, discrete_laplace
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats
from duckanon.engines.noise import Gaussian, Laplace, Noise

Draws = tuple[Noise, ...]
# Means are taken over so many values; 0 stands for a value that is known.
WINDOWS = (0, 1, 4, 16, 64, 256)
# A bound on the rounding error of probabilities here.
_SLACK = 1e-9
# Laplace noise of a larger scale is approximated on a lattice of several units.
_LATTICE = 256


def size(noise: Noise) -> float:
    """The scale of Laplace noise; the standard deviation of Gaussian noise, for variances above 1/10."""
    return float(noise.scale) if isinstance(noise, Laplace) else sqrt(_variance_of(noise))


def variance(noise: Noise) -> float:
    """At least 1e-12, so that it can be divided by."""
    if isinstance(noise, Laplace):
        return discrete_laplace.variance(noise.scale)
    return discrete_gaussian.variance(_variance_of(noise))


def beyond(draws: Draws, v: Ints) -> Floats:
    """P(X > v), v >= 0, X one draw or the difference of two."""
    if isinstance(draws[0], Laplace):
        return discrete_laplace.beyond(tuple(draw.scale for draw in draws if isinstance(draw, Laplace)), v)
    return discrete_gaussian.beyond(tuple(map(_variance_of, draws)), v)


def _variance_of(noise: Noise) -> Fraction:
    """The parameter of Gaussian noise."""
    assert isinstance(noise, Gaussian)
    return noise.variance


def quantiles(draws: Draws, chances: Floats) -> Ints:
    """For each chance p < 1/2 the smallest v >= 0 with P(X > v) <= p, X as in `beyond`."""
    allowed = chances * (1 - _SLACK)
    low, high = np.full(len(chances), -1), np.full(len(chances), 1)
    while (beyond(draws, high) > allowed).any():
        high *= 2
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = beyond(draws, middle) <= allowed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


@lru_cache(maxsize=1024)
def reach(noise: Noise, draws: int, others: int, chance: float) -> float:
    """A q with P(N > q) <= chance, N = (mean of so many draws) - (mean of so many other draws), each as in WINDOWS.

    q is exact up to 1/500 of the scale, upward. Wide Laplace noise: a geometric draw of scale b is floor(b E), E
    exponential, so with c = ceil(b / _LATTICE) a draw of scale b lies in c G .. c G + c - 1, G geometric of scale
    b / c. So X <= c X' + c - 1 and X >= c X' - (c - 1), X' of scale b / c: its means stand for those of X, c - 1 wider
    a side. Wide Gaussian noise: `discrete_gaussian.wide_reach`.
    """
    if draws < others:
        # X is symmetric, so either may come first.
        return reach(noise, others, draws, chance)
    if draws == 0:
        return 0.0
    if isinstance(noise, Gaussian):
        if discrete_gaussian.is_wide(noise.variance):
            return discrete_gaussian.wide_reach(noise.variance, draws, others, chance)
        return _difference(noise, draws, others, chance)
    assert isinstance(noise, Laplace)
    unit = ceil(noise.scale / _LATTICE)
    sides = 1 if others == 0 else 2
    return unit * _difference(Laplace(noise.scale / unit), draws, others, chance) + sides * (unit - 1)


@lru_cache(maxsize=16)
def _sum(noise: Noise, draws: int) -> Floats:
    """P(S = v) for v in -h..h, S the sum of so many draws, by its characteristic function (Fourier).

    What lies outside, and what wraps around, is less than 1e-12: h is 8 standard deviations and 40 scales.
    """
    deviations = sqrt(2 * draws) if isinstance(noise, Laplace) else sqrt(draws)
    half = ceil(8 * size(noise) * deviations + 40 * size(noise)) + 1
    length = 1 << (2 * half).bit_length()
    waves = noise.wave(pi * np.arange(length // 2 + 1) / length)
    chances = np.maximum(np.fft.irfft(np.exp(draws * waves), length), 0.0)
    return np.concatenate([chances[-half:], chances[: half + 1]])


def _difference(noise: Noise, draws: int, others: int, chance: float) -> float:
    """A q >= 0 with P(A / draws - B / others > q) <= chance, A and B sums of so many draws; of none, B is missing.

    q goes up in steps of 1 / draws, the lattice of the difference (others divides draws), or of scale / 512 if wider.
    """
    first, second = _sum(noise, draws), _sum(noise, others) if others else None
    step = max(1, int(draws * size(noise) / 512))
    # P(B < v) for v from the lowest on, B's middle in the middle.
    below = np.array([0.0, 1.0]) if second is None else np.concatenate([[0.0], np.cumsum(second)])
    low, high = -1, 1
    while _beyond(first, below, draws, others, high * step) > chance - _SLACK:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _beyond(first, below, draws, others, middle * step) > chance - _SLACK:
            low = middle
        else:
            high = middle
    return high * step / draws


def _beyond(first: Floats, below: Floats, draws: int, others: int, q: int) -> float:
    """P(A - draws / others B > q), or P(A > q) without others: for each a, P(B < (a - q) others / draws)."""
    a = np.arange(len(first)) - len(first) // 2
    if others == 0:
        chances = first[a > q]
    else:
        # B is whole: less than x is less than x rounded up.
        least = -((q - a) * others // draws)
        chances = first * below[np.clip(least + (len(below) - 1) // 2, 0, len(below) - 1)]
    return float(np.cumsum(chances)[-1]) if len(chances) else 0.0


def margin(draws: Draws, level: float) -> int:
    """The smallest q with P(|X| <= q) >= level, X being one draw, or the difference of two."""
    return int(quantiles(draws, np.array([(1 - level) / 2]))[0])
