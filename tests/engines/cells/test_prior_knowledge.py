"""Facts about cells against the list of all tables; what contradicts itself is told, with its row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.cells.audit import audit_table
from duckanon.engines.cells.prior_knowledge import Fact, bounds_of_nu
from duckanon.engines.cells.reduction import reduce
from duckanon.errors import Infeasible, InvalidInput
from tests.amounts import many
from tests.engines.cells import plain
from tests.engines.cells.strategies import tables


@settings(max_examples=many(300))
@given(st.data(), tables(rows=4, columns=3, most=5))
def test_agrees_with_all_tables(data: st.DataObject, table: list[list[int]]) -> None:
    reduced = reduce(*plain.arrays(table))
    facts, parts = [], []
    for row in data.draw(st.lists(st.integers(0, len(table) - 1), max_size=3)):
        cells = data.draw(st.sets(st.integers(0, len(table[row]) - 1), min_size=1))
        lower = data.draw(st.integers(0, 8))
        upper = data.draw(st.none() | st.integers(lower, 12))
        part = sum(table[row][j] for j in cells)
        facts.append(Fact(row, part // int(reduced.divisors[row]), lower, upper))
        parts.append((row, cells, lower, upper))
    fitting = [
        one
        for one in plain.tables_like(table)
        if all(
            low <= sum(one[row][j] for j in cells) and (up is None or sum(one[row][j] for j in cells) <= up)
            for row, cells, low, up in parts
        )
    ]
    if not fitting:
        with pytest.raises(Infeasible, match="what known says of row"):
            audit_table(reduced, facts)
        return
    found = audit_table(reduced, facts)
    for row in range(len(table)):
        multiples = sorted({sum(one[row]) // int(reduced.sums[row]) for one in fitting})
        assert [found.offset[row] + nu for nu in found.feasible.values(int(found.kind[row]))] == multiples
        assert (found.lower[row], found.upper[row], found.count[row]) == (multiples[0], multiples[-1], len(multiples))


@settings(max_examples=many(500))
@given(tables(rows=4, columns=3, most=6), st.integers(0, 3), st.integers(2, 4))
def test_scaling_a_row_changes_no_proportion(table: list[list[int]], row: int, factor: int) -> None:
    row %= len(table)
    scaled = [[x * factor for x in one] if i == row else one for i, one in enumerate(table)]
    before, after = reduce(*plain.arrays(table)), reduce(*plain.arrays(scaled))
    assert before.sums.tolist() == after.sums.tolist()
    assert after.divisors[row] == factor * before.divisors[row]


def test_the_lower_end_needs_a_ceiling() -> None:
    """With part 2 and lower 3 the multiple is at least 2; a floor, as printed, would allow 1."""
    assert bounds_of_nu(1, [Fact(0, 2, 3, None)], str) == ([1], [None])


def test_the_row_that_contradicts_the_others_is_named() -> None:
    table = reduce(*plain.arrays([[1, 1], [1, 1], [1, 1], [1, 1]]))
    facts = [Fact(0, 1, 2, None), Fact(2, 1, 2, None)]
    with pytest.raises(Infeasible, match="of row 2: correct or remove"):
        audit_table(table, [Fact(0, 1, 1, None), Fact(2, 1, 2, None)])
    with pytest.raises(Infeasible, match="of row 0"):
        audit_table(table, facts)


def test_facts_at_any_size() -> None:
    table = reduce(np.array([0, 0, 1, 1, 2]), np.array([3 * 10**11, 4 * 10**11, 10**11, 2 * 10**11, 7]))
    found = audit_table(table, [Fact(0, 3, 0, 10**11)])
    assert found.upper[0] <= 10**11 // 3
    assert found.count.min() >= 1


def test_limits_are_told() -> None:
    for counts, said in (
        ([], "no rows"),
        ([-1], "negative"),
        ([0, 0], "All counts are zero"),
        ([10**18, 1], "more than 10"),
        ([2**62] * 9, "more than 10"),
    ):
        with pytest.raises(InvalidInput, match=said):
            reduce(np.zeros(len(counts), dtype=np.int64), np.array(counts, dtype=np.int64))
