"""The tables, views and macros of a DuckDB connection, as the recognisers need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from duckanon.rewrite.recognize import Schema, Stored, TableName, View, fold

_VIEWS = """
SELECT database_name, schema_name, view_name, "sql" FROM system.main.duckdb_views()
WHERE NOT internal AND NOT temporary ORDER BY ALL
"""
_COLUMNS = """
SELECT c.database_name, c.schema_name, c.table_name, c.column_name, c.data_type FROM system.main.duckdb_columns() c
JOIN system.main.duckdb_tables() t USING (table_oid, database_oid)
WHERE NOT c.internal AND NOT t.temporary ORDER BY c.database_oid, c.table_oid, c.column_index
"""
_KEYS = """
SELECT database_name, schema_name, table_name, constraint_column_names FROM system.main.duckdb_constraints()
WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE')
"""
_MACROS = """
SELECT database_name, schema_name, function_name, function_type, macro_definition FROM system.main.duckdb_functions()
WHERE NOT internal AND function_type LIKE '%macro' AND database_name <> 'temp' ORDER BY ALL
"""

Rows = Callable[[str], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True)
class Contents:
    """schema: for the recognisers. views, macros: names and definitions; of the macros only table macros."""

    schema: Schema
    views: Sequence[tuple[TableName, str, str]]
    macros: Sequence[tuple[str, str]]


def contents(rows: Rows) -> Contents:
    """The tables, views and macros of a connection's databases. rows: runs a query and returns its rows."""
    ((catalog,),) = rows("SELECT system.main.current_database()")
    types: dict[TableName, dict[str, str]] = {}
    for *owner, column, kind in rows(_COLUMNS):
        types.setdefault(_name(owner), {})[fold(column)] = kind
    unique: dict[TableName, tuple[frozenset[str], ...]] = {}
    for *owner, named in rows(_KEYS):
        unique[_name(owner)] = (*unique.get(_name(owner), ()), frozenset(map(fold, named)))
    views, values = {}, []
    for *owner, sql in rows(_VIEWS):
        values.append((_name(owner), str(owner[-1]), sql))
        views[_name(owner)] = View(sql=sql)
    defined = rows(_MACROS)
    schema = Schema(
        tables={name: Stored(columns=kinds, keys=unique.get(name, ())) for name, kinds in types.items()},
        views=views,
        macros={fold(name): text for _, _, name, _, text in defined},
        home=TableName(fold(catalog), "main", ""),
    )
    return Contents(schema, values, [(name, text) for _, _, name, kind, text in defined if kind == "table_macro"])


def _name(path: Sequence[str]) -> TableName:
    return TableName(*(fold(part) for part in path))
