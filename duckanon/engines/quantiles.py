"""Quantiles of counted values with differential privacy, by permute-and-flip or by the exponential mechanism.

Both take a candidate with the probability exp(-price * (loss - least loss) / (2 sensitivity)), and are drawn exactly,
with integers alone. Permute-and-flip tries the candidates in a random order. It is as private as the exponential
mechanism (McSherry and Talwar 2007), never less accurate and up to twice as accurate (McKenna and Sheldon 2020,
Theorems 1 and 2). The exponential mechanism tries a random one each time, until it takes one. Where privacy loss is
counted as zero-concentrated rho it costs a quarter of the other's: `Exponential`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.randomness import Source, decays, shuffled, uniform

Ints = NDArray[np.int64]
# The largest denominator of a position: ranks are multiplied by it.
FINEST = 1000


def losses(counts: Ints, place: Fraction) -> tuple[Ints, int]:
    """How far each value is from being the quantile, and by how much one more record changes that at most.

    counts: of the values 0, 1, ... place: the quantile's position, from 0 to 1. The loss of a value is the denominator
    of `place` times the number of records that would have to move for it to be the quantile. Raises ValueError for a
    place with a denominator above FINEST.
    """
    share, of = place.numerator, place.denominator
    if of > FINEST:
        raise ValueError("The place of a quantile is too fine: ranks times its denominator could overflow.")
    up_to = np.cumsum(counts)
    target = share * int(up_to[-1])
    loss = np.maximum(of * (up_to - counts) - target, target - of * up_to)
    return np.maximum(loss, 0), max(share, of - share)


@dataclass(frozen=True)
class PermuteAndFlip:
    """price: the epsilon for one record."""

    price: Fraction

    def choose(self, counts: Ints, place: Fraction, source: Source) -> int:
        """The value, from 0 on, that stands for a quantile. counts: int64, how many records have each value."""
        above, unit = _exponents(counts, place, self.price)
        return next(
            candidate for candidate in shuffled(len(counts), source) if decays(int(above[candidate]) * unit, source)
        )


@dataclass(frozen=True)
class Exponential:
    """price: the range of one record, and an epsilon for it, too.

    A value's logarithmic probability is -price loss / (2 sensitivity), less a number that is the same for all values.
    One more record changes each loss by at most the sensitivity, up or down, so it changes the first part by
    price / 2 at most: any two values' logarithmic probabilities by numbers that are within `price` of each other. A
    mechanism of such a range has the zero-concentrated rho price^2 / 8 (Cesar and Rogers 2021; bounded
    range: Dong, Durfee and Rogers 2020), and ranges of several records add up. For permute-and-flip that is not so.
    """

    price: Fraction

    def choose(self, counts: Ints, place: Fraction, source: Source) -> int:
        """As `PermuteAndFlip.choose`."""
        above, unit = _exponents(counts, place, self.price)
        while True:
            candidate = uniform(len(counts), source)
            if decays(int(above[candidate]) * unit, source):
                return candidate


Choice = PermuteAndFlip | Exponential


def _exponents(counts: Ints, place: Fraction, price: Fraction) -> tuple[Ints, Fraction]:
    """How far each value's loss is above the least one, and by what that is multiplied in the exponent."""
    loss, sensitivity = losses(counts, place)
    return loss - loss.min(), price / (2 * sensitivity)
