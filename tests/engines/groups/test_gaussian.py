"""Group sizes with Gaussian noise: what it costs, by enumeration of neighbours; how rho is divided; its tails."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from duckanon.engines.groups import discrete_gaussian as tails
from duckanon.engines.groups.draws import WINDOWS, beyond, quantiles, reach, variance
from duckanon.engines.groups.loss import Concentrated, Pure
from duckanon.engines.groups.methods import METHODS
from duckanon.engines.groups.queries import ABOVE, HISTOGRAM, INNER, Query
from duckanon.engines.groups.release import Plan, plan, release
from duckanon.engines.groups.request import Request
from duckanon.engines.groups.split import LEAST, Split, by_size
from duckanon.engines.noise import Gaussian
from duckanon.errors import DuckanonError, InvalidInput
from duckanon.renyi import renyi
from tests.amounts import many
from tests.engines.groups.plain import TREES, concentrated_loss, neighbours, of_units
from tests.engines.seeded import Seeded

RHO = Fraction(1, 3)
UNITS: list[dict[str, Any]] = [
    {"unit": unit, "contributions": contributions} for unit in ("record", "group") for contributions in (1, 2, 3)
]


def worst(plan: Plan, others: Sequence[np.ndarray]) -> Fraction:
    tree = plan.hierarchy
    before = tree.levels(plan.groups)
    return max(concentrated_loss(plan, before, tree.levels(other)) for other in others)


@pytest.mark.parametrize("name", [name for name, mechanism in METHODS.items() if mechanism.private])
@pytest.mark.parametrize("given", UNITS)
@pytest.mark.parametrize("tree", ["root", "two", "deep"])
def test_all_neighbours_of_a_small_table(tree: str, given: dict[str, Any], name: str) -> None:
    """Every table that one unit makes of this one costs rho at most, and one of them just that."""
    for step in (1, 2):
        if step == 2 and given == UNITS[2]:
            continue
        groups = np.full((TREES[tree].sizes[-1], 4), 3)
        made = plan(TREES[tree], groups, Request(rho=RHO, mechanism=name, totals="private", sensitivity=step, **given))
        found = worst(made, of_units(groups, step, given["contributions"], given["unit"]))
        if made.query is HISTOGRAM or given["unit"] == "group":
            assert found == RHO
        else:
            # Records that move one group further do not come together in one entry.
            assert RHO * Fraction(1, step) <= found <= RHO


@pytest.mark.parametrize("name", METHODS)
def test_all_neighbours_with_public_totals(name: str) -> None:
    groups = np.full((3, 4), 3)
    made = plan(TREES["deep"], groups, Request(rho=RHO, mechanism=name))
    assert worst(made, list(neighbours(groups, 1, private=False))) == RHO


@pytest.mark.parametrize("totals", ["public", "private"])
@pytest.mark.parametrize("contributions", [1, 2])
@pytest.mark.parametrize("tree", ["two", "deep"])
def test_all_neighbours_of_a_split_by_size(tree: str, contributions: int, totals: Any) -> None:
    """Whatever the look chooses for each size: noise differs by size and level, and nothing costs more."""
    if totals == "public" and contributions > 1:
        return
    groups = np.full((TREES[tree].sizes[-1], 9), 3)
    made = plan(TREES[tree], groups, Request(rho=RHO, totals=totals, contributions=contributions))
    assert len(made.split.ways) > 1
    found = [
        one for one in of_units(groups, 1, contributions, "record") if totals == "private" or one.sum() == groups.sum()
    ]
    assert worst(made, found) == RHO
    # With noise for one record, or with ways that cost more, the same count says so.
    thin = replace(made, request=replace(made.request, contributions=1))
    assert worst(thin, found) == RHO * contributions**2


@pytest.mark.parametrize("given", UNITS[1:3])
def test_noise_that_adds_records_up_as_if_they_were_apart_is_rejected(given: dict[str, Any]) -> None:
    """R records of a unit in groups of one size and region move one entry by R: R^2, and not R."""
    groups = np.full((3, 4), 3)
    made = plan(TREES["deep"], groups, Request(rho=RHO, mechanism="c_dp", totals="private", **given))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Query, "squares", lambda query, privacy, *more: query.distance(privacy, *more))
        # Made anew, since a plan keeps its noise.
        found = worst(replace(made), of_units(groups, 1, given["contributions"], "record"))
        assert found == RHO * given["contributions"]


def test_ways_that_do_not_add_up_are_a_bug() -> None:
    ways, loss = by_size(Concentrated(RHO), 3, 20).ways, Concentrated(RHO)
    with pytest.raises(DuckanonError, match="The parts of rho do not add up"):
        Split(loss, ways, RHO / 100)
    with pytest.raises(InvalidInput, match="rho must be positive"):
        plan(TREES["deep"], np.full((3, 4), 3), Request(rho=Fraction(0)))
    neither_or_both: list[dict[str, Any]] = [{}, {"rho": RHO, "epsilon": RHO}]
    for both in neither_or_both:
        with pytest.raises(InvalidInput, match="either an epsilon or a rho"):
            plan(TREES["deep"], np.full((3, 4), 3), Request(**both))


# --- how rho is divided -----------------------------------------------------------------------------------------------


@given(st.sampled_from(["1/100", "1/3", "22/7", "1/1000000000"]).map(Fraction), st.integers(2, 9))
def test_every_way_adds_up_exactly(rho: Fraction, depth: int) -> None:
    split = by_size(Concentrated(rho), depth, 20)
    assert {split.look + sum(way) for way in split.ways} == {rho}
    assert min(map(min, split.ways)) >= LEAST[Concentrated] * rho / depth


@settings(max_examples=many(50))
@given(st.lists(st.integers(1, 50), min_size=2, max_size=6))
def test_shares_of_rho_are_best_where_those_of_epsilon_are(weights: list[int]) -> None:
    """For any weights a of the levels' variances: the best shares of an epsilon become the best ones of a rho.

    The least of the sum of a / x, with x adding up to one, is (the sum of sqrt(a))^2 (Cauchy and Schwarz).
    """
    roots = [Fraction(round(one ** (1 / 3) * 10**12), 10**12) for one in weights]
    found = Concentrated(RHO).shares([root / sum(roots) for root in roots])
    assert sum(found) == 1
    least = sum(sqrt(one) for one in weights) ** 2
    assert sum(one / float(share) for one, share in zip(weights, found, strict=True)) == pytest.approx(least, rel=1e-9)
    assert Pure(RHO).shares(roots) == tuple(roots)


def test_equal_noise_chooses_the_same_ways() -> None:
    """Where Gaussian noise is as wide as Laplace noise at equal shares, a size's place between few and many is the
    same."""
    look, depth, epsilon = 10**6 // 2 ** np.arange(20), 3, Fraction(1, 2)
    # Variances depth / 2 rho and 2 (depth / epsilon)^2.
    rho = epsilon**2 / (4 * depth)
    one, other = by_size(Pure(epsilon), depth, 20), by_size(Concentrated(rho), depth, 20)
    assert other.loss.rate(ABOVE, _privacy(), 20, depth) == pytest.approx(one.loss.rate(ABOVE, _privacy(), 20, depth))
    chosen = [each.choose(look, 300, each.loss.rate(ABOVE, _privacy(), 20, depth)) % 5 for each in (one, other)]
    assert (chosen[0] == chosen[1]).all()
    assert len(set(chosen[0].tolist())) > 2


def _privacy() -> Any:
    return plan(TREES["deep"], np.full((3, 4), 3), Request(rho=RHO)).request.privacy


# --- which noise ------------------------------------------------------------------------------------------------------


def test_noise_on_counts_from_above_gives_way_where_it_is_wider() -> None:
    """By L2: a step of 4 is as wide as 2, and noise on n_s as sqrt(2). For Laplace noise it is 4, and 2."""
    for step, pure, gaussian in (
        (2, INNER, INNER),
        (3, HISTOGRAM, INNER),
        (4, HISTOGRAM, INNER),
        (5, HISTOGRAM, HISTOGRAM),
    ):
        groups = np.full((3, 9), 3)
        assert plan(TREES["deep"], groups, Request(epsilon=Fraction(1), sensitivity=step)).query is pure
        assert plan(TREES["deep"], groups, Request(rho=Fraction(1), sensitivity=step)).query is gaussian


def test_the_narrower_noise_is_taken() -> None:
    """A whole budget of (1, 1e-9) buys narrower pure noise, half of it narrower Gaussian noise; whichever it is has
    the smaller variance."""
    known = renyi(Fraction(1), Fraction(1, 10**9))
    seen = []
    for part, contributions in product((1, 2, 4, 10, 100), (1, 5)):
        price = known.capacity / part
        pure = Request(epsilon=known.pure(price), totals="private", contributions=contributions)
        gaussian = replace(pure, epsilon=None, rho=known.rho(price))
        is_gaussian = pure.is_gaussian_nearer(known.rho(price), 3, 20)
        sides = [variance(plan(TREES["deep"], np.zeros((3, 4), np.int64), one).noise[0][0]) for one in (pure, gaussian)]
        assert is_gaussian == (sides[1] < sides[0])
        seen.append((part, is_gaussian))
    assert set(seen) == {(1, False), (2, True), (4, True), (10, True), (100, True)}
    # What `check` refuses is no release.
    assert not replace(pure, mechanism="chain").is_gaussian_nearer(known.rho(price), 3, 20)


@pytest.mark.parametrize("name", METHODS)
def test_every_mechanism_releases_what_adds_up(name: str) -> None:
    tree, groups = TREES["deep"], np.array([[900, 40, 3, 0], [5, 400, 0, 1], [70, 70, 2, 2]])
    found = release(tree, groups, Request(rho=Fraction(10**6), mechanism=name), source=Seeded(1))
    for ours, truth in zip(found.levels, tree.levels(groups), strict=True):
        assert (ours.groups == truth).all()
        assert (ours.low <= truth).all()
        assert (truth <= ours.high).all()
    noisy = release(tree, groups, Request(rho=Fraction(1, 50), mechanism=name), source=Seeded(1))
    assert any((ours.groups != truth).any() for ours, truth in zip(noisy.levels, tree.levels(groups), strict=True))


# --- tails ------------------------------------------------------------------------------------------------------------


def test_the_variance() -> None:
    for parameter in (Fraction(1, 100), Fraction(1, 4), Fraction(1), Fraction(8), Fraction(10), Fraction(1000)):
        v = np.arange(-2000, 2001)
        weights = np.exp(-(v**2) / (2 * float(parameter)))
        exact = (weights * v**2).sum() / weights.sum()
        assert variance(Gaussian(parameter)) == pytest.approx(max(exact, 1e-12), rel=1e-12)


@pytest.mark.parametrize("other", [None, "1", "1/4", "1/10000000"])
def test_wide_tails_are_a_little_larger_than_exact_ones(other: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a deviation of 256: never smaller, and larger by what half a unit a draw makes."""
    wide = Gaussian(Fraction(257**2))
    draws = (wide,) if other is None else (wide, Gaussian(wide.variance * Fraction(other)))
    v = np.arange(0, 1600)
    bound = beyond(draws, v)
    monkeypatch.setattr(tails, "_EXACT", 10**4)
    exact = beyond(draws, v) - 1e-13
    assert (bound >= exact - 1e-14).all()
    assert (bound[1:] <= exact[:-1] * (1 + 1e-3) + 1e-12).all()


def test_wide_reaches_are_a_little_larger_than_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Gaussian(Fraction(257**2))
    bound = {(m, o): reach(wide, m, o, 0.05) for m in WINDOWS for o in WINDOWS if m}
    monkeypatch.setattr(tails, "_EXACT", 10**4)
    for (m, o), found in bound.items():
        exact = reach.__wrapped__(wide, max(m, o), min(m, o), 0.05)
        # Steps of a 512th of the deviation.
        assert exact - 0.6 <= found <= exact + 1.3


def test_the_widest_noise_is_like_normal_noise() -> None:
    wide = Gaussian(Fraction(2**110))
    found = quantiles((wide,), np.array([0.05]))[0]
    assert found == pytest.approx(2**55 * norm.isf(0.05), rel=1e-9)
    assert log(float(beyond((wide, wide), np.array([2**57]))[0])) == pytest.approx(norm.logsf(4 / sqrt(2)), rel=1e-9)
