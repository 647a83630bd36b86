"""Which tables a view reads, also through other views and macros."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb

from duckanon.catalog.names import fold, literal, parts, quoted
from duckanon.errors import InvalidInput
from duckanon.governance.locations import Identity, Location


def reads(con: duckdb.DuckDBPyConnection, location: Location) -> frozenset[Identity]:
    """All tables that a view reads, also through other views and macros; none for a table.

    Each is given by its identity or, if DuckDB gives its last name only, by (None, name). con: a connection of
    governance's own, which sees what is committed. No record is read: DuckDB's plan before optimisation names every
    table. Raises InvalidInput for a view that cannot be planned.
    """
    try:
        views = con.execute(
            "SELECT schema_name, view_name FROM system.main.duckdb_views() WHERE database_name = ?", [location.database]
        ).fetchall()
        if location.identity not in {(fold(schema), fold(name)) for schema, name in views}:
            return frozenset()
        query = f"SELECT * FROM {quoted(location.path)}"
        return _of_serialized_plan(con, query) if _is_locked(con) else _of_explained_plan(con, query)
    except duckdb.Error:
        raise InvalidInput(
            f"{location.label} cannot be read as it stands, so what it reads is not known: commit what it is made of, "
            "or make it a table."
        ) from None


def _is_locked(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether settings stay as they are, as a server's do."""
    ((is_locked,),) = con.execute("SELECT system.main.current_setting('lock_configuration')").fetchall()
    return bool(is_locked)


def _of_explained_plan(con: duckdb.DuckDBPyConnection, query: str) -> frozenset[Identity]:
    con.execute("SET explain_output = 'all'").fetchall()
    plans = dict(con.execute(f"EXPLAIN (FORMAT json) {query}").fetchall())
    return frozenset(_tables(json.loads(plans["logical_plan"])))


def _of_serialized_plan(con: duckdb.DuckDBPyConnection, query: str) -> frozenset[Identity]:
    """As EXPLAIN would show it with a setting of its own. DuckDB cannot write the plan of a view that reads files."""
    asked = f"SELECT system.main.json_serialize_plan({literal(query)}, optimize := false)"
    ((written,),) = con.execute(asked).fetchall()
    plan = json.loads(written)
    if plan["error"]:
        raise duckdb.NotImplementedException("The plan cannot be written.")
    return frozenset(_scanned(plan["plans"]))


def _scanned(part: Any) -> Iterator[Identity]:
    """The tables of a serialized plan, by their schemas and names."""
    if isinstance(part, dict):
        scan = part.get("function_data")
        if isinstance(scan, dict) and "table" in scan:
            yield fold(scan["schema"]), fold(scan["table"])
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _scanned(inner)


def _tables(nodes: Iterable[Any]) -> Iterator[Identity]:
    for node in nodes:
        table = (node.get("extra_info") or {}).get("Table")
        if table is not None:
            # DuckDB 1.4 writes the last name alone, unquoted, and that may hold dots.
            yield None, fold(table)
            written = [fold(part) for part in parts(table)]
            if len(written) == 3:
                yield written[1], written[2]
        yield from _tables(node.get("children") or ())
