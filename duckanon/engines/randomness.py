"""Exact discrete Laplace noise and coins, and the only module that reads the operating system's randomness.

All arithmetic is in integers, so draws have exactly the stated distribution. With floating point they would not, and
the difference can reveal the value under the noise (Mironov 2012).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.compiled import compiled, inlined
from duckanon.errors import InvalidInput

Octets = NDArray[np.uint8]

# Random octets are taken this many at a time.
_BLOCK = 1 << 20
# The compiled sampler takes numerators below this: 126 of them add up to less than 2^63. A draw needs more than 126
# with probability e^-127.
_NARROW = 1 << 56
# So few draws take less time than the compiled sampler takes to be loaded, once in a process.
_FEW = 256
# The largest scale. Wider noise, added to a count, could overflow 64 bits.
_WIDEST = 1 << 55


class Source(Protocol):
    """Where random octets come from."""

    def octets(self, count: int) -> bytes:
        """`count` independent uniform octets."""
        ...


class Entropy:
    """The operating system's generator: the only source that production code uses."""

    def octets(self, count: int) -> bytes:
        return os.urandom(count)


def double_geometric(scale: Fraction, shape: int | tuple[int, ...], source: Source) -> NDArray[np.int64]:
    """Independent draws v with P(v) = (1 - a) / (1 + a) * a^|v|, a = exp(-1 / scale), exactly.

    scale: positive, any rational number up to 2^55. Returns int64 of `shape`.
    Source: Canonne, Kamath and Steinke 2020, Algorithms 1 and 2. Raises InvalidInput for a scale out of range.
    """
    check_scale(scale)
    draws = np.empty(shape, dtype=np.int64)
    flat = draws.reshape(-1)
    if scale.numerator < _NARROW and (len(flat) > _FEW or _is_loaded()):
        _fill(flat, scale, source)
    else:
        flat[:] = [_wide(scale, source) for _ in range(len(flat))]
    return draws


def wide_double_geometric(scale: Fraction, shape: int | tuple[int, ...], source: Source) -> NDArray[np.object_]:
    """As `double_geometric`, for a scale of any size: whole numbers of any size, in an array of objects."""
    if scale <= _WIDEST:
        return double_geometric(scale, shape, source).astype(object)
    draws = np.empty(shape, dtype=object)
    flat = draws.reshape(-1)
    flat[:] = [_wide(scale, source) for _ in range(len(flat))]
    return draws


def check_scale(scale: Fraction) -> None:
    """Raises InvalidInput for a scale of noise that cannot be drawn."""
    if scale <= 0:
        raise InvalidInput("The scale of noise must be positive.")
    if scale > _WIDEST:
        raise InvalidInput("The noise for this epsilon would not fit into 64 bits: take a larger epsilon.")


def _fill(flat: NDArray[np.int64], scale: Fraction, source: Source) -> None:
    """Draw with the compiled sampler, from one block of octets after another.

    A draw that the end of a block cuts short starts again from the same octets, followed by the next block's. Were it
    dropped instead, draws that need few octets would be too frequent.
    """
    done, left = 0, b""
    while done < len(flat):
        size = max(64, min(_BLOCK, 24 * (len(flat) - done)))
        octets = np.frombuffer(left + source.octets(size), dtype=np.uint8)
        drawn, used = _narrow(octets, flat[done:], scale.numerator, scale.denominator)
        done, left = done + drawn, octets[used:].tobytes()


def _is_loaded() -> bool:
    """Whether this process has the compiled sampler's machine code: so how many draws there were before decides."""
    return bool(getattr(_narrow, "overloads", None))


@inlined
def _octets_below(bound: int) -> tuple[int, int]:
    """How many octets hold any number below `bound`, and a mask for the bits it can have."""
    mask = 0
    while mask < bound - 1:
        mask = 2 * mask + 1
    size = 0
    while (mask >> (8 * size)) > 0:
        size += 1
    return size, mask


@inlined
def _narrow_uniform(octets: Octets, at: int, size: int, mask: int, bound: int) -> tuple[int, int]:
    """A uniform number below `bound`, by rejection, and the place after the octets it took; -1 if they run out."""
    if size == 0:
        return 0, at
    while at + size <= len(octets):
        number = 0
        for i in range(size):
            number = (number << 8) | octets[at + i]
        at += size
        number &= mask
        if number < bound:
            return number, at
    return -1, at


