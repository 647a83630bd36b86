"""Microaggregation: classes against every partition of small tables, bounds against the optimum."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.microaggregation.certificate import prove
from duckanon.engines.kanon.microaggregation.consecutive import best_consecutive
from duckanon.engines.kanon.microaggregation.embedding import embedded
from duckanon.engines.kanon.microaggregation.local_search import class_sums, improve
from duckanon.engines.kanon.microaggregation.microaggregate import METHODS, microaggregate, nearest
from duckanon.engines.kanon.microaggregation.pricing import Space, least_distances, triples, valid_prices
from duckanon.engines.kanon.records import Floats, attribute, records
from duckanon.errors import InvalidInput
from tests.amounts import many
from tests.engines.kanon.plain import consecutive_partitions, set_partitions


def square_sum(points: Floats, members: Sequence[int]) -> float:
    inside = points[list(members)]
    return float(((inside - inside.mean(axis=0)) ** 2).sum())


def total(points: Floats, classes: Sequence[Sequence[int]]) -> float:
    return sum(square_sum(points, one) for one in classes)


def optimum(points: Floats, k: int) -> float:
    return min(total(points, one) for one in set_partitions(range(len(points)), k))


@st.composite
def tables(draw: st.DrawFn, most: int = 9) -> tuple[Floats, int]:
    """Points of whole numbers, many of them equal, and a k."""
    k = draw(st.integers(2, 3))
    n, d = draw(st.integers(2 * k, most)), draw(st.integers(1, 3))
    values = draw(st.lists(st.integers(0, 6), min_size=n * d, max_size=n * d))
    return np.array(values, np.float64).reshape(n, d), k


@given(tables())
def test_consecutive_classes_are_the_best_of_their_order(table: tuple[Floats, int]) -> None:
    points, k = table
    labels = best_consecutive(points, np.arange(len(points), dtype=np.int32), k)
    least = min(total(points, one) for one in consecutive_partitions(len(points), k))
    assert class_sums(points, labels).sum() == pytest.approx(least, abs=1e-9)


@settings(max_examples=many(30))
@given(tables())
def test_the_search_and_its_proof_surround_the_optimum(table: tuple[Floats, int]) -> None:
    points, k = table
    start = best_consecutive(points, np.arange(len(points), dtype=np.int32), k)
    labels = improve(points, nearest(points), start, k, 100.0)
    found, best = prove(points, k, labels, Control()), optimum(points, k)
    sizes = np.bincount(found.labels)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k
    assert found.bound <= best + 1e-9
    assert found.sum == pytest.approx(best, abs=1e-9)
    assert class_sums(points, labels).sum() == pytest.approx(best, abs=1e-9)


@settings(max_examples=many(100))
@given(tables(), st.integers(0, 2**16), st.integers(1, 40))
def test_no_class_pays_more_than_it_has(table: tuple[Floats, int], seed: int, steps: int) -> None:
    """With prices of triples, and where searches are cut short."""
    points, k = table
    n, rng = len(points), np.random.default_rng(seed)
    three = np.array([rng.choice(n, 3, replace=False) for _ in range(4)], np.int32)
    paid = rng.random(4)
    space = Space(points, least_distances(points, 2 * k - 1), triples(three, paid, n))
    prices, _, _ = valid_prices(space, rng.random(n) * 10, k, (steps, 2))
    for partition in set_partitions(range(n), k):
        for one in partition:
            due = sum(price for held, price in zip(three, paid, strict=True) if len({*held} & {*one}) >= 2)
            assert prices[list(one)].sum() - due <= square_sum(points, one) + 1e-9


def test_three_points_that_no_partition_shares_out_raise_the_bound() -> None:
    """Two triangles far apart: the linear program takes half of each of their sides, and loses a quarter less."""
    triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    points = np.concatenate([triangle, triangle + 100])
    found = prove(points, 2, np.array([0, 0, 0, 1, 1, 1], np.int32), Control())
    assert found.sum == pytest.approx(2.0) == optimum(points, 2)
    assert found.bound == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_classes_do_not_depend_on_the_order_of_rows(method: str) -> None:
    rng = np.random.default_rng(3)
    age, place = rng.integers(0, 50, 60), rng.choice(["a", "b", "c"], 60)
    content = (age * 10 + (place == "b")).astype(np.uint64)
    order = rng.permutation(60)

    def classes(rows: npt.NDArray[np.int64]) -> set[frozenset[int]]:
        made = records([attribute("age", age[rows]), attribute("place", place[rows], categorical=True)])
        labels = microaggregate(made, 3, method, content=content[rows])
        return {frozenset(rows[labels == c].tolist()) for c in range(labels.max() + 1)}

    def values(found: set[frozenset[int]]) -> list[list[tuple[int, str]]]:
        return sorted(sorted((int(age[i]), str(place[i])) for i in one) for one in found)

    assert values(classes(np.arange(60, dtype=np.int64))) == values(classes(order.astype(np.int64)))


def test_columns_have_the_same_sum_of_squares() -> None:
    made = records(
        [
            attribute("income", [1, 2, 3, 400]),
            attribute("place", ["a", "b", "b", "c"], categorical=True),
            attribute("same", [7, 7, 7, 7]),
        ]
    )
    points = embedded(made)
    points = points - points.mean(axis=0)
    assert points.shape[1] == 1 + 3
    assert (points[:, 0] ** 2).sum() == pytest.approx(4.0)
    assert (points[:, 1:] ** 2).sum() == pytest.approx(4.0)


def test_null_lies_apart() -> None:
    made = records([attribute("x", np.array([1, 2, None, None, 1, 2], object))])
    points, labels = embedded(made), microaggregate(made, 2)
    assert labels[2] == labels[3]
    assert labels[2] not in labels[[0, 1, 4, 5]]
    assert points.shape == (6, 2)


def test_methods_that_minimise_something_else_are_refused() -> None:
    made = records([attribute("x", range(10))])
    with pytest.raises(InvalidInput, match="has the methods 'auto' and 'exact'"):
        microaggregate(made, 3, "greedy")
    many = records([attribute("place", [f"c{i}" for i in range(300)], categorical=True)])
    with pytest.raises(InvalidInput, match="more than 200 distinct values"):
        microaggregate(many, 3)
