"""Statements whose conditions leave nothing to tell are free: the text and the domains say so, and no record is read.

DuckDB says what is right: the keys' domains stand in place of the records, so a statement is free exactly if DuckDB
finds none of the domains' combinations that meets the conditions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duckanon

CONDITIONS = (
    "1 = 0", "1 = 1", "false", "2 > 1", "k = 'b'", "k = 'z'", "k <> 'a'", "k IN ('a', 'q')", "k > 'c'", "k IS NULL",
    "n = 1", "n > 9", "n % 2 = 1", "k = 'a' OR n = 2", "NOT (k = 'a')", "length(k) = n",
)  # fmt: skip
# Each with whether its rows follow from keys: without, one row comes out though no cell is left.
QUERIES = (
    ("SELECT k, n, count(*) FROM t WHERE {} GROUP BY k, n", True),
    ("SELECT n, k, sum(x), avg(x) FROM t WHERE {} GROUP BY ALL", True),
    ("SELECT k, n, count(DISTINCT u) AS units FROM t WHERE {} GROUP BY k, n ORDER BY units", True),
    ("SELECT k, n, median(x) FROM t WHERE {} GROUP BY k, n", True),
    ("SELECT k, n, avg(CASE WHEN x > 1 THEN 1.0 ELSE 0 END) FROM t WHERE {} GROUP BY k, n", True),
    ("SELECT k, n, count(*), count(*) FILTER (WHERE x > 1) FROM t WHERE {} GROUP BY GROUPING SETS ((k, n), ())", False),
)  # fmt: skip
EXACTLY = (
    # One number of records: DuckDB's sum of no counts is NULL.
    ("SELECT sum(m) FROM (SELECT k, n, count(*) AS m FROM t WHERE 1 = 0 GROUP BY k, n)", (0,)),
    ("SELECT count(*), count(x), sum(x) + 0, avg(x), count(*) FILTER (WHERE x > 1) FROM t WHERE 1 = 0", (0, 0, 0)),
    ("SELECT count(DISTINCT u) FROM t WHERE false AND x > 1", (0,)),
    ("SELECT k, count(*) FROM t WHERE k = 'z' GROUP BY ROLLUP(k)", (None, 0)),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nothing") / "x.duckdb"
    with duckanon.connect(made, role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT i AS u, 'a' AS k, i % 3 AS n, i % 5 AS x FROM range(40) r(i)")
        con.execute(
            "SELECT protect('t', epsilon := 100000, per_query := 10, privacy_unit := 'u', rows_per_unit := 1, "
            "public := ['k', 'n'], domains := {'k': ['a', 'b', 'c'], 'n': [1, 2, 3]}, bounds := {'x': [0, 4]})"
        ).fetchall()
    return made


@pytest.fixture
def con(path: Path) -> Any:
    with duckanon.connect(path, role="analyst") as found:
        yield found


def spent(con: Any) -> float:
    return float(con.execute("SELECT spent FROM privacy_budget()").fetchall()[0][0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3), st.sampled_from(QUERIES))
def test_it_costs_nothing_exactly_where_no_cell_is_left(con: Any, where: list[str], query: tuple[str, bool]) -> None:
    met = " AND ".join(f"({one})" for one in where)
    domains = "(VALUES ('a'), ('b'), ('c')) v(k), (VALUES (1), (2), (3)) w(n)"
    ((cells,),) = duckdb.execute(f"SELECT count(*) FROM {domains} WHERE {met}").fetchall()
    sql, by_keys = query
    price = con.explain(sql.format(met)).rows()[0]["price"]
    assert (price is None) is (cells == 0)
    before = spent(con)
    rows = con.execute(sql.format(met)).fetchall()
    if by_keys:
        assert len(rows) == cells
    if not cells:
        assert spent(con) == before
        assert rows in ([], [(None,)], [(None, None, 0, 0)])


@pytest.mark.parametrize(("sql", "zeros"), EXACTLY)
def test_numbers_of_no_records_are_exact_and_free(con: Any, sql: str, zeros: tuple[Any, ...]) -> None:
    before = spent(con)
    (row,) = con.execute(sql).fetchall()
    assert row[: len(zeros)] == zeros
    assert spent(con) == before


def test_an_answer_that_another_part_of_the_statement_shows_is_paid(con: Any) -> None:
    where = " WHERE k = 'z'"
    shares = "SELECT k, avg(CASE WHEN x > 2 THEN 1.0 ELSE 0 END) AS share FROM t{} GROUP BY k"
    both = f"SELECT a.k, b.k FROM ({shares.format('')}) AS a LEFT JOIN ({shares.format(where)}) AS b USING (k)"
    before = spent(con)
    assert len(con.execute(both).fetchall()) == 3
    assert spent(con) == before + 10


KEYED = (
    "SELECT k, count(*) FROM t GROUP BY k ORDER BY CAST(k AS INTEGER)",
    "SELECT CAST(k AS DATE), sum(x) FROM t GROUP BY k",
    "SELECT k, avg(x) FROM t GROUP BY k HAVING CAST(k AS INTEGER) > 3",
    "SELECT n, error(k) FROM (SELECT k, n, count(*) FROM t WHERE x < 3 GROUP BY k, n)",
    "SELECT n, count(*) FROM t GROUP BY ALL ORDER BY length(k)",
    "SELECT n, count(*) FROM t GROUP BY ALL ORDER BY CAST(n + 1 AS VARCHAR)",
)


@pytest.mark.parametrize("sql", KEYED)
def test_what_fails_on_a_value_of_the_keys_is_not_charged(con: Any, sql: str) -> None:
    before = spent(con)
    with pytest.raises((duckdb.Error, duckanon.errors.DuckanonError)):
        con.execute(sql).fetchall()
    assert spent(con) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, count(*) FROM t GROUP BY k ORDER BY TRY_CAST(k AS INTEGER)",
        "SELECT n, 1 // count(*), low(avg(x)), high(sum(x)) FROM t WHERE n < 3 GROUP BY ROLLUP (n)",
        "SELECT k, n, rank() OVER (ORDER BY count(*) DESC) FROM t WHERE x > 2 GROUP BY k, n QUALIFY rank() OVER () < 9",
    ],
)
def test_what_does_not_fail_is_charged_once(con: Any, sql: str) -> None:
    before = spent(con)
    for _ in range(2):
        con.execute(sql).fetchall()
        assert spent(con) == before + 10


@pytest.mark.parametrize(
    "call",
    [
        "_dk_width('x', 1, 1)",
        '"_DK_Width"(1, 2, 3)',
        "_dk_quotient_end('low', 1, 2)",
        "_dk_prepared_width('2;1 1;0', '1', [1])",
    ],
)
def test_the_functions_behind_low_and_high_are_not_called(con: Any, call: str) -> None:
    for sql in (f"SELECT {call}", f"SELECT k, count(*) + {call} FROM t GROUP BY k", f"SELECT system.main.{call}"):
        with pytest.raises(duckanon.errors.UnsupportedQuery):
            con.execute(sql)
