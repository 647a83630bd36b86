"""PostgreSQL's patterns of dates, beside DuckDB's own reading and writing of the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.rewrite.date_formats import NotOfFormat, as_strftime, read

# PostgreSQL's formats that lose nothing up to the unit that stands behind them.
FORMATS = {
    "YYYY-MM-DD HH24:MI:SS.US": "microsecond",
    "YYYYMMDDHH24MISSMS": "millisecond",
    "DD/MM/YYYY HH12:MI:SS AM": "second",
    "MM.DD.YYYY HH24:MI": "minute",
    '"on" DD.MM.YYYY "at" HH24': "hour",
    "YYYY-MM-DD": "day",
    "YYYYMMDD": "day",
    "YYYY/MM": "month",
    "YYYY": "year",
}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found


@pytest.mark.parametrize("form", FORMATS)
@given(at=st.datetimes(datetime(1583, 1, 1), datetime(9999, 12, 31)))
def test_what_duckdb_writes_is_read_again(con: duckdb.DuckDBPyConnection, form: str, at: datetime) -> None:
    ((text, expected),) = con.execute(
        f"SELECT strftime(x, ?), date_trunc('{FORMATS[form]}', x)::TIMESTAMP FROM (SELECT ?::TIMESTAMP AS x)",
        [as_strftime(form), at],
    ).fetchall()
    assert read(text, form) == expected


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("1/3/2024", "DD/MM/YYYY", datetime(2024, 3, 1)),
        ("2024-03-01 12:05 am", "YYYY-MM-DD HH:MI AM", datetime(2024, 3, 1, 0, 5)),
        ("2024-03-01 12:05 pm", "YYYY-MM-DD HH:MI PM", datetime(2024, 3, 1, 12, 5)),
        ("2024-03-01 00:00:07.5", "yyyy-mm-dd hh24:mi:ss.us", datetime(2024, 3, 1, 0, 0, 7, 500000)),
        (" 2024 ", "YYYY", datetime(2024, 1, 1)),
    ],
)
def test_as_postgresql_reads_them(text: str, form: str, expected: datetime) -> None:
    assert read(text, form) == expected


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2024-02-30", "YYYY-MM-DD"), ("2024-13-01", "YYYY-MM-DD"), ("24-01-01", "YYYY-MM-DD"),
        ("2024-01-01", "DD/MM/YYYY"),
        ("2024-01-01 25", "YYYY-MM-DD HH24"), ("2024-01-01 13 am", "YYYY-MM-DD HH AM"), ("01", "MM"), ("x", "YYYY"),
        ("2024 Mar", "YYYY Mon"), ("2024-2024", "YYYY-YYYY"), ("2024", ""), ("", ""),
    ],
)  # fmt: skip
def test_others_are_not_read(text: str, form: str) -> None:
    with pytest.raises(NotOfFormat):
        read(text, form)


@pytest.mark.parametrize("form", ["FMDD", "Mon YYYY", "HH12 am", "TZ", "Q", "YYYY-WW", "999.9", ""])
def test_other_formats_are_not_written(form: str) -> None:
    with pytest.raises(NotOfFormat):
        as_strftime(form)


def test_a_percent_sign_is_no_pattern_of_duckdbs() -> None:
    assert as_strftime("YYYY 100%") == "%Y 100%%"
