"""The owner's audit against enumeration: what it calls safe is safe, what it calls narrow is narrow."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.tables.audit import audit
from duckanon.engines.tables.moves import flips, swings
from duckanon.engines.tables.released import Releases, counts
from duckanon.engines.tables.truth import Records, agrees, records
from duckanon.errors import InvalidInput
from tests.amounts import many
from tests.engines.tables import plain
from tests.engines.tables.strategies import Case, cases


def records_of(case: Case) -> Records:
    return records(case.levels, list(case.truth), list(case.truth.values()))


@settings(max_examples=many(80), deadline=None)
@given(cases(most_records=4), st.integers(1, 3))
def test_the_audit_tells_safe_cells_from_narrow_ones(case: Case, width: int) -> None:
    releases = Releases(case.levels, tuple(one.released() for one in case.published), case.n)
    found = audit(releases, records_of(case), case.target, width=width)
    expected = plain.bounds(case.levels, case.published, [case.n], case.target)
    small = {cell for cell, count in plain.margin(case.truth, case.target).items() if 1 <= count < 5}
    assert set(map(tuple, found.codes.tolist())) == small
    for i, cell in enumerate(map(tuple, found.codes.tolist())):
        low, high = expected[cell]
        assert found.lower[i] <= low <= found.least[i] <= found.largest[i] <= high <= found.upper[i]
        assert found.safe[i] == (high - low >= width)
        assert found.narrow[i] == (high - low < width)
        assert found.disclosed[i] == (low == high)


@settings(max_examples=many(60), deadline=None)
@given(cases())
def test_released_tables_agree_with_their_records_alone(case: Case) -> None:
    for one in case.published:
        assert agrees(one.released(), records_of(case))
    for total in range(1, 3):
        for table in plain.tables(case.levels, total):
            truth = records(case.levels, list(table), list(table.values()))
            for one in case.published:
                assert agrees(one.released(), truth) == one.agrees(table)


def test_an_audit_of_other_records_is_refused() -> None:
    truth = records((2, 2), [[0, 0], [1, 1]], [3, 4])
    releases = Releases((2, 2), (counts("a", [0], [[0], [1]], [4, 3]), counts("b", [1], [[0], [1]], [3, 4])))
    with pytest.raises(InvalidInput, match="'a' does not agree with the records"):
        audit(releases, truth, [0, 1])


def test_moves_flip_what_no_margin_tells() -> None:
    pairs = [frozenset(pair) for pair in combinations(range(3), 2)]
    assert flips(frozenset(range(3)), pairs) == ((0, 1, 2),)
    assert flips(frozenset(range(3)), pairs[:2]) == ((1, 2),)
    assert flips(frozenset(range(2)), pairs) == ()
    assert flips(frozenset(range(2)), [frozenset([0])]) == ((1,),)


def test_moves_take_from_every_other_corner() -> None:
    cells = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    down, up = swings(cells, np.array([2, 1, 5, 3]), (2, 2), np.array([0, 1]), [[0, 1]], 100)
    assert (down.tolist(), up.tolist()) == ([2, 1], [1, 2])


@settings(max_examples=many(100), deadline=None)
@given(st.lists(st.integers(0, 4), min_size=9, max_size=9))
def test_moves_one_after_another_reach_the_frechet_bounds(cells: list[int]) -> None:
    table = np.array(cells).reshape(3, 3)
    down, up = swings(np.argwhere(table >= 0), table.ravel(), (3, 3), np.arange(9), [[0, 1]], 1000)
    row, column = table.sum(axis=1)[:, None], table.sum(axis=0)[None, :]
    assert (table - down.reshape(3, 3) == np.maximum(0, row + column - table.sum())).all()
    assert (table + up.reshape(3, 3) == np.minimum(row, column)).all()
