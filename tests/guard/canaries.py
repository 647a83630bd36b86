"""A database whose protected cells are canaries, and the search for them in whatever comes out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

import duckanon
from duckanon.analyst import Analyst

# Numbers that nothing computes by chance, and a text; each cell has one of its own.
TEXT = re.compile(r"canary|yranac", re.IGNORECASE)
NUMBER = re.compile("73100[01]\\d{4}")
FIRST = 7_310_000_000


def canary(value: object) -> bool:
    """Whether a canary, or a piece of one, is in what came out."""
    if isinstance(value, dict):
        return any(canary(one) for pair in value.items() for one in pair)
    if isinstance(value, list | tuple | set):
        return any(map(canary, value))
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return bool(TEXT.search(text)) or bool(NUMBER.search(text.replace(",", "").replace("_", "")))


def database(path: Path) -> None:
    """Two protected tables with canaries in all cells but the unit's and the region's, and open ones around them."""
    with duckanon.connect(path) as con:
        con.execute(
            f"""
            CREATE TABLE persons AS SELECT
              {FIRST} + i AS pid, i // 3 AS household_id, 'S' || i // 30 AS state,
              'canary name ' || i AS name, {FIRST} + 1000 + i AS income, 'canary ' || i % 2 AS sex,
              i % 3 = 0 AS sick, DATE '1999-01-01' + i::INTEGER AS born
            FROM range(90) r(i);
            CREATE TABLE secrets AS
              SELECT 'canary secret ' || i AS secret, {FIRST} + 15000 + i AS code FROM range(20) r(i);
            CREATE TABLE states AS SELECT 'S' || i AS state, i AS rank FROM range(3) r(i);
            CREATE VIEW people AS SELECT name, income FROM persons;
            CREATE VIEW people_of_people AS FROM people;
            CREATE MACRO peek() AS (SELECT max(name) FROM persons);
            CREATE MACRO peeks() AS TABLE FROM persons;
            CREATE MACRO md5(x) AS (SELECT max(name) FROM persons);
            CREATE SCHEMA other;
            CREATE TABLE other.persons AS SELECT 1 AS pid;
            """
        ).fetchall()
        con.execute(
            "SELECT open_table('states'); SELECT protect('persons', privacy_unit := 'pid', rows_per_unit := 1, "
            "unit := 'household_id', epsilon := 100, per_query := 0.5, max_size := 6, hierarchy := ['state'], "
            "public := ['sick'], domains := {'state': 'states', 'sick': ['true', 'false']}), "
            "protect('secrets', epsilon := 1)"
        ).fetchall()


@contextmanager
def analyst(path: Path) -> Iterator[Analyst]:
    con = duckanon.connect(path, role="analyst")
    assert isinstance(con, Analyst)
    with con:
        yield con


def outcome(con: Analyst, sql: str) -> tuple[bool, list[Any]]:
    """Whether a statement ran, and all that its sender sees of it: rows and names, or the error."""
    try:
        con.execute(sql)
        seen: list[Any] = [con.description, con.fetchall()]
    except (duckanon.errors.DuckanonError, duckdb.Error) as error:
        return False, [str(error), repr(error), str(error.__cause__), str(error.__context__)]
    return True, [*seen, con.decision and con.decision.sql]


def catalog(path: Path) -> str:
    """Everything that is stored beside the protected tables, as text."""
    with duckdb.connect(str(path), read_only=True) as con:
        tables = con.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE table_name NOT IN ('persons', 'secrets')"
        ).fetchall()
        return str([con.execute(f'FROM "{schema}"."{name}"').fetchall() for schema, name in tables])
