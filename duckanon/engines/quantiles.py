"""Quantiles of counted values with differential privacy, by permute-and-flip.

The candidates are tried in a random order, and each is taken with the probability
exp(-price * (loss - least loss) / (2 sensitivity)). That is as private as the exponential mechanism (McSherry and
Talwar 2007), never less accurate and up to twice as accurate (McKenna and Sheldon 2020, Theorems 1 and 2); and it is
drawn exactly, with integers alone.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.randomness import Source, decays, shuffled

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
    wanted = share * int(up_to[-1])
    loss = np.maximum(of * (up_to - counts) - wanted, wanted - of * up_to)
    return np.maximum(loss, 0), max(share, of - share)


def quantile(counts: Ints, place: Fraction, price: Fraction, source: Source) -> int:
    """The value, from 0 on, that stands for a quantile; price: the epsilon for one record.

    counts: int64, how many records have each value. Returns an index of `counts`.
    """
    loss, sensitivity = losses(counts, place)
    above = loss - loss.min()
    unit = price / (2 * sensitivity)
    order = shuffled(len(counts), source)
    return next(one for one in order if decays(int(above[one]) * unit, source))
