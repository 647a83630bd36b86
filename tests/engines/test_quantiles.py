"""Quantiles: the losses, the distribution of what is drawn, and its privacy, against enumerations."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from duckanon.engines.quantiles import Exponential, PermuteAndFlip, losses
from tests.engines.seeded import Seeded

COUNTS = st.lists(st.integers(0, 4), min_size=1, max_size=5)
PLACES = st.sampled_from([Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1)])


def loss(counts: list[int], place: Fraction, value: int) -> Fraction:
    """By how much the ranks of a value miss the wanted one, in records."""
    wanted = place * sum(counts)
    first, last = sum(counts[:value]), sum(counts[: value + 1])
    return max(Fraction(0), first - wanted, wanted - last)


def chances(counts: list[int], place: Fraction, price: float) -> list[float]:
    """The probability of each value, over all orders in which they may be tried."""
    found, sensitivity = losses(np.array(counts), place)
    keep = [exp(-price * float(one - found.min()) / (2 * sensitivity)) for one in found]
    total, orders = [0.0] * len(counts), list(permutations(range(len(counts))))
    for order in orders:
        left = 1.0
        for one in order:
            total[one] += left * keep[one] / len(orders)
            left *= 1 - keep[one]
    return total


@given(COUNTS, PLACES)
def test_losses_are_ranks(counts: list[int], place: Fraction) -> None:
    found, sensitivity = losses(np.array(counts), place)
    assert [Fraction(int(one), place.denominator) for one in found] == [
        loss(counts, place, value) for value in range(len(counts))
    ]
    for value in range(len(counts)):
        more = [one + (at == value) for at, one in enumerate(counts)]
        assert np.abs(losses(np.array(more), place)[0] - found).max() <= sensitivity


@given(COUNTS, PLACES, st.integers(0, 4), st.sampled_from([0.1, 1.0, 4.0]))
def test_one_record_more_changes_no_probability_by_more_than_its_price(
    counts: list[int], place: Fraction, at: int, price: float
) -> None:
    more = [one + (value == at % len(counts)) for value, one in enumerate(counts)]
    for mine, other in zip(chances(counts, place, price), chances(more, place, price), strict=True):
        assert mine <= other * exp(price) * (1 + 1e-9)
        assert other <= mine * exp(price) * (1 + 1e-9)


def test_half_the_sensitivity_would_be_too_much() -> None:
    """The privacy test above can fail: at twice the price there is a pair that breaks it."""
    pairs = [
        (mine, other)
        for counts in ([0, 1, 0], [1, 0, 1], [2, 0, 0, 2])
        for at in range(len(counts))
        for mine, other in zip(
            chances(counts, Fraction(1, 2), 2.0),
            chances([one + (value == at) for value, one in enumerate(counts)], Fraction(1, 2), 2.0),
            strict=True,
        )
    ]
    assert any(max(mine / other, other / mine) > exp(1) for mine, other in pairs)


def many_chances(counts: list[int], place: Fraction, price: float) -> np.ndarray:
    """As `chances`, for hundreds of values.

    In a uniformly random order a value's turn comes at a time u, uniform from 0 to 1, and each other value has had its
    turn with the probability u, independently.
    """
    found, sensitivity = losses(np.array(counts), place)
    keep = np.exp(-price * (found - found.min()) / (2 * sensitivity))
    nodes, weights = np.polynomial.legendre.leggauss(600)
    passed = 1 - np.outer((nodes + 1) / 2, keep)
    left = np.exp(np.log(passed).sum(axis=1, keepdims=True) - np.log(passed))
    return np.asarray(keep * (weights / 2 @ left))


@pytest.mark.ci("a slow second way to compute each distribution")
@given(COUNTS, PLACES, st.sampled_from([0.1, 1.0, 4.0]))
def test_two_ways_to_compute_the_distribution_agree(counts: list[int], place: Fraction, price: float) -> None:
    assert many_chances(counts, place, price) == pytest.approx(chances(counts, place, price), rel=1e-9)


@pytest.mark.parametrize("price", [0.1, 1.0])
def test_a_tenth_more_than_the_price_would_be_too_much(price: float) -> None:
    """A second record beside one, with hundreds of values above it: the price is nearly reached."""

    def most(used: float) -> float:
        pair = [many_chances(counts, Fraction(1, 2), used) for counts in ([0, 1] + 500 * [0], [0, 1] + 499 * [0] + [1])]
        return float(np.abs(np.log(pair[0] / pair[1])).max())

    assert 0.95 * price < most(price) <= price
    assert most(price / 0.9) > price


@pytest.mark.parametrize(("counts", "place"), [([3, 1, 0, 2], Fraction(1, 2)), ([0, 0, 5, 1], Fraction(1, 4))])
def test_draws_follow_the_distribution(counts: list[int], place: Fraction) -> None:
    source, draws = Seeded(5), 6_000
    found = np.bincount(
        [PermuteAndFlip(Fraction(3, 2)).choose(np.array(counts), place, source) for _ in range(draws)],
        minlength=len(counts),
    )
    wanted = np.array(chances(counts, place, 1.5)) * draws
    # Four degrees of freedom at most: 23.5 is exceeded once in ten thousand.
    assert ((found - wanted) ** 2 / wanted).sum() < 23.5
    wrong = np.array(chances(counts, place, 3.0)) * draws
    assert ((found - wrong) ** 2 / wrong).sum() > 23.5


# --- the exponential mechanism ----------------------------------------------------------------------------------------


def exponential(counts: list[int], place: Fraction, price: float) -> np.ndarray:
    """The probability of each value."""
    found, sensitivity = losses(np.array(counts), place)
    weights = np.exp(-price * (found - found.min()) / (2 * sensitivity))
    return np.asarray(weights / weights.sum())


def divergence(mine: np.ndarray, other: np.ndarray, order: float) -> float:
    """Rényi's, of an order above 1."""
    return float(logsumexp(order * np.log(mine) + (1 - order) * np.log(other)) / (order - 1))


