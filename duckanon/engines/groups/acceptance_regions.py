"""Two-sided tests of a number with noise on it, and their inversion to intervals: short near the expected number.

For each whole number d that might be true, less what was expected, the test accepts the noisy value, less the same, in
d - lo(d) .. d + hi(d), with P(-lo <= X <= hi) >= 95 %. How the 5 % are split between the two sides depends on d and on
what was expected, never on the noise, so {d : accepted} contains the truth with probability 95 %, whatever the data.
Source: Pratt 1961; Yu and Hoff 2018, for a normal prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np

from duckanon.engines.groups.discrete_laplace import beyond, quantiles
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats

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
class Tables:
    """What `ends` needs of one scale. Rows: draws of noise (1, 2), then the prior's variance, VARIANCES or wider.

    width: of a bin, in whole numbers. even: how far the even split goes on either side. lo, hi: of each bin of d, from
    `start` on, that many bins below what was expected. first, last: for each bin of the noisy value the first and the
    last bin of d with something accepted, from `start` on too. half: half the expected length.
    """

    width: int
    start: int
    even: Ints
    lo: Ints
    hi: Ints
    first: Ints
    last: Ints
    half: Floats


@lru_cache(maxsize=16)
def tables(scale: Fraction) -> Tables:
    """Acceptance regions and their inversion for noise of this scale."""
    b = float(scale)
    width = max(1, round(b / _FINE))
    sides = [_sides(scale, terms) for terms in (1, 2)]
    farthest = ceil((_FAR + 1) * b) + 1 + max(int(side.max()) for pair in sides for side in pair)
    start = ceil(2 * farthest / width) + 2
    bins = np.arange(-start, start)
    wanted = [_splits(terms) for terms in (1, 2)]
    # Where in the splits' own table, which is in scales, the bins' middles are.
    place = np.rint((bins * width + (width - 1) / 2) / b * _FINE).astype(np.int64) + _FAR * _FINE
    inside = (place >= 0) & (place <= 2 * _FAR * _FINE)
    lo = np.empty((2, len(VARIANCES) + 1, 2 * start), dtype=np.int64)
    hi, first, last = np.empty_like(lo), np.empty_like(lo), np.empty_like(lo)
    half = np.empty(lo.shape[:2])
    for t, (down, up) in enumerate(sides):
        for v in range(len(VARIANCES) + 1):
            chosen = np.full(len(bins), _EVEN)
            chosen[inside] = wanted[t][0][v, place[inside]]
            lo[t, v], hi[t, v] = down[chosen], up[chosen]
            half[t, v] = max(wanted[t][1][v] * b, 0.5)
            first[t, v], last[t, v] = _inverse(bins, width, lo[t, v], hi[t, v])
    even = np.array([[down[_EVEN], up[_EVEN]] for down, up in sides])
    return Tables(width, start, even, lo, hi, first, last, half)


def _sides(scale: Fraction, terms: int) -> tuple[Ints, Ints]:
    """For each split the smallest lo and hi with P(X < -lo) + P(X > hi) <= 1 - LEVEL.

    lo gets its part of the 5 %; hi gets the rest, with what lo, being a whole number, could not use.
    """
    lo = quantiles(scale, terms, (1 - LEVEL) * _SPLITS)
    return lo, quantiles(scale, terms, (1 - LEVEL) - beyond(scale, terms, lo))


def _inverse(bins: Ints, width: int, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """For each bin of noisy values the first and the last bin of d of which any accepts any of it.

    A bin z holds z * width .. z * width + width - 1; it meets all that bin d accepts, d * width - lo to
    (d + 1) * width - 1 + hi, or does not.
    """
    lowest, highest = (bins * width - lo) // width, ((bins + 1) * width - 1 + hi) // width
    met = (lowest[None, :] <= bins[:, None]) & (bins[:, None] <= highest[None, :])
    return met.argmax(axis=1), len(bins) - 1 - met[:, ::-1].argmax(axis=1)


@lru_cache(maxsize=2)
def _splits(terms: int) -> tuple[Ints, Floats]:
    """In scales, for Laplace noise: which split is best at each d, for each variance, and half the expected length.

    The best accepts the least of what the prior predicts: a normal one, by 41 nodes. The choice affects the
    length of intervals, not their coverage.
    """
    x = np.linspace(-60, 60, 6001)
    middle = np.arange(-_FAR * _FINE, _FAR * _FINE + 1) / _FINE
    grid = np.linspace(0, 30, 30001)
    reach = np.interp(-0.05 * _SPLITS, -_tail(grid, terms), grid)
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    chosen = np.full((len(VARIANCES) + 1, len(middle)), _EVEN)
    half = np.full(len(VARIANCES) + 1, reach[_EVEN])
    for v, variance in enumerate(VARIANCES):
        predicted = sum(w * (1 - _tail(x - variance**0.5 * n, terms)) for n, w in zip(nodes, weights, strict=True))
        accepted = np.interp(middle[:, None] + reach[::-1], x, predicted) - np.interp(
            middle[:, None] - reach, x, predicted
        )
        chosen[v] = accepted.argmin(axis=1)
        half[v] = accepted.min(axis=1).sum() / weights.sum() / _FINE / 2
    return chosen, half


def _tail(x: Floats, terms: int) -> Floats:
    """P(X > x), X Laplace of scale one, or the difference of two."""
    size = np.abs(x)
    beyond = np.exp(-size) * (0.5 if terms == 1 else (2 + size) / 4)
    return np.where(x > 0, beyond, 1 - beyond)


def ends(z: Ints, t: Ints | int, v: Ints | int, table: Tables) -> tuple[Ints, Ints]:
    """The ends of all numbers d that accept z, or of a little more: a bin that accepts z in part counts as a whole.

    z: noisy values less what was expected. t, v: the row of the tables for each of them: draws of noise less one, and
    the place of the prior's variance. Beyond the tables the split is even, as it is long before their ends.
    """
    row = z // table.width + table.start
    far = (row < table.start // 2) | (row >= 2 * table.start - table.start // 2)
    row = np.where(far, table.start, row)
    one, other = table.first[t, v, row], table.last[t, v, row]
    low, high = (one - table.start) * table.width, (other - table.start) * table.width
    low = np.minimum(np.maximum(low, z - table.hi[t, v, one]), low + table.width - 1)
    high = np.maximum(np.minimum(high + table.width - 1, z + table.lo[t, v, other]), high)
    return np.where(far, z - table.even[t, 1], low), np.where(far, z + table.even[t, 0], high)
