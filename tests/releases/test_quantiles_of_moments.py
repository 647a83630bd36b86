"""Quantiles of dates and times, beside DuckDB's own, with a price at which noise hardly moves them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.analyst import Analyst

RECORDS = """
CREATE TABLE stays AS SELECT
    i AS pid, ['n0', 'n1', 'n2'][1 + i % 3] AS ward, i % 7 AS x,
    DATE '2024-01-01' + (i * 37 % 301)::INTEGER AS d, TIMESTAMP '2024-01-01' + INTERVAL (i * 37 % 2001) HOUR AS ts,
    TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (i * 37 % 2001) HOUR AS tz
FROM range(2001) r(i)
"""
PROTECT = """
SELECT protect('stays', epsilon := 1000000, per_query := 2000, public := ['ward'],
  domains := {'ward': ['n0', 'n1', 'n2']}, bounds := {'x': [0, 6], 'd': ['2024-01-01', '2024-12-31'],
    'ts': ['2024-01-01', '2024-12-31'], 'tz': ['2024-01-01 00:00:00+00', '2024-12-31 00:00:00+00']})
"""
STRANGE = """
INSERT INTO stays SELECT 5000 + i, 'n0', 0, [DATE 'infinity', '-infinity', NULL, '9999-12-31', '0001-01-01'][1 + i % 5],
  [TIMESTAMP 'infinity', '-infinity', NULL, '9999-12-31', '0001-01-01'][1 + i % 5], NULL FROM range(50) r(i)
"""
# The last of each: how far it may be from DuckDB's, since only 1,000 values between the bounds are tried.
HOURS = timedelta(hours=9)
QUESTIONS = [
    ("SELECT median(d) FROM stays", timedelta(0)),
    ("SELECT ward, quantile_disc(d, 0.25) FROM stays GROUP BY ward ORDER BY ward", timedelta(days=1)),
    ("SELECT quantile_cont(d, 0.1), quantile_cont(d, 0.9) FROM stays", timedelta(days=1)),
    ("SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY d) FROM stays", timedelta(days=1)),
    ("SELECT median(d) FILTER (WHERE x > 3), median(d) FROM stays", timedelta(days=1)),
    ("SELECT median(CASE WHEN x > 3 THEN d END) FROM stays WHERE ward = 'n1'", timedelta(days=1)),
    ("SELECT median(date_trunc('month', d)) FROM stays", timedelta(0)),
    ("SELECT median(ts::DATE) FROM stays", timedelta(days=1)),
    ("SELECT median(ts), quantile_disc(ts, 0.3) FROM stays", HOURS),
    ("SELECT median(tz), quantile_disc(tz, 0.3) FROM stays", HOURS),
    ("SELECT median(ts) - median(d) FROM stays", HOURS),
]


@pytest.fixture(scope="module")
def stays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Analyst, Any]]:
    path = tmp_path_factory.mktemp("stays") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute(PROTECT).fetchall()
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'UTC'")
    plain.execute(RECORDS)
    with duckanon.connect(path, role="analyst") as con:
        yield con, plain
    plain.close()


@pytest.mark.parametrize(("sql", "near"), QUESTIONS)
def test_they_are_those_of_duckdb(sql: str, near: timedelta, stays: tuple[Analyst, Any]) -> None:
    analyst, plain = stays
    asked, expected = analyst.execute(sql), plain.execute(sql)
    assert [str(one[1]) for one in asked.description] == [str(one[1]) for one in expected.description]
    for row, wanted in zip(asked.fetchall(), expected.fetchall(), strict=True):
        for value, other in zip(row, wanted, strict=True):
            assert value == other or abs(value - other) <= near


def test_how_far_values_are_rounded_is_said_in_days_and_hours(stays: tuple[Analyst, Any]) -> None:
    reason = stays[0].explain("SELECT median(ts), median(d) FROM stays").steps[0].reason
    assert "Values are rounded: ts to steps of 8:45:36." in reason


def test_where_there_are_no_bounds_the_steward_is_named(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute("SELECT protect('stays', epsilon := 1, per_query := 1)").fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        for kind, column in (("DATE", "d"), ("TIMESTAMP", "ts"), ("TIMESTAMPTZ", "tz")):
            with pytest.raises(duckanon.errors.PolicyRefusal, match=rf"bounds := {{'{column}': \[{kind} '"):
                con.execute(f"SELECT median({column}) FROM stays")
        with pytest.raises(duckanon.errors.PolicyRefusal, match="of columns of numbers, quantiles of dates"):
            con.execute("SELECT avg(d) FROM stays")


def test_values_outside_of_the_bounds_are_taken_for_the_nearest(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute("DELETE FROM stays WHERE pid > 20").fetchall()
        con.execute(STRANGE).fetchall()
        con.execute(PROTECT).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        found = con.execute("SELECT quantile_disc(d, 0), quantile_disc(d, 1), median(ts) FROM stays").fetchall()
        assert [str(one)[:10] for one in found[0][:2]] == ["2024-01-01", "2024-12-31"]


JOINED_RECORDS = """
CREATE TABLE patients (pid BIGINT PRIMARY KEY, sex VARCHAR, born DATE);
INSERT INTO patients
    SELECT i, ['f', 'm'][1 + i % 2], DATE '1990-01-01' + (i * 91 % 900)::INTEGER FROM range(800) r(i);
