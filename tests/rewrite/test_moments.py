"""Dates and times in statements, as DuckDB reads them, and what the current time is in a question."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.rewrite.algebra.moments import (
    Duration,
    Now,
    between_zones,
    moved,
    now_of,
    read_date,
    read_instant,
    read_interval,
    read_timestamp,
)

BERLIN, TOKYO = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo")


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        found.execute("SET TimeZone = 'UTC'")
        yield found


DAYS = st.dates(date(1583, 1, 1), date(9998, 12, 31))
CLOCKS = st.sampled_from(["", " 00:00:00", "T23:59:59", " 10:30:00.5", "T10:30:00.123456"])
OFFSETS = st.sampled_from(["", "Z", "+00", "-08", "+05:30", "+0530", "+14:00"])


@given(DAYS, CLOCKS, OFFSETS)
def test_texts_are_what_duckdb_reads(con: duckdb.DuckDBPyConnection, day: date, clock: str, offset: str) -> None:
    """With a zone and no time, as pgjdbc sends days, DuckDB 2 reads nothing."""
    text = f"{day}{clock}{offset if clock else f' {offset}' if offset else ''}"
    read = [read_date(text), read_timestamp(text), read_instant(text, UTC)]
    own = con.execute(
        "SELECT TRY_CAST($1 AS DATE), TRY_CAST($1 AS TIMESTAMP), timezone('UTC', TRY_CAST($1 AS TIMESTAMPTZ))", [text]
    ).fetchall()[0]
    for mine, theirs in zip(read, own, strict=True):
        assert mine is not None
        assert theirs is None or mine == theirs
    assert clock == "" or None not in own


@pytest.mark.parametrize(
    "text", ["", "2024", "2024-1-1", "24-01-01", "2024-01-01x", "2024-01-01 ", "today", "2024-01-01 1:00"]
)
def test_others_are_not_read(text: str) -> None:
    assert read_timestamp(text) in (None, datetime(2024, 1, 1))


UNITS = ["year", "years", "quarter", "mon", "mons", "month", "week", "days", "hour", "minutes", "second", "ms"]


@given(
    st.lists(st.tuples(st.integers(-999, 999), st.sampled_from(UNITS)), max_size=3),
    st.sampled_from(["", "04:05", "-04:05:06.5", "00:00:07"]),
)
def test_intervals_are_what_duckdb_reads(
    con: duckdb.DuckDBPyConnection, parts: list[tuple[int, str]], clock: str
) -> None:
    text = " ".join([*(f"{many} {unit}" for many, unit in parts), clock]).strip()
    found = read_interval(text)
    ((own,),) = con.execute("SELECT TRY_CAST($1 AS INTERVAL)::VARCHAR", [text]).fetchall()
    if found is None or own is None:
        return
    again = f"{found.months} months {found.days} days {found.micros} microseconds"
    assert con.execute("SELECT $1::INTERVAL::VARCHAR", [again]).fetchall() == [(own,)]


@given(
    st.datetimes(datetime(1600, 1, 1), datetime(3000, 1, 1)),
    st.integers(-500, 500),
    st.integers(-5000, 5000),
    st.integers(-(10**12), 10**12),
    st.sampled_from([1, -1]),
)
def test_moving_is_what_duckdb_computes(
    con: duckdb.DuckDBPyConnection, at: datetime, months: int, days: int, micros: int, sign: int
) -> None:
    found = moved(at, Duration(months, days, micros), sign)
    text = f"{months} months {days} days {micros} microseconds"
    own = con.execute(f"SELECT $1::TIMESTAMP {'+' if sign > 0 else '-'} $2::INTERVAL", [at, text]).fetchall()
    assert own == [(found,)]


@given(
    st.datetimes(datetime(1980, 1, 1), datetime(2030, 1, 1)),
    st.datetimes(datetime(1980, 1, 1), datetime(2030, 1, 1)),
    st.timedeltas(timedelta(hours=-5), timedelta(hours=5)),
)
def test_a_moment_is_compared_as_its_time_in_the_zone(
    con: duckdb.DuckDBPyConnection, moment: datetime, other: datetime, near: timedelta
) -> None:
    """Also for times near it: DuckDB brings the column into the zone, we bring the constant out of it."""
    local = between_zones(moment, UTC, BERLIN)
    if local is None:
        return
    con.execute("SET TimeZone = 'Europe/Berlin'")
    for ts in (other, local + near):
        ((own,),) = con.execute(f"SELECT $1::TIMESTAMP >= TIMESTAMPTZ '{moment}+00'", [ts]).fetchall()
        assert own is (ts >= local)
    con.execute("SET TimeZone = 'UTC'")


@pytest.mark.parametrize(
    "text", ["2024-03-31 00:59:59+00", "2024-03-31 01:00+00", "2024-10-27 00:30+00", "2024-10-27 02:30:00"]
)
def test_where_clocks_change_nothing_is_said(text: str) -> None:
    assert read_instant(text, BERLIN) is None
    assert read_instant(text, None) is None


def test_the_current_time_is_the_first_moment_of_the_day() -> None:
    now = Now.at(datetime(2026, 2, 28, 15, 45), TOKYO)
    assert now == date(2026, 2, 28)
    assert now_of(now) == now_of(date(2026, 2, 28)) == datetime(2026, 2, 28)
    assert now_of(now.exactly(now.moment)) == datetime(2026, 2, 28, 15, 45)
    assert not now.is_read
    assert now.read() == datetime(2026, 2, 28, 15, 45)
    assert now.is_read


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/St_Johns"])
def test_the_day_is_that_of_the_sessions_zone(zone: str) -> None:
    before, now, after = (_in(zone), Now.in_zone(zone), _in(zone))
    assert before <= now.moment <= after
    assert now == now.moment.date()


def _in(zone: str) -> Any:
    return datetime.now(ZoneInfo(zone)).replace(tzinfo=None)


def test_a_zone_that_python_does_not_know_is_the_machines() -> None:
    assert Now.in_zone("Mars/Base").zone is None
