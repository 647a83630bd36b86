"""Exact privacy budgets: how an epsilon is read, and how epsilons compose. Sums use fractions, never floats.

Sequential and parallel composition: McSherry 2009, theorems 3 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational

from duckanon.errors import InvalidInput

# The largest epsilon; it protects practically nothing.
_MOST = 1_000_000
# Digits after the point. It keeps sums of charges short.
_DIGITS = 12
# Longer exponents would take long to expand.
_NUMBER = re.compile(r"[-+]?(\d{1,40}/0*[1-9]\d{0,40}|(\d{1,40}(\.\d{0,60})?|\.\d{1,60})([eE][-+]?\d{1,4})?)", re.ASCII)


def epsilon(value: object, argument: str = "epsilon") -> Fraction:
    """The privacy parameter, exactly: 0.1 as a decimal, '0.1' and '1/10' all mean one tenth.

    A float stands for its shortest decimal representation, as it was written.
    Raises InvalidInput for anything but a number above zero and at most a million, with at most twelve digits after the
    point or a denominator of at most 10^12.
    """
    number = rational(value)
    if number is None or not 0 < number <= _MOST:
        raise InvalidInput(f"{argument} must be a number above 0 and at most {_MOST:,}, as in {argument} := 0.1.")
    if number.denominator > 10**_DIGITS:
        raise InvalidInput(f"{argument} has more than {_DIGITS} digits after the point: round it.")
    return number


def rational(value: object) -> Fraction | None:
    """The number that was written, exactly; None for what is no finite number."""
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(value)
    text = str(value).strip() if isinstance(value, str | float | Decimal) else ""
    return Fraction(text) if _NUMBER.fullmatch(text) else None


def written(number: Fraction) -> str:
    """The number in as few exact characters as possible: '0.1' where digits suffice, else '1/3'."""
    scaled = number * 10**_DIGITS
    if scaled.denominator != 1:
        return str(number)
    whole, part = divmod(abs(scaled.numerator), 10**_DIGITS)
    sign, digits = "-" * (number < 0), f"{part:0{_DIGITS}d}".rstrip("0")
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


def sequential(charges: Iterable[Fraction]) -> Fraction:
    """What releases from the same rows cost together: their sum. Levels of a hierarchy and calls compose like this."""
    return sum(charges, Fraction(0))


def parallel(charges: Iterable[Fraction]) -> Fraction:
    """What releases from disjoint rows cost together: the largest. The regions of one level compose like this."""
    return max(charges, default=Fraction(0))


@dataclass(frozen=True)
class Charge:
    """The cost of one release.

    epsilon: the sum over levels. what: the call, without values of the data. neighbours: which tables the release makes
    hard to distinguish, in words. unit: what is protected as a whole. noise: what kind, in words, where `epsilon` is in
    the unit of a ledger that knows several. keys: whether it is for keys found with noise. rho: of Gaussian noise whose
    price only the ledger knows; then epsilon is that of pure noise for the same price. Raises InvalidInput unless
    0 < epsilon.
    """

    epsilon: Fraction
    what: str
    neighbours: str
    unit: str = "one record"
    noise: str = ""
    keys: bool = False
    rho: Fraction | None = None

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise InvalidInput("A charge must be above zero.")


@dataclass(frozen=True)
class Budget:
    """How much a population may spend in all, and how much is spent: total > 0, spent >= 0.

    More than the total may be spent already when a budget is set.
    """

    total: Fraction
    spent: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.total <= 0 or self.spent < 0:
            raise InvalidInput("A budget must be above zero, and what is spent of it zero or more.")

    @property
    def remaining(self) -> Fraction:
        return max(self.total - self.spent, Fraction(0))

    def admits(self, charge: Fraction) -> bool:
        """Whether what is left suffices for `charge`."""
        return charge <= self.remaining
