"""What an analyst may know of the catalog: names and types of what is to be seen, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import duckanon


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("metadata") / "x.duckdb"
    with duckanon.connect(path) as steward:
        steward.execute(
            "CREATE TYPE mood AS ENUM ('secret one', 'two'); CREATE SCHEMA raw; "
            "CREATE TABLE raw.visits(pid INTEGER, m mood, s STRUCT(a mood, b INTEGER[])); "
            "CREATE TABLE payroll AS SELECT 1 AS household; CREATE TABLE lookup AS SELECT 1 AS a; "
            "CREATE TABLE shut AS SELECT 1 AS a"
        ).fetchall()
        for decided in (
            "protect('raw.visits', epsilon := 1)",
            "open_table('lookup')",
            "open_table('shut')",
            "close_table('shut')",
        ):
            steward.execute(f"SELECT {decided}").fetchall()
        steward.execute("FROM dp_group_sizes('payroll', 'household', epsilon := 0.1, max_size := 3)").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        yield con


def test_the_ledger_tells_of_tables_that_may_be_seen(con: duckanon.Analyst) -> None:
    for sql in ("FROM privacy_ledger()", "SELECT l.tbl, l.what FROM privacy_ledger() AS l JOIN lookup ON true"):
        told = str(con.execute(sql).fetchall())
        assert "raw.visits" in told
        assert "main.lookup" in told
        assert not any(word in told for word in ("payroll", "household", "shut"))


def test_names_are_told_as_one_writes_them(con: duckanon.Analyst) -> None:
    assert con.execute("SHOW TABLES").fetchall() == [("lookup",), ("raw.visits",)]


def test_types_tell_no_value_of_an_enum(con: duckanon.Analyst) -> None:
    told = con.execute("SELECT column_name, ordinal_position, data_type FROM information_schema.columns "
                       "WHERE table_name = 'visits'").fetchall()  # fmt: skip
    assert told == [("m", 2, "VARCHAR"), ("pid", 1, "INTEGER"), ("s", 3, "STRUCT(a VARCHAR, b INTEGER[])")]
