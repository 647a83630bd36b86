"""Keys found with noise: what the threshold keeps, by exact probabilities, and which values are told."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.found_keys import select, threshold
from duckanon.engines.noise import Gaussian
from duckanon.engines.randomness import Entropy
from duckanon.rational_bounds import exponential_at_least
from tests.engines.seeded import Seeded


def at_least(variance: Fraction, least: int) -> Decimal:
    """P(noise >= least), by adding up all values to sixty digits."""
    with localcontext() as context:
        context.prec = 60
        double = 2 * Decimal(variance.numerator) / Decimal(variance.denominator)
        weights = [(-(Decimal(value) ** 2) / double).exp() for value in range(60 + 30 * (1 + int(variance**0.5)))]
        return sum(weights[max(least, 0) :], Decimal(0)) / (2 * sum(weights) - 1)


def told(variance: Fraction, values: int, least: int) -> Decimal:
    """The probability that of so many values that one unit has alone, at least one is told."""
    with localcontext() as context:
        context.prec = 60
        return 1 - (1 - at_least(variance, least - 1)) ** values


CASES = [
    (Fraction(variance), values, Fraction(delta))
    for variance in ("0.05", "1", "21.3", "455", "10000/3")
    for values in (1, 3, 40)
    for delta in ("2.5e-10", "2.5e-13")
]


@pytest.mark.parametrize(("variance", "values", "delta"), CASES)
def test_what_one_unit_has_alone_is_told_at_most_that_often(variance: Fraction, values: int, delta: Fraction) -> None:
    least = threshold(Gaussian(variance), values, delta)
    small = Decimal(delta.numerator) / Decimal(delta.denominator)
    assert told(variance, values, least) <= small
    # A threshold four fifths as far from the one unit would not keep it, but for the steps of small noise.
    if variance > 20:
        assert told(variance, values, 1 + (least - 1) * 4 // 5) > small
    # Nor would that of noise with a smaller deviation, or that for one value where there are many.
    if variance > 20:
        assert told(variance, values, threshold(Gaussian(variance * Fraction(7, 10)), values, delta)) > small


def test_a_threshold_for_one_value_is_too_low_for_many() -> None:
    noise, delta = Gaussian(Fraction(455)), Fraction(1, 10**9)
    assert threshold(noise, 400, delta) > threshold(noise, 1, delta)
    assert told(noise.variance, 400, threshold(noise, 1, delta)) > Decimal("1e-9")


@given(st.fractions(min_value=0, max_value=120, max_denominator=10**9))
def test_the_exponential_is_bounded_from_below_and_nearly_reached(power: Fraction) -> None:
    bound = exponential_at_least(power)
    with localcontext() as context:
        context.prec = 120
        true = (Decimal(power.numerator) / Decimal(power.denominator)).exp()
        value = Decimal(bound.numerator) / Decimal(bound.denominator)
        assert value <= true
        assert value >= true * (1 - Decimal("1e-50"))


def test_values_of_many_units_are_told_and_of_few_are_not() -> None:
    noise = Gaussian(Fraction(25))
    least = threshold(noise, 1, Fraction(1, 10**9))
    units = np.array([1, 2 * least, 0, 3 * least, 1] + [1] * 1000, dtype=np.int64)
    for _ in range(20):
        assert select(units, noise, least, 100, Entropy()).tolist() == [1, 3]


def test_at_most_so_many_by_noisy_numbers_in_the_order_of_values() -> None:
    units = np.array([500, 900, 700, 800, 600], dtype=np.int64)
    noise = Gaussian(Fraction(1))
    assert select(units, noise, 10, 3, Seeded(1)).tolist() == [1, 2, 3]
    assert select(units, noise, 750, 3, Seeded(1)).tolist() == [1, 3]
    assert select(units, noise, 2000, 3, Seeded(1)).tolist() == []
    assert select(np.zeros(0, dtype=np.int64), noise, 10, 3, Seeded(1)).tolist() == []
