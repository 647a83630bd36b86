"""How wide intervals of sums and quotients of numbers with discrete Laplace noise must be.

A number that is told is a sum of totals, each times a weight, and each total has noise of its own: `Kind` says how many
have the same weight. All noise has one scale b: P(v) = (1 - a) / (1 + a) a^|v|, a = exp(-1 / b).

Sums of equal weights are on a lattice, and P(|noise| <= k) follows from the characteristic function of the noise. Of it
M values are added up, as for noise modulo M (Abate and Whitt 1992): the error is at most P(|noise| >= M - k), which
Chernoff's bound keeps below `_ERROR`; values that add less than that in all are left out. Two or three weights are
added up over the values of all but one, whose distribution comes from the same function by a Fourier transform.
Probabilities are computed to within `_ERROR` and compared with 5 % less that, so a width is never too small.

Where that takes long, noise is compared with continuous noise: see `_smooth`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import asin, ceil, exp, expm1, gcd, inf, lcm, log, pi, prod, sqrt, tanh

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Intervals miss the true number as often as that.
MISSED = 0.05
# How far computed probabilities may be from the true ones.
_ERROR = 1e-8
_ALLOWED = MISSED - _ERROR
# The most combinations of values of all totals but one that are added up for a width; for its words, which are rounded.
_MOST_ROWS, _MOST_OF_WORDS = 80_000, 2_000
# Noise of a larger scale is compared with continuous noise, since floats do not tell its steps apart.
_FINE = 2**40
# The longest list of probabilities, to each side of 0.
_LONGEST = 2**21
# The least scale from which on quotients are compared with continuous noise: of two kinds, and of three.
_SMOOTH_FROM = {2: 24, 3: 3}
# Into so many parts the quotients from 0 to 1 are cut, and into so many blocks the values of a total.
_PARTS, _SMOOTH_PARTS = 64, 32
_BLOCKS = {2: 800, 3: 60}


@dataclass(frozen=True)
class Kind:
    """Totals that are added with the same weight: how many there are."""

    weight: Fraction
    count: int


# --- one weight -------------------------------------------------------------------------------------------------------


def least_width(scale: Fraction, count: int) -> int:
    """The least k with P(|sum of count noises| > k) <= 5 %."""
    if count <= 0:
        return 0
    return _lattice_width(scale, count)


@lru_cache(20_000)
def _lattice_width(scale: Fraction, count: int) -> int:
    if scale > _FINE:
        return ceil(_smooth(scale, ((Fraction(1), count),)) + 0.5)
    guess = 2 * _deviation(scale, count)
    if count == 1:
        # P(|noise| > k) = 2 a^(k + 1) / (1 + a).
        a = exp(-1 / scale)
        exactly = 0.0 if a == 0 else -float(scale) * log(_ALLOWED * (1 + a) / 2)
        return max(0, ceil(exactly) - 1)
    return _least(_lattice_tail(scale, count, guess), int(guess), 1 + int(guess / 16))


def _deviation(scale: Fraction, count: int) -> float:
    """The standard deviation of a sum of noises: that of one is sqrt(2 a) / (1 - a)."""
    a = exp(-1 / scale)
    return sqrt(2 * count * a) / -expm1(-1 / scale)


def _lattice_tail(scale: Fraction, count: int, about: float) -> Callable[[int], float]:
    """P(|sum of count noises| > k) as a function of k, for k up to twice `about`."""
    size = 2 * ceil(about) + 2 * _reach(scale, count)
    curve = 4 * exp(-1 / scale) / expm1(-1 / scale) ** 2
    # Beyond this angle the values add less than 45 times 1e-10 in all: 45 is the sum of 1 / j.
    end = sqrt(min(1.0, (10 ** min(300.0, 10.5 / count) - 1) / curve)) if curve > 0 else 1.0
    last = min(ceil(asin(end) / pi * size), size // 2)
    half = pi * np.arange(1, last + 1) / size
    factor = 2 * np.exp(-count * np.log1p(curve * np.sin(half) ** 2)) / np.sin(half) / size
    if 2 * last == size:
        factor[-1] /= 2

    def tail(k: int) -> float:
        return float(1 - (2 * k + 1) / size - factor @ np.sin((2 * k + 1) * half))

    return tail


@lru_cache(20_000)
def _reach(scale: Fraction, count: int) -> int:
    """A k with P(|sum of count noises| >= k) <= 1e-10, by Chernoff's bound."""
    if count == 0:
        return 1
    if scale > _FINE:
        # By the same bound for N + J, as in `_smooth`: its scale is less than that of N.
        return 1 + ceil(_reach(Fraction(_FINE), count) * float(scale / _FINE) * (1 + 1e-6))
    b = float(scale)
    rates = np.geomspace(1e-4, 0.999, 60) / b
    a = exp(-1 / b)
    moments = 2 * log(-expm1(-1 / b)) - np.log(-np.expm1(rates - 1 / b)) - np.log1p(-a * np.exp(-rates))
    return 1 + ceil(float(np.min((count * moments + log(2e10)) / rates)))


