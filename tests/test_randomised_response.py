"""What pure noise costs: the divergence of randomised response, never less, and no more than twelve digits allow."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon import randomised_response
from duckanon.randomised_response import is_enough, largest_epsilon, price, simple_price
from duckanon.rational_bounds import exponential_at_least, exponential_at_most, exponential_between

GRAIN = Fraction(1, 10**12)
EPSILONS = st.one_of(
    st.fractions(min_value=Fraction(1, 10**6), max_value=6, max_denominator=10**6),
    st.fractions(min_value=1, max_value=500, max_denominator=1000),
)
ORDERS = st.integers(min_value=110, max_value=10**6).map(lambda hundredths: Fraction(hundredths, 100))


def divergence(epsilon: Fraction, order: Fraction) -> Decimal:
    """Of one true answer from the other, by the definition, to six hundred digits."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 600, 10**9, -(10**9)
        e, a = (Decimal(one.numerator) / Decimal(one.denominator) for one in (epsilon, order))
        true, false = 1 / (1 + (-e).exp()), 1 / (1 + e.exp())
        one, other = ((a * p.ln() + (1 - a) * q.ln()).exp() for p, q in ((true, false), (false, true)))
        return (one + other).ln() / (a - 1)


@given(EPSILONS, ORDERS)
def test_the_price_is_the_divergence_rounded_up(epsilon: Fraction, order: Fraction) -> None:
    found = price(epsilon, order)
    exactly = Fraction(divergence(epsilon, order))
    assert exactly <= found <= simple_price(epsilon, order)
    assert found <= exactly + GRAIN * Fraction(1001, 1000)


@given(EPSILONS, ORDERS, st.integers(-3, 3))
def test_the_check_says_yes_only_where_it_is_true(epsilon: Fraction, order: Fraction, grains: int) -> None:
    exactly = Fraction(divergence(epsilon, order))
    told = max(exactly + grains * GRAIN / 1000, GRAIN)
    if is_enough(told, epsilon, order):
        assert told >= exactly
    elif epsilon < 50 and told < simple_price(epsilon, order):
        assert told < exactly + GRAIN / 1000


def test_a_price_that_is_too_low_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin that rounds down instead."""
    monkeypatch.setattr(randomised_response, "ROUND_CEILING", "ROUND_FLOOR")
    price.cache_clear()
    with pytest.raises(AssertionError, match="below its divergence"):
        price(Fraction(1, 3), Fraction(9))
    price.cache_clear()


@given(EPSILONS, ORDERS)
def test_a_price_buys_the_largest_epsilon_that_costs_no_more(bought: Fraction, order: Fraction) -> None:
    found = largest_epsilon(bought, order)
    assert found >= bought
    assert price(found, order) <= bought < price(found + GRAIN, order)


@given(st.lists(EPSILONS, min_size=2, max_size=3), ORDERS)
def test_together_pure_noise_costs_as_much_as_apart_or_more(several: list[Fraction], order: Fraction) -> None:
    assert sum(price(one, order) for one in several) <= price(sum(several, Fraction(0)), order) + len(several) * GRAIN


@pytest.mark.parametrize(
    ("order", "epsilon", "saved"),
    [
        ("10.58", "0.05", 1.04),
        ("10.58", "0.1", 1.16),
        ("10.58", "0.189", 1.47),
        ("10.58", "0.5", 1.11),
        ("10.58", "1", 1.03),
    ],
)
def test_how_much_dearer_the_simple_bound_is(order: str, epsilon: str, saved: float) -> None:
    simple, sharp = (of(Fraction(epsilon), Fraction(order)) for of in (simple_price, price))
    assert float(simple / sharp) == pytest.approx(saved, abs=0.006)


# --- bounds -----------------------------------------------------------------------------------------------------------


@given(st.fractions(min_value=0, max_value=100, max_denominator=10**9))
def test_exponentials_are_between_their_bounds(power: Fraction) -> None:
    with localcontext() as context:
        context.prec = 150
        true = Fraction((Decimal(power.numerator) / Decimal(power.denominator)).exp())
    near = 1 + Fraction(1, 10**50)
    assert exponential_at_least(power) <= true <= exponential_at_most(power) <= exponential_at_least(power) * near
    for sign in (1, -1):
        low, high = exponential_between(sign * power, 30)
        assert low <= true**sign <= high <= low * (1 + Fraction(1, 10**35))


def test_an_exponential_that_is_too_small_counts_as_zero() -> None:
    low, high = exponential_between(Fraction(-(10**30)), 30)
    assert low == 0
    assert 0 < high < Fraction(1, 10**9000)
