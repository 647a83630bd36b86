"""The repair makes any matrix exact, and changes what is exact only by the margin; the certificate sees what is not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.metric.certificate import certify
from duckanon.engines.metric.distances import METRICS, pairwise
from duckanon.engines.metric.domain import Domain, uniform
from duckanon.engines.metric.graph import MARGIN, edges_of
from duckanon.engines.metric.mechanism import Options, optimise
from duckanon.engines.metric.methods import DEFAULT, METHODS
from duckanon.engines.metric.repair import closure, repair
from tests.amounts import many
from tests.engines.metric import plain
from tests.engines.metric.strategies import domains


@settings(max_examples=many(150))
@given(
    st.integers(2, 9),
    st.integers(1, 6),
    st.sampled_from([1e-6, 0.01, 1.0, 30.0, 300.0]),
    st.sampled_from(["uniform", "sparse", "noisy", "zero", "negative"]),
    st.integers(0, 2**32),
)
def test_any_matrix_becomes_exact(nodes: int, outputs: int, scale: float, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = scale * pairwise(rng.normal(size=(nodes, 2)), METRICS["euclidean"]) + scale * 1e-3 * (1 - np.eye(nodes))
    matrix = rng.random((nodes, outputs))
    if kind == "sparse":
        matrix *= rng.random(matrix.shape) < 0.3
    elif kind == "noisy":
        matrix = matrix / matrix.sum(axis=1, keepdims=True) + rng.normal(size=matrix.shape) * 1e-7
    elif kind == "zero":
        matrix *= 0
    elif kind == "negative":
        matrix -= 0.5
    edges = edges_of(lengths)
    found = repair(matrix, edges.inner(), rng.random(matrix.shape))
    checked = certify(found, lengths, 1.0)
    assert checked.holds
    assert checked.row_sum_error < 1e-14
    assert (found >= 0).all()
    used = found.any(axis=0)
    assert (found[:, used] > 0).all()


@settings(max_examples=many(60))
@given(domains(), st.integers(0, 2**32))
def test_a_perturbed_optimum_loses_next_to_nothing(domain: Domain, seed: int) -> None:
    """As a solver would leave it: entries wrong by 1e-9, rows off by as much."""
    rng = np.random.default_rng(seed)
    best = optimise(domain, METHODS[DEFAULT], Options(gap=1e-7, isolated="keep"))
    if (
        not np.isfinite(domain.distances).all()
        or domain.radius is not None
        or (domain.distances == 0).sum() > len(domain.distances)
    ):
        return
    edges = edges_of(domain.epsilon * domain.distances)
    if (edges.length < 1e-3).any():
        return
    spoilt = np.maximum(best.matrix + rng.normal(size=best.matrix.shape) * 1e-9, 0)
    found = repair(spoilt, edges.inner(), domain.expected)
    assert certify(found, domain.distances, domain.epsilon).holds
    more = float((found * domain.expected).sum()) - best.loss
    assert more <= 1e-5 * max(best.loss, float(domain.loss.max()))


def test_what_is_exact_stays() -> None:
    lengths = np.array([[0.0, 1.0], [1.0, 0.0]])
    edges = edges_of(lengths * (1 + MARGIN) + 2 * MARGIN).inner()
    matrix = np.array([[np.e, 1.0], [1.0, np.e]]) / (1 + np.e)
    assert np.abs(repair(matrix, edges, np.zeros((2, 2))) - matrix).max() < 1e-15


def test_the_closure_is_the_least_above() -> None:
    rng = np.random.default_rng(3)
    lengths = pairwise(rng.normal(size=(7, 2)), METRICS["euclidean"])
    lengths[lengths > 1.2] = np.inf
    matrix = rng.random((7, 4)) * (rng.random((7, 4)) < 0.5)
    paths = plain.paths(lengths)
    expected = np.max(np.exp(-paths)[:, :, None] * matrix[None], axis=1)
    assert closure(matrix, edges_of(lengths)) == pytest.approx(expected)


@settings(max_examples=many(100))
@given(domains(most=8))
def test_the_certificate_is_the_plain_check(domain: Domain) -> None:
    rng = np.random.default_rng(len(domain.distances))
    matrix = rng.random(domain.loss.shape) * (rng.random(domain.loss.shape) < 0.95)
    matrix[:, 0] += 0.1
    found = certify(matrix, domain.distances, domain.epsilon, domain.radius, threads=2)
    assert found.pairs == len(plain.neighbours(domain)) // 2
    assert found.max_violation == pytest.approx(plain.worst(matrix, domain), abs=1e-12, rel=1e-12)


def test_the_certificate_sees_the_smallest_violation() -> None:
    d = np.array([[0.0, 1.0], [1.0, 0.0]])
    domain = Domain(d, 1.0, None, True, uniform(2), np.arange(2), d)
    for wrong, holds in ((1 - 1e-13, True), (1 + 1e-13, False)):
        high = np.e * wrong / (1 + np.e * wrong)
        matrix = np.array([[high, 1 - high], [1 - high, high]])
        assert certify(matrix, d, domain.epsilon).holds == holds
    # A zero beside a tiny number is an infinite ratio.
    matrix = np.array([[1.0, 0.0], [1 - 1e-300, 1e-300]])
    assert certify(matrix, d, 1.0).max_violation == np.inf
    # Rows that do not add up alike are judged as they are drawn from.
    assert not certify(np.array([[np.e, 1.0], [0.999, np.e]]) / (1 + np.e), d, 1.0).holds
