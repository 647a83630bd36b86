"""The kinds of noise that numbers get: how each is drawn, what it costs, and how it is distributed.

Widths of intervals follow from the distributions (`duckanon.engines.noise_tails`), in floats with errors that are
stated there; draws and costs are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import asin, ceil, exp, expm1, log, pi, sqrt, tanh
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from duckanon.engines.randomness import Source

Floats = NDArray[np.float64]
# int64, or whole numbers of any size.
Ints = NDArray[Any]

# Intervals miss the true number as often as that.
MISSED = 0.05
# How far computed probabilities may be from the true ones.
ERROR = 1e-8
ALLOWED = MISSED - ERROR
# Noise of a larger scale is compared with continuous noise, since floats do not tell its steps apart.
_FINE = 2**40


@dataclass(frozen=True)
class Noise(ABC):
    """Independent noise of one symmetric log-concave distribution on the whole numbers.

    smooth_from: the least scale at which quotients of so many kinds of totals are compared with continuous noise.
    """

    smooth_from: ClassVar[Mapping[int, int]]

    def is_smooth(self, kinds: int) -> bool:
        """Whether quotients of so many kinds of totals are compared with continuous noise."""
        return self.exceeds(self.smooth_from[kinds])

    @property
    @abstractmethod
    def text(self) -> str:
        """It as text, which `parsed` reads."""

    @abstractmethod
    def times(self, factor: int) -> Noise:
        """The same noise for totals of which each is `factor` parts."""

    @abstractmethod
    def exceeds(self, scale: int) -> bool:
        """Whether its scale, or its standard deviation, is larger than that."""

    @abstractmethod
    def check(self) -> None:
        """Raises InvalidInput for noise that cannot be drawn as int64."""

    @abstractmethod
    def draw(self, shape: tuple[int, ...], source: Source, *, is_wide: bool) -> Ints:
        """Draws of `shape`: int64, or if they may leave it, as `is_wide` says, objects."""

    @property
    @abstractmethod
    def is_fine(self) -> bool:
        """Whether floats may not tell its steps apart."""

    @abstractmethod
    def deviation(self, count: int) -> float:
        """About the standard deviation of a sum of `count` noises."""

    @abstractmethod
    def wave(self, half: Floats) -> Floats:
        """The logarithm of the characteristic function, at twice these angles, from 0 to pi / 2. It falls."""

    @abstractmethod
    def faded(self, count: int) -> float:
        """Half an angle beyond which the characteristic function of a sum is below 10^-10.5; pi / 2 if none is."""

    @abstractmethod
    def reach(self, count: int) -> int:
        """A k with P(|sum of count noises| >= k) <= 1e-10, by Chernoff's bound."""

    @abstractmethod
    def chances(self, reach: int) -> Floats:
        """The probabilities of one noise from -reach to reach."""

    @abstractmethod
    def smooth(self, parts: Sequence[tuple[Fraction, int]]) -> float:
        """A w with P(|sum| > w + half of all weights) <= 5 %, from continuous noise. parts: weights, and how many."""

    @abstractmethod
    def smooth_width(self, count: int) -> float:
        """A w with P(|sum of count noises| > w) <= 5 %, as if they were continuous: proportional to the scale."""

    @abstractmethod
    def most_sql(self, weight: Fraction, totals: int, cells: str) -> str:
        """A w with P(sum > w) <= 10^-12, as SQL: of `totals` noises for each of `cells` (SQL), times `weight`."""


def parsed(text: str) -> Noise:
    """The noise of which that is the text."""
    kind, _, parameter = text.rpartition(" ")
    return Gaussian(Fraction(parameter)) if kind == "gaussian" else Laplace(Fraction(parameter))


