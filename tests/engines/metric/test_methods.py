"""Every method against the program as it is printed, on hundreds of random domains; bounds are bounds."""

from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from duckanon.engines.metric import column_generation, interior_point
from duckanon.engines.metric import lp as whole_program
from duckanon.engines.metric.distances import METRICS, pairwise
from duckanon.engines.metric.domain import Domain, uniform
from duckanon.engines.metric.graph import mdp_graph
from duckanon.engines.metric.mechanism import Options, optimise
from duckanon.engines.metric.methods import DEFAULT, METHODS, named
from duckanon.engines.metric.problem import Limits, Program, Step
from duckanon.errors import InvalidInput
from tests.amounts import many
from tests.engines.metric import plain
from tests.engines.metric.strategies import domains

TIGHT = Options(gap=1e-7, isolated="keep", time_limit=60)


def holds(domain: Domain, matrix: np.ndarray) -> None:
    assert plain.worst(matrix, domain) <= 1e-12 * (1 + domain.epsilon)
    assert np.abs(matrix.sum(axis=1) - 1).max() < 1e-14


@settings(max_examples=many(100))
@given(domains())
def test_optimal_methods_agree_with_the_printed_program(domain: Domain) -> None:
    expected = plain.optimum(domain)
    # HiGHS knows losses only to a tolerance; for small ones the proved gap of `columns` speaks.
    scale = max(expected, float(domain.loss.max()))
    for method in (METHODS["columns"], METHODS["lp"]):
        found = optimise(domain, method, TIGHT)
        assert found.loss == pytest.approx(expected, rel=1e-6, abs=1e-6 * scale), method.name
        assert found.lower <= expected + 1e-7 * scale, method.name
        holds(domain, found.matrix)
        if method.name == "columns":
            assert found.gap < 1e-6 or found.loss - found.lower < 1e-7 * scale


@settings(max_examples=many(60))
@given(domains())
def test_the_exponential_mechanism_holds_and_loses_more(domain: Domain) -> None:
    reached = set(domain.outputs.tolist()) == set(range(len(domain.distances)))
    if not reached and not domain.triangle:
        return
    found = optimise(domain, METHODS["exponential"], TIGHT)
    holds(domain, found.matrix)
    best = optimise(domain, METHODS[DEFAULT], TIGHT)
    assert best.lower <= found.loss * (1 + 1e-12)


def test_the_exponential_mechanism_is_equation_47() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    d = pairwise(points, METRICS["euclidean"])
    domain = Domain(d, 1.5, None, True, uniform(4), np.arange(4), d)
    weights = np.exp(-1.5 * d / 2)
    expected = weights / weights.sum(axis=1, keepdims=True)
    found = optimise(domain, METHODS["exponential"], TIGHT)
    assert np.abs(found.matrix - expected).max() < 1e-11


def test_two_records_have_a_formula() -> None:
    """Randomised response: with even prior the truth is kept with e^(eps d) / (1 + e^(eps d))."""
    for allowed in (0.1, 1.0, 5.0, 30.0):
        d = np.array([[0.0, 2.0], [2.0, 0.0]])
        domain = Domain(d, allowed / 2, None, True, uniform(2), np.arange(2), d)
        found = optimise(domain, METHODS[DEFAULT], TIGHT)
        assert found.matrix[0, 0] == pytest.approx(1 / (1 + np.exp(-allowed)), rel=1e-7)
        assert found.loss == pytest.approx(2 / (1 + np.exp(allowed)), rel=1e-6)


def test_property_3_1_components_are_independent() -> None:
    """Two far groups together lose what they lose apart."""
    rng = np.random.default_rng(1)
    near, far = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)) + 100

    def best(points: np.ndarray) -> tuple[float, int]:
        d = pairwise(points, METRICS["euclidean"])
        # Shares of a common prior: 1/9 each.
        domain = Domain(d, 1.0, 20.0, True, uniform(len(points)), np.arange(len(points)), d)
        return optimise(domain, METHODS[DEFAULT], TIGHT).loss * len(points), len(points)

    together, _ = best(np.concatenate([near, far]))
    assert together == pytest.approx(best(near)[0] + best(far)[0], rel=1e-6)


