"""Rényi differential privacy at one fixed order: how a population with delta accounts. Fractions, never floats.

A ledger of such a population adds up Rényi divergences of order `order`. Pure and Gaussian noise are charged in this
one unit: noise of zero-concentrated rho costs order * rho, and pure noise what randomised response with its epsilon
does (`duckanon.randomised_response`). Charges may be chosen by what came before: while they add up to the capacity at
most, all answers together have a divergence of at most the capacity (Feldman and Zrnic 2021, theorem 4.3). That is
(epsilon, delta)-differentially private where exp((order - 1) (capacity - epsilon)) / (order - 1) * (1 - 1/order)^order
is at most delta (Canonne, Kamath and Steinke 2020, proposition 12).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from duckanon import randomised_response
from duckanon.accounting import rational, written
from duckanon.errors import InvalidInput
from duckanon.rational_bounds import exponential_at_least

# Digits after the point of what is rounded down. They keep sums of charges short.
_DIGITS = 12
_MOST_DELTA = Fraction(1, 10**6)
_LEAST_DELTA = Fraction(1, 10**30)
# Orders are whole hundredths. Below the least one the series that `holds` adds up converges slowly; only epsilons of
# several hundred would want it.
_HUNDREDTHS = 100
_LEAST_ORDER = 110
# Of delta, what pays for the conversion; the rest pays for keys that are found with noise.
_CONVERSION = Fraction(3, 4)
# Logarithms are computed to so many digits; more than what is subtracted for their errors needs.
_PRECISE = Context(prec=80)
_SLACK = Decimal(10) ** -30
# Of the check: parts of one, and terms of its series. At the least order the rest of it is below 10^-22.
_ONE, _MOST_TERMS = 10**60, 500
# So many questions for keys share their part of delta.
KEYS_QUESTIONS = 1000


@dataclass(frozen=True)
class Renyi:
    """How a population with delta accounts: Rényi differential privacy at one order.

    epsilon, delta: what was promised. order: above 1. capacity: what the ledger may add up to, rounded down.
    """

    epsilon: Fraction
    delta: Fraction
    order: Fraction
    capacity: Fraction

    @property
    def promise(self) -> str:
        """What all paid answers together are."""
        return f"epsilon {written(self.epsilon)}, delta {digits(self.delta)}"

    @property
    def unit(self) -> str:
        """What the ledger adds up, in words."""
        return f"Rényi divergence of order {written(self.order)}"

    @property
    def conversion(self) -> Fraction:
        """The part of delta that the conversion from the Rényi divergence takes."""
        return self.delta * _CONVERSION

    @property
    def keys(self) -> Fraction:
        """The part of delta that is kept for keys found with noise."""
        return self.delta - self.conversion

    @property
    def of_keys(self) -> Fraction:
        """With what probability one question for keys may tell a value that a unit has alone.

        So many questions keep together within their part of delta, also divided by the probability that none does.
        """
        return self.keys / KEYS_QUESTIONS * (1 - self.delta)

    def rho(self, price: Fraction) -> Fraction:
        """Of Gaussian noise, the zero-concentrated rho that a price buys."""
        return price / self.order

    def of_rho(self, rho: Fraction) -> Fraction:
        """The price of Gaussian noise of a zero-concentrated rho."""
        return self.order * rho

    def pure(self, price: Fraction) -> Fraction:
        """The largest epsilon of pure noise that a price buys, rounded down."""
        return randomised_response.largest_epsilon(price, self.order)

    def of_pure(self, epsilon: Fraction) -> Fraction:
        """The price of pure noise of an epsilon."""
        return randomised_response.price(epsilon, self.order)

    def of_earlier(self, epsilon: Fraction) -> Fraction:
        """What all charges of pure noise that were made without a delta count as, by their sum.

        By the simple bound, by which every version has read the ledger.
        """
        return randomised_response.simple_price(epsilon, self.order)

    def range(self, price: Fraction) -> Fraction:
        """The largest range of a choice by the exponential mechanism that a price buys, rounded down.

        A range r is r^2/8 zero-concentrated (Cesar and Rogers 2021).
        """
        return 2 * randomised_response.root(2 * price / self.order)


def delta(value: object) -> Fraction:
    """The probability delta, exactly as it was written. Raises InvalidInput unless it is above 0 and at most 1e-6."""
    number = rational(value)
    if number is None or not _LEAST_DELTA <= number <= _MOST_DELTA:
        raise InvalidInput("delta must be a number above 0 (1e-30 at least) and at most 1e-6, as in delta := 1e-9.")
    return number


def renyi(epsilon: Fraction, delta: Fraction, order: Fraction | None = None) -> Renyi:
    """The order at which most Gaussian noise fits into (epsilon, delta), and the capacity at it.

    order: of a ledger that has one already, which may be far from the best for epsilon. Raises InvalidInput where
    epsilon is so small that nothing fits.
    """
    best = order or _best_order(epsilon, delta * _CONVERSION)
    found = Renyi(epsilon, delta, best, _rounded_down(_capacity(epsilon, delta * _CONVERSION, best)))
    if holds(found):
        return found
    nothing = f"nothing fits into epsilon {written(epsilon)}"
    if order is None:
        raise InvalidInput(f"With delta {digits(delta)} {nothing}: give more.")
    raise InvalidInput(
        f"At the order {written(order)}, which the population keeps because what was spent is counted in it, {nothing} "
        f"with delta {digits(delta)}: give {written(_least_epsilon(delta, order))} or more."
    )


def digits(delta: Fraction) -> str:
    """A delta in as few exact characters as possible: '1e-9' where that is exact, else as `written`."""
    short = f"{float(delta):g}".replace("e-0", "e-")
    return short if Fraction(short) == delta else written(delta)


def holds(known: Renyi) -> bool:
    """Whether the capacity at the order is (epsilon, delta)-differentially private, computed anew.

    With y = (order - 1) (epsilon - capacity) + sum over k of 1 / (k order^(k-1)), the inequality is
    delta (order - 1) exp(y) >= 1. The sum is rounded down, and so is the exponential: this function says yes only where
    the inequality is true.
    """
    if known.order <= 1 or not 0 < known.capacity <= known.epsilon:
        return False
    logarithm, power = 0, _ONE
    for k in range(1, _MOST_TERMS):
        logarithm += power // k
        power = power * known.order.denominator // known.order.numerator
    y = (known.order - 1) * (known.epsilon - known.capacity) + Fraction(logarithm, _ONE)
    return known.conversion * (known.order - 1) * exponential_at_least(y) >= 1


def _capacity(epsilon: Fraction, delta: Fraction, order: Fraction) -> Decimal:
    """What the ledger may add up to at an order, a little less than exactly, and never above epsilon."""
    most = _decimal(epsilon)
    return min(most, _PRECISE.subtract(most, _lost(delta, order))) - _SLACK


def _lost(delta: Fraction, order: Fraction) -> Decimal:
    """By how much the capacity at an order is below epsilon, about."""
    logarithm = _PRECISE.add(
        _PRECISE.ln(_decimal(delta * (order - 1))),
        _PRECISE.multiply(_decimal(order), _PRECISE.ln(_decimal(order / (order - 1)))),
    )
    return _PRECISE.divide(-logarithm, _decimal(order - 1))


def _least_epsilon(delta: Fraction, order: Fraction) -> Fraction:
    """The least epsilon, in whole thousandths, into which something fits at an order."""
    above = max(_lost(delta * _CONVERSION, order), Decimal(0)) + Decimal(10) ** (1 - _DIGITS)
    return Fraction(above.quantize(Decimal("0.001"), rounding=ROUND_CEILING, context=_PRECISE))


def _best_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The order, in whole hundredths, at which capacity / order is largest.

    It rises and then falls. Where it did not, another order would be found, at which less fits and all holds.
    """

    def rho(hundredths: int) -> Decimal:
        order = Fraction(hundredths, _HUNDREDTHS)
        return _PRECISE.divide(_capacity(epsilon, delta, order), _decimal(order))

    low, high = _LEAST_ORDER, 2 * _LEAST_ORDER
    while rho(high) > rho(high // 2):
        high *= 2
    while high - low > 2:
        third = (high - low) // 3
        if rho(low + third) < rho(high - third):
            low += third
        else:
            high -= third
    return Fraction(max(range(low, high + 1), key=rho), _HUNDREDTHS)


def _decimal(number: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(number.numerator), Decimal(number.denominator))


def _rounded_down(number: Decimal) -> Fraction:
    return Fraction(number.quantize(Decimal(10) ** -_DIGITS, rounding=ROUND_FLOOR, context=_PRECISE))
