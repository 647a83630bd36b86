"""Intervals that slide: against the lists of all tables and of all patterns."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from duckanon.engines.suppression.problem import Problem, problem
from duckanon.engines.suppression.rules import Cells, Levels, PPercent, Sliding, Threshold, levels
from duckanon.engines.suppression.suppress import audited, suppress, under_protected
from duckanon.engines.suppression.table import Table
from duckanon.errors import Infeasible, InvalidInput
from tests.amounts import many
from tests.engines.suppression import plain
from tests.engines.suppression.strategies import SMALL, tables

slow = settings(max_examples=many(80), suppress_health_check=list(HealthCheck))


@st.composite
def sliding(draw: st.DrawFn) -> Problem:
    """Sensitive cells with a length of their intervals, and some with levels to the sides, too."""
    table = draw(tables(SMALL, 3))
    assert isinstance(table, Table)
    leaves = np.outer(table.rows.leaves, table.columns.leaves)
    assume(np.log(table.units[leaves] + 4.0).sum() < 11.5)
    positive = np.flatnonzero(table.flat > 0).tolist()
    assume(positive)
    primary = np.zeros(table.cells, dtype=bool)
    primary[draw(st.lists(st.sampled_from(positive), min_size=1, max_size=3, unique=True))] = True
    width, lower, upper = draw(st.integers(1, 5)), draw(st.integers(0, 1)), draw(st.integers(0, 1))
    asked = Levels(
        primary,
        np.where(primary, np.minimum(lower, table.flat), 0),
        np.where(primary, upper, 0),
        np.where(primary, width, 0),
    )
    most = np.where(table.units > 0, table.units + draw(st.integers(1, 3)), 0)
    nothing = None if draw(st.booleans()) else np.zeros(table.units.shape)
    try:
        return problem(table, asked, (nothing, most))
    except Infeasible:
        # Cells whose room is less than their length, whatever is suppressed.
        assume(False)
        raise


@slow
@given(sliding())
def test_every_interval_is_as_long_as_asked_wherever_it_lies(drawn: Problem) -> None:
    every = plain.all_tables(drawn)
    least = plain.least_cost(drawn, every)
    if least is None:
        with pytest.raises(Infeasible):
            suppress(drawn)
        return
    found = suppress(drawn)
    pattern = (found.primary | found.secondary).ravel()
    assert plain.protects(drawn, every, pattern)
    assert not found.undecided.any()
    assert not found.optimal
    assert found.bound == 0 <= least <= found.cost + 1e-9
    lower, upper = plain.intervals(drawn, every, pattern)
    assert (found.lower == lower[found.cells]).all()
    assert (found.upper == upper[found.cells]).all()


@slow
@given(sliding(), st.data())
def test_the_audit_tells_any_pattern_as_the_list_does(drawn: Problem, data: st.DataObject) -> None:
    more = data.draw(st.lists(st.booleans(), min_size=drawn.table.cells, max_size=drawn.table.cells))
    pattern = drawn.primary | (np.array(more) & drawn.free)
    protects = plain.protects(drawn, plain.all_tables(drawn), pattern)
    assert under_protected(drawn, audited(drawn, pattern)).any() == (not protects)


def test_a_cell_that_cannot_move_down_moves_up() -> None:
    """With half to each side no pattern protects: the cell is 1, and no suppressed cell is empty."""
    table = Table.of(np.array([[1, 9, 10], [9, 9, 18], [10, 18, 28]]), [2, 2, -1], [2, 2, -1])
    width = np.zeros(table.cells, dtype=np.int64)
    width[0] = 6
    one = problem(table, Levels(width > 0, 0 * width, 0 * width, width))
    found = suppress(one)
    assert found.lower[0] == 1
    assert found.upper[0] >= 7


def test_the_length_is_in_percent_of_a_cell() -> None:
    table = Table.of(np.array([[2, 40, 200]]))
    cells = Cells.of(table, np.array([[2, 3, 9]]), np.array([[[1, 38, 50]], [[1, 1, 50]]]))
    found = levels(cells, [Sliding(PPercent(10), 30), Threshold(3)])
    assert found.width is not None
    assert (found.width.tolist(), found.upper.tolist()) == ([1, 12, 0], [1, 0, 0])
    assert found.primary.tolist() == [True, True, False]
    with pytest.raises(InvalidInput, match="200 at most"):
        Sliding(PPercent(10), 201)


def test_suppress_slides(con: duckdb.DuckDBPyConnection) -> None:
    """Shorter intervals take fewer cells, and each is as long as asked."""
    con.execute(
        "CREATE TABLE firms AS SELECT i % 6 AS branch, i % 5 AS town, (1 + i * i % 97 * (i % 7)) AS turnover "
        "FROM range(90) r(i)"
    ).fetchall()
    call = "suppress('firms', ['branch'], ['town'], value := 'turnover', rule := 'p%', p := 20{}, audit := true)"
    sums = "SELECT count(*), min((upper - lower) / true_value) FROM {} WHERE status = 'primary'"
    ((cells, least),) = con.execute(sums.format(call.format(", sliding := {'p%': 50}"))).fetchall()
    assert cells > 0
    assert least >= 0.5
    beside = ", sliding := {'p%': 50}, widths := {'p%': 5}"
    ends = (
        "SELECT bool_and(lower <= .95 * true_value AND upper >= 1.05 * true_value AND upper - lower >= true_value / 2) "
    )
    ((both,),) = con.execute(f"{ends} FROM {call.format(beside)} WHERE status = 'primary'").fetchall()
    assert both
    for wrong, says in [
        ("{'dominance': 3}", "sliding names 'dominance', which is not in rule"),
        ("{'p%': 201}", "sliding gives percentages of a cell: above 0, and 200 at most."),
    ]:
        with pytest.raises(duckdb.InvalidInputException, match=says):
            con.execute(f"FROM {call.format(f', sliding := {wrong}')}").fetchall()
