"""How Python functions are put on a DuckDB connection: whole columns in and out, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa

from duckanon.errors import DuckanonError
from duckanon.functions.sqltext import refusal

# Told which step runs, and the share of the work that is done, from 0 to 1.
Progress = Callable[[str, float], None]

# DuckDB lets go of a function when the connection that registered it closes, and still calls it for others. A few
# kilobytes for each database ever opened are the price of not crashing.
_KEPT: list[Callable[..., Any]] = []


class Instance:
    """A database instance, and which of our functions it has: they are shared by all its cursors."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        found = con.execute(
            "SELECT function_name FROM system.main.duckdb_functions() "
            "WHERE system.main.starts_with(function_name, '_dk_')"
        )
        self._known = {name for (name,) in found.fetchall()}
        self._con = con

    @property
    def identity(self) -> str:
        """What tells this instance from every other: the same for all its connections, in this process and no other."""
        own = uuid4().hex
        self.create("_dk_instance", lambda rows: pa.array([own] * len(rows)), "VARCHAR", side_effects=True)
        ((found,),) = self._con.execute("SELECT system.main._dk_instance(true)").fetchall()
        return str(found)

    def create(self, name: str, function: Callable[..., Any], returns: str, *, side_effects: bool) -> None:
        """Register `function`, unless another cursor has done so."""
        if name not in self._known:
            _KEPT.append(function)
            self._con.create_function(  # type: ignore[call-overload] # the stubs forget that names of types do as well
                name,
                function,
                None,
                self._con.type(returns),
                type="arrow",
                null_handling="special",
                side_effects=side_effects,
            )


def register_writer(on: Instance, name: str, write: Callable[..., str]) -> None:
    """Register a function of constants that writes a query. It may run when a statement is bound, even by EXPLAIN.

    What it raises of duckanon's own becomes a query that says so.
    """

    def answer(*columns: pa.Array) -> pa.Array:
        try:
            written = write(*(column[0].as_py() for column in columns))
        except DuckanonError as error:
            written = refusal(str(error))
        return pa.array([written] * len(columns[0]))

    on.create(name, answer, "VARCHAR", side_effects=False)


def register_check(on: Instance, name: str, check: Callable[..., None]) -> None:
    """Register a function of one row that returns NULL, or the sentence of what `check` raises of duckanon's own."""

    def answer(*columns: pa.Array) -> pa.Array:
        try:
            check(*(column[0].as_py() for column in columns))
        except DuckanonError as error:
            return pa.array([str(error)])
        return pa.array([None], pa.string())

    on.create(name, answer, "VARCHAR", side_effects=True)


def register_engine(on: Instance, name: str, compute: Callable[..., pa.Array], field: str, kind: str) -> None:
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

    on.create(name, answer, f"STRUCT({field} {kind}, problem VARCHAR)", side_effects=True)
