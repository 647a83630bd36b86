"""The discrete Gaussian distribution: its variance, and the tails of a draw, of differences and of means.

Tails are never taken to be smaller than they are.

X has P(v) proportional to exp(-v^2 / (2 variance)), as `duckanon.engines.discrete_gaussian` draws it. Up to a standard
deviation of `_EXACT` its tails are sums. Wider noise is compared with normal noise: let J be uniform on (-1/2, 1/2),
then X + J is no more spread than normal noise with the standard deviation s / (1 - .65 / s^2), for s from 1 on
(`duckanon.engines.noise.Gaussian.smooth` has the proof). Both densities are symmetric and fall to both sides, so the
same holds for sums (Birnbaum 1948). Without J a draw is at most 1/2 higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, pi, sqrt
from statistics import NormalDist

import numpy as np

from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats
from duckanon.engines.noise import Gaussian

_EXACT = 256
# Rounding errors of sums of probabilities are less.
_ERROR = 1e-13


def is_wide(variance: Fraction) -> bool:
    """Whether noise is compared with normal noise."""
    return variance > _EXACT**2


def variance(parameter: Fraction) -> float:
    """The variance of a draw, which is hardly less than the parameter unless that is small; at least 1e-12."""
    if parameter > 9:
        return float(parameter)
    v = np.arange(1, 64)
    weights = np.exp(-(v**2) / (2 * float(parameter)))
    return max(float(2 * (weights * v**2).sum() / (1 + 2 * weights.sum())), 1e-12)


def beyond(variances: tuple[Fraction, ...], v: Ints) -> Floats:
    """P(X > v), X one draw or the difference of two; for v < 0 no more than that it is at most 1."""
    if is_wide(max(variances)):
        middle = (v + 1 - len(variances) / 2) / _spread([(variance, 1.0) for variance in variances])
        return _normal_tail(middle.astype(np.float64))
    tails = _tails(variances)
    chances: Floats = np.where(v < len(tails), tails[np.clip(v, 0, len(tails) - 1)], _ERROR)
    chances[v < 0] = 1.0
    return chances


@lru_cache(maxsize=64)
def _tails(variances: tuple[Fraction, ...]) -> Floats:
    """P(X > v) for v from 0 to nine standard deviations, by the characteristic function; the rest is below _ERROR."""
    half = ceil(9 * sqrt(sum(variances))) + 2
    length = 1 << (4 * half).bit_length()
    angles = pi * np.arange(length // 2 + 1) / length
    waves = sum((Gaussian(variance).wave(angles) for variance in variances), np.zeros(len(angles)))
    chances = np.maximum(np.fft.irfft(np.exp(waves), length)[1 : length // 2], 0.0)
    tails: Floats = np.cumsum(chances[::-1])[::-1][:half] + _ERROR
    return tails


def wide_reach(variance: Fraction, draws: int, others: int, chance: float) -> float:
    """A q with P(N > q) <= chance, N = (mean of so many draws) - (mean of so many others, if any) of wide noise."""
    means = [(variance, 1 / count) for count in (draws, others) if count]
    return NormalDist().inv_cdf(1 - chance) * _spread(means) * (1 + 1e-9) + len(means) / 2


def _spread(parts: Sequence[tuple[Fraction, float]]) -> float:
    """The standard deviation of normal noise that sums of such draws, with so much of each variance, do not exceed.

    A narrow draw beside wide ones counts as one of variance 4, which is more spread.
    """
    total = 0.0
    for parameter, part in parts:
        known = max(float(parameter), 4.0)
        total += part * known / (1 - 0.65 / known) ** 2
    return sqrt(total)


def _normal_tail(x: Floats) -> Floats:
    from scipy.special import ndtr

    tail: Floats = ndtr(-x)
    return tail * (1 + 1e-12)
