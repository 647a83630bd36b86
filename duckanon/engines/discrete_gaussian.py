"""Exact discrete Gaussian noise.

A candidate of discrete Laplace noise is accepted with a probability exp(-power) (Canonne, Kamath and Steinke 2020,
Algorithm 3): where a uniform number U is below that. Floats decide where their errors cannot matter, from the first 64
bits of U; where they might, which is once in 2^30 candidates or so, U and exp(-power) are compared to as many digits as
that needs (as Ducas and Nguyen 2012 do for lattices). So draws have exactly the stated distribution, and the time does
not grow with the digits of the variance.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isqrt

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.randomness import Source, coin, decays, double_geometric, uniform
from duckanon.errors import InvalidInput
from duckanon.rational_bounds import exponential_between

# The largest variance. Wider noise, added to a count, could overflow 64 bits.
_WIDEST = 1 << 110
# So many candidates are drawn at a time. Of each 100, from 46 (variances near 0) to 76 are accepted.
_BLOCK = 1 << 17
# Floats compute exp(-power) with a relative error below this, as `_powers` says.
_ERROR = 2.0**-30


def discrete_gaussian(variance: Fraction, shape: int | tuple[int, ...], source: Source) -> NDArray[np.int64]:
    """Independent draws v with P(v) proportional to exp(-v^2 / (2 variance)), exactly.

    variance: positive, any rational number up to 2^110; the variance of the draws is at most that. Returns int64 of
    `shape`. Raises InvalidInput for a variance out of range.
    """
    check_variance(variance)
    draws = np.empty(shape, dtype=np.int64)
    flat = draws.reshape(-1)
    done = 0
    while done < len(flat):
        candidates = min(_BLOCK, 8 + 4 * (len(flat) - done) // 3)
        accepted = _accepted(variance, candidates, source)[: len(flat) - done]
        flat[done : done + len(accepted)] = accepted
        done += len(accepted)
    return draws


def wide_discrete_gaussian(variance: Fraction, shape: int | tuple[int, ...], source: Source) -> NDArray[np.object_]:
    """As `discrete_gaussian`, for a variance of any size: whole numbers of any size, in an array of objects."""
    if variance <= _WIDEST:
        return discrete_gaussian(variance, shape, source).astype(object)
    draws = np.empty(shape, dtype=object)
    flat = draws.reshape(-1)
    flat[:] = [_wide(variance, source) for _ in range(len(flat))]
    return draws


def check_variance(variance: Fraction) -> None:
    """Raises InvalidInput for a variance of noise that cannot be drawn."""
    if variance <= 0:
        raise InvalidInput("The variance of noise must be positive.")
    if variance > _WIDEST:
        raise InvalidInput("The noise for this price would not fit into 64 bits: take a larger one.")


def _candidates(variance: Fraction) -> int:
    """The scale t of the discrete Laplace noise of which some draws are accepted: sigma, rounded up."""
    return isqrt(ceil(variance) - 1) + 1


def _accepted(variance: Fraction, count: int, source: Source) -> NDArray[np.int64]:
    """Those of `count` candidates that are accepted."""
    candidates = double_geometric(Fraction(_candidates(variance)), count, source)
    bits = np.frombuffer(source.octets(8 * count), dtype=np.uint64)
    accepted, rejected = _surely(bits, _powers(candidates, variance))
    for at in np.flatnonzero(~(accepted | rejected)):
        accepted[at] = _is_below(int(bits[at]), _power(int(candidates[at]), variance), source)
    return candidates[accepted]


def _surely(bits: NDArray[np.uint64], powers: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which uniform numbers are below exp(-power) whatever the errors of floats, and which are not.

    bits: the first 64 of each, so it lies between bits / 2^64 and (bits + 1) / 2^64.
    """
    chance, uniform = np.exp(-powers), bits * 2.0**-64
    return uniform + 2.0**-62 < chance * (1 - _ERROR), uniform > chance * (1 + _ERROR)


def _power(candidate: int, variance: Fraction) -> Fraction:
    """A candidate y is accepted with the probability exp(-(|y| - variance / t)^2 / (2 variance))."""
    return (abs(candidate) - variance / _candidates(variance)) ** 2 / (2 * variance)


def _powers(candidates: NDArray[np.int64], variance: Fraction) -> NDArray[np.float64]:
    """As `_power`, in floats: with an error of less than 2^-48, or of that part of it where it is above 1.

    The difference is taken of whole numbers first, so its error is at most 2^-51 of it, or 2^-51 where it is below 1;
    a variance below 1/4 has only differences that are the variance, or 3/4 and more. A power up to 745 so gives
    exp(-power) to within 2^-37 of it, and one above gives 0, or hardly more, which is far below the least U but 0.
    """
    middle = variance / _candidates(variance)
    whole = int(middle)
    away = (np.abs(candidates) - whole).astype(np.float64)
    away -= float(middle - whole)
    away *= away
    # A variance that floats have as 0 takes 0 alone, but that is for `_is_below` to say.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        away /= float(2 * variance)
    return away


def _is_below(bits: int, power: Fraction, source: Source) -> bool:
    """Whether a uniform number is below exp(-power). bits: its first 64; more are drawn as far as they are needed."""
    known = 64
    while True:
        low, high = exponential_between(-power, known // 3)
        if Fraction(bits + 1, 1 << known) <= low:
            return True
        if Fraction(bits, 1 << known) >= high:
            return False
        bits = bits << 64 | int.from_bytes(source.octets(8), "big")
        known += 64


def _wide(variance: Fraction, source: Source) -> int:
    """One draw with integers of any size: slow, for variances whose draws may not fit 64 bits."""
    t = _candidates(variance)
    while True:
        size = uniform(t, source)
        if not coin(size, t, source):
            continue
        while coin(1, 1, source):
            size += t
        negative = uniform(2, source) == 1
        if not (negative and size == 0) and decays(_power(size, variance), source):
            return -size if negative else size