# --- Laplace ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Laplace(Noise):
    """Discrete Laplace noise: P(v) = (1 - a) / (1 + a) a^|v|, a = exp(-1 / scale)."""

    smooth_from: ClassVar[Mapping[int, int]] = {2: 24, 3: 3}

    scale: Fraction

    @property
    def text(self) -> str:
        return str(self.scale)

    def times(self, factor: int) -> Laplace:
        return Laplace(self.scale * factor)

    def exceeds(self, scale: int) -> bool:
        return self.scale > scale

    def is_smooth(self, kinds: int) -> bool:
        return self.scale >= self.smooth_from[kinds]

    def check(self) -> None:
        from duckanon.engines.randomness import check_scale

        check_scale(self.scale)

    def draw(self, shape: tuple[int, ...], source: Source, *, is_wide: bool) -> Ints:
        from duckanon.engines.randomness import double_geometric, wide_double_geometric

        return (wide_double_geometric if is_wide else double_geometric)(self.scale, shape, source)

    def loss(self, distance: Fraction | int) -> Fraction:
        """The epsilon that it costs if one unit moves the numbers by that much, added up over all of them (L1)."""
        return distance / self.scale

    @property
    def is_fine(self) -> bool:
        return self.scale > _FINE

    def deviation(self, count: int) -> float:
        # That of one is sqrt(2 a) / (1 - a).
        a = exp(-1 / self.scale)
        return sqrt(2 * count * a) / -expm1(-1 / self.scale)

    @property
    def _curve(self) -> float:
        """The characteristic function at an angle 2 h is 1 / (1 + curve sin(h)^2)."""
        return 4 * exp(-1 / self.scale) / expm1(-1 / self.scale) ** 2

    def wave(self, half: Floats) -> Floats:
        logarithms: Floats = -np.log1p(self._curve * np.sin(half) ** 2)
        return logarithms

    def faded(self, count: int) -> float:
        curve = self._curve
        return asin(sqrt(min(1.0, (10 ** min(300.0, 10.5 / count) - 1) / curve)) if curve > 0 else 1.0)

    def reach(self, count: int) -> int:
        return _laplace_reach(self.scale, count)

    def chances(self, reach: int) -> Floats:
        a = exp(-1 / self.scale)
        chances: Floats = (1 - a) / (1 + a) * np.exp(-np.abs(np.arange(-reach, reach + 1)) / float(self.scale))
        return chances

    def smooth(self, parts: Sequence[tuple[Fraction, int]]) -> float:
        """From Laplace noise.

        Let N be discrete noise, and J uniform on (-1/2, 1/2). Then P(|N + J| > x) <= exp(-x / B) with
        1 / B = 2 tanh(1/2b): for x = k + y with a whole number k and |y| <= 1/2 it is a^k (1 - y / B), and
        a = exp(-1 / b) <= exp(-1 / B). So N + J is no more spread than Laplace noise of scale B, and sums of such are
        no more spread than sums of Laplace noise, as all these densities are symmetric and fall to both sides
        (Birnbaum 1948). A sum of several N needs one J only to be of that kind, and further ones would spread it. What
        is left out, J times the weight, is at most half the weight.
        """
        return 1 / (2 * tanh(1 / (2 * float(self.scale)))) * _laplace_width(_merged(parts))

    def smooth_width(self, count: int) -> float:
        return float(self.scale) * _laplace_width(((1.0, count),))

    def most_sql(self, weight: Fraction, totals: int, cells: str) -> str:
        """The expectation of exp(v / 2b) is at most 4/3 for each noise v of scale b, so by Chernoff's bound the sum of
        M of them is above 2b (ln 10^12 + M ln 4/3) no more often.
        """
        most_of_each = 2 * float(weight * self.scale)
        return f"{most_of_each * log(10**12)!r} + {most_of_each * totals * log(4 / 3)!r} * {cells}"


def _merged(weights: Sequence[tuple[Fraction, int]]) -> tuple[tuple[float, int], ...]:
    """Equal weights as one, in a fixed order."""
    counts: dict[float, int] = {}
    for weight, count in weights:
        if weight:
            counts[abs(float(weight))] = counts.get(abs(float(weight)), 0) + count
    return tuple(sorted(counts.items()))


