"""Rényi accounting: the capacity of (epsilon, delta), the check of it, and what noise costs, against other ways."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb, erfc, exp, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.errors import InvalidInput
from duckanon.randomised_response import simple_price
from duckanon.renyi import Renyi, delta, digits, holds, renyi

GRAIN = Fraction(1, 10**12)
PROMISES = [
    ("4", "1e-9"),
    ("3", "1e-6"),
    ("1", "1e-9"),
    ("0.1", "1e-6"),
    ("0.001", "1e-12"),
    ("20", "1e-6"),
    ("8", "1e-30"),
]
epsilons = st.fractions(min_value=Fraction(1, 1000), max_value=50, max_denominator=1000)
orders = st.fractions(min_value=Fraction(11, 10), max_value=100, max_denominator=100)
deltas = st.sampled_from([Fraction(1, 10**6), Fraction(1, 10**9), Fraction(3, 10**7), Fraction(1, 10**30)])


def exact(known: Renyi) -> Decimal:
    """The delta that the conversion gives, to a hundred digits."""
    with localcontext() as context:
        context.prec = 100
        order, epsilon, capacity = (
            Decimal(one.numerator) / Decimal(one.denominator) for one in (known.order, known.epsilon, known.capacity)
        )
        return ((order - 1) * (capacity - epsilon) + order * (1 - 1 / order).ln()).exp() / (order - 1)


@pytest.mark.parametrize(("epsilon", "given"), PROMISES)
def test_the_capacity_is_as_large_as_it_may_be(epsilon: str, given: str) -> None:
    known = renyi(Fraction(epsilon), delta(given))
    assert holds(known)
    assert exact(known) <= Decimal(3) / 4 * Decimal(given)
    more = Renyi(known.epsilon, known.delta, known.order, known.capacity + 2 * GRAIN)
    assert not holds(more)
    assert exact(more) > Decimal(3) / 4 * Decimal(given)
    for order in (known.order - Fraction(1, 100), known.order + Fraction(1, 100), known.order * 2):
        other = renyi(known.epsilon, known.delta, order)
        assert other.rho(other.capacity) <= known.rho(known.capacity) + GRAIN


def test_figures() -> None:
    known = renyi(Fraction(4), delta("1e-9"))
    assert (known.order, known.capacity) == (Fraction("10.58"), Fraction("2.152316802822"))
    # More than by the simpler conversion, epsilon - ln(1/delta) / (order - 1).
    assert known.capacity > 4 - Fraction("20.72") / (known.order - 1)
    assert known.conversion + known.keys == known.delta


@given(epsilons, deltas, st.fractions(min_value=-1, max_value=1, max_denominator=10**6))
def test_the_check_knows_what_is_too_much(epsilon: Fraction, small: Fraction, change: Fraction) -> None:
    known = renyi(epsilon, small)
    other = Renyi(epsilon, small, known.order, known.capacity + change / 10**3)
    assert holds(known)
    if 0 < other.capacity <= epsilon:
        assert holds(other) == (exact(other) <= Decimal(3) / 4 * Decimal(small.numerator) / Decimal(small.denominator))


@pytest.mark.parametrize(
    "wrong",
    [
        Renyi(Fraction(4), delta("1e-9"), Fraction(1), Fraction(1)),
        Renyi(Fraction(4), delta("1e-9"), Fraction(10), Fraction(5)),
        Renyi(Fraction(4), delta("1e-9"), Fraction(10), Fraction(0)),
        # The order of another promise.
        Renyi(Fraction(4), delta("1e-9"), Fraction(2), Fraction(2)),
    ],
)
def test_what_is_no_capacity(wrong: Renyi) -> None:
    assert not holds(wrong)


def gaussian_delta(epsilon: float, rho: float) -> float:
    """Of Gaussian noise, exactly (Balle and Wang 2018, theorem 8)."""
    mu = sqrt(2 * rho)
    below = [erfc((epsilon / mu + sign * mu / 2) / sqrt(2)) / 2 for sign in (-1, 1)]
    return below[0] - exp(epsilon) * below[1]


@pytest.mark.parametrize(("epsilon", "given"), [one for one in PROMISES if float(one[0]) >= 0.1 and one[1] != "1e-30"])
def test_gaussian_noise_of_the_whole_capacity_keeps_the_promise_and_of_a_third_more_does_not(
    epsilon: str, given: str
) -> None:
    known = renyi(Fraction(epsilon), delta(given))
    rho = float(known.rho(known.capacity))
    assert gaussian_delta(float(epsilon), rho) <= float(known.conversion)
    assert gaussian_delta(float(epsilon), rho * 4 / 3) > float(known.delta)


def responses_delta(epsilon: float, each: Fraction, several: int) -> float:
    """Of randomised responses to one bit, exactly: the sum over all outcomes of what is above e^epsilon times."""
    true = exp(each) / (1 + exp(each))
    terms = (
        comb(several, at)
        * (true**at * (1 - true) ** (several - at) - exp(epsilon) * true ** (several - at) * (1 - true) ** at)
        for at in range(several + 1)
    )
    return sum(max(one, 0.0) for one in terms)


@pytest.mark.parametrize("each", ["0.05", "0.07", "0.1"])
def test_pure_noise_of_the_whole_capacity_keeps_the_promise(each: str) -> None:
    known = renyi(Fraction(3), delta("1e-6"))
    several = int(known.capacity / known.of_pure(Fraction(each)))
    assert several > 3 / float(each)
    assert responses_delta(3, Fraction(each), several) <= float(known.conversion)
    # At half the price it would not.
    assert responses_delta(3, Fraction(each), 2 * several) > float(known.delta)


@given(epsilons, deltas, st.fractions(min_value=Fraction(1, 10**6), max_value=3, max_denominator=10**6))
def test_a_price_buys_what_costs_no_more(epsilon: Fraction, small: Fraction, price: Fraction) -> None:
    known = renyi(epsilon, small)
    assert known.of_rho(known.rho(price)) == price
    pure = known.pure(price)
    assert known.of_pure(pure) <= price < known.of_pure(pure + GRAIN)
    assert pure >= price


@given(epsilons, epsilons, orders)
def test_earlier_charges_count_together_as_much_as_apart(one: Fraction, other: Fraction, order: Fraction) -> None:
    apart = simple_price(one, order) + simple_price(other, order)
    assert apart <= simple_price(one + other, order) <= one + other


@pytest.mark.parametrize("given", ["0", "-1e-9", "0.00001", "1", "1e-31", "nan", "", "one", None, True])
def test_what_is_no_delta(given: object) -> None:
    with pytest.raises(
        InvalidInput, match=r"^delta must be a number above 0 \(1e-30 at least\) and at most 1e-6, as in"
    ):
        delta(given)


@pytest.mark.parametrize("given", [1e-9, Decimal("0.000000001"), "1e-9", "1/1000000000"])
def test_a_delta_is_read_as_a_decimal(given: object) -> None:
    assert delta(given) == Fraction(1, 10**9)
    assert digits(delta(given)) == "1e-9"
    assert digits(Fraction(1, 3 * 10**7)) == "1/30000000"


def test_an_epsilon_too_small_for_its_delta() -> None:
    with pytest.raises(InvalidInput, match=r"With delta 1e-30 nothing fits into epsilon 0\.000000000001: give more"):
        renyi(GRAIN, delta("1e-30"))


def test_an_epsilon_too_small_for_the_order_that_a_population_keeps() -> None:
    kept = renyi(Fraction(4), delta("1e-9"))
    said = (
        r"^At the order 10\.58, which the population keeps because what was spent is counted in it, nothing fits into "
        r"epsilon 1 with delta 1e-9: give 1\.848 or more\.$"
    )
    with pytest.raises(InvalidInput, match=said):
        renyi(Fraction(1), kept.delta, kept.order)
    assert renyi(Fraction("1.848"), kept.delta, kept.order).capacity < Fraction(1, 1000)
    # At an order of its own the same epsilon has room.
    assert renyi(Fraction(1), kept.delta).capacity > 0


@given(deltas, st.integers(min_value=110, max_value=10**6))
def test_the_epsilon_that_is_told_has_room_and_a_thousandth_less_has_none(small: Fraction, hundredths: int) -> None:
    order = Fraction(hundredths, 100)
    with pytest.raises(InvalidInput) as refused:
        renyi(GRAIN, small, order)
    told = Fraction(str(refused.value).rpartition("give ")[2].partition(" or more")[0])
    assert renyi(told, small, order).capacity > 0
    with pytest.raises(InvalidInput):
        renyi(told - Fraction(1, 1000) or GRAIN, small, order)


@pytest.mark.parametrize(("epsilon", "given", "more"), [("4", "1e-9", 0.11), ("1", "1e-9", 0.12), ("3", "1e-6", 0.16)])
def test_how_many_more_counts_with_normal_noise_gaussian_accounting_would_fit(
    epsilon: str, given: str, more: float
) -> None:
    known, normal, e = renyi(Fraction(epsilon), delta(given)), NormalDist(), float(Fraction(epsilon))

    def needed(mu: float) -> float:
        return normal.cdf(mu / 2 - e / mu) - exp(e) * normal.cdf(-mu / 2 - e / mu)

    low, high = 0.001, 10.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) < float(known.delta) else (low, middle)
    assert low**2 / 2 / float(known.rho(known.capacity)) - 1 == pytest.approx(more, abs=0.005)


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_what_small_pure_noise_costs_in_gaussian_accounting(epsilon: float) -> None:
    # The errors of the best test of randomised response, where both are equal, are those of normal noise so far apart.
    mu = 2 * NormalDist().inv_cdf(exp(epsilon) / (1 + exp(epsilon)))
    assert mu**2 / 2 / (epsilon**2 / 2) == pytest.approx(1.57, abs=0.005)


def test_discrete_gaussian_noise_is_told_apart_better_than_normal_noise() -> None:
    weights = {value: exp(-(value**2) / 2) for value in range(-20, 21)}
    errors = 2 * sum(weights[value] for value in range(1, 21)) / sum(weights.values())
    assert errors == pytest.approx(0.601, abs=0.0005)
    assert 2 * NormalDist().cdf(-0.5) == pytest.approx(0.617, abs=0.0005)
