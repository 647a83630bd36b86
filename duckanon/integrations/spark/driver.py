"""DuckDB on Spark's driver: it reads calls, checks columns, and answers from what Spark has aggregated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import duckdb
import pyarrow as pa

import duckanon
from duckanon.errors import InvalidInput
from duckanon.integrations.error_sentences import sentence


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    """One database in memory for all calls of this process. No call leaves a table in it."""
    return duckanon.register(duckdb.connect())


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with duckanon's functions, closed at the end. Tables are registered on it for one call."""
    with _instance().cursor() as con:
        yield duckanon.register(con)


def described(con: duckdb.DuckDBPyConnection, schema: pa.Schema) -> tuple[list[str], list[str]]:
    """The names of columns, and what DuckDB calls their types."""
    con.register("duckanon.described", schema.empty_table())
    rows = con.execute('DESCRIBE FROM "duckanon.described"').fetchall()
    con.unregister("duckanon.described")
    return [name for name, *_ in rows], [kind for _, kind, *_ in rows]


def run(con: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """The answer of a query. Raises InvalidInput for what the query itself refuses, in one sentence."""
    try:
        return con.sql(query).to_arrow_table()
    except duckdb.InvalidInputException as error:
        raise InvalidInput(sentence(error)) from None


def answer_columns(con: duckdb.DuckDBPyConnection, query: str) -> pa.Schema:
    """The columns of a query's answer, found without running it. Raises InvalidInput for what it refuses."""
    try:
        return con.sql(f"FROM ({query}) LIMIT 0").to_arrow_table().schema
    except duckdb.InvalidInputException as error:
        raise InvalidInput(sentence(error)) from None


def register_all(con: duckdb.DuckDBPyConnection, tables: Sequence[tuple[str, pa.Table]]) -> None:
    """Give tables names on this connection."""
    for name, table in tables:
        con.register(name, table)
