"""The partitions follow the paper's descriptions, and Benders decomposition finds the same optimum with each."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from duckanon.engines.metric import benders as benders_module
from duckanon.engines.metric.distances import METRICS, pairwise
from duckanon.engines.metric.domain import Domain, uniform
from duckanon.engines.metric.graph import mdp_graph
from duckanon.engines.metric.mechanism import Options, optimise
from duckanon.engines.metric.methods import DEFAULT, METHODS, named
from duckanon.engines.metric.partitions import PARTITIONS, _spectral
from duckanon.engines.metric.partitions import named as partition_named
from duckanon.engines.metric.problem import Program, Step
from duckanon.errors import InvalidInput

ENOUGH = Options(gap=1e-6, time_limit=60)


def blobs(seed: int = 0) -> Domain:
    """Three groups in a row, each all neighbours, with a few links from one to the next."""
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.normal(size=(7, 2)) * 0.35 + [3 * group, 0] for group in range(3)])
    d = pairwise(points, METRICS["euclidean"])
    return Domain(d, 1.2, 2.4, True, uniform(21), np.arange(21), d, points)


def program(domain: Domain) -> Program:
    graph = mdp_graph(domain.distances, domain.epsilon, domain.radius)
    (part,) = graph.components
    return Program(part, domain.expected, lambda: domain.distances, domain.points)


@pytest.mark.parametrize("name", PARTITIONS)
def test_groups_are_found_and_boundaries_are_what_they_are(name: str) -> None:
    one = program(blobs())
    found = partition_named(name, 3)(one)
    groups = [set(found.part[7 * group : 7 * group + 7]) for group in range(3)]
    assert [len(group) for group in groups] == [1, 1, 1]
    assert len(set.union(*groups)) == 3
    # Definition 3.2.
    first, second = one.edges.ends
    for node in range(21):
        others = found.part[second[first == node]]
        assert found.boundary[node] == (others != found.part[node]).any()
    inside = np.concatenate(found.internal)
    assert sorted(inside.tolist()) == np.flatnonzero(~found.boundary).tolist()
    parts = found.master_components(one.edges)
    assert sorted(np.concatenate(parts).tolist()) == np.flatnonzero(found.boundary).tolist()


def test_the_spectrum_is_the_laplacians() -> None:
    one = program(blobs())
    vectors = _spectral(one.neighbours, 3)
    weights = np.zeros((21, 21))
    weights[one.neighbours.ends] = 1
    laplacian = np.diag(weights.sum(axis=1)) - weights
    assert vectors.T @ vectors == pytest.approx(np.eye(3), abs=1e-9)
    # Equation 45: the least trace that three orthonormal columns can have.
    assert np.trace(vectors.T @ laplacian @ vectors) == pytest.approx(np.linalg.eigvalsh(laplacian)[:3].sum())


@pytest.mark.parametrize("name", PARTITIONS)
def test_benders_finds_the_optimum_with_every_partition(name: str) -> None:
    domain = blobs()
    steps: list[Step] = []
    best = optimise(domain, METHODS[DEFAULT], Options(gap=1e-7))
    found = optimise(domain, named("benders", name, 3), ENOUGH, lambda part, step: steps.append(step))
    assert found.loss == pytest.approx(best.loss, rel=3e-6)
    assert found.gap < 3e-6
    assert len(steps) > 3
    lowers = [step.lower for step in steps]
    assert lowers == sorted(lowers)
    assert lowers[-1] <= best.loss
    assert steps[-1].upper >= best.lower * (1 - 1e-9)
    # The first guesses were too low.
    assert steps[0].lower < 0.99 * best.loss


def test_feasibility_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the first choices of the boundary leave the internal nodes no rows that add up to 1."""
    cuts: list[benders_module._Cut | None] = []
    plain = benders_module._Sub.answer

    def answer(*given: Any) -> Any:
        found = plain(*given)
        cuts.append(found[0])
        return found

    monkeypatch.setattr(benders_module._Sub, "answer", answer)
    # As the paper has it: the master's own choices.
    monkeypatch.setattr(benders_module, "_TRUST", 1.0)
    domain = replace(blobs(1), epsilon=0.3)
    found = optimise(domain, named("benders", "k-m-dv", 3), Options(gap=1e-3, time_limit=60))
    assert any(cut is not None and not cut.optimality for cut in cuts)
    assert found.loss == pytest.approx(optimise(domain, METHODS[DEFAULT], Options(gap=1e-7)).loss, rel=2e-3)


def test_without_a_boundary_one_solve_is_enough() -> None:
    steps: list[Step] = []
    optimise(blobs(), named("benders", "k-m-dv", 1), ENOUGH, lambda part, step: steps.append(step))
    assert len(steps) <= 2


def test_bad_names() -> None:
    with pytest.raises(InvalidInput, match="choose one of 'k-m-dv', 'k-m-rec', 'k-m-adj', 'bsc'"):
        named("benders", "metis")
    domain = blobs()
    nowhere = Domain(domain.distances, 1.2, 2.4, False, domain.prior, domain.outputs, domain.loss)
    with pytest.raises(InvalidInput, match="'k-m-rec' needs features"):
        optimise(nowhere, named("benders", "k-m-rec"))
    with pytest.raises(InvalidInput, match="no bound when the time was up"):
        optimise(domain, named("benders", "k-m-dv", 3), Options(time_limit=1e-9))
