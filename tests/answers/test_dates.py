"""Dates and times as programs send them: of open, temporary and protected tables, with DuckDB's own answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.releases import mechanisms
from tests.amounts import sampled
from tests.answers.equality import Tolerance, difference, in_order, is_ordered
from tests.guard.truthful import truth

STATEMENTS = [
    line.removesuffix(";")
    for line in Path("fixtures/dates/statements.sql").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("--")
]
# Of columns with a time zone.
ZONED = [
    "SELECT count(*) FROM {visits} WHERE zoned >= '2024-03-01 00:00:00+00'",
    "SELECT count(*) FROM {visits} WHERE zoned BETWEEN '2024-01-01T00:00:00Z' AND '2024-07-01T02:00:00+02:00'",
    "SELECT count(*) FROM {visits} WHERE zoned >= timestamp with time zone '2024-01-01 00:00:00.000Z'",
    "SELECT count(*) FROM {visits} WHERE zoned >= now() - INTERVAL '8 years'",
    "SELECT count(*) FROM {visits} WHERE date_trunc('month', zoned) = DATE '2024-02-01'",
    "SELECT count(*) FROM {visits} WHERE extract(hour FROM zoned) = 7 AND CAST(zoned AS DATE) >= DATE '2023-01-01'",
    "SELECT count(*) FROM {visits} WHERE zoned AT TIME ZONE 'UTC' < TIMESTAMP '2023-05-01 10:00:00' OR zoned IS NULL",
    "SELECT count(*) FROM {visits} WHERE zoned = ANY (ARRAY['2022-01-01 04:02:13+02']::timestamptz[])",
    "SELECT count(*) FROM {visits} WHERE zoned::timestamp > TIMESTAMP '2023-01-01' AND ts <> zoned::timestamp",
]
# In some of DuckDB's versions these texts are no dates and times, and no type is written beside them. (Of a parameter
# the server knows it.)
_NOT_IN_OPEN_TABLES = {
    "SELECT count(*) FROM {visits} WHERE day >= '2024-03-01 +00'": "2.",
    "SELECT count(*) FROM {visits} v WHERE v.ts > '2024-03-01 00:00:00.000 +0000'": "1.",
}
# What DuckDB does not have, written for it by hand.
_BY_HAND = {
    r"TO_DATE\('([-\d]+)', 'YYYY-MM-DD'\)": r"DATE '\1'",
    r"TO_TIMESTAMP\('([^']+)', 'YYYY-MM-DD HH24:MI:SS.US'\)": r"TIMESTAMP '\1'",
    r"to_timestamp\('01/03/2024 08:30', 'DD/MM/YYYY HH24:MI'\)": "TIMESTAMP '2024-03-01 08:30:00'",
    r"to_date\('20240315', 'YYYYMMDD'\)": "DATE '2024-03-15'",
    r"TO_CHAR\((.*?), 'YYYY-MM'\)": r"strftime(\1, '%Y-%m')",
    r"TO_CHAR\((.*?), 'YYYY-MM-DD'\)": r"strftime(\1, '%Y-%m-%d')",
    r"'2024-03-01 \+00'": "'2024-03-01'",
    r"'2024-03-01 00:00:00.000 \+0000'": "'2024-03-01 00:00:00'",
    r"'{2024-03-01,2024-03-02}'::date\[\]": "['2024-03-01', '2024-03-02']::date[]",
}
_VISITS = """
SELECT i AS person, TIMESTAMP '2022-01-01' + to_seconds(i * 7919) AS ts,
  DATE '2022-01-01' + (i * 13 % 1000)::INT AS day, ['a', 'b', 'c'][1 + i % 3] AS kind, (i % 50)::INTEGER AS n,
  CASE WHEN i % 7 > 0 THEN TIMESTAMPTZ '2022-01-01 00:00:00+00' + to_seconds(i * 7333) END AS zoned
