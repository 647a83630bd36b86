"""Bounds of transcendental functions by fractions, for what must hold exactly."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

# Sums are whole numbers of such parts, rounded down.
_ONE = 10**60


def exponential_at_least(power: Fraction) -> Fraction:
    """A number that exp(power) is at least, and hardly more, for a power of zero or more.

    All terms of the series are positive, so the sum of the first ones, each rounded down, is a lower bound.
    """
    whole = power.numerator * _ONE // power.denominator
    total, term, at = _ONE, _ONE, 0
    while term:
        at += 1
        term = term * whole // (_ONE * at)
        total += term
    return Fraction(total, _ONE)


def exponential_at_most(power: Fraction) -> Fraction:
    """A number that exp(power) is at most, and hardly less, for a power of zero or more.

    As above, each term rounded up, until a term is one part and the next ones are half of it, a quarter, and so on.
    """
    whole = -(-power.numerator * _ONE // power.denominator)
    total, term, at = _ONE, _ONE, 0
    while term > 1 or at * _ONE < 2 * whole:
        at += 1
        term = -(-term * whole // (_ONE * at))
        total += term
    return Fraction(total + 1, _ONE)


def exponential_between(power: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Numbers that exp(power) is between, ends included, which are apart by few units in so many digits.

    Decimal's exponential is rounded correctly, so its neighbours to both sides are bounds. Below 10^-9999 they are 0
    and a number that small. power: at most 23,000, or Overflow is raised.
    """
    down, up = (Context(digits + 10, way, Emin=-9999, Emax=9999) for way in (ROUND_FLOOR, ROUND_CEILING))
    least, most = (each.divide(Decimal(power.numerator), Decimal(power.denominator)).exp(each) for each in (down, up))
    return Fraction(max(least.next_minus(down), Decimal(0))), Fraction(most.next_plus(up))