def _least(tail: Callable[[int], float], guess: int, step: int) -> int:
    """The least k of 0 or more for which a decreasing probability is allowed. guess: a number about `step` from it."""
    low, high = -1, max(guess, 0)
    if tail(high) <= _ALLOWED:
        while high - step > low and tail(high - step) <= _ALLOWED:
            high -= step
            step *= 2
        low = max(low, high - step)
    else:
        low, high = high, high + step
        while tail(high) > _ALLOWED:
            low, step = high, 2 * step
            high += step
    while high - low > 1:
        middle = (low + high) // 2
        if tail(middle) <= _ALLOWED:
            high = middle
        else:
            low = middle
    return high


# --- several weights --------------------------------------------------------------------------------------------------


def width(scale: Fraction, kinds: Sequence[Kind], *, rough: bool = False) -> Fraction:
    """How far at most 95 % of the noises of a sum are from 0: the least number that this holds for, or hardly more.

    More it is where there are too many values to be added up, by half of what the weights add up to and a part of
    1 / (12 scale^2). rough: whether that is enough.
    """
    counts: dict[Fraction, int] = {}
    for one in kinds:
        if one.weight and one.count > 0:
            counts[abs(one.weight)] = counts.get(abs(one.weight), 0) + one.count
    return _width(scale, tuple(sorted(counts.items())), _MOST_OF_WORDS if rough else _MOST_ROWS)


