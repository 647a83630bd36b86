"""The tables of the schema `duckanon`, in which a database has its ledger, and how their lines are read and written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, fields

import duckdb

from duckanon.catalog.names import fold, identifier
from duckanon.errors import InvalidInput
from duckanon.governance.ledger_state import Line

SCHEMA = "duckanon"
# The version of the schema's tables. A ledger of another version is not read.
FORMAT = "2"
TABLES = """
  CREATE SCHEMA IF NOT EXISTS {schema};
  CREATE TABLE IF NOT EXISTS {schema}.meta (name VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);
  CREATE TABLE IF NOT EXISTS {schema}.ledger (
    number BIGINT PRIMARY KEY,
    recorded_at TIMESTAMP NOT NULL,
    who VARCHAR NOT NULL,
    schema_name VARCHAR,
    table_name VARCHAR NOT NULL,
    population VARCHAR,
    edition BIGINT,
    action VARCHAR NOT NULL,
    epsilon VARCHAR,
    what VARCHAR NOT NULL,
    unit VARCHAR,
    neighbours VARCHAR,
    release VARCHAR,
    detail VARCHAR
  );
  CREATE TABLE IF NOT EXISTS {schema}.releases (
    release VARCHAR PRIMARY KEY,
    number BIGINT NOT NULL,
    answer BLOB NOT NULL
  );
  CREATE TABLE IF NOT EXISTS {schema}.answers (
    key VARCHAR PRIMARY KEY, number BIGINT NOT NULL, stored BOOLEAN NOT NULL
  );
"""
# Made when the first draw fails.
FAILURES = """
  CREATE TABLE IF NOT EXISTS {schema}.failures (
    key VARCHAR PRIMARY KEY, recorded_at TIMESTAMP NOT NULL, cause VARCHAR NOT NULL
  )
"""
# Tables of the schema that are no publications.
OURS = re.compile(r"meta|ledger|releases|answers|failures|(answer|domain)_\w+")
_COLUMNS = [field.name for field in fields(Line)]


def schema_of(database: str) -> str:
    """The schema's name in SQL."""
    return f"{identifier(database)}.{SCHEMA}"


def has_ledger(con: duckdb.DuckDBPyConnection, database: str) -> bool:
    """Whether a database has a ledger. Raises InvalidInput for one of another format."""
    rows = con.execute(
        "SELECT 1 FROM system.main.duckdb_tables() "
        "WHERE database_name = ? AND schema_name = ? AND table_name = 'ledger'",
        [database, SCHEMA],
    ).fetchall()
    if not rows:
        return False
    try:
        stored = con.execute(f"SELECT value FROM {schema_of(database)}.meta WHERE name = 'format'").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        stored = []
    if stored != [(FORMAT,)]:
        raise _other_format(database)
    return True


def _other_format(database: str) -> InvalidInput:
    return InvalidInput(
        f"The schema duckanon of {database} was written by another version of duckanon: duckanon upgrade FILE carries "
        "over what was spent from an earlier one, and a newer one needs a newer duckanon."
    )


def lines_after(con: duckdb.DuckDBPyConnection, database: str, after: int) -> list[Line]:
    """The lines after the one of that number; none where there is no ledger."""
    try:
        found = con.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM {schema_of(database)}.ledger WHERE number > ? ORDER BY number ASC",
            [after],
        )
    except (duckdb.CatalogException, duckdb.BinderException):
        return []
    return [Line(*row) for row in found.fetchall()]


def add_line(con: duckdb.DuckDBPyConnection, database: str, line: Line) -> None:
    """Add a line, in the connection's transaction."""
    con.execute(
        f"INSERT INTO {schema_of(database)}.ledger ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})",
        list(astuple(line)),
    ).fetchall()


def identity_of(con: duckdb.DuckDBPyConnection, database: str) -> str:
    """What tells the ledger apart from all others, but not from those of copies of the file."""
    ((value,),) = con.execute(f"SELECT value FROM {schema_of(database)}.meta WHERE name = 'identity'").fetchall()
    return str(value)


def tables_of(con: duckdb.DuckDBPyConnection, database: str) -> set[str]:
    """The names of the tables of the schema, folded."""
    found = con.execute(
        "SELECT table_name FROM system.main.duckdb_tables() WHERE database_name = ? AND schema_name = ?",
        [database, SCHEMA],
    )
    return {fold(str(name)) for (name,) in found.fetchall()}


@contextmanager
def one_moment(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction, committed at the end."""
    cursor.begin()
    try:
        yield
        cursor.commit()
    except BaseException:
        _roll_back(cursor)
        raise


def _roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    try:
        cursor.rollback()
    except duckdb.Error:
        # A transaction that failed to commit is gone already.
        return
