"""Valid prices: held against every class of small tables of all types, with searches cut short, and broken twins."""

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.certificate.points import GRAINS, Distinct, Whole, distinct
from duckanon.engines.kanon.certificate.pricing import Effort, OutOfTime, valid_prices
from duckanon.engines.kanon.records import Records, attribute, records
from tests.engines.kanon.certificate.classes import ROUNDING, classes, worst
from tests.engines.kanon.certificate.interpreted import interpreted
from tests.engines.kanon.strategies import tables

ENDLESS = Effort(10**9, 3)
# A search that is cut short at its root, after a few nodes, and not at all.
EFFORTS = (Effort(0, 3), Effort(25, 2), ENDLESS)


def random_prices(found: Distinct, seed: int, height: float) -> Whole:
    """Prices up to `height`; a few below zero."""
    rng = np.random.default_rng(seed)
    return ((rng.random(len(found)) - 0.05) * rng.random() * height * GRAINS).astype(np.int64)


def exceeded(table: Records, found: Distinct, k: int, prices: Whole) -> float:
    return worst(classes(table, k), (prices - found.slack)[found.of])


@given(tables(min_size=4, max_size=9), st.integers(2, 4), st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 3.0]))
def test_no_class_is_exceeded(table: Records, k: int, seed: int, height: float) -> None:
    found = distinct(table)
    raw = random_prices(found, seed, height)
    for effort in EFFORTS:
        priced = valid_prices(found, raw, k, effort)
        assert (priced.prices <= raw).all()
        assert exceeded(table, found, k, priced.prices) <= ROUNDING
        assert priced.cut.any() <= (effort is not ENDLESS)


@given(tables(min_size=4, max_size=8), st.integers(2, 3), st.integers(0, 10**6))
def test_prices_are_lowered_by_what_the_searches_must_find(table: Records, k: int, seed: int) -> None:
    found = distinct(table)
    raw = random_prices(found, seed, 2.0)
    every, prices = classes(table, k), raw.astype(object)
    rank = np.argsort(np.argsort(-raw, kind="stable"))[found.of]
    for a in np.argsort(-raw, kind="stable")[::-1]:
        mine = rank[found.of == a][0]
        own = [
            sum(prices[found.of[i]] for i in members) - cost * GRAINS
            for members, cost in every
            if min(rank[i] for i in members) == mine
        ]
        prices[a] -= max(0, *own, 0)
    # (What classes lose is rounded down, by less than a grain for each attribute and record.)
    error = 2 * len(table) * 4 * len(found)
    assert np.abs(valid_prices(found, raw, k, ENDLESS).prices - prices.astype(np.float64)).max() <= error


@given(tables(min_size=4, max_size=8), st.integers(2, 3), st.integers(0, 10**6))
def test_what_is_met_are_classes(table: Records, k: int, seed: int) -> None:
    found = distinct(table)
    priced = valid_prices(found, random_prices(found, seed, 2.0), k, ENDLESS)
    for members, times in zip(priced.members, priced.times, strict=True):
        held = np.bincount(members[members >= 0], times[members >= 0], len(found))
        assert k <= held.sum() <= 2 * k - 1
        assert (held <= found.points.copies).all()


def test_it_ends_when_it_is_told_to() -> None:
    table = records([attribute(name, np.random.default_rng(j).random(3000)) for j, name in enumerate("abcd")])
    found, told = distinct(table), list[int]()

    def is_over(spent: int) -> bool:
        told.append(spent)
        return True

    with pytest.raises(OutOfTime):
        valid_prices(found, np.full(3000, GRAINS), 5, Effort(10**5, 0), is_over)
    assert len(told) == 1


def hard(seed: int) -> Records:
    """Twelve records on which searches have to branch."""
    rng = np.random.default_rng(seed)
    return records(
        [
            attribute("a", rng.integers(0, 30, 12)),
            attribute("b", rng.integers(0, 30, 12)),
            attribute("c", rng.integers(0, 4, 12), categorical=True),
        ]
    )


def most_exceeded(pricing: ModuleType, effort: Effort) -> float:
    """By how much prices that `pricing` calls valid exceed a class of some table, at most."""
    found = []
    for seed in range(12):
        table = hard(seed)
        points = distinct(table)
        priced = pricing.valid_prices(points, random_prices(points, seed, 2.0), 3, effort)
        found.append(exceeded(table, points, 3, priced.prices))
    return max(found)


FAULTS = {
    "a search that is cut short forgets the nodes it has left": ("search", "top = max(top, room.bound[g])", "pass"),
    "prices are lowered independently, by their share, as if the others of the class were lowered too": (
        "pricing", "prices[a] = valid\n", "prices[a] = raw - (raw - valid) // k\n"
    ),
    "no candidate lies beyond the box that a class was found for": ("search", "done = loss <= at or", "done = True or"),
}  # fmt: skip


@pytest.mark.parametrize("effort", [Effort(10**9, 0), Effort(20, 0)])
def test_without_a_fault_none_is_exceeded(effort: Effort) -> None:
    assert most_exceeded(interpreted(), effort) <= ROUNDING


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault: str) -> None:
    assert most_exceeded(interpreted(*FAULTS[fault]), Effort(20, 0)) > 1e-6