@settings(max_examples=many(40))
@given(domains())
def test_property_3_2_paths_bound_every_pair(domain: Domain) -> None:
    matrix = optimise(domain, METHODS[DEFAULT], TIGHT).matrix
    lengths = np.full(domain.distances.shape, np.inf)
    np.fill_diagonal(lengths, 0.0)
    for i, j in plain.neighbours(domain):
        lengths[i, j] = domain.epsilon * domain.distances[i, j]
    paths = plain.paths(lengths)
    for i in range(len(paths)):
        for j in np.flatnonzero(np.isfinite(paths[i])).tolist():
            used = matrix[j] > 0
            assert (matrix[i][used] <= matrix[j][used] * np.exp(paths[i, j]) * (1 + 1e-9)).all()
            assert not matrix[i][~used].any()


def test_duplicates_share_a_row() -> None:
    points = np.array([[0.0], [0.0], [1.0], [2.0], [2.0]])
    d = pairwise(points, METRICS["euclidean"])
    found = optimise(Domain(d, 2.0, None, True, uniform(5), np.arange(5), d), METHODS[DEFAULT], TIGHT)
    assert (found.matrix[0] == found.matrix[1]).all()
    assert (found.matrix[3] == found.matrix[4]).all()
    assert (found.matrix[0] != found.matrix[2]).any()


def test_isolated_records() -> None:
    points = np.array([[0.0], [1.0], [9.0], [9.0]])
    d = pairwise(points, METRICS["euclidean"])
    domain = Domain(d, 2.0, 1.5, True, np.array([0.5, 0.25, 0.25, 0.0]), np.arange(4), d)
    with pytest.raises(InvalidInput, match="At this radius 2 records have no neighbour, which means no protection"):
        optimise(domain, METHODS[DEFAULT])
    kept = optimise(domain, METHODS[DEFAULT], Options(isolated="keep"))
    assert kept.matrix[2:, 2].tolist() == [1.0, 1.0]
    withheld = optimise(domain, METHODS[DEFAULT], Options(isolated="suppress"))
    assert withheld.suppressed.tolist() == [False, False, True, True]
    assert not withheld.matrix[2:].any()
    assert withheld.loss == pytest.approx(kept.loss)


def test_results_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(5)
    d = pairwise(rng.normal(size=(60, 2)), METRICS["euclidean"])
    domain = Domain(d, 3.0, None, True, uniform(60), np.arange(60), d)
    one, two = (optimise(domain, METHODS[DEFAULT], Options(threads=n)) for n in (1, 2))
    assert (one.matrix == two.matrix).all()
    assert one.lower == two.lower


def test_iterations_are_told_and_bounds_close_in() -> None:
    rng = np.random.default_rng(6)
    d = pairwise(rng.normal(size=(40, 2)), METRICS["euclidean"])
    told: list[Step] = []
    domain = Domain(d, 0.7, None, True, uniform(40), np.arange(40), d)
    found = optimise(domain, METHODS[DEFAULT], Options(gap=1e-6), lambda part, step: told.append(step))
    assert len(told) > 2
    assert [step.iteration for step in told] == list(range(1, len(told) + 1))
    lowers = [step.lower for step in told]
    assert lowers == sorted(lowers)
    assert told[-1].gap <= 1e-6
    assert found.gap <= 1.1e-6
    assert all(step.upper >= found.lower * (1 - 1e-9) for step in told)


def test_no_time_leaves_a_mechanism_that_holds() -> None:
    rng = np.random.default_rng(7)
    d = pairwise(rng.normal(size=(30, 2)), METRICS["euclidean"])
    domain = Domain(d, 0.5, None, True, uniform(30), np.arange(30), d)
    found = optimise(domain, METHODS["columns"], Options(gap=1e-6, time_limit=1e-9))
    assert found.lower >= 0
    holds(domain, found.matrix)
    assert found.gap > 1e-6
    with pytest.raises(InvalidInput, match="not done when the time was up"):
        optimise(domain, METHODS["lp"], Options(time_limit=1e-3))


def test_far_apart_records_keep_finite_ratios() -> None:
    """Probabilities below the smallest float would be zeros, which tell records apart."""
    points = np.arange(40.0)[:, None]
    d = pairwise(points, METRICS["euclidean"])
    domain = Domain(d, 50.0, 1.0, True, uniform(40), np.arange(40), d)
    found = optimise(domain, METHODS[DEFAULT], TIGHT)
    assert found.certificate.holds
    assert (found.matrix[:, found.matrix.any(axis=0)] > 0).all()


def test_unknown_names() -> None:
    with pytest.raises(InvalidInput, match=r"choose one of 'auto', 'columns', 'lp'"):
        named("simplex")
    assert named("auto").name == DEFAULT


