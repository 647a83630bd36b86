"""How Python functions are put on a DuckDB connection: whole columns in and out, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from duckanon.errors import DuckanonError
from duckanon.functions.templates import refusal


def register_writer(con: duckdb.DuckDBPyConnection, name: str, write: Callable[..., str]) -> None:
    """Register a function of constants that writes a query. It may run when a statement is bound, even by EXPLAIN.

    What it raises of duckanon's own becomes a query that says so.
    """

    def answer(*columns: pa.Array) -> pa.Array:
        try:
            written = write(*(column[0].as_py() for column in columns))
        except DuckanonError as error:
            written = refusal(str(error))
        return pa.array([written] * len(columns[0]))

    _create(con, name, answer, "VARCHAR", side_effects=False)


def register_check(con: duckdb.DuckDBPyConnection, name: str, check: Callable[..., None]) -> None:
    """Register a function of one row that returns NULL, or the sentence of what `check` raises of duckanon's own."""

    def answer(*columns: pa.Array) -> pa.Array:
        try:
            check(*(column[0].as_py() for column in columns))
        except DuckanonError as error:
            return pa.array([str(error)])
        return pa.array([None], pa.string())

    _create(con, name, answer, "VARCHAR", side_effects=True)


def register_engine(
    con: duckdb.DuckDBPyConnection, name: str, compute: Callable[..., pa.Array], field: str, kind: str
) -> None:
    """Register a function of one row that runs an engine. It returns STRUCT(`field` `kind`, problem VARCHAR).

    `compute` gets each argument as an Arrow scalar and returns an Arrow array of one value. What it raises of
    duckanon's own becomes the problem, for SQL to raise with `_dk_unless`.
    """

    def answer(*columns: pa.Array) -> pa.Array:
        try:
            found, problem = compute(*(column[0] for column in columns)), None
        except DuckanonError as error:
            found, problem = pa.nulls(1), str(error)
        return pa.StructArray.from_arrays([found, pa.array([problem], pa.string())], [field, "problem"])

    _create(con, name, answer, f"STRUCT({field} {kind}, problem VARCHAR)", side_effects=True)


def _create(
    con: duckdb.DuckDBPyConnection, name: str, function: Callable[..., Any], returns: str, *, side_effects: bool
) -> None:
    """Registered functions belong to the database instance: on a second cursor there is nothing left to do."""
    known = con.execute("SELECT count(*) FROM duckdb_functions() WHERE function_name = ?", [name]).fetchall()
    if known[0][0] == 0:
        con.create_function(  # type: ignore[call-overload] # the stubs forget that names of types do as well
            name,
            function,
            None,
            con.type(returns),
            type="arrow",
            null_handling="special",
            side_effects=side_effects,
        )
