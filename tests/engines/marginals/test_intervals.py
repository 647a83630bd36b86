"""Intervals hold for all weights: the steps of the proof in `duckanon.engines.marginals.intervals`, enumerated."""

from __future__ import annotations

from itertools import product
from math import inf, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.marginals.intervals import MORE, UNIFORM, factor
from tests.engines.marginals.enumerated import chances, outside

NORMAL = NormalDist()


def least_more(variance: float) -> float:
    """What must be added to a variance so that N + U is more peaked than the normal variable of both."""
    values, weights = chances(variance)
    outer = 2 * weights[values > 0]
    knots = np.concatenate([[0.0], np.arange(len(outer) + 1) + 0.5])
    # From far away inwards, so that small chances are exact.
    beyond = np.concatenate([[1.0], np.cumsum(outer[::-1])[::-1], [0.0]])
    at = np.unique(np.concatenate([np.linspace(0.01, 3, 300), np.arange(0.25, 8 * sqrt(variance) + 2, 0.25)]))
    left = np.interp(at, knots, beyond)
    met = (left > 1e-12) & (left < 1 - 1e-6)
    needed = [(where / -NORMAL.inv_cdf(chance / 2)) ** 2 for where, chance in zip(at[met], left[met], strict=True)]
    return max(needed, default=0.0) - variance


@pytest.mark.parametrize("variance", np.exp(np.linspace(np.log(0.002), np.log(1000), 120)).tolist())
def test_with_a_uniform_part_it_is_more_peaked_than_a_normal_one(variance: float) -> None:
    needed = least_more(variance)
    assert needed <= 0.196 < MORE
    if variance >= 4:
        assert needed <= 0.18


def test_a_uniform_variable_is_more_peaked_than_a_normal_one() -> None:
    for at in np.linspace(0.001, 0.5, 200).tolist():
        assert 2 * at >= 2 * NORMAL.cdf(at / UNIFORM) - 1
    # The test can fail: of a smaller deviation it is not.
    assert 2 * NORMAL.cdf(0.01 / (0.9 * UNIFORM)) - 1 > 2 * 0.01


def test_of_normal_noise_it_is_the_normal_width() -> None:
    assert factor(inf) == pytest.approx(-NORMAL.inv_cdf(0.025), rel=1e-6)
    assert factor(inf) <= factor(1e6) <= factor(100) <= factor(1) <= factor(0.1)
    assert factor(400) <= 1.03 * factor(inf)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.03, 0.2, 0.5, 1.0, 2.0, 7.0, 30.0]), st.integers(-40, 40)), min_size=1, max_size=4
    )
)
def test_a_weighted_sum_is_within_the_width(terms: list[tuple[float, int]]) -> None:
    variances, weights = [one for one, _ in terms], [weight / 8 for _, weight in terms]
    deviation = sqrt(sum(weight**2 * one for one, weight in zip(variances, weights, strict=True)))
    width = factor(min(variances)) * deviation
    assert outside(variances, weights, width) <= 0.05 + 1e-9


@pytest.mark.parametrize("variance", [0.5, 1.0, 3.0])
def test_a_normal_width_alone_is_not_proven_for_all_weights(variance: float) -> None:
    """The test above can fail: some weights need more than 1.96 deviations."""
    tried = product((0.25, 0.5, 1.0), repeat=2)
    worst = max(
        outside([variance] * 2, list(one), factor(inf) * sqrt(variance * sum(each**2 for each in one))) for one in tried
    )
    assert worst > 0.05