def test_the_whole_program_says_when_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.arange(6.0)[:, None]
    line = Domain(
        pairwise(points, METRICS["euclidean"]), 1.0, None, True, uniform(6), np.arange(6), np.abs(points - points.T)
    )
    monkeypatch.setattr(whole_program, "MANY_RATIOS", 59)  # ten directed edges that no path implies, six outputs
    with pytest.raises(InvalidInput, match=r"at most 59 ratios.*take method := 'columns'"):
        optimise(line, METHODS["lp"], TIGHT)
    monkeypatch.setattr(whole_program, "MANY_RATIOS", 60)
    optimise(line, METHODS["lp"], TIGHT)


@pytest.mark.parametrize("method", ["columns", "benders"])
def test_a_limit_may_end_it_anywhere(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves on whenever it is read: what is given holds, and its bound is one."""
    points = np.random.default_rng(3).normal(size=(12, 2))
    d = pairwise(points, METRICS["euclidean"])
    domain = Domain(d, 1.0, None, True, uniform(12), np.arange(12), d)
    best = optimise(domain, METHODS["columns"], TIGHT)
    reached = []
    for limit in range(1, 400, 7):
        clock = count()
        for module in ("mechanism", "problem", "interior_point"):
            monkeypatch.setattr(f"duckanon.engines.metric.{module}.monotonic", clock.__next__)
        try:
            found = optimise(domain, METHODS[method], Options(gap=1e-6, isolated="keep", time_limit=limit))
        except InvalidInput:
            assert method == "benders"
            continue
        holds(domain, found.matrix)
        assert found.lower <= best.loss * (1 + 1e-9)
        assert found.loss >= best.lower * (1 - 1e-9)
        reached.append(found.gap)
    assert min(reached) < 1e-4 < max(reached)


@settings(max_examples=many(60))
@given(domains())
def test_vectors_from_twice_the_epsilon_are_in_the_cone(domain: Domain) -> None:
    graph = mdp_graph(domain.distances, domain.epsilon, domain.radius)
    part = max(graph.components, key=lambda one: len(one.nodes))
    members = np.searchsorted(np.sort(graph.node), part.nodes)
    program = Program(part, domain.expected[np.argsort(graph.node, kind="stable")[members]], lambda: np.zeros(0))
    found, lower = column_generation._from_twice(program, Limits(), 1)
    assert lower <= column_generation.columns(program, Limits()).matrix.ravel() @ program.cost.ravel() * (1 + 1e-9)
    assert (found > 0).all()
    first, second = program.edges.ends
    ratios = np.log(found[:, first]) - np.log(found[:, second])
    assert (ratios <= part.edges.length + 1e-14 * (1 + part.edges.length)).all()


def test_beginning_at_a_larger_epsilon_changes_no_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)
    d = pairwise(points, METRICS["euclidean"])
    domain = Domain(d, 0.3, 2.0, True, uniform(36), np.arange(36), d)
    asked: list[int] = []
    begin = column_generation._from_twice

    def told(program: Program, limits: Limits, doublings: int) -> tuple[np.ndarray, float]:
        asked.append(doublings)
        return begin(program, limits, doublings)

    monkeypatch.setattr(column_generation, "_from_twice", told)
    with_vectors = optimise(domain, METHODS["columns"], TIGHT)
    assert asked == [2, 1]
    monkeypatch.setattr(
        column_generation, "_from_twice", lambda program, _, __: (np.ones((1, len(program.paths))), -np.inf)
    )
    without = optimise(domain, METHODS["columns"], TIGHT)
    assert with_vectors.loss == pytest.approx(without.loss, rel=1e-7)
    assert with_vectors.lower <= without.loss * (1 + 1e-12)
    assert without.lower <= with_vectors.loss * (1 + 1e-12)


def test_a_step_that_would_end_too_late_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each factorisation takes ten seconds; a limit is overrun by less than one of them."""
    now, factor = [0.0], interior_point._factor

    def slow(*arguments: Any) -> Any:
        now[0] += 10
        return factor(*arguments)

    monkeypatch.setattr(interior_point, "monotonic", lambda: now[0])
    monkeypatch.setattr(interior_point, "_factor", slow)
    random = np.random.default_rng(0)
    rows, cost, right = (
        random.random((interior_point._FEW + 1, 200)),
        random.random(200),
        np.ones(interior_point._FEW + 1),
    )
    assert interior_point.solve(rows, cost, right, 1e-9) is not None
    needed = now[0]
    for limit in range(15, int(needed), 10):
        now[0] = 0
        assert interior_point.solve(rows, cost, right, 1e-9, limit) is None
        assert limit - 10 < now[0] <= limit
