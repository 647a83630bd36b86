"""Small tables with flat and nested totals, and sensitive cells in them."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from duckanon.engines.suppression.problem import Problem, problem
from duckanon.engines.suppression.rules import Cells, Levels, Threshold, levels
from duckanon.engines.suppression.table import Axis, Table
from tests.engines.suppression.plain import with_totals

SMALL = ([-1], [-1, -1], [-1, 0, 0], [1, -1], [-1, -1, 0])
NESTED = (*SMALL, [-1, 0, 0, 0], [-1, 0, 0, 2, 2], [3, 3, 4, 4, -1])


@st.composite
def tables(draw: st.DrawFn, axes: tuple[list[int], ...] = NESTED, most: int = 5) -> Table:
    rows, columns = draw(st.sampled_from(axes)), draw(st.sampled_from(axes))
    shape = (len(rows), len(columns))
    units = np.array(draw(st.lists(st.integers(0, most), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])))
    filled = with_totals(units.reshape(shape), Axis.of(rows, shape[0]), Axis.of(columns, shape[1]))
    return Table.of(filled, rows, columns)


@st.composite
def demands(draw: st.DrawFn, table: Table) -> Levels:
    """Small counts, or some cells with levels of their own."""
    if draw(st.booleans()):
        return levels(Cells.of(table), [Threshold(draw(st.integers(2, 4)))])
    positive = np.flatnonzero(table.flat > 0).tolist()
    assume(positive)
    primary = np.zeros(table.cells, dtype=bool)
    primary[draw(st.lists(st.sampled_from(positive), min_size=1, max_size=3, unique=True))] = True
    lower, upper = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    return Levels(primary, np.where(primary, np.minimum(lower, table.flat), 0), np.where(primary, upper, 0))


@st.composite
def problems(draw: st.DrawFn, axes: tuple[list[int], ...] = SMALL, most: int = 3) -> Problem:
    """Attackers know upper bounds, so that all tables can be listed."""
    table = draw(tables(axes, most))
    leaves = np.outer(table.rows.leaves, table.columns.leaves)
    # Fewer than 10^5 tables to list.
    assume(np.log(table.units[leaves] + 3.0).sum() < 11.5)
    demanded = draw(demands(table))
    assume(demanded.primary.any())
    slack = draw(st.integers(0, 2)) + int(demanded.upper.max())
    nothing = np.zeros(table.units.shape)
    # Zero cells are published: what attackers know of them does not matter, but fewer tables have to be listed.
    most_known = np.where(table.units > 0, table.units + slack, 0)
    keep = None
    if draw(st.booleans()):
        chosen = draw(st.lists(st.integers(0, table.cells - 1), max_size=2))
        keep = nothing.astype(bool)
        keep.ravel()[chosen] = True
        keep &= ~demanded.primary.reshape(keep.shape)
    return problem(table, demanded, (None if draw(st.booleans()) else nothing, most_known), keep=keep)
