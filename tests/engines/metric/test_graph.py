"""The graph: neighbours, components, duplicates, and edges that others imply."""

import numpy as np
import pytest
from hypothesis import given, settings

from duckanon.engines.metric.distances import EARTH_RADIUS, METRICS, named, pairwise
from duckanon.engines.metric.domain import Domain, travel_loss, uniform
from duckanon.engines.metric.graph import edges_of, mdp_graph, reduced, shortest_paths
from duckanon.errors import InvalidInput
from tests.amounts import many
from tests.engines.metric import plain
from tests.engines.metric.strategies import domains


@settings(max_examples=many(80))
@given(domains())
def test_reduction_keeps_every_path(domain: Domain) -> None:
    graph = mdp_graph(domain.distances, domain.epsilon, domain.radius)
    for part in graph.components:
        nodes = [np.flatnonzero(graph.node == node) for node in part.nodes]
        lengths = np.full((len(nodes), len(nodes)), np.inf)
        np.fill_diagonal(lengths, 0.0)
        for a, here in enumerate(nodes):
            for b, there in enumerate(nodes):
                if a != b:
                    given = domain.distances[np.ix_(here, there)]
                    within = given if domain.radius is None else np.where(given <= domain.radius, given, np.inf)
                    lengths[a, b] = domain.epsilon * within.min()
        whole = edges_of(lengths)
        expected = plain.paths(lengths)
        assert shortest_paths(whole) == pytest.approx(expected)
        assert part.shortest() == pytest.approx(expected)
        assert np.isfinite(expected).all()


def test_a_line_is_reduced_to_its_steps() -> None:
    lengths = np.abs(np.subtract.outer(np.arange(20.0), np.arange(20.0)))
    for threads in (1, 3):
        found = reduced(edges_of(lengths), threads)
        assert len(found.idx) == 2 * 19
        assert (found.length == 1).all()


def test_points_in_general_position_are_not() -> None:
    lengths = pairwise(np.random.default_rng(0).normal(size=(20, 3)), METRICS["euclidean"])
    assert len(reduced(edges_of(lengths)).idx) == 20 * 19


def test_components_and_duplicates() -> None:
    points = np.array([[0.0], [1.0], [0.0], [10.0], [11.0], [30.0]])
    graph = mdp_graph(pairwise(points, METRICS["euclidean"]), 1.0, 2.0)
    assert graph.node[0] == graph.node[2]
    assert sorted(len(part.nodes) for part in graph.components) == [1, 2, 2]


def test_haversine_in_km() -> None:
    # Rome to Milan: 477 km; a degree of latitude: 111.195 km; around the world.
    found = pairwise(np.array([[41.9028, 12.4964], [45.4642, 9.19]]), METRICS["haversine"])
    assert found[0, 1] == pytest.approx(477, abs=1)
    degree = pairwise(np.array([[10.0, 20.0], [11.0, 20.0]]), METRICS["haversine"])[0, 1]
    assert degree == pytest.approx(np.pi * EARTH_RADIUS / 180)
    half = pairwise(np.array([[0.0, 0.0], [0.0, 180.0]]), METRICS["haversine"])[0, 1]
    assert half == pytest.approx(np.pi * EARTH_RADIUS)
    # Not exchangeable: a degree of longitude is shorter here.
    assert pairwise(np.array([[60.0, 0.0], [60.0, 1.0]]), METRICS["haversine"])[0, 1] < 0.51 * degree


def test_other_metrics() -> None:
    points = np.array([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]])
    assert pairwise(points, METRICS["euclidean"])[0].tolist() == [0, 5, 5]
    assert pairwise(points, METRICS["manhattan"])[0].tolist() == [0, 7, 7]
    directions = pairwise(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [-1.0, 0.0]]), METRICS["cosine"])
    assert directions[0] == pytest.approx([0, 1, 0, 2])
    assert pairwise(np.array([[1e-200, 0.0], [1e200, 1e200]]), METRICS["cosine"])[0, 1] == pytest.approx(1 - 0.5**0.5)


def test_travel_loss_is_equation_48() -> None:
    costs, weights = np.array([[1.0, 5.0], [4.0, 1.0], [0.0, 0.0]]), np.array([0.25, 0.75])
    found = travel_loss(costs, weights)
    assert found[0, 1] == 0.25 * 3 + 0.75 * 4
    assert (found == found.T).all()
    assert not found.diagonal().any()


BAD = [
    (lambda: pairwise(np.array([[91.0, 0.0], [0.0, 0.0]]), METRICS["haversine"]), "A latitude is beyond 90"),
    (lambda: pairwise(np.array([[1.0, 400.0], [0.0, 0.0]]), METRICS["haversine"]), "A longitude is beyond 360"),
    (lambda: pairwise(np.ones((2, 3)), METRICS["haversine"]), "haversine needs two features"),
    (lambda: pairwise(np.array([[0.0, 0.0], [1.0, 0.0]]), METRICS["cosine"]), "zero in every feature"),
    (lambda: pairwise(np.array([[1e308], [-1e308]]), METRICS["euclidean"]), "overflow"),
    (lambda: named("taxicab"), "choose one of 'euclidean', 'manhattan', 'haversine', 'cosine'"),
    (lambda: _domain(epsilon=0.0), "epsilon must be a number above 0"),
    (lambda: _domain(epsilon=float("nan")), "epsilon must be a number above 0"),
    (lambda: _domain(radius=-1.0), "radius must be a number above 0"),
    (lambda: _domain(prior=np.array([0.5, 0.4])), "does not add up to 1"),
    (lambda: _domain(prior=np.array([1.5, -0.5])), "a negative number"),
    (lambda: _domain(loss=np.array([[0.0, -1.0], [1.0, 0.0]])), "losses are 0 or more"),
    (lambda: _domain(records=1), "only one record"),
]


def _domain(
    records: int = 2,
    epsilon: float = 1.0,
    radius: float | None = None,
    prior: np.ndarray | None = None,
    loss: np.ndarray | None = None,
) -> Domain:
    d = 1.0 - np.eye(records)
    return Domain(
        d, epsilon, radius, True, uniform(records) if prior is None else prior, np.arange(records),
        d if loss is None else loss,
    )  # fmt: skip


@pytest.mark.parametrize(("make", "said"), BAD)
def test_bad_input(make: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        make()  # type: ignore[operator]