@inlined
def _narrow_coin(octets: Octets, at: int, part: int, whole: int, size: int, mask: int) -> tuple[int, int]:
    """Bernoulli(exp(-part / whole)) for part <= whole (Algorithm 1), and the place after the octets it took.

    -1 if the octets run out. Step k needs a coin with probability part / (k whole); two coins with probabilities 1 / k
    and part / whole give the same, and their numbers fit into 64 bits.
    """
    k = 1
    while True:
        if k > 1:
            k_size, k_mask = _octets_below(k)
            number, at = _narrow_uniform(octets, at, k_size, k_mask, k)
            if number < 0:
                return -1, at
            if number > 0:
                return k & 1, at
        if part < whole:
            number, at = _narrow_uniform(octets, at, size, mask, whole)
            if number < 0:
                return -1, at
            if number >= part:
                return k & 1, at
        k += 1


@inlined
def _narrow_laplace(octets: Octets, at: int, numerator: int, denominator: int, size: int, mask: int) -> tuple[int, int]:
    """A draw of scale numerator / denominator, the numerator below 2^56; and the place after the octets it took.

    That is -1 if they run out. size, mask: as `_octets_below` has them for the numerator.
    """
    while True:
        rest, at = _narrow_uniform(octets, at, size, mask, numerator)
        if rest < 0:
            return 0, -1
        kept, at = _narrow_coin(octets, at, rest, numerator, size, mask)
        if kept < 0:
            return 0, -1
        if kept == 0:
            continue
        units = 0
        while True:
            more, at = _narrow_coin(octets, at, 1, 1, 0, 0)
            if more < 0:
                return 0, -1
            if more == 0:
                break
            units += 1
            if units > 126:
                raise OverflowError("A draw of noise left 64 bits.")
        size_of = (rest + units * numerator) // denominator
        if at >= len(octets):
            return 0, -1
        negative = octets[at] & 1
        at += 1
        if negative and size_of == 0:
            continue
        return (-size_of if negative else size_of), at


@compiled
def _narrow(octets: Octets, out: NDArray[np.int64], numerator: int, denominator: int) -> tuple[int, int]:
    """Fill `out` as far as the octets go. Returns how many draws are complete, and how many octets they took."""
    size, mask = _octets_below(numerator)
    done, at = 0, 0
    while done < len(out):
        draw, after = _narrow_laplace(octets, at, numerator, denominator, size, mask)
        if after < 0:
            break
        out[done] = draw
        done += 1
        at = after
    return done, at


def uniform(bound: int, source: Source) -> int:
    """A uniform number below `bound`, of any size, by rejection."""
    bits = (bound - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        number = int.from_bytes(source.octets(size), "big") & ((1 << bits) - 1)
        if number < bound:
            return number


def coin(part: int, whole: int, source: Source) -> bool:
    """Bernoulli(exp(-part / whole)) for part <= whole, integers of any size."""
    k = 1
    while uniform(k * whole, source) < part:
        k += 1
    return k % 2 == 1


def decays(power: Fraction, source: Source) -> bool:
    """Bernoulli(exp(-power)), exactly, for a power of 0 or more."""
    whole, rest = divmod(power.numerator, power.denominator)
    return all(coin(1, 1, source) for _ in range(whole)) and coin(rest, power.denominator, source)


def shuffled(count: int, source: Source) -> Iterator[int]:
    """The numbers below `count` in a uniformly random order, drawn as far as they are taken."""
    left = list(range(count))
    while left:
        at = uniform(len(left), source)
        left[at], left[-1] = left[-1], left[at]
        yield left.pop()


def _wide(scale: Fraction, source: Source) -> int:
    """One draw with integers of any size: slow, for scales whose numerator does not fit the compiled sampler."""
    while True:
        rest = uniform(scale.numerator, source)
        if not coin(rest, scale.numerator, source):
            continue
        units = 0
        while coin(1, 1, source):
            units += 1
        size = (rest + units * scale.numerator) // scale.denominator
        negative = uniform(2, source) == 1
        if not (negative and size == 0):
            return -size if negative else size
