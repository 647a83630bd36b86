"""Patterns against the lists of all tables and of all patterns."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from duckanon.engines.suppression.audit import Published, intervals
from duckanon.engines.suppression.problem import Problem, problem
from duckanon.engines.suppression.suppress import audited, suppress, under_protected
from duckanon.engines.suppression.table import Table
from duckanon.errors import Infeasible, InvalidInput
from tests.amounts import many
from tests.bench.suppression_data import SIZES, generated
from tests.engines.suppression import plain
from tests.engines.suppression.strategies import NESTED, problems

slow = settings(max_examples=many(80), suppress_health_check=list(HealthCheck))


@slow
@given(problems())
def test_least_cost(drawn: Problem) -> None:
    tables = plain.all_tables(drawn)
    least = plain.least_cost(drawn, tables)
    if least is None:
        with pytest.raises(Infeasible):
            suppress(drawn)
        return
    found = suppress(drawn)
    pattern = (found.primary | found.secondary).ravel()
    assert plain.protects(drawn, tables, pattern)
    assert not (found.secondary & found.primary).any()
    assert not (found.secondary.ravel() & ~drawn.free).any()
    assert found.bound <= found.solver_bound <= least + 1e-9
    assert found.cost >= least - 1e-9
    assert found.optimal
    assert found.cost == pytest.approx(least)
    lower, upper = plain.intervals(drawn, tables, pattern)
    assert (found.lower == lower[found.cells]).all()
    assert (found.upper == upper[found.cells]).all()


@slow
@given(problems())
def test_a_secondary_removed_is_caught(drawn: Problem) -> None:
    try:
        found = suppress(drawn)
    except Infeasible:
        assume(False)
    pattern = (found.primary | found.secondary).ravel()
    for cell in np.flatnonzero(found.secondary.ravel() & (drawn.cost > 0).reshape(-1)):
        mutant = pattern.copy()
        mutant[cell] = False
        assert under_protected(drawn, audited(drawn, mutant)).any()


@slow
@given(problems(axes=NESTED, most=2))
def test_nested_totals(drawn: Problem) -> None:
    """Where attackers' programs may have vertices that are not whole."""
    tables = plain.all_tables(drawn)
    everything = drawn.primary | drawn.free
    if not plain.protects(drawn, tables, everything):
        with pytest.raises(Infeasible):
            suppress(drawn)
        return
    found = suppress(drawn, effort=0)
    best = suppress(drawn)
    assert best.cost <= found.cost + 1e-9
    for one in (found, best):
        pattern = (one.primary | one.secondary).ravel()
        lower, upper = plain.intervals(drawn, tables, pattern)
        assert (one.lower == lower[one.cells]).all()
        assert (one.upper == upper[one.cells]).all()
        assert plain.protects(drawn, tables, pattern)


@slow
@given(problems(axes=NESTED, most=2), st.data())
def test_audit_of_any_pattern(drawn: Problem, data: st.DataObject) -> None:
    """Also of patterns that protect nothing."""
    more = data.draw(st.lists(st.booleans(), min_size=drawn.table.cells, max_size=drawn.table.cells))
    pattern = drawn.primary | (np.array(more) & drawn.free)
    found = audited(drawn, pattern)
    lower, upper = plain.intervals(drawn, plain.all_tables(drawn), pattern)
    assert (found.lower == lower[found.cells]).all()
    assert (found.upper == upper[found.cells]).all()


def test_magnitudes_of_the_benchmark() -> None:
    """The optimum of a table of 407 cells, the same in every run; every secondary cell is needed."""
    table, demanded = generated(*SIZES[407])
    one = problem(table, demanded, (np.zeros(table.units.shape), 2 * table.units))
    found = suppress(one)
    assert found.optimal
    assert found.cost == pytest.approx(97.97, abs=0.01)
    assert found.gap < 0.01
    assert found.exact.all()
    assert (found.secondary == suppress(one).secondary).all()
    quick = suppress(one, effort=0)
    assert found.cost <= quick.cost < 1.2 * found.cost
    pattern = (found.primary | found.secondary).ravel()
    for cell in np.flatnonzero(found.secondary.ravel()):
        pattern[cell] = False
        assert under_protected(one, audited(one, pattern)).any()
        pattern[cell] = True


def two_by_two() -> Table:
    return Table.of([[4, 1, 3], [2, 1, 1], [2, 0, 2]], [-1, 0, 0], [-1, 0, 0])


def test_an_audit_of_what_contradicts_itself() -> None:
    suppressed = np.zeros((3, 3), dtype=bool)
    suppressed[1:, 1:] = True
    fine = Published.of(two_by_two(), suppressed.ravel(), np.zeros(9, dtype=np.int64), np.full(9, np.inf))
    found = intervals(fine, [4, 8])
    assert (found.lower.tolist(), found.upper.tolist()) == ([0.0, 1.0], [1.0, 2.0])
    for wrong in ((0, 0), (1, 0)):
        units = fine.units.copy()
        units[wrong] += 9
        with pytest.raises(InvalidInput, match="No table agrees"):
            intervals(replace(fine, units=units), [4])


def test_cells_without_an_upper_end() -> None:
    """All totals of a cell are suppressed with it: anything may have been added."""
    suppressed = np.array([[True, True, False], [True, True, False], [False, False, False]])
    least, most = np.zeros(9, dtype=np.int64), np.full(9, np.inf)
    found = intervals(Published.of(two_by_two(), suppressed.ravel(), least, most), [0, 4])
    assert (found.lower.tolist(), found.upper.tolist()) == ([3.0, 0.0], [np.inf, np.inf])
    assert found.exact_upper.all()
