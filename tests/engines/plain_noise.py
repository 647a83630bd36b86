"""Sums of discrete Laplace noise by adding up all values, in whole numbers: slow, and exact to fifteen digits."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

ONE = 10**25
# What lies beyond the values that are added up has less than that.
_BEYOND = Fraction(1, 10**9)


@cache
def chances(scale: Fraction) -> dict[int, int]:
    """Probabilities of one noise, in parts of `ONE`, rounded down."""
    with localcontext() as context:
        context.prec = 60
        a = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        first, value, found = (1 - a) / (1 + a), 0, {}
        while a**value > Decimal(float(_BEYOND)):
            found[value] = found[-value] = int(first * a**value * ONE)
            value += 1
    return found


def summed(scale: Fraction, parts: Iterable[tuple[Fraction, int]]) -> dict[Fraction, int]:
    """The distribution of a sum. parts: weights, and how many noises have them."""
    one, found = chances(scale), {Fraction(0): ONE}
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
