"""Tables: which equations hold, and what is no table."""

import numpy as np
import pytest
from hypothesis import given, settings

from duckanon.engines.suppression.problem import problem
from duckanon.engines.suppression.rules import Cells, Levels, Threshold, levels
from duckanon.engines.suppression.suppress import suppress
from duckanon.engines.suppression.table import Table
from duckanon.errors import Infeasible, InvalidInput
from tests.amounts import many
from tests.engines.suppression.plain import with_totals
from tests.engines.suppression.strategies import tables


@settings(max_examples=many(100))
@given(tables())
def test_equations(table: Table) -> None:
    """As many independent equations as cells that are sums, and exactly the additive tables meet them."""
    assert table.adds_up(table.flat)
    equations = table.equations.toarray()
    leaves = np.outer(table.rows.leaves, table.columns.leaves).ravel()
    assert equations.shape == ((~leaves).sum(), table.cells)
    assert not len(equations) or np.linalg.matrix_rank(equations) == len(equations)
    for leaf in np.flatnonzero(leaves):
        unit = np.zeros(table.cells, dtype=np.int64)
        unit[leaf] = 1
        filled = with_totals(unit.reshape(table.units.shape), table.rows, table.columns)
        assert table.adds_up(filled.ravel())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2],), "two dimensions"),
        (([[1, -2]],), "negative"),
        (([[1, np.nan]],), "NaN"),
        (([["a"]],), "numbers"),
        (([[1e300]],), "larger step"),
        (([[0.5]],), "multiples"),
        (([[0.5]], None, None, 0.0), "positive"),
        (([[3], [1]], [-1, 0]), "add up"),
        (([[3], [3]], [1, 0]), "circle"),
        (([[3], [3]], [-1, 2]), "another row"),
        (([[3], [3]], [-1]), "one whole number"),
    ],
)
def test_no_table(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Table.of(*arguments)  # type: ignore[arg-type]


def small() -> tuple[Table, Levels]:
    table = Table.of([[9, 2, 7], [5, 1, 4], [4, 1, 3]], [-1, 0, 0], [-1, 0, 0])
    return table, levels(Cells.of(table), [Threshold(2)])


def test_what_is_known_must_agree() -> None:
    table, demanded = small()
    with pytest.raises(InvalidInput, match="contradicts"):
        problem(table, demanded, (table.units + 1, None))
    with pytest.raises(InvalidInput, match="shape of the table"):
        problem(table, demanded, (np.zeros(2), None))
    with pytest.raises(InvalidInput, match="Costs"):
        problem(table, demanded, cost=-table.units)
    with pytest.raises(Infeasible, match="narrowly"):
        problem(table, demanded, (None, table.units))


def test_cells_to_keep() -> None:
    table, demanded = small()
    with pytest.raises(Infeasible, match="sensitive"):
        problem(table, demanded, keep=demanded.primary)
    with pytest.raises(Infeasible, match="sensitive cells cannot be protected"):
        suppress(problem(table, demanded, keep=~demanded.primary.reshape(3, 3)))
    with pytest.raises(InvalidInput, match="effort"):
        suppress(problem(table, demanded), effort=-1)


def test_a_table_without_sensitive_cells() -> None:
    table = Table.of([[9, 9], [9, 9]])
    found = suppress(problem(table, levels(Cells.of(table), [Threshold(2)])))
    assert not (found.primary | found.secondary).any()
    assert (found.cost, found.bound, found.gap, found.optimal) == (0.0, 0.0, 0.0, True)
