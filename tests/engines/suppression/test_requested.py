"""Cells that somebody decided to suppress, against the lists of all tables and of all patterns."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from duckanon.engines.suppression.problem import Problem, problem
from duckanon.engines.suppression.requested import attainable, with_requested
from duckanon.engines.suppression.rules import Levels
from duckanon.engines.suppression.suppress import suppress
from duckanon.errors import Infeasible
from tests.amounts import many
from tests.engines.suppression import plain
from tests.engines.suppression.strategies import SMALL, tables

Requests = tuple[Problem, np.ndarray]


@st.composite
def requests(draw: st.DrawFn) -> Requests:
    """Some cells that are suppressed on request, and some that must be published."""
    table = draw(tables(SMALL, 3))
    leaves = np.outer(table.rows.leaves, table.columns.leaves)
    assume(np.log(table.units[leaves] + 2.0).sum() < 10)
    positive = np.flatnonzero(table.flat > 0).tolist()
    assume(positive)
    asked, keep = np.zeros((2, table.cells), dtype=bool)
    asked[draw(st.lists(st.sampled_from(positive), min_size=1, max_size=3, unique=True))] = True
    keep[draw(st.lists(st.integers(0, table.cells - 1), max_size=4))] = True
    none = np.zeros(table.cells, dtype=np.int64)
    demanded = with_requested(Levels(none > 0, none, none), table.flat, asked, draw(st.sampled_from([10, 60])))
    known = np.where(table.flat > 0, table.flat + int(demanded.upper.max()), 0)
    return problem(table, demanded, (None, known), keep=keep & ~asked), asked


@settings(max_examples=many(100), suppress_health_check=list(HealthCheck))
@given(requests())
def test_they_are_as_wide_as_what_must_be_published_allows(drawn: Requests) -> None:
    one, asked = drawn
    every, flat = plain.all_tables(one), one.table.flat
    lower, upper = plain.intervals(one, every, one.primary | one.free)
    if ((lower == upper) & asked).any():
        with pytest.raises(
            Infeasible, match=f"^{int(((lower == upper) & asked).sum())} cells? that apriori suppresses"
        ):
            attainable(one, asked)
        return
    down = np.where(lower <= flat - one.lower, one.lower, np.minimum(flat - lower, 1))
    up = np.where(upper >= flat + one.upper, one.upper, np.minimum(upper - flat, 1))
    made = attainable(one, asked)
    assert (made.lower[asked] == down[asked]).all()
    assert (made.upper[asked] == up[asked]).all()
    found = suppress(made)
    assert plain.protects(made, every, (found.primary | found.secondary).ravel())
    assert found.cost == pytest.approx(plain.least_cost(replace(one, lower=down, upper=up), every))
