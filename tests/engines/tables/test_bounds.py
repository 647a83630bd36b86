"""Bounds from sets of tables against enumeration of all tables, and against the published ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.tables.bounds import TargetBounds, table_bounds
from duckanon.engines.tables.released import Releases
from duckanon.errors import InvalidInput
from tests.amounts import many
from tests.engines.tables import plain
from tests.engines.tables.strategies import Case, cases


def as_dict(found: TargetBounds) -> dict[tuple[int, ...], tuple[int, int]]:
    cells = map(tuple, found.codes.tolist())
    return dict(zip(cells, zip(found.lower.tolist(), found.upper.tolist(), strict=True), strict=True))


def equal_to_enumeration(case: Case, found: TargetBounds, expected: dict[tuple[int, ...], tuple[int, int]]) -> None:
    assert found.exact.all()
    ours = as_dict(found)
    for cell, ends in expected.items():
        assert ours.pop(cell, (0, 0)) == ends, (case, cell)
    # Cells of levels that no table lists.
    assert all(ends == (0, 0) for ends in ours.values())


@settings(max_examples=many(200), deadline=None)
@given(cases())
def test_bounds_are_those_of_enumeration(case: Case) -> None:
    releases = Releases(case.levels, tuple(one.released() for one in case.published), case.n)
    expected = plain.bounds(case.levels, case.published, [case.n], case.target)
    equal_to_enumeration(case, table_bounds(releases, case.target), expected)


@settings(max_examples=many(80), deadline=None)
@given(cases(most_records=3))
def test_bounds_are_those_of_enumeration_where_n_is_not_given(case: Case) -> None:
    releases = Releases(case.levels, tuple(one.released() for one in case.published))
    try:
        least, most = releases.total()
    except InvalidInput:
        return
    if most > 5:
        return
    expected = plain.bounds(case.levels, case.published, range(least, most + 1), case.target)
    equal_to_enumeration(case, table_bounds(releases, case.target), expected)


@settings(max_examples=many(80), deadline=None)
@given(cases(), cases(), st.integers(1, 5))
def test_tables_of_different_records_give_bounds_or_a_contradiction(one: Case, other: Case, n: int) -> None:
    if one.levels != other.levels:
        return
    published = (*one.published[:2], *other.published[:2])
    target = tuple(sorted({v for table in published for v in table.scope}))
    expected = plain.bounds(one.levels, published, [n], target)
    releases = Releases(one.levels, tuple(p.released() for p in published), n)
    if not expected:
        with pytest.raises(InvalidInput, match=r"no records have|another number of records"):
            table_bounds(releases, target)
        return
    equal_to_enumeration(one, table_bounds(releases, target), expected)
