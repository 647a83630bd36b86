"""Quantiles: the losses, the distribution of what is drawn, and its privacy, against enumerations."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.quantiles import losses, quantile
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


@pytest.mark.parametrize(("counts", "place"), [([3, 1, 0, 2], Fraction(1, 2)), ([0, 0, 5, 1], Fraction(1, 4))])
def test_draws_follow_the_distribution(counts: list[int], place: Fraction) -> None:
    source, draws = Seeded(5), 6_000
    found = np.bincount(
        [quantile(np.array(counts), place, Fraction(3, 2), source) for _ in range(draws)], minlength=len(counts)
    )
    wanted = np.array(chances(counts, place, 1.5)) * draws
    # Four degrees of freedom at most: 23.5 is exceeded once in ten thousand.
    assert ((found - wanted) ** 2 / wanted).sum() < 23.5
    wrong = np.array(chances(counts, place, 3.0)) * draws
    assert ((found - wrong) ** 2 / wrong).sum() > 23.5