FROM range(12000) r(i)
"""
_PROTECT = """
SELECT protect('visits', privacy_unit := 'person', rows_per_unit := 1, epsilon := 100000, per_query := 10,
  public := ['kind', 'day', 'ts', 'n'],
  domains := {'kind': ['a', 'b', 'c'], 'day': {'from': DATE '2022-01-01', 'to': DATE '2024-12-31'}},
  bounds := {'n': [0, 50], 'ts': [TIMESTAMP '2022-01-01', TIMESTAMP '2025-01-31 23:59:59']})
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    """An analyst's connection, whose answers have no noise, in a session of the time zone UTC."""
    path = tmp_path_factory.mktemp("dates") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        for one in (f"CREATE TABLE visits AS {_VISITS}", "CREATE TABLE open_visits AS FROM visits"):
            steward.execute(one)
        steward.execute(_PROTECT).fetchall()
        steward.execute("SELECT open_table('open_visits')").fetchall()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanisms, "draw", truth)
        with duckanon.connect(path, role="analyst") as found:
            if found.execute("SELECT strftime(timezone('UTC', now()), '%H') = strftime(now(), '%H')").fetchone() != (
                True,
            ):
                pytest.skip("The machine's time zone is not UTC, which DuckDB takes for its sessions.")
            found.execute("CREATE TEMP TABLE my_visits AS FROM open_visits")
            yield found


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        found.execute(f"CREATE TABLE visits AS {_VISITS}")
        yield found


def expected(plain: duckdb.DuckDBPyConnection, statement: str) -> list[Any]:
    for written, own in _BY_HAND.items():
        statement = re.sub(written, own, statement)
    return plain.execute(statement.format(visits="visits")).fetchall()


def test_there_are_eighty_of_them() -> None:
    assert len(set(STATEMENTS)) >= 80


@pytest.mark.parametrize("table", ["open_visits", "my_visits"])
@pytest.mark.parametrize("statement", sampled([*STATEMENTS, *ZONED], every=3))
def test_of_tables_that_are_read_themselves(
    con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, statement: str, table: str
) -> None:
    sql = statement.replace("{visits}", table)
    if duckdb.__version__.startswith(_NOT_IN_OPEN_TABLES.get(statement, "none")):
        with pytest.raises(duckdb.ConversionException):
            con.execute(sql).fetchall()
        return
    mine, theirs = con.execute(sql).fetchall(), expected(plain, statement)
    assert difference(sql, mine, theirs, theirs, Tolerance()) is None
    assert len(mine) == len(theirs)


@pytest.mark.parametrize("statement", sampled([*STATEMENTS, *ZONED], every=3))
def test_of_a_protected_table(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, statement: str) -> None:
    sql = statement.replace("{visits}", "visits")
    mine, theirs = con.execute(sql).fetchall(), expected(plain, statement)
    # Each value of a key that the policy has may come out.
    keys = len(mine[0]) - 1 if mine else 0
    possible = [*mine, *theirs] if keys else theirs
    assert difference(sql, mine, theirs, possible, Tolerance()) is None
    if is_ordered(sql) and "DESC LIMIT" not in sql:  # by numbers, of which some are equal
        assert in_order(mine, theirs, Tolerance())
    assert con.decision is not None
    assert any(step.epsilon is not None for step in con.decision.steps)


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("n = ANY ('{}'::int[])", "false"),
        ("n <> ALL ('{}'::int[])", "true"),
        ("n = ANY ([1, NULL])", "n IN (1, NULL)"),
        ("n <> ALL ([1, NULL])", "n NOT IN (1, NULL)"),
        ("n <= ALL ([7, 9])", "n <= 7"),
        ("NOT n > ANY ([7, 9])", "n <= 7"),
        ("kind = ANY ('{a,\"b\",NULL}')", "kind IN ('a', 'b', NULL)"),
    ],
)
def test_lists_by_any_and_all(
    con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, condition: str, same: str
) -> None:
    own = plain.execute(f"SELECT count(*) FROM visits WHERE {same}").fetchall()
    assert con.execute(f"SELECT count(*) FROM visits WHERE {condition}").fetchall() == own
