"""Two-sided tests of a number with noise on it, and their inversion to intervals: short near the expected number.

For each whole number d that might be true, less what was expected, the test accepts the noisy value, less the same, in
d - lo(d) .. d + hi(d), with P(-lo <= X <= hi) >= 95 %. How the 5 % are split between the two sides depends on d and on
what was expected, never on the noise, so {d : accepted} contains the truth with probability 95 %, whatever the data.
Source: Pratt 1961; Yu and Hoff 2018, for a normal prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from duckanon.engines.groups.draws import Draws, beyond, quantiles, size
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats
from duckanon.engines.noise import Laplace, Noise

# The chance that an interval holds the truth.
LEVEL = 0.95
# Variances of the prior, in squared scales; where it is wider still both sides get the same.
VARIANCES = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
_SPLITS = np.concatenate(
    [[0.002, 0.005, 0.01, 0.02, 0.04], np.linspace(0.07, 0.93, 25), [0.96, 0.98, 0.99, 0.995, 0.998]]
)
_EVEN = len(_SPLITS) // 2
# Bins of d a scale, and how many scales from what was expected the splits go on being chosen.
_FINE, _FAR = 16, 14


@dataclass(frozen=True, eq=False)
class Table:
    """What `ends` needs of one noise.

    scale: the root mean square of its draws'. width: of a bin, in whole numbers. even: how far the even split goes on
    either side. For each variance of the prior, VARIANCES or wider: half, half the expected length; lo, hi: of each
    bin of d, from `start` bins below what was expected on; first, last: for each bin of the noisy value the first and
    the last bin of d with something accepted, 0 being the bin of what was expected.
    """

    scale: float
    width: int
    start: int
    even: tuple[int, int]
    half: Floats
    lo: Ints
    hi: Ints
    first: Ints
    last: Ints


@lru_cache(maxsize=64)
def table(draws: Draws) -> Table:
    """Acceptance regions and their inversion for this noise."""
    b = sqrt(sum(size(noise) ** 2 for noise in draws) / len(draws))
    width = max(1, round(b / _FINE))
    down, up = _sides(draws)
    farthest = ceil((_FAR + 1) * b) + 1 + int(max(down.max(), up.max()))
    start = ceil(2 * farthest / width) + 2
    bins = np.arange(-start, start)
    splits, half = _splits(type(draws[0]), len(draws))
    # Where in the splits' own table, which is in scales, the bins' middles are.
    place = np.rint((bins * width + (width - 1) / 2) / b * _FINE).astype(np.int64) + _FAR * _FINE
    inside = (place >= 0) & (place <= 2 * _FAR * _FINE)
    chosen = np.full((len(VARIANCES) + 1, len(bins)), _EVEN)
    chosen[:, inside] = splits[:, place[inside]]
    lo, hi = down[chosen], up[chosen]
    met = [_inverse(bins, width, *pair) for pair in zip(lo, hi, strict=True)]
    first, last = (np.array(part) for part in zip(*met, strict=True))
    even = int(down[_EVEN]), int(up[_EVEN])
    return Table(b, width, start, even, np.maximum(half * b, 0.5), lo, hi, first, last)


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of several noises, by their places t. lo, hi, first, last: flat, one after another; t from base[t]."""

    scale: Floats
    width: Ints
    start: Ints
    even: Ints
    half: Floats
    base: Ints
    lo: Ints
    hi: Ints
    first: Ints
    last: Ints


def tables(noises: Sequence[Draws]) -> Tables:
    """The tables of these noises."""
    acceptances = [table(draws) for draws in noises]
    flat = (
        np.concatenate([getattr(acceptance, name).reshape(-1) for acceptance in acceptances])
        for name in ("lo", "hi", "first", "last")
    )
    return Tables(
        np.array([acceptance.scale for acceptance in acceptances]),
        np.array([acceptance.width for acceptance in acceptances]),
        np.array([acceptance.start for acceptance in acceptances]),
        np.array([acceptance.even for acceptance in acceptances]),
        np.array([acceptance.half for acceptance in acceptances]),
        np.cumsum([0, *(acceptance.lo.size for acceptance in acceptances)])[:-1],
        *flat,
    )


