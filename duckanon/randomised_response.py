"""What pure noise costs as a Rényi divergence: as much as randomised response with the same epsilon.

Whatever is e-differentially private can be made from the answer to one yes-or-no question that is true with the odds
exp(e) to one (Kairouz, Oh and Viswanath 2015), so of two neighbours its divergence is at most that answer's, and no
less for that answer itself. At the order a it is (Mironov 2017, proposition 5)

    e - ln((1 + exp(-e)) / (1 + exp(-(2 a - 1) e))) / (a - 1),

which is below both e and a e^2 / 2. It is a logarithm: prices are rounded up to twelve digits, and each is checked in
fractions, by sums of series that share nothing with how it was computed.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import exp, isqrt, log1p

from duckanon.rational_bounds import exponential_at_least, exponential_at_most

# Prices and epsilons that are bought are whole multiples of that.
DIGITS = 12
_GRAINS = 10**DIGITS
# Logarithms are computed to so many digits; more than what is added for their errors needs.
_PRECISE = Context(prec=80)
_SLACK = Decimal(10) ** -30
# Powers above it count as that in the check: what they leave out is far below a grain.
_MOST_POWER = 100


def simple_price(epsilon: Fraction, order: Fraction) -> Fraction:
    """An upper bound that is a fraction itself: no divergence is above e, or above order e^2 / 2.

    For e-differential privacy is e^2/2 zero-concentrated (Bun and Steinke 2016, proposition 3.3).
    """
    return min(epsilon, order * epsilon**2 / 2)


@lru_cache(20_000)
def price(epsilon: Fraction, order: Fraction) -> Fraction:
    """The divergence of an order above 1 that pure noise of an epsilon has at most, rounded up.

    Raises AssertionError where the check does not confirm it, which is a bug.
    """
    e, a = _decimal(epsilon), _decimal(order)
    near, far = ((-e * times).exp(_PRECISE) for times in (Decimal(1), 2 * a - 1))
    lost = _PRECISE.divide(_PRECISE.subtract((1 + near).ln(_PRECISE), (1 + far).ln(_PRECISE)), a - 1)
    exact = _PRECISE.add(_PRECISE.subtract(e, lost), _SLACK)
    rounded = Fraction(exact.quantize(Decimal(10) ** -DIGITS, rounding=ROUND_CEILING, context=_PRECISE))
    number = min(rounded, simple_price(epsilon, order))
    if not is_enough(number, epsilon, order):
        raise AssertionError("A price of pure noise is below its divergence: this is a bug in duckanon.")
    return number


def is_enough(price: Fraction, epsilon: Fraction, order: Fraction) -> bool:
    """Whether the divergence is at most the price, computed anew. It says yes only where that is true.

    With the formula above that is exp((a - 1) (e - price)) (1 + exp(-(2 a - 1) e)) <= 1 + exp(-e).
    """
    if price >= simple_price(epsilon, order):
        return True
    saved = (order - 1) * (epsilon - price)
    if saved > 1 or epsilon > _MOST_POWER:
        return False
    far = 1 / exponential_at_least(min((2 * order - 1) * epsilon, Fraction(_MOST_POWER)))
    return exponential_at_most(saved) * (1 + far) <= 1 + 1 / exponential_at_most(epsilon)


@lru_cache(20_000)
def largest_epsilon(bought: Fraction, order: Fraction) -> Fraction:
    """The largest epsilon of pure noise that a price buys, rounded down."""
    simple = max(bought, root(2 * bought / order))
    at = int(_nearly(float(bought), float(order)) * _GRAINS)
    while at > 0 and price(Fraction(at, _GRAINS), order) > bought:
        at -= 1
    while price(Fraction(at + 1, _GRAINS), order) <= bought:
        at += 1
    return max(simple, Fraction(at, _GRAINS))


def root(square: Fraction) -> Fraction:
    """The square root, rounded down to as many digits as epsilons have."""
    return Fraction(isqrt(square.numerator * _GRAINS**2 // square.denominator), _GRAINS)


def _nearly(bought: float, order: float) -> float:
    """The epsilon with that divergence, in floats. What is subtracted from it is at most ln(2) / (order - 1)."""
    low, high = bought, bought + 0.7 / (order - 1)
    for _ in range(100):
        middle = (low + high) / 2
        lost = (log1p(exp(-middle)) - log1p(exp(-(2 * order - 1) * middle))) / (order - 1)
        low, high = (middle, high) if middle - lost <= bought else (low, middle)
    return low


def _decimal(number: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(number.numerator), Decimal(number.denominator))
