"""Ranges are the lists of their values, and what is written as JSON comes back."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.catalog.domain_sources import ENUM, DomainSource, Range, WithNull, of_plain, plain

NUMBERS = st.integers(-50, 50)
DAYS = st.integers(0, 2000).map(lambda one: date(2020, 1, 1) + timedelta(days=one))


def values(first: int | date, last: int | date, step: int) -> list[int | str]:
    """By going from one to the next."""
    found: list[int | str] = []
    while first <= last:  # type: ignore[operator] # both are numbers, or both are dates
        found.append(first if isinstance(first, int) else str(first))
        first = first + step if isinstance(first, int) else first + timedelta(days=step)
    return found


@given(st.one_of(st.tuples(NUMBERS, NUMBERS), st.tuples(DAYS, DAYS)), st.integers(1, 20), st.booleans())
def test_a_range_is_the_list_of_its_values(ends: tuple[int | date, int | date], step: int, nulls: bool) -> None:
    first, last = sorted(ends)
    found, listed = Range(first, last, step, nulls), values(first, last, step)
    assert found.count == len(listed)
    assert found.ends == (listed[0], listed[-1])
    assert found == (*listed, *([None] if nulls else []))
    assert found != (*listed, *([] if nulls else [None]))
    assert found != (*listed, *([None] if nulls else []), 7)


def test_ranges_with_the_same_values_are_equal() -> None:
    assert Range(0, 10, 5) == Range(0, 14, 5)
    assert Range(0, 4, 5) == Range(0, 0, 1)
    assert Range(0, 10, 5) != Range(0, 10, 10)
    assert Range(0, 10, 5) != Range(0, 10, 5, nulls=True)


@pytest.mark.parametrize(
    "source",
    [
        (1, None, "a", True),
        ENUM,
        "items.item_id",
        WithNull("items"),
        Range(0, 9, 3),
        Range(date(2024, 2, 28), date(2024, 3, 1), nulls=True),
    ],
)
def test_what_is_written_comes_back(source: DomainSource) -> None:
    assert of_plain(json.loads(json.dumps(plain(source)))) == source
