"""What a release of group sizes may cost, and the noise that parts of it pay for.

Pure: an epsilon, by discrete Laplace noise. Concentrated: a zero-concentrated rho (Bun and Steinke 2016), by discrete
Gaussian noise (Canonne, Kamath and Steinke 2020). Either adds up over levels. The standard deviation of the noise is
proportional to 1 / epsilon, or to 1 / sqrt(rho), so the parts that are best differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import ClassVar

import numpy as np

from duckanon.engines.groups.isotonic_regression import Floats
from duckanon.engines.groups.queries import Privacy, Query
from duckanon.engines.noise import Gaussian, Laplace, Noise

# Digits of shares that are roots.
_DIGITS = 12


@dataclass(frozen=True)
class Loss(ABC):
    """total: of all levels. look: the part of it that pays for a look at the root (`split`)."""

    total: Fraction

    name: ClassVar[str]
    look: ClassVar[Fraction]

    @abstractmethod
    def moved(self, query: Query, privacy: Privacy, regions: int, sizes: int) -> float:
        """How far one privacy unit moves a level of the query, in the norm that the noise goes by."""

    @abstractmethod
    def noise(self, query: Query, privacy: Privacy, regions: int, sizes: int, part: Fraction) -> Noise:
        """The noise on a level of so many regions, for a part of the total."""

    @abstractmethod
    def rate(self, query: Query, privacy: Privacy, sizes: int, depth: int) -> float:
        """One divided by the scale of Laplace noise for all of epsilon.

        Gaussian noise: of Laplace noise with the same variance, both divided equally over so many levels.
        """

    @abstractmethod
    def shares(self, shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """Shares of the total for levels which, of an epsilon, had best those shares; they add up to one."""

    @abstractmethod
    def wider(self, less: Floats) -> Floats:
        """How many times wider noise gets that has so many times less of the total."""


class Pure(Loss):
    """epsilon-differential privacy: the L1 sensitivity divided by epsilon is the scale of the noise."""

    name = "epsilon"
    look = Fraction(1, 50)

    def moved(self, query: Query, privacy: Privacy, regions: int, sizes: int) -> float:
        return query.distance(privacy, regions, sizes)

    def noise(self, query: Query, privacy: Privacy, regions: int, sizes: int, part: Fraction) -> Noise:
        return Laplace(query.distance(privacy, regions, sizes) / part)

    def rate(self, query: Query, privacy: Privacy, sizes: int, depth: int) -> float:  # noqa: ARG002 # the other needs it
        return float(self.total / query.distance(privacy, 1, sizes))

    def shares(self, shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
        return tuple(shares)

    def wider(self, less: Floats) -> Floats:
        return less


class Concentrated(Loss):
    """rho-zero-concentrated differential privacy: the squared L2 sensitivity divided by 2 rho is the noise's variance.

    Shares: let a level's error be a times the noise's variance. Of an epsilon the sum of a / epsilon^2 is least with
    shares proportional to a^(1/3), of a rho that of a / rho with shares proportional to a^(1/2): the former to the
    power 3/2. `look` is 1/50 to that power, of levels that would have a third of epsilon.
    """

    name = "rho"
    look = Fraction(1, 200)

    def moved(self, query: Query, privacy: Privacy, regions: int, sizes: int) -> float:
        return sqrt(query.squares(privacy, regions, sizes))

    def noise(self, query: Query, privacy: Privacy, regions: int, sizes: int, part: Fraction) -> Noise:
        return Gaussian(query.squares(privacy, regions, sizes) / (2 * part))

    def rate(self, query: Query, privacy: Privacy, sizes: int, depth: int) -> float:
        # With L levels: Laplace noise of scale L b has variance 2 (L b)^2, Gaussian noise L squares / (2 rho).
        return 2 * sqrt(depth * self.total / query.squares(privacy, 1, sizes))

    def shares(self, shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
        powers = [Fraction(isqrt(int(share**3 * 10 ** (2 * _DIGITS))), 10**_DIGITS) for share in shares]
        return tuple(power / sum(powers) for power in powers)

    def wider(self, less: Floats) -> Floats:
        factors: Floats = np.sqrt(less)
        return factors
