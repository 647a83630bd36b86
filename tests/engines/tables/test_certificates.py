"""What is proven is so, whatever a solver says; what is called a witness is one."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.tables import search
from duckanon.engines.tables.bounds import TargetBounds, checked
from duckanon.engines.tables.junction import acyclic, tree, triangulate
from duckanon.engines.tables.knapsacks import settle
from duckanon.engines.tables.programs import LinearProgram
from duckanon.engines.tables.released import UNBOUNDED
from duckanon.engines.tables.search import NoSolutionError, Search
from duckanon.engines.tables.system import Builder, System, propagate
from duckanon.errors import DuckanonError
from tests.amounts import many

COLUMNS, MOST = 3, 4


@st.composite
def systems(draw: st.DrawFn) -> System:
    rows = draw(st.integers(1, 3))
    builder = Builder()
    builder.add_columns(COLUMNS, lower=draw(st.integers(0, 1)), upper=draw(st.integers(2, MOST)))
    values = np.array(draw(st.lists(st.integers(-3, 3), min_size=COLUMNS * rows, max_size=COLUMNS * rows)))
    row, column = np.repeat(np.arange(rows), COLUMNS), np.tile(np.arange(COLUMNS), rows)
    some = values != 0
    least = np.array(draw(st.lists(st.integers(-6, 6) | st.just(-UNBOUNDED), min_size=rows, max_size=rows)))
    wide = np.array(draw(st.lists(st.integers(0, 4) | st.just(UNBOUNDED), min_size=rows, max_size=rows)))
    most = np.where((wide == UNBOUNDED) | (least == -UNBOUNDED), UNBOUNDED, least + wide)
    builder.add_rows([(row[some], column[some], values[some])], least, most)
    return builder.build(MOST)


def solutions(system: System) -> list[np.ndarray]:
    every = product(*(range(a, b + 1) for a, b in zip(system.lower, system.upper, strict=True)))
    return [x for x in map(np.array, every) if system.holds(x)]


@settings(max_examples=many(100), deadline=None)
@given(systems())
def test_propagation_loses_no_solution(system: System) -> None:
    lower, upper = system.lower.copy(), system.upper.copy()
    left = propagate(system, lower, upper)
    for x in solutions(system):
        assert left
        assert (lower <= x).all()
        assert (x <= upper).all()


@settings(max_examples=many(100), deadline=None)
@given(
    systems(),
    st.lists(st.integers(-3, 3), min_size=COLUMNS, max_size=COLUMNS),
    st.lists(st.floats(-4, 4), min_size=3, max_size=3),
)
def test_any_duals_prove_a_bound(system: System, cost: list[int], duals: list[float]) -> None:
    program = LinearProgram(system, system.lower, system.upper)
    rows = len(program._least)
    bound = program.proven(np.array(cost), np.array(duals[:rows]))
    assert all(bound <= int(np.array(cost) @ x) for x in solutions(system))


@settings(max_examples=many(100), deadline=None)
@given(systems())
def test_a_search_ends_with_both_certificates(system: System) -> None:
    expected = solutions(system)
    try:
        found = Search(system, 30).run(np.arange(COLUMNS))
    except NoSolutionError:
        assert not expected
        return
    least, largest = np.min(expected, axis=0), np.max(expected, axis=0)
    for ours, theirs in ((found.lower, least), (found.least, least), (found.upper, largest), (found.largest, largest)):
        assert ours.tolist() == theirs.tolist()


@st.composite
def knapsacks(draw: st.DrawFn) -> System:
    """A few equations with positive terms, as exact shares and known counts make them."""
    builder = Builder()
    builder.add_columns(COLUMNS, lower=draw(st.integers(0, 1)), upper=draw(st.integers(2, 9)))
    for _ in range(draw(st.integers(1, 2))):
        values = np.array(draw(st.lists(st.integers(0, 5), min_size=COLUMNS, max_size=COLUMNS)))
        goal = np.array([draw(st.integers(0, 25))])
        builder.add_rows([(np.zeros(COLUMNS, dtype=np.int64), np.arange(COLUMNS), values)], goal, goal)
    return builder.build(9)


@settings(max_examples=many(300), deadline=None)
@given(knapsacks())
def test_few_equations_settle_their_columns(system: System) -> None:
    expected = solutions(system)
    lower, upper = system.lower.copy(), system.upper.copy()
    settled = settle(system, lower, upper)
    if settled is None:
        assert not expected
        return
    for x in expected:
        assert (lower <= x).all()
        assert (x <= upper).all()
    if expected and len(settled):
        ends = np.min(expected, axis=0), np.max(expected, axis=0)
        assert lower[settled].tolist() == ends[0][settled].tolist()
        assert upper[settled].tolist() == ends[1][settled].tolist()


@settings(max_examples=many(100), deadline=None)
@given(systems())
def test_branch_and_bound_that_is_cut_short_is_valid(system: System) -> None:
    expected = solutions(system)
    if not expected:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_NODES", 1)
        found = Search(system, 30).run(np.arange(COLUMNS))
    assert (found.lower <= np.min(expected, axis=0)).all()
    assert (found.upper >= np.max(expected, axis=0)).all()


def test_a_search_without_time_is_valid() -> None:
    builder = Builder()
    columns = builder.add_columns(2)
    builder.add_rows([(np.zeros(2, dtype=np.int64), columns, np.array([2, 3]))], np.array([12]), np.array([13]))
    found = Search(builder.build(100), 0).run(columns)
    assert (found.lower <= 0).all()
    assert found.upper.tolist() == [6, 4]
    assert (found.least > found.largest).all()


@pytest.mark.parametrize(("lower", "upper", "least", "largest"), [(2, 4, 1, 3), (2, 4, 3, 5), (4, 2, 1, 0)])
def test_an_engine_that_is_wrong_says_so(lower: int, upper: int, least: int, largest: int) -> None:
    ends = (np.array([one]) for one in (lower, upper, least, largest))
    with pytest.raises(DuckanonError, match="failed their own check"):
        checked(TargetBounds(np.zeros((1, 1), dtype=np.int64), *ends))


def sets(*names: str) -> list[frozenset[int]]:
    return [frozenset("ABCDEF".index(letter) for letter in name) for name in names]


def test_triangulations_and_junction_trees() -> None:
    assert set(triangulate((2,) * 6, sets("AB", "BC", "CD"))) == set(sets("AB", "BC", "CD"))
    square = triangulate((2, 9, 2, 9), sets("AB", "BC", "CD", "DA"))
    assert set(square) == set(sets("ABC", "ACD"))
    assert acyclic(sets("AB", "BC", "CA")) is None
    assert acyclic(sets("AB", "BC", "CD", "DA")) is None
    star = acyclic(sets("AB", "AC", "AD", "A"))
    assert star is not None
    assert [star.separator(link) for link in star.links] == sets("A", "A")


@settings(max_examples=many(100), deadline=None)
@given(st.lists(st.frozensets(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=6))
def test_cliques_of_a_triangulation_have_a_junction_tree(edges: list[frozenset[int]]) -> None:
    cliques = triangulate((2,) * 6, edges)
    assert all(any(edge <= clique for clique in cliques) for edge in edges)
    assert acyclic(cliques) is not None
    found = tree(cliques)
    for one, other in combinations(range(len(cliques)), 2):
        shared = cliques[one] & cliques[other]
        # Running intersection: the cliques with what two share are connected.
        inside = [k for k in range(len(cliques)) if shared <= cliques[k]]
        links = [link for link in found.links if set(link) <= set(inside)]
        assert len(links) == len(inside) - 1
