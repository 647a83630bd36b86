"""Which tables a view reads, also through other views and macros."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb

from duckanon.catalog.names import fold, parts, quoted
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
        con.execute("SET explain_output = 'all'").fetchall()
        plans = dict(con.execute(f"EXPLAIN (FORMAT json) SELECT * FROM {quoted(location.path)}").fetchall())
    except duckdb.Error:
        raise InvalidInput(
            f"{location.label} cannot be read as it stands, so what it reads is not known: commit what it is made of, "
            "or make it a table."
        ) from None
    return frozenset(_tables(json.loads(plans["logical_plan"])))


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