def _sides(draws: Draws) -> tuple[Ints, Ints]:
    """For each split the smallest lo and hi with P(X < -lo) + P(X > hi) <= 1 - LEVEL.

    lo gets its part of the 5 %; hi gets the rest, with what lo, being a whole number, could not use.
    """
    lo = quantiles(draws, (1 - LEVEL) * _SPLITS)
    return lo, quantiles(draws, (1 - LEVEL) - beyond(draws, lo))


def _inverse(bins: Ints, width: int, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """For each bin of noisy values the first and the last bin of d of which any accepts any of it.

    A bin z holds z * width .. z * width + width - 1; it meets all that bin d accepts, d * width - lo to
    (d + 1) * width - 1 + hi, or does not. The first bin that reaches up to z may begin above it; then it is not the
    first that accepts z, but lies before that one, and the interval is a little longer than it need be.
    """
    lowest, highest = (bins * width - lo) // width, ((bins + 1) * width - 1 + hi) // width
    first = np.searchsorted(np.maximum.accumulate(highest), bins)
    last = np.searchsorted(np.minimum.accumulate(lowest[::-1])[::-1], bins, side="right") - 1
    return bins[first], bins[last]


@lru_cache(maxsize=4)
def _splits(kind: type[Noise], terms: int) -> tuple[Ints, Floats]:
    """In scales, for Laplace or normal noise: which split is best at each d, for each variance, and half the expected
    length.

    The best accepts the least of what the prior predicts: a normal one, by 41 nodes. The choice affects the
    length of intervals, not their coverage.
    """
    x = np.linspace(-60, 60, 6001)
    middle = np.arange(-_FAR * _FINE, _FAR * _FINE + 1) / _FINE
    grid = np.linspace(0, 30, 30001)
    reach = np.interp(-0.05 * _SPLITS, -_tail(grid, kind, terms), grid)
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    chosen = np.full((len(VARIANCES) + 1, len(middle)), _EVEN)
    half = np.full(len(VARIANCES) + 1, reach[_EVEN])
    for v, variance in enumerate(VARIANCES):
        moved = zip(nodes, weights, strict=True)
        predicted = sum(w * (1 - _tail(x - variance**0.5 * n, kind, terms)) for n, w in moved)
        accepted = np.interp(middle[:, None] + reach[::-1], x, predicted) - np.interp(
            middle[:, None] - reach, x, predicted
        )
        chosen[v] = accepted.argmin(axis=1)
        half[v] = accepted.min(axis=1).sum() / weights.sum() / _FINE / 2
    return chosen, half


def _tail(x: Floats, kind: type[Noise], terms: int) -> Floats:
    """P(X > x), X Laplace or normal of scale one, or the difference of two."""
    if kind is not Laplace:
        from scipy.special import ndtr

        normal: Floats = ndtr(-x / sqrt(terms))
        return normal
    size = np.abs(x)
    beyond = np.exp(-size) * (0.5 if terms == 1 else (2 + size) / 4)
    return np.where(x > 0, beyond, 1 - beyond)


def ends(z: Ints, t: Ints | int, v: Ints | int, tables: Tables) -> tuple[Ints, Ints]:
    """The ends of all numbers d that accept z, or of a little more: a bin that accepts z in part counts as a whole.

    z: noisy values less what was expected. t, v: for each of them the place of its noise in the tables, and that of the
    prior's variance. Beyond the tables the split is even, as it is long before their ends.
    """
    width, start = tables.width[t], tables.start[t]
    bin_of = z // width
    far = (bin_of < start // 2 - start) | (bin_of >= start - start // 2)
    middle = tables.base[t] + (2 * v + 1) * start
    at = middle + np.where(far, 0, bin_of)
    first, last = tables.first[at], tables.last[at]
    low, high = first * width, last * width
    low = np.minimum(np.maximum(low, z - tables.hi[middle + first]), low + width - 1)
    high = np.maximum(np.minimum(high + width - 1, z + tables.lo[middle + last]), high)
    return np.where(far, z - tables.even[t, 1], low), np.where(far, z + tables.even[t, 0], high)