NEIGHBOURS = [
    (counts, [one + many * (value == at) for value, one in enumerate(counts)], many)
    for counts in ([0, 1, 0], [1, 0, 1], [2, 0, 0, 2], [0, 0], [3, 1], [1, 1, 1, 1, 1], [0, 4, 0, 0, 1])
    for at in range(len(counts))
    for many in (1, 2, 3)
]


@pytest.mark.parametrize("place", [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1)])
@pytest.mark.parametrize("price", [0.1, 1.0, 3.0])
def test_the_exponential_mechanism_has_the_range_and_the_rho_that_it_says(place: Fraction, price: float) -> None:
    """Over all neighbours of small tables, by one to three records, in both directions."""
    for counts, more, many in NEIGHBOURS:
        mine, other = exponential(counts, place, price), exponential(more, place, price)
        logs = np.log(mine / other)
        assert logs.max() - logs.min() <= price * many * (1 + 1e-9)
        for order in (1.1, 2.0, 11.84, 60.0):
            most = order * (price * many) ** 2 / 8 * (1 + 1e-9) + 1e-12
            assert divergence(mine, other, order) <= most
            assert divergence(other, mine, order) <= most


def test_permute_and_flip_has_no_such_rho_and_no_such_range() -> None:
    """What holds for the exponential mechanism does not for it; and of that, a price larger by a tenth is too much."""
    counts, more = [0, 1, 0], [0, 2, 0]
    found = []
    for one, other, _ in NEIGHBOURS:
        mine, theirs = np.array(chances(one, Fraction(1, 2), 0.1)), np.array(chances(other, Fraction(1, 2), 0.1))
        found.append(divergence(mine, theirs, 2.0) / (2 * 0.1**2 / 8))
    assert max(found) > 1.5, (counts, more)
    ranges = []
    for one, other, many in NEIGHBOURS:
        logs = np.log(exponential(one, Fraction(1, 2), 1.1) / exponential(other, Fraction(1, 2), 1.1))
        ranges.append((logs.max() - logs.min()) / many)
    assert max(ranges) > 1


@pytest.mark.parametrize(("counts", "place"), [([3, 1, 0, 2], Fraction(1, 2)), ([0, 0, 5, 1], Fraction(1, 4))])
def test_draws_of_the_exponential_mechanism_follow_its_distribution(counts: list[int], place: Fraction) -> None:
    source, draws = Seeded(6), 6_000
    found = np.bincount(
        [Exponential(Fraction(3, 2)).choose(np.array(counts), place, source) for _ in range(draws)],
        minlength=len(counts),
    )
    wanted = exponential(counts, place, 1.5) * draws
    assert ((found - wanted) ** 2 / wanted).sum() < 23.5
    wrong = exponential(counts, place, 3.0) * draws
    assert ((found - wrong) ** 2 / wrong).sum() > 23.5


@given(COUNTS, PLACES, st.sampled_from([0.05, 0.3, 1.0]))
def test_at_twice_the_price_the_exponential_mechanism_is_no_less_accurate(
    counts: list[int], place: Fraction, price: float
) -> None:
    """So for the same rho it is the better one: by its expected loss."""
    found = losses(np.array(counts), place)[0]
    assert exponential(counts, place, 2 * price) @ found <= np.array(chances(counts, place, price)) @ found + 1e-9