@lru_cache(20_000)
def _width(scale: Fraction, parts: tuple[tuple[Fraction, int], ...], most: int) -> Fraction:
    if not parts:
        return Fraction(0)
    if len(parts) == 1:
        ((weight, count),) = parts
        return weight * _lattice_width(scale, count)
    reaches = sorted(_reach(scale, count) for _, count in parts)
    rows = prod(2 * one + 1 for one in reaches[:-1])
    below = lcm(*(one.denominator for one, _ in parts))
    unit = Fraction(gcd(*(int(one * below) for one, _ in parts)), below)
    units = [int(one / unit) for one, _ in parts]
    far = max(one * _reach(scale, count) for one, (_, count) in zip(units, parts, strict=True))
    about = Fraction(_smooth(scale, parts))
    if rows > most or reaches[-1] > _LONGEST or far > 2**60:
        return about + sum((one for one, _ in parts), Fraction(0)) / 2
    ordered = sorted(zip(units, (count for _, count in parts), strict=True), key=lambda one: _reach(scale, one[1]))
    (last, of_last), rest = ordered[-1], ordered[:-1]
    rest_of, inner = _blocks_of(scale, [count for _, count in rest], inf), _Distribution(scale, of_last)
    shift = sum((one * low for (one, _), (low, _) in zip(rest, rest_of.ends, strict=True)), np.zeros(1, np.int64))
    # Of two values of the rest that differ by their sign alone one is enough.
    chance, shift = _folded(rest_of.chance, shift)

    def tail(k: int) -> float:
        return float(1 - chance @ inner.between(-((k + shift) // last), (k - shift) // last))

    return unit * _least(tail, int(about / unit), 1 + sum(units) // 8)


def _folded(chance: Floats, shift: Ints) -> tuple[Floats, Ints]:
    """Each value and its opposite, which are as likely, as one."""
    kept = shift > 0
    same = shift == 0
    return np.concatenate([2 * chance[kept], [chance[same].sum()]]), np.concatenate([shift[kept], [0]])


class _Distribution:
    """The sum of `count` noises: its probabilities from -reach to reach."""

    def __init__(self, scale: Fraction, count: int) -> None:
        self.reach, self.chance = _chances(scale, count)
        self._below = np.concatenate([[0.0], np.cumsum(self.chance)])

    def between(self, low: Ints, high: Ints) -> Floats:
        """P(low <= sum <= high), 0 where high is less than low."""
        top = np.clip(high + self.reach + 1, 0, len(self.chance))
        found: Floats = self._below[top] - self._below[np.clip(low + self.reach, 0, len(self.chance))]
        return np.maximum(found, 0.0)


@lru_cache(64)
def _chances(scale: Fraction, count: int) -> tuple[int, Floats]:
    """The probabilities of the sum of `count` noises from -reach to reach: what lies beyond has less than 1e-10."""
    reach = _reach(scale, count)
    if count == 0:
        return 0, np.ones(1)
    a = exp(-1 / scale)
    if count == 1:
        return reach, (1 - a) / (1 + a) * np.exp(-np.abs(np.arange(-reach, reach + 1)) / float(scale))
    size = 1 << (2 * reach + 1).bit_length()
    waves = np.sin(pi * np.arange(size // 2 + 1) / size) ** 2
    found = np.fft.irfft(np.exp(-count * np.log1p(4 * a / expm1(-1 / scale) ** 2 * waves)), size)
    return reach, np.maximum(np.concatenate([found[-reach:], found[: reach + 1]]), 0.0)


@dataclass(frozen=True)
class _Blocks:
    """Combinations of the values of several sums, in blocks.

    ends: of each sum its least and its largest value in each block. chance: of the block.
    """

    ends: list[tuple[Ints, Ints]]
    chance: Floats


def _blocks_of(scale: Fraction, counts: Sequence[int], most: float) -> _Blocks:
    """most: how many blocks of each sum there are at most."""
    ends: list[tuple[Ints, Ints]] = []
    chance = np.ones(1)
    for count in counts:
        reach, own = _chances(scale, count)
        size = max(1, ceil((2 * reach + 1) / most))
        start = np.arange(0, 2 * reach + 1, size)
        own = np.add.reduceat(own, start)
        low, high = start - reach, np.minimum(start + size - 1, 2 * reach) - reach
        ends = [(np.repeat(one, len(own)), np.repeat(other, len(own))) for one, other in ends]
        ends.append((np.tile(low, len(chance)), np.tile(high, len(chance))))
        chance = np.repeat(chance, len(own)) * np.tile(own, len(chance))
    # Those that are left out add less than 1e-10 in all.
    kept = chance > 1e-10 / len(chance)
    return _Blocks([(one[kept], other[kept]) for one, other in ends], chance[kept])


# --- continuous noise -------------------------------------------------------------------------------------------------


def _smooth(scale: Fraction, parts: Sequence[tuple[Fraction, int]]) -> float:
    """A w with P(|sum| > w + half of all weights) <= 5 %, from Laplace noise.

    Let N be discrete noise, and J uniform on (-1/2, 1/2). Then P(|N + J| > x) <= exp(-x / B) with 1 / B = 2 tanh(1/2b):
    for x = k + y with a whole number k and |y| <= 1/2 it is a^k (1 - y / B), and a = exp(-1 / b) <= exp(-1 / B). So
    N + J is no more spread than Laplace noise of scale B, and sums of such are no more spread than sums of Laplace
    noise, as all these densities are symmetric and fall to both sides (Birnbaum 1948). A sum of several N needs one J
    only to be of that kind, and further ones would spread it. What is left out, J times the weight, is at most half the
    weight.
    """
    return _laplace_scale(scale) * _laplace_width(tuple((float(one), count) for one, count in parts))


def _laplace_scale(scale: Fraction) -> float:
    return 1 / (2 * tanh(1 / (2 * float(scale))))


@lru_cache(20_000)
def _laplace_width(parts: tuple[tuple[float, int], ...]) -> float:
    """A w with P(|sum| > w) <= 5 % for sums of Laplace noise of scale 1, too large by less than 1e-7 of it."""
    parts = tuple((abs(weight), count) for weight, count in parts if weight and count)
    if not parts:
        return 0.0
    if len(parts) == 1 and parts[0][1] == 1:
        return -parts[0][0] * log(_ALLOWED)
    top = max(weight for weight, _ in parts)
    parts = tuple((weight / top, count) for weight, count in parts)
    deviation = sqrt(sum(2 * count * weight**2 for weight, count in parts))
    tail = _laplace_tail(parts, 3 * deviation)
    low, high = 1.9 * deviation, 2.2 * deviation
    # The tail falls like an exponential number's: its logarithm is nearly a line.
    of_low, of_high = log(tail(low) / _ALLOWED), log(tail(high) / _ALLOWED)
    while high - low > 1e-8 * high:
        middle = low + (high - low) * min(0.98, max(0.02, of_low / (of_low - of_high)))
        # A step beyond it, so that both ends come near.
        for one in (middle, middle * (1 + 4e-9), middle * (1 - 4e-9)):
            if low < one < high:
                found = log(max(tail(one), 1e-12) / _ALLOWED)
                if found > 0:
                    low, of_low = one, found
                else:
                    high, of_high = one, found
    return top * high * (1 + 1e-8)


def _laplace_tail(parts: Sequence[tuple[float, int]], most: float) -> Callable[[float], float]:
    """P(|sum| > w) as a function of w up to `most`, for Laplace noise: as `_lattice_tail`, with its error."""
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


def smooth_width(scale: Fraction, count: int) -> float:
    """As `least_width`, for noise so fine that it is continuous: proportional to the scale."""
    return float(scale) * _laplace_width(((1.0, count),))


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
def quotient_widths(scale: Fraction, kinds: tuple[Kind, ...]) -> Widths:
    """For a quotient q of the sum of totals times values from 0 to 1 by their sum: w(q) with P(|noise| > w(q)) <= 5 %.

    kinds: the values, as weights. For a true quotient q, above - q below is noise alone, with the weights value - q.

    Small scales: q lies in a part whose ends are s and t, and the values of all totals but one in blocks. The noise is
    linear in q and in each total, so its absolute value is largest at a corner, and w is the least number for which
    P(at all corners it is at most w) is 95 %: that holds for each q of the part.

    Large ones: `_smooth` at the ends of the parts. The width of symmetric log-concave noise, as a function of the
    weights, is a norm (Bobkov 2010), and so a convex function of q: between the ends it is below the line through them.
    """
    kinds = tuple(sorted((one for one in kinds if one.count > 0), key=lambda one: (one.weight, one.count)))
    longest = max((_reach(scale, one.count) for one in kinds), default=0)
    if len(kinds) <= 1 or (scale < _SMOOTH_FROM[len(kinds)] and longest <= _LONGEST):
        return _widths_by_parts(scale, kinds)
    found = []
    for at in range(_SMOOTH_PARTS + 1):
        weights = [(one.weight - Fraction(at, _SMOOTH_PARTS), one.count) for one in kinds]
        half = sum(abs(float(one)) for one, _ in weights) / 2
        found.append(_laplace_scale(scale) * _laplace_width(_merged(weights)) + half)
    return Widths(np.array(found[:-1]), np.array(found[1:]))


def _merged(weights: Sequence[tuple[Fraction, int]]) -> tuple[tuple[float, int], ...]:
    """Equal weights as one, in a fixed order."""
    found: dict[float, int] = {}
    for weight, count in weights:
        if weight:
            found[abs(float(weight))] = found.get(abs(float(weight)), 0) + count
    return tuple(sorted(found.items()))


def _widths_by_parts(scale: Fraction, kinds: Sequence[Kind]) -> Widths:
    """Widths in parts, by adding up all blocks of values."""
    ordered = sorted(kinds, key=lambda one: one.count)
    if len(ordered) <= 1:
        # The quotient is known, or noise by noise: q times the same noise is widest at one end.
        most = [_lattice_width(scale, one.count) for one in ordered] or [0]
        weight = float(ordered[0].weight) if ordered else 0.0
        places = np.arange(_PARTS + 1) / _PARTS
        ends = most[0] * np.abs(weight - places)
        return Widths(ends[:-1], ends[1:])
    unit = lcm(_PARTS, *(one.weight.denominator for one in kinds))
    rest = _blocks_of(scale, [one.count for one in ordered[:-1]], _BLOCKS[len(ordered)])
    inner = _Distribution(scale, ordered[-1].count)
    values = [int(one.weight * unit) for one in ordered]
    opposite = sorted((1 - one.weight, one.count) for one in kinds) == sorted((one.weight, one.count) for one in kinds)
    found: list[int] = []
    guess = unit * _lattice_width(scale, ordered[-1].count)
    for at in range(_PARTS // 2 if opposite else _PARTS):
        both = [at * unit // _PARTS, (at + 1) * unit // _PARTS]
        found.append(_least(_tail_of_part(rest, inner, values, both), found[-1] if found else guess, 1 + guess // 64))
    widths = np.array(found + found[::-1] if opposite else found) / unit
    return Widths(widths, widths)


def _tail_of_part(
    rest: _Blocks, inner: _Distribution, values: Sequence[int], ends: Sequence[int]
) -> Callable[[int], float]:
    """At most the probability that noise is wider at an end of a part, in the unit of values and ends."""
    corners = []
    for q in ends:
        moved = [[(value - q) * one for one in own] for value, own in zip(values[:-1], rest.ends, strict=True)]
        corners += [(values[-1] - q, sum(one, np.zeros(1, np.int64))) for one in product(*moved)]
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
