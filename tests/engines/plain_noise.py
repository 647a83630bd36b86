"""Sums of discrete noise by adding up all values, in whole numbers: slow, and exact to fifteen digits."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

from duckanon.engines.noise import Gaussian, Laplace, Noise

ONE = 10**25
# What lies beyond the values that are added up has less than that.
_BEYOND = Fraction(1, 10**9)


@cache
def chances(noise: Noise) -> dict[int, int]:
    """Probabilities of one noise, in parts of `ONE`, rounded down."""
    with localcontext() as context:
        context.prec = 60
        weights, least = [Decimal(1)], Decimal(float(_BEYOND))
        while weights[-1] > least:
            weights.append((_power(noise, len(weights))).exp())
        whole = weights[0] + 2 * sum(weights[1:])
        if isinstance(noise, Laplace):
            a = _power(noise, 1).exp()
            whole = (1 + a) / (1 - a)
        found = {}
        for value, weight in enumerate(weights[:-1]):
            found[value] = found[-value] = int(weight / whole * ONE)
    return found


def _power(noise: Noise, value: int) -> Decimal:
    """The logarithm of how often there is a value for each 0."""
    if isinstance(noise, Laplace):
        return -value * Decimal(noise.scale.denominator) / Decimal(noise.scale.numerator)
    assert isinstance(noise, Gaussian)
    return -(value**2) * Decimal(noise.variance.denominator) / Decimal(2 * noise.variance.numerator)


def summed(noise: Noise, parts: Iterable[tuple[Fraction, int]]) -> dict[Fraction, int]:
    """The distribution of a sum. parts: weights, and how many noises have them."""
    one, found = chances(noise), {Fraction(0): ONE}
    for weight, count in parts:
        for _ in range(count):
            more: dict[Fraction, int] = {}
            for value, chance in found.items():
                for added, other in one.items():
                    place = value + weight * added
                    more[place] = more.get(place, 0) + chance * other // ONE
            found = {place: chance for place, chance in more.items() if chance > ONE // 10**13}
    return found


def beyond(found: dict[Fraction, int], width: Fraction | float) -> float:
    """P(|sum| > width): what was not added up lies beyond."""
    return float(1 - Fraction(sum(chance for value, chance in found.items() if abs(value) <= width), ONE))


def least_width(found: dict[Fraction, int]) -> Fraction:
    """The least width beyond which there are at most 5 %."""
    by_size: dict[Fraction, int] = {}
    for value, chance in found.items():
        by_size[abs(value)] = by_size.get(abs(value), 0) + chance
    inside = 0
    for size in sorted(by_size):
        inside += by_size[size]
        if inside >= ONE * 95 // 100:
            return size
    raise AssertionError("less than 95 % were added up")
