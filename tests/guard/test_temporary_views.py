"""Temporary views of an analyst: their text is bound each time, so they are the query itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import duckanon
from duckanon.errors import DuckanonError, PolicyRefusal, UnsupportedQuery
from tests.amounts import sampled
from tests.guard.residents import analyst, decide


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckanon.Analyst]:
    path = tmp_path / "x.duckdb"
    decide(
        path,
        "CREATE TABLE persons AS SELECT i AS pid, i % 90 AS age FROM range(1000) r(i); "
        "CREATE TABLE lookup AS SELECT 1 AS a; CREATE TABLE shut AS SELECT 7 AS secret; "
        "SELECT protect('persons', epsilon := 4, per_query := 1, public := ['age']); SELECT open_table('lookup')",
    )
    with analyst(path) as con:
        yield con


def test_a_view_over_a_protected_table_is_the_query_itself(con: duckanon.Analyst) -> None:
    con.execute("CREATE TEMP VIEW adults AS SELECT * FROM persons WHERE age >= 18")
    first = con.execute("SELECT count(*) FROM adults").fetchall()
    assert con.execute("SELECT count(*) FROM persons WHERE age >= 18").fetchall() == first
    assert con.execute("SELECT spent FROM privacy_budget()").fetchall() == [(1.0,)]
    with pytest.raises(PolicyRefusal, match="Records of persons are protected"):
        con.execute("FROM adults")
    assert [one[:2] for one in con.execute("DESCRIBE adults").fetchall()] == [("pid", "BIGINT"), ("age", "BIGINT")]


def test_duckdb_does_not_know_it(con: duckanon.Analyst) -> None:
    con.execute("CREATE TEMP VIEW adults AS SELECT * FROM persons")
    assert con._con.execute("SELECT count(*) FROM duckdb_views() WHERE view_name = 'adults'").fetchall() == [(0,)]


def test_it_reads_what_its_owner_reads(con: duckanon.Analyst) -> None:
    for sql in ("FROM shut", "FROM duckanon.ledger", "SELECT secret FROM main.shut", "FROM nowhere"):
        with pytest.raises(UnsupportedQuery, match="analysts cannot see"):
            con.execute(f"CREATE TEMP VIEW v AS {sql}")


def test_it_has_names_for_its_columns_and_is_listed(con: duckanon.Analyst) -> None:
    con.execute("CREATE TEMP VIEW v (one) AS SELECT a FROM lookup")
    assert con.execute("SELECT one FROM temp.v").fetchall() == [(1,)]
    assert ("v",) in con.execute("SHOW TABLES").fetchall()
    assert con.execute("SELECT temporary FROM duckdb_views() WHERE view_name = 'v'").fetchall() == [(True,)]


def test_it_is_replaced_and_dropped(con: duckanon.Analyst) -> None:
    con.execute("CREATE TEMP VIEW v AS SELECT 1 AS a")
    with pytest.raises(UnsupportedQuery, match="There is a temporary table or view of that name"):
        con.execute("CREATE TEMP VIEW V AS SELECT 2 AS a")
    con.execute("CREATE TEMP VIEW IF NOT EXISTS v AS SELECT 2 AS a")
    assert con.execute("FROM v").fetchall() == [(1,)]
    con.execute("CREATE OR REPLACE TEMP VIEW v AS SELECT 3 AS a")
    assert con.sql("FROM v").fetchall() == [(3,)]
    con.execute("DROP VIEW v")
    with pytest.raises(UnsupportedQuery):
        con.execute("FROM v")
    con.execute("DROP VIEW IF EXISTS v")
    with pytest.raises(UnsupportedQuery, match="there is none of that name"):
        con.execute("DROP VIEW v")


def test_tables_and_views_share_their_names(con: duckanon.Analyst) -> None:
    con.execute("CREATE TEMP VIEW v AS SELECT 1 AS a")
    con.execute("CREATE TEMP TABLE t AS SELECT 1 AS a")
    for sql in ("CREATE TEMP TABLE v AS SELECT 2 AS a", "CREATE OR REPLACE TEMP VIEW t AS SELECT 2 AS a"):
        with pytest.raises(UnsupportedQuery, match="temporary"):
            con.execute(sql)


@pytest.mark.parametrize(
    "sql",
    sampled(
        [
            "CREATE VIEW v AS SELECT 1",
            "CREATE TEMP VIEW main.v AS SELECT 1",
            "CREATE TEMP VIEW x.v AS SELECT 1",
            "CREATE TEMP VIEW v AS SELECT ?",
            "CREATE TEMP VIEW v AS FROM read_text('/etc/passwd')",
            "DROP VIEW lookup",
            "DROP VIEW main.v",
            "CREATE TEMP MACRO m() AS 1",
            "CREATE RECURSIVE VIEW v (a) AS SELECT 1",
        ]
    ),
)
def test_what_is_refused(con: duckanon.Analyst, sql: str) -> None:
    with pytest.raises(DuckanonError):
        con.execute(sql)


def test_a_view_of_itself_ends(con: duckanon.Analyst) -> None:
    con.execute("CREATE TEMP VIEW v AS SELECT 1 AS a")
    con.execute("CREATE OR REPLACE TEMP VIEW v AS FROM v")
    with pytest.raises(UnsupportedQuery, match="nested too deeply"):
        con.execute("FROM v")


def test_a_view_may_have_the_name_of_a_table(con: duckanon.Analyst) -> None:
    con.execute("CREATE TEMP VIEW persons AS SELECT 1 AS a")
    assert con.execute("FROM persons").fetchall() == [(1,)]
    with pytest.raises(PolicyRefusal):
        con.execute("FROM x.main.persons")


def test_views_are_of_one_connection_and_outside_of_transactions(con: duckanon.Analyst) -> None:
    con.execute("CREATE TEMP VIEW v AS SELECT 1 AS a")
    with con.cursor() as other, pytest.raises(UnsupportedQuery):
        other.execute("FROM v")
    con.begin()
    with pytest.raises(UnsupportedQuery, match="outside of transactions"):
        con.execute("DROP VIEW v")
    con.rollback()
    assert con.execute("FROM v").fetchall() == [(1,)]
