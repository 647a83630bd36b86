"""The sentences on how wide noise is beside the numbers of a result: they follow from the noisy numbers alone."""

from __future__ import annotations

import re
from math import inf

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import parse_one

from duckanon.releases.margins import Margin, in_words, of_answer, of_rows, query
from duckanon.rewrite.dialect import DIALECT

NUMBERS = st.one_of(st.none(), st.integers(-40, 40), st.floats(-40, 40))
NAMES = ["place", "n", "s"]


@given(st.lists(st.tuples(st.text(), NUMBERS, NUMBERS), max_size=8), st.floats(0, 30), st.floats(0, 30))
def test_small_numbers_are_counted(rows: list[tuple[object, ...]], first: float, second: float) -> None:
    said = in_words(of_rows([(1, first), (2, second)], rows), NAMES)
    told: list[tuple[float, float]] = [
        (abs(one), width)  # type: ignore[arg-type]
        for _, x, y in rows
        for one, width in ((x, first), (y, second))
        if one is not None and width > 0
    ]
    small = sum(one < width for one, width in told)
    found = re.search(r"(\d+) of (\d+) noisy numbers? (is|are) smaller than", said) if said is not None else None
    assert (said is None) == (not told)
    assert (found is None) == (small == 0)
    assert found is None or (int(found[1]), int(found[2])) == (small, len(told))


@given(st.lists(st.tuples(st.text(), st.integers(-9, 9)), min_size=1), st.lists(st.text(), min_size=1))
def test_nothing_else_is_looked_at(rows: list[tuple[str, int]], other: list[str]) -> None:
    changed = [(other[at % len(other)], number) for at, (_, number) in enumerate(rows)]
    assert of_rows([(1, 6.0)], rows) == of_rows([(1, 6.0)], changed)


@pytest.mark.parametrize(
    ("numbers", "width", "said"),
    [
        ([1000, 90, 70], 8.0, "Noise: 95 % within 0.4 % of the largest cell, 4.5 % of the median cell."),
        ([-1000, 3, 2], 8.0, "Noise: 95 % within 0.4 % of the largest cell, wider than the median cell. 2 of 3 noisy"),
        # Of two in the middle the one that has wider noise beside it.
        ([1000, 50, 8, 8], 8.0, "Noise: 95 % within 0.4 % of the largest cell, 50 % of the median cell."),
        ([3, 0, None], 8.0, "Noise: wider than the largest cell. 2 of 2 noisy numbers are"),
        ([70], 8.0, "Noise: 95 % within 5.8 % of the number."),
        ([0], 8.0, "Noise: wider than the number. 1 of 1 noisy number is smaller than its own interval is wide"),
        ([10**12], 8.0, "Noise: 95 % within 0.01 % of the number."),
        ([None], 8.0, None),
        ([], 8.0, None),
        # There is none in 95 of 100 cases at least.
        ([5], 0.0, None),
    ],
)
def test_what_is_said(numbers: list[int | None], width: float, said: str | None) -> None:
    found = in_words(of_rows([(0, width)], [(one,) for one in numbers]), ["n"])
    assert found == said if found is None or said is None else found.startswith(said)


def test_of_several_columns_the_widest_is_told_by_its_name() -> None:
    said = in_words(of_rows([(1, 6.0), (2, 60.0)], [("a", 100, 100), ("b", 200, 400)]), NAMES)
    assert said == "Noise of s, the widest: 95 % within 7.5 % of the largest cell, 30 % of the median cell."


def test_where_the_largest_number_has_the_widest_noise() -> None:
    assert in_words([Margin(0, 3, 0, 1.5, 0.2)], ["n"]) == (
        "Noise: 95 % within 20 % of the median cell, wider than the largest cell."
    )


@given(st.lists(st.tuples(st.sampled_from("ab"), NUMBERS), max_size=9), st.sampled_from([0.5, 3.0, 7.5]))
def test_the_query_tells_the_same(rows: list[tuple[str, object]], width: float) -> None:
    # The first row is none of the result.
    values = ", ".join(f"('{key}', {'NULL' if x is None else repr(x)}::DOUBLE)" for key, x in [("", 0), *rows])
    result = parse_one(f"SELECT k, x FROM (VALUES {values}) AS t(k, x) WHERE k <> ''", read=DIALECT)
    (row,) = duckdb.execute(query(result, [(1, f"CAST({width} AS DOUBLE)")])).fetchall()
    assert of_answer(row) == of_rows([(1, width)], rows)


def test_numbers_without_noise_are_left_out_of_the_query() -> None:
    result = parse_one("SELECT x, y FROM (VALUES (100, 0), (0, 0), (50, 8)) AS t(x, y)", read=DIALECT)
    (row,) = duckdb.execute(query(result, [(0, "CASE WHEN x > 0 THEN 10 END"), (1, "NULL")])).fetchall()
    assert of_answer(row) == [Margin(0, 2, 0, 0.05, 0.1)]


def test_a_share_of_zero_is_noise_whatever_is_cut_off_of_its_interval() -> None:
    """A share whose noisy part is far below zero is 0, and nothing is left of its interval but 0."""
    result = parse_one("SELECT s FROM (VALUES (0.5), (0.0)) AS t(s)", read=DIALECT)
    (row,) = duckdb.execute(query(result, [(0, "CASE WHEN s > 0 THEN 0.1 ELSE 0 END")])).fetchall()
    assert of_answer(row) == [Margin(0, 2, 0, 0.1, inf)]
