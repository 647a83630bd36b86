"""protect, unprotect, privacy_ledger and privacy_budget through SQL."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon

CALL = "FROM dp_group_sizes('persons', 'unit', epsilon := 0.1, max_size := 2)"


@pytest.fixture
def persons(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute("CREATE TABLE persons AS SELECT i // 2 AS unit FROM range(8) r(i)").fetchall()
    return con


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return con.execute(query).fetchall()


def test_empty_tables_have_columns_and_types(con: duckdb.DuckDBPyConnection) -> None:
    number = [("epsilon", "DOUBLE"), ("epsilon_exact", "VARCHAR")]
    left = [("remaining", "DOUBLE"), ("remaining_exact", "VARCHAR")]
    described = [one[:2] for one in rows(con, "DESCRIBE FROM privacy_ledger()")]
    assert described == [
        *(("database", "VARCHAR"), ("number", "BIGINT"), ("recorded_at", "TIMESTAMP"), ("who", "VARCHAR")),
        *(("tbl", "VARCHAR"), ("action", "VARCHAR"), *number, *left, ("what", "VARCHAR"), ("neighbours", "VARCHAR")),
    ]
    described = [one[:2] for one in rows(con, "DESCRIBE FROM privacy_budget()")]
    assert described == [
        *(("database", "VARCHAR"), ("tbl", "VARCHAR"), ("unit", "VARCHAR"), *number),
        *(("spent", "DOUBLE"), ("spent_exact", "VARCHAR"), *left),
        *(("charges", "BIGINT"), ("protected_at", "TIMESTAMP")),
    ]
    assert rows(con, "FROM privacy_ledger()") == rows(con, "FROM privacy_budget()") == []


def test_a_statement_that_is_shown_twice_protects_once(persons: duckdb.DuckDBPyConnection) -> None:
    relation = persons.sql("SELECT protect('persons', unit := 'Unit', epsilon := 1) AS said")
    assert "1 left" in str(relation)
    assert relation.fetchall() == [("main.persons is protected: of epsilon 1 in all, 0 is spent and 1 left.",)]
    relation = persons.sql("SELECT unprotect('persons') AS said")
    assert len(relation.fetchall()) == len(relation.fetchall()) == 1
    found = rows(persons, "SELECT number, action, what, epsilon, remaining FROM privacy_ledger()")
    assert [one[:2] for one in found] == [(1, "protect"), (2, "unprotect")]
    assert found[0][2:] == ('protect: {"epsilon": "1", "unit": "Unit"}', None, 1.0)


def test_a_budget_asked_for_twice(persons: duckdb.DuckDBPyConnection) -> None:
    rows(persons, "SELECT protect('persons', epsilon := 1)")
    for other in ("epsilon := 2", "unit := 'unit', epsilon := 1"):
        with pytest.raises(duckdb.InvalidInputException) as raised:
            rows(persons, f"SELECT protect('main.persons', {other})")
        assert str(raised.value) == (
            "Invalid Input Error: main.persons is protected already: unprotect('main.persons') first. "
            "What was spent stays spent."
        )
    rows(persons, "SELECT unprotect('persons')")
    rows(persons, "SELECT protect('persons', epsilon := 2)")
    assert rows(persons, "SELECT epsilon FROM privacy_budget()") == [(2.0,)]


def test_a_budget_survives_rollback_and_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.duckdb"
    with duckanon.connect(file) as con:
        con.execute("CREATE TABLE persons AS SELECT 1 AS unit").fetchall()
        con.execute("CREATE VIEW v AS FROM persons").fetchall()
        con.begin()
        con.execute("SELECT protect('v', unit := 'unit', epsilon := '1/3')").fetchall()
        con.rollback()
        con.execute(CALL.replace("persons", "v")).fetchall()
    with duckanon.connect(file, role="steward") as con:
        found = con.execute("SELECT tbl, unit, epsilon_exact, spent_exact, remaining_exact FROM privacy_budget()")
        assert found.fetchall() == [("main.v", "unit", "1/3", "0.1", "7/30")]
        con.execute("DROP VIEW v").fetchall()
        assert con.execute("SELECT unprotect('v')").fetchall()[0][0].startswith("main.v is no longer protected")
        assert con.execute("FROM privacy_budget()").fetchall() == []


def test_a_refused_release_charges_nothing_and_says_what_is_left(persons: duckdb.DuckDBPyConnection) -> None:
    rows(persons, "SELECT protect('persons', epsilon := 0.25)")
    first = rows(persons, CALL)
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(persons, CALL.replace("0.1", "0.2"))
    assert str(raised.value) == (
        "Invalid Input Error: The privacy budget of main.persons does not suffice: epsilon 0.2 is more than the 0.15 "
        "left of 0.25. Ask for less, or repeat an earlier call as it was: its stored release is free."
    )
    assert rows(persons, CALL) == first
    assert rows(persons, "SELECT spent, charges FROM privacy_budget()") == [(0.1, 1)]