CREATE TABLE visits AS SELECT i * 7 % 800 AS pid, ['n0', 'n1'][1 + i % 2] AS ward,
    DATE '2024-01-01' + (i * 37 % 301)::INTEGER AS d FROM range(2400) r(i)
"""
JOINED_PROTECT = """
SELECT protect('patients', population := 'people', privacy_unit := 'pid', rows_per_unit := 1, epsilon := 1000000,
  per_query := 3000, public := ['sex'], domains := {'sex': ['f', 'm']},
  bounds := {'born': ['1990-01-01', '1992-06-30']});
SELECT protect('visits', population := 'people', privacy_unit := 'pid', rows_per_unit := 3, epsilon := 1000000,
  per_query := 3000, public := ['ward'], domains := {'ward': ['n0', 'n1']},
  bounds := {'d': ['2024-01-01', '2024-12-31']})
"""


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Analyst, Any]]:
    path = tmp_path_factory.mktemp("joined") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con, duckdb.connect() as plain:
        for statement in JOINED_RECORDS.split(";"):
            con.execute(statement).fetchall()
            plain.execute(statement)
        for statement in JOINED_PROTECT.split(";"):
            con.execute(statement).fetchall()
        con.close()
        with duckanon.connect(path, role="analyst") as analyst:
            yield analyst, plain


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sex, median(d) FROM patients JOIN visits USING (pid) GROUP BY sex ORDER BY sex",
        "SELECT median(born), median(d) FROM patients JOIN visits USING (pid) WHERE ward = 'n0'",
        "SELECT ward, quantile_disc(born, 0.3) FROM visits JOIN patients USING (pid) GROUP BY ward ORDER BY ward",
        "SELECT median(first) FROM (SELECT pid, min(d) AS first FROM visits GROUP BY pid)",
        "SELECT median(d) FROM visits v WHERE EXISTS (FROM patients p WHERE p.pid = v.pid AND born < '1991-01-01')",
        "SELECT sex, median(d) FROM patients LEFT JOIN visits USING (pid) GROUP BY sex ORDER BY sex",
    ],
)
def test_those_of_joins_are_those_of_duckdb(sql: str, joined: tuple[Analyst, Any]) -> None:
    analyst, plain = joined
    for row, expected in zip(analyst.execute(sql).fetchall(), plain.execute(sql).fetchall(), strict=True):
        for value, other in zip(row, expected, strict=True):
            assert value == other or abs(value - other) <= timedelta(days=2)