@lru_cache(20_000)
def _laplace_reach(scale: Fraction, count: int) -> int:
    if count == 0:
        return 1
    if scale > _FINE:
        # By the same bound for N + J, as in `Laplace.smooth`: its scale is less than that of N.
        return 1 + ceil(_laplace_reach(Fraction(_FINE), count) * float(scale / _FINE) * (1 + 1e-6))
    b = float(scale)
    rates = np.geomspace(1e-4, 0.999, 60) / b
    a = exp(-1 / b)
    moments = 2 * log(-expm1(-1 / b)) - np.log(-np.expm1(rates - 1 / b)) - np.log1p(-a * np.exp(-rates))
    return 1 + ceil(float(np.min((count * moments + log(2e10)) / rates)))


@lru_cache(20_000)
def _laplace_width(parts: tuple[tuple[float, int], ...]) -> float:
    """A w with P(|sum| > w) <= 5 % for sums of Laplace noise of scale 1, too large by less than 1e-7 of it."""
    parts = tuple((abs(weight), count) for weight, count in parts if weight and count)
    if not parts:
        return 0.0
    if len(parts) == 1 and parts[0][1] == 1:
        return -parts[0][0] * log(ALLOWED)
    top = max(weight for weight, _ in parts)
    parts = tuple((weight / top, count) for weight, count in parts)
    deviation = sqrt(sum(2 * count * weight**2 for weight, count in parts))
    tail = _laplace_tail(parts, 3 * deviation)
    low, high = 1.9 * deviation, 2.2 * deviation
    # The tail falls like an exponential number's: its logarithm is nearly a line.
    of_low, of_high = log(tail(low) / ALLOWED), log(tail(high) / ALLOWED)
    while high - low > 1e-8 * high:
        middle = low + (high - low) * min(0.98, max(0.02, of_low / (of_low - of_high)))
        # A step beyond it, so that both ends come near.
        for candidate in (middle, middle * (1 + 4e-9), middle * (1 - 4e-9)):
            if low < candidate < high:
                excess = log(max(tail(candidate), 1e-12) / ALLOWED)
                if excess > 0:
                    low, of_low = candidate, excess
                else:
                    high, of_high = candidate, excess
    return top * high * (1 + 1e-8)


def _laplace_tail(parts: Sequence[tuple[float, int]], most: float) -> Callable[[float], float]:
    """P(|sum| > w) as a function of w up to `most`, for Laplace noise: as `noise_tails` does it, with its error."""
    rates = np.geomspace(1e-4, 0.999, 60) / max(weight for weight, _ in parts)
    moments = sum(-count * np.log1p(-((weight * rates) ** 2)) for weight, count in parts)
    size = most + float(np.min((moments + log(2e10)) / rates))

    def logarithm(angle: Floats) -> Floats:
        return -np.sum([count * np.log1p((weight * angle) ** 2) for weight, count in parts], axis=0)  # type: ignore[no-any-return]

    end = 1.0
    while logarithm(np.full(1, end))[0] > log(2e-9):
        end *= 1.25
    angles: Floats = 2 * pi / size * np.arange(1, ceil(end * size / (2 * pi)) + 1, dtype=np.float64)
    factor = np.exp(logarithm(angles)) * 4 / (size * angles)

    def tail(w: float) -> float:
        return float(1 - 2 * w / size - factor @ np.sin(w * angles))

    return tail


