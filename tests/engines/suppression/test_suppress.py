"""Patterns against the lists of all tables and of all patterns."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from duckanon.engines.suppression.problem import Problem
from duckanon.engines.suppression.suppress import audited, suppress, under_protected
from duckanon.errors import Infeasible
from tests.amounts import many
from tests.engines.suppression import plain
from tests.engines.suppression.strategies import NESTED, problems

slow = settings(max_examples=many(80), suppress_health_check=list(HealthCheck))


@slow
@given(problems())
def test_least_cost(problem: Problem) -> None:
    tables = plain.all_tables(problem)
    least = plain.least_cost(problem, tables)
    if least is None:
        with pytest.raises(Infeasible):
            suppress(problem)
        return
    found = suppress(problem)
    pattern = (found.primary | found.secondary).ravel()
    assert plain.protects(problem, tables, pattern)
    assert not (found.secondary & found.primary).any()
    assert not (found.secondary.ravel() & ~problem.free).any()
    assert found.bound <= found.solver_bound <= least + 1e-9
    assert found.cost >= least - 1e-9
    assert found.optimal
    assert found.cost == pytest.approx(least)
    lower, upper = plain.intervals(problem, tables, pattern)
    assert (found.lower == lower[found.cells]).all()
    assert (found.upper == upper[found.cells]).all()


@slow
@given(problems())
def test_a_secondary_removed_is_caught(problem: Problem) -> None:
    try:
        found = suppress(problem)
    except Infeasible:
        assume(False)
    pattern = (found.primary | found.secondary).ravel()
    for cell in np.flatnonzero(found.secondary.ravel() & (problem.cost > 0).reshape(-1)):
        mutant = pattern.copy()
        mutant[cell] = False
        assert under_protected(problem, audited(problem, mutant)).any()


@slow
@given(problems(axes=NESTED, most=2))
def test_nested_totals(problem: Problem) -> None:
    """Where attackers' programs may have vertices that are not whole."""
    tables = plain.all_tables(problem)
    everything = problem.primary | problem.free
    if not plain.protects(problem, tables, everything):
        with pytest.raises(Infeasible):
            suppress(problem)
        return
    found = suppress(problem, effort=0)
    best = suppress(problem)
    assert best.cost <= found.cost + 1e-9
    for one in (found, best):
        pattern = (one.primary | one.secondary).ravel()
        lower, upper = plain.intervals(problem, tables, pattern)
        assert (one.lower == lower[one.cells]).all()
        assert (one.upper == upper[one.cells]).all()
        assert plain.protects(problem, tables, pattern)


@slow
@given(problems(axes=NESTED, most=2), st.data())
def test_audit_of_any_pattern(problem: Problem, data: st.DataObject) -> None:
    """Also of patterns that protect nothing."""
    more = data.draw(st.lists(st.booleans(), min_size=problem.table.cells, max_size=problem.table.cells))
    pattern = problem.primary | (np.array(more) & problem.free)
    found = audited(problem, pattern)
    lower, upper = plain.intervals(problem, plain.all_tables(problem), pattern)
    assert (found.lower == lower[found.cells]).all()
    assert (found.upper == upper[found.cells]).all()
