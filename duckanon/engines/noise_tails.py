"""How wide intervals of sums and quotients of numbers with noise must be.

A number that is told is a sum of totals, each times a weight, and each total has noise of its own: `Kind` says how many
have the same weight. All noise is of one distribution (`duckanon.engines.noise`).

Sums of equal weights are on a lattice, and P(|noise| <= k) follows from the characteristic function of the noise. Of it
M values are added up, as for noise modulo M (Abate and Whitt 1992): the error is at most P(|noise| >= M - k), which
Chernoff's bound keeps below `ERROR`; values that add less than that in all are left out. Two or three weights are
added up over the values of all but one, whose distribution comes from the same function by a Fourier transform.
Probabilities are computed to within `ERROR` and compared with 5 % less that, so a width is never too small.

Where that takes long, noise is compared with continuous noise (`Noise.smooth`), or values are taken in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import ceil, exp, gcd, inf, lcm, log, pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.noise import ALLOWED, Gaussian, Laplace, Noise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The most combinations of values of all totals but one that are added up for a width; for its words, which are rounded.
_MOST_ROWS, _MOST_OF_WORDS = 80_000, 2_000
# The longest list of probabilities, to each side of 0.
_LONGEST = 2**21
# Into so many parts the quotients from 0 to 1 are cut, and into so many blocks the values of a total.
_PARTS, _SMOOTH_PARTS = 64, 32
_BLOCKS = {2: 800, 3: 60}


@dataclass(frozen=True)
class Kind:
    """Totals that are added with the same weight: how many there are."""

    weight: Fraction
    count: int


# --- one weight -------------------------------------------------------------------------------------------------------


def least_width(noise: Noise, count: int) -> int:
    """The least k with P(|sum of count noises| > k) <= 5 %."""
    if count <= 0:
        return 0
    return _lattice_width(noise, count)


@lru_cache(20_000)
def _lattice_width(noise: Noise, count: int) -> int:
    if noise.is_fine:
        return ceil(noise.smooth([(Fraction(1), count)]) + 0.5)
    if count == 1 and isinstance(noise, Laplace):
        # P(|noise| > k) = 2 a^(k + 1) / (1 + a).
        a = exp(-1 / noise.scale)
        exactly = 0.0 if a == 0 else -float(noise.scale) * log(ALLOWED * (1 + a) / 2)
        return max(0, ceil(exactly) - 1)
    guess = 2 * noise.deviation(count)
    return _least(_lattice_tail(noise, count, guess), int(guess), 1 + int(guess / 16))


def _lattice_tail(noise: Noise, count: int, about: float) -> Callable[[int], float]:
    """P(|sum of count noises| > k) as a function of k, for k up to twice `about`."""
    size = 2 * ceil(about) + 2 * noise.reach(count)
    # Beyond it the values add less than 45 times 1e-10 in all: 45 is the sum of 1 / j.
    last = min(ceil(noise.faded(count) / pi * size), size // 2)
    half = pi * np.arange(1, last + 1) / size
    factor = 2 * np.exp(count * noise.wave(half)) / np.sin(half) / size
    if 2 * last == size:
        factor[-1] /= 2

    def tail(k: int) -> float:
        return float(1 - (2 * k + 1) / size - factor @ np.sin((2 * k + 1) * half))

    return tail


def _least(tail: Callable[[int], float], guess: int, step: int) -> int:
    """The least k of 0 or more for which a decreasing probability is allowed. guess: a number about `step` from it."""
    low, high = -1, max(guess, 0)
    if tail(high) <= ALLOWED:
        while high - step > low and tail(high - step) <= ALLOWED:
            high -= step
            step *= 2
        low = max(low, high - step)
    else:
        low, high = high, high + step
        while tail(high) > ALLOWED:
            low, step = high, 2 * step
            high += step
    while high - low > 1:
        middle = (low + high) // 2
        if tail(middle) <= ALLOWED:
            high = middle
        else:
            low = middle
    return high


# --- several weights --------------------------------------------------------------------------------------------------


def width(noise: Noise, kinds: Sequence[Kind], *, rough: bool = False) -> Fraction:
    """How far at most 95 % of the noises of a sum are from 0: the least number that this holds for, or hardly more.

    More it is where there are too many values to be added up. Of Laplace noise by half of what the weights add up to
    and a part of 1 / (12 scale^2); of Gaussian noise by less than 1 %. rough: whether that, or a tenth, is enough.
    """
    counts: dict[Fraction, int] = {}
    for kind in kinds:
        if kind.weight and kind.count > 0:
            counts[abs(kind.weight)] = counts.get(abs(kind.weight), 0) + kind.count
    return _width(noise, tuple(sorted(counts.items())), _MOST_OF_WORDS if rough else _MOST_ROWS)


@lru_cache(20_000)
def _width(noise: Noise, parts: tuple[tuple[Fraction, int], ...], most: int) -> Fraction:
    if not parts:
        return Fraction(0)
    if len(parts) == 1:
        ((weight, count),) = parts
        return weight * _lattice_width(noise, count)
    ordered = sorted(((noise.reach(count), weight, count) for weight, count in parts), key=lambda by_reach: by_reach[0])
    below = lcm(*(weight.denominator for weight, _ in parts))
    unit = Fraction(gcd(*(int(weight * below) for weight, _ in parts)), below)
    far = max(int(weight / unit) * reach for reach, weight, _ in ordered)
    is_short = prod(2 * reach + 1 for reach, _, _ in ordered[:-1]) <= most
    if ordered[-1][0] > _LONGEST or far > 2**60 or not (is_short or isinstance(noise, Gaussian)):
        return _smooth_width(noise, parts)
    units = [(int(weight / unit), count) for _, weight, count in ordered]
    blocks = inf if is_short else most ** (1 / (len(parts) - 1))
    about = 2 * sqrt(sum((weight * noise.deviation(count)) ** 2 for weight, count in units))
    width = unit * _least(_tail_of_sum(noise, units, blocks), int(about), 1 + sum(weight for weight, _ in units) // 8)
    return width if is_short else min(width, _smooth_width(noise, parts))


def _smooth_width(noise: Noise, parts: Sequence[tuple[Fraction, int]]) -> Fraction:
    return Fraction(noise.smooth(parts)) + sum((weight for weight, _ in parts), Fraction(0)) / 2


def _tail_of_sum(noise: Noise, units: Sequence[tuple[int, int]], blocks: float) -> Callable[[int], float]:
    """P(|sum| > k) as a function of k, or a little more where values are taken in blocks.

    units: weights as whole numbers, with the number of their totals. blocks: how many of each but the last at most.
    """
    (last, of_last), rest = units[-1], units[:-1]
    rest_of, inner = _blocks_of(noise, [count for _, count in rest], blocks), _Distribution(noise, of_last)
    chance = rest_of.chance
    low, high = (
        sum((weight * ends[side] for (weight, _), ends in zip(rest, rest_of.ends, strict=True)), np.zeros(1, np.int64))
        for side in (0, 1)
    )
    if (low == high).all():
        # Of two values of the rest that differ by their sign alone one is enough.
        chance, low = _folded(chance, low)
        high = low

    def tail(k: int) -> float:
        return float(1 - chance @ inner.between(-((k + low) // last), (k - high) // last))

    return tail


def _folded(chance: Floats, shift: Ints) -> tuple[Floats, Ints]:
    """Each value and its opposite, which are as likely, as one."""
    kept = shift > 0
    same = shift == 0
    return np.concatenate([2 * chance[kept], [chance[same].sum()]]), np.concatenate([shift[kept], [0]])


class _Distribution:
    """The sum of `count` noises: its probabilities from -reach to reach."""

    def __init__(self, noise: Noise, count: int) -> None:
        self.reach, self.chance = _chances(noise, count)
        self._below = np.concatenate([[0.0], np.cumsum(self.chance)])

    def between(self, low: Ints, high: Ints) -> Floats:
        """P(low <= sum <= high), 0 where high is less than low."""
        top = np.clip(high + self.reach + 1, 0, len(self.chance))
        chances: Floats = self._below[top] - self._below[np.clip(low + self.reach, 0, len(self.chance))]
        return np.maximum(chances, 0.0)


@lru_cache(64)
def _chances(noise: Noise, count: int) -> tuple[int, Floats]:
    """The probabilities of the sum of `count` noises from -reach to reach: what lies beyond has less than 1e-10."""
    reach = noise.reach(count)
    if count == 0:
        return 0, np.ones(1)
    if count == 1:
        return reach, noise.chances(reach)
    size = 1 << (2 * reach + 1).bit_length()
    chances = np.fft.irfft(np.exp(count * noise.wave(pi * np.arange(size // 2 + 1) / size)), size)
    return reach, np.maximum(np.concatenate([chances[-reach:], chances[: reach + 1]]), 0.0)


@dataclass(frozen=True)
class _Blocks:
    """Combinations of the values of several sums, in blocks.

    ends: of each sum its least and its largest value in each block. chance: of the block.
    """

    ends: list[tuple[Ints, Ints]]
    chance: Floats


def _blocks_of(noise: Noise, counts: Sequence[int], most: float) -> _Blocks:
    """most: how many blocks of each sum there are at most."""
    ends: list[tuple[Ints, Ints]] = []
    chance = np.ones(1)
    for count in counts:
        reach, own = _chances(noise, count)
        size = max(1, ceil((2 * reach + 1) / most))
        start = np.arange(0, 2 * reach + 1, size)
        own = np.add.reduceat(own, start)
        low, high = start - reach, np.minimum(start + size - 1, 2 * reach) - reach
        ends = [(np.repeat(lowest, len(own)), np.repeat(highest, len(own))) for lowest, highest in ends]
        ends.append((np.tile(low, len(chance)), np.tile(high, len(chance))))
        chance = np.repeat(chance, len(own)) * np.tile(own, len(chance))
    # Those that are left out add less than 1e-10 in all.
    kept = chance > 1e-10 / len(chance)
    return _Blocks([(lowest[kept], highest[kept]) for lowest, highest in ends], chance[kept])


# --- quotients --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Widths:
    """How wide the noise of above - q below can be for quotients q from 0 to 1, in parts of equal length.

    start, end: at both ends of each part; between them it lies on a line.
    """

    start: Floats
    end: Floats

    @property
    def most(self) -> float:
        return float(max(self.start.max(), self.end.max()))


@lru_cache(2_000)
def quotient_widths(noise: Noise, kinds: tuple[Kind, ...]) -> Widths:
    """For a quotient q of the sum of totals times values from 0 to 1 by their sum: w(q) with P(|noise| > w(q)) <= 5 %.

    kinds: the values, as weights. For a true quotient q, above - q below is noise alone, with the weights value - q.

    Small scales: q lies in a part whose ends are s and t, and the values of all totals but one in blocks. The noise is
    linear in q and in each total, so its absolute value is largest at a corner, and w is the least number for which
    P(at all corners it is at most w) is 95 %: that holds for each q of the part.

    Large ones: `Noise.smooth` at the ends of the parts. The width of symmetric log-concave noise, as a function of the
    weights, is a norm (Bobkov 2010), and so a convex function of q: between the ends it is below the line through them.
    """
    kinds = tuple(sorted((kind for kind in kinds if kind.count > 0), key=lambda kind: (kind.weight, kind.count)))
    longest = max((noise.reach(kind.count) for kind in kinds), default=0)
    if len(kinds) <= 1 or (not noise.is_smooth(len(kinds)) and longest <= _LONGEST):
        return _widths_by_parts(noise, kinds)
    widths = []
    for at in range(_SMOOTH_PARTS + 1):
        weights = [(kind.weight - Fraction(at, _SMOOTH_PARTS), kind.count) for kind in kinds]
        half = sum(abs(float(weight)) for weight, _ in weights) / 2
        widths.append(noise.smooth(weights) + half)
    return Widths(np.array(widths[:-1]), np.array(widths[1:]))


def _widths_by_parts(noise: Noise, kinds: Sequence[Kind]) -> Widths:
    """Widths in parts, by adding up all blocks of values."""
    ordered = sorted(kinds, key=lambda kind: kind.count)
    if len(ordered) <= 1:
        # The quotient is known, or noise by noise: q times the same noise is widest at one end.
        most = [_lattice_width(noise, kind.count) for kind in ordered] or [0]
        weight = float(ordered[0].weight) if ordered else 0.0
        places = np.arange(_PARTS + 1) / _PARTS
        ends = most[0] * np.abs(weight - places)
        return Widths(ends[:-1], ends[1:])
    unit = lcm(_PARTS, *(kind.weight.denominator for kind in kinds))
    rest = _blocks_of(noise, [kind.count for kind in ordered[:-1]], _BLOCKS[len(ordered)])
    inner = _Distribution(noise, ordered[-1].count)
    scaled_weights = [int(kind.weight * unit) for kind in ordered]
    opposite = sorted((1 - kind.weight, kind.count) for kind in kinds) == sorted(
        (kind.weight, kind.count) for kind in kinds
    )
    part_widths: list[int] = []
    guess = unit * _lattice_width(noise, ordered[-1].count)
    for at in range(_PARTS // 2 if opposite else _PARTS):
        both = [at * unit // _PARTS, (at + 1) * unit // _PARTS]
        part_widths.append(
            _least(
                _tail_of_part(rest, inner, scaled_weights, both),
                part_widths[-1] if part_widths else guess,
                1 + guess // 64,
            )
        )
    widths = np.array(part_widths + part_widths[::-1] if opposite else part_widths) / unit
    return Widths(widths, widths)


def _tail_of_part(
    rest: _Blocks, inner: _Distribution, weights: Sequence[int], ends: Sequence[int]
) -> Callable[[int], float]:
    """At most the probability that noise is wider at an end of a part, in the unit of weights and ends."""
    corners = []
    for q in ends:
        moved = [
            [(weight - q) * block_ends for block_ends in own]
            for weight, own in zip(weights[:-1], rest.ends, strict=True)
        ]
        corners += [(weights[-1] - q, sum(corner, np.zeros(1, np.int64))) for corner in product(*moved)]
    size = len(rest.chance)

    def tail(k: int) -> float:
        low, high = np.full(size, -(2**62)), np.full(size, 2**62)
        for last, shift in corners:
            if last == 0:
                # No value of the last sum brings the rest to within k, or each does.
                low = np.where(np.abs(shift) > k, 2**62, low)
                continue
            own = shift if last > 0 else -shift
            low = np.maximum(low, -((k + own) // abs(last)))
            high = np.minimum(high, (k - own) // abs(last))
        return float(1 - rest.chance @ inner.between(low, high))

    return tail


def quotient_ends(
    above: Floats, below: Floats, widths: Widths, unit: float, off: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """The ends of the intervals of quotients: all q from 0 to 1 for which above - q below is noise of an allowed width.

    unit: of the widths. off: how far above - q below may be from noise alone, not negative. Where below is less than 1
    that is the whole range; where there is no such q it is the one number that is nearest (Fieller 1954).
    """
    above, below = above[:, None], below[:, None]
    parts = len(widths.start)
    start = np.arange(parts) / parts
    # Numbers were divided by the number of parts of a record, so they are on their lattice only nearly.
    near = 1e-9 * (1 + np.abs(above) + np.abs(below)) + np.reshape(off, (-1, 1))
    slope = (widths.end - widths.start) * parts * unit
    constant = widths.start * unit - slope * start + near
    low = np.broadcast_to(start, (len(near), parts))
    high = np.broadcast_to(start + 1 / parts, (len(near), parts))
    # above - q below <= constant + slope q, and q below - above <= constant + slope q
    for factor, bound in ((-below - slope, constant - above), (below - slope, constant + above)):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            edge = bound / factor
        high = np.where(factor > 0, np.minimum(high, edge), np.where((factor == 0) & (bound < 0), -inf, high))
        low = np.where(factor < 0, np.maximum(low, edge), low)
    met = low <= high
    nearest = np.clip(above / np.where(below >= 1, below, 1.0), 0, 1)[:, 0]
    some, few = met.any(axis=1), below[:, 0] < 1
    least = np.where(some, np.where(met, low, inf).min(axis=1), nearest)
    most = np.where(some, np.where(met, high, -inf).max(axis=1), nearest)
    return np.where(few, 0.0, least), np.where(few, 1.0, most)