# --- Gaussian ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gaussian(Noise):
    """Discrete Gaussian noise: P(v) is proportional to exp(-v^2 / (2 variance))."""

    smooth_from: ClassVar[Mapping[int, int]] = {2: 34, 3: 8}

    variance: Fraction

    @property
    def text(self) -> str:
        return f"gaussian {self.variance}"

    def times(self, factor: int) -> Gaussian:
        return Gaussian(self.variance * factor**2)

    def exceeds(self, scale: int) -> bool:
        return self.variance > scale**2

    def check(self) -> None:
        from duckanon.engines.discrete_gaussian import check_variance

        check_variance(self.variance)

    def draw(self, shape: tuple[int, ...], source: Source, *, is_wide: bool) -> Ints:
        from duckanon.engines.discrete_gaussian import discrete_gaussian, wide_discrete_gaussian

        return (wide_discrete_gaussian if is_wide else discrete_gaussian)(self.variance, shape, source)

    def loss(self, squared: Fraction | int) -> Fraction:
        """The zero-concentrated rho that it costs if one unit moves the numbers by that much: the squares of all
        differences, added up (L2). Source: Canonne, Kamath and Steinke 2020, theorem 14.
        """
        return squared / (2 * self.variance)

    @property
    def _sigma(self) -> float:
        return sqrt(self.variance)

    @property
    def is_fine(self) -> bool:
        return self.exceeds(_FINE)

    def deviation(self, count: int) -> float:
        return self._sigma * sqrt(count)

    def wave(self, half: Floats) -> Floats:
        """Either the sum of P(v) cos(v t), or by Poisson's summation formula that of exp(-variance (t + 2 pi j)^2 / 2),
        divided by its value at 0: of either only few terms count, of the first for small variances.
        """
        angle, variance = 2 * half, float(self.variance)
        if variance < 1:
            v = np.arange(1, 12)
            weights = np.exp(-(v**2) / (2 * variance))
            of_zero = np.log1p(2 * weights.sum())
            logarithms: Floats = np.log1p(2 * np.cos(np.outer(angle, v)) @ weights) - of_zero
            return logarithms
        # Of the turns these are enough: two more have exp(-39) by comparison.
        terms = np.exp(-2 * pi * variance * (pi - angle)) + np.exp(-2 * pi * variance * (pi + angle))
        logarithms = np.log1p(terms) - log(1 + 2 * exp(-2 * pi**2 * variance))
        logarithms -= variance / 2 * angle**2
        return logarithms

    def faded(self, count: int) -> float:
        """At the angle t = 8 / sqrt(count variance) it is exp(-32), but for the terms of other turns, which are small
        as long as t is pi / 2 at most and the variance 1 at least.
        """
        angle = 8 / self.deviation(count)
        return angle / 2 if self.variance >= 1 and angle <= pi / 2 else pi / 2

    def reach(self, count: int) -> int:
        """Its moments are at most those of a normal distribution (Canonne, Kamath and Steinke 2020, lemma 17)."""
        return 1 + ceil(self.deviation(count) * sqrt(2 * log(2e10)) * (1 + 1e-9))

    def chances(self, reach: int) -> Floats:
        weights = np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * float(self.variance)))
        chances: Floats = weights / weights.sum()
        return chances

    def smooth(self, parts: Sequence[tuple[Fraction, int]]) -> float:
        """From a normal distribution; for variances below 1 by Chernoff's bound.

        Let N be discrete noise, J uniform on (-1/2, 1/2), and F(x) = P(|Z| > x) for normal Z of the same variance s^2.
        Z rounded to whole numbers has k with chances that, divided by those of N, grow with |k|: they are the integral
        of cosh(k y / s^2) exp(-y^2 / 2 s^2) for y from -1/2 to 1/2. So P(|N| >= m) <= F(m - 1/2): N + J is no more
        spread than Z at 0, 1/2, 3/2, ..., and between these its tail is a line, which lies above F by at most
        (x - a) (b - x) / 2 times F'' there. With c = .65 / s^2 that is at most F(x (1 - c)) - F(x) for x up to 1 / c,
        as F is convex and F''(t) = 2 t f(t) / s^2 with the density f; and for x above it x (1 - c) is x - 1 at most. So
        N + J is no more spread than a normal distribution with the standard deviation s / (1 - c), and so on as for
        Laplace noise.
        """
        sigma = self._sigma * sqrt(sum(count * float(weight) ** 2 for weight, count in parts))
        if self.variance < 1:
            return sqrt(2 * log(2 / ALLOWED)) * sigma
        return _NORMAL_WIDTH * sigma / (1 - 0.65 / float(self.variance))

    def smooth_width(self, count: int) -> float:
        return _NORMAL_WIDTH * self.deviation(count)

    def most_sql(self, weight: Fraction, totals: int, cells: str) -> str:
        """By Chernoff's bound the sum of M noises is above sqrt(2 M variance ln 10^12) no more often."""
        most_of_each = float(weight) * self._sigma * sqrt(2 * totals * log(10**12))
        return f"{most_of_each!r} * sqrt({cells})"


# P(|Z| > w) is 5 % for this w, or hardly less.
_NORMAL_WIDTH = NormalDist().inv_cdf(1 - ALLOWED / 2) * (1 + 1e-9)
