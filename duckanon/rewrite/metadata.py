"""The catalog that an analyst may see: names and types of visible tables, as queries of constants.

DuckDB's own catalog is not read: it also shows sizes, comments, defaults and the SQL of views.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import sqlglot

from duckanon.catalog.names import TableName
from duckanon.catalog.snapshot import Catalog, Stored
from duckanon.rewrite.algebra.nodes import Node

SCHEMA = "information_schema"
# An ENUM with its values, anywhere in a type, such as in a field of a STRUCT.
_ENUM = re.compile(r"ENUM\((?:'(?:[^']|'')*'(?:, )?)*\)")


def tables(catalog: Catalog) -> Node:
    """The query in place of information_schema.tables."""
    return _rows(
        ("table_schema", "table_name", "table_type"), [(name[0], name[1], kind) for name, kind, _ in _seen(catalog)]
    )


def columns(catalog: Catalog) -> Node:
    """The query in place of information_schema.columns."""
    found = [
        (schema, table, column, place, shown_type(kind, catalog, name))
        for (schema, table, name), _, stored in _seen(catalog)
        for place, (column, kind) in enumerate(stored.columns.items() if stored is not None else (), 1)
    ]
    return _rows(("table_schema", "table_name", "column_name", "ordinal_position", "data_type"), found)


def names(catalog: Catalog) -> Node:
    """The query in place of SHOW TABLES: names, with their schema if they are not found without it."""
    found = {
        (table if catalog.find(TableName("", "", name.object)) == name else f"{schema}.{table}",)
        for (schema, table, name), _, _ in _seen(catalog)
    }
    return _rows(("name",), sorted(found))


def labels(catalog: Catalog) -> list[str]:
    """The visible tables, as the ledger names them. Analysts see no other lines of it."""
    return sorted(
        {label for (schema, table, _), _, _ in _seen(catalog) for label in (f"{schema}.{table}", f"{schema}.*")}
    )


VIEWS: Mapping[str, Callable[[Catalog], Node]] = {"tables": tables, "columns": columns}


def shown_type(kind: str, catalog: Catalog, name: TableName) -> str:
    """A column's type as it is shown: without the values of an ENUM if the table is protected."""
    return _ENUM.sub("VARCHAR", kind) if name in catalog.protected else kind


def _seen(catalog: Catalog) -> list[tuple[tuple[str, str, TableName], str, Stored | None]]:
    found: list[tuple[tuple[str, str, TableName], str, Stored | None]] = []
    for name, stored in catalog.tables.items():
        kind = "LOCAL TEMPORARY" if stored.temporary else "BASE TABLE"
        found.append(((stored.path[1], stored.path[2], name), kind, stored))
    for name, view in catalog.views.items():
        found.append(((view.path[1], view.path[2], name), "VIEW", None))
    for name, one in catalog.protected.items():
        path = one.stored.path if one.stored is not None else (name.catalog, name.schema, name.object)
        found.append(((path[1], path[2], name), "PROTECTED", one.stored))
    return sorted(found, key=lambda one: one[0])


def _rows(header: Sequence[str], rows: Sequence[Sequence[str | int]]) -> Node:
    """A query for rows of constants: texts and whole numbers."""
    named = ", ".join(f'"{one}"' for one in header)
    written = ", ".join("(" + ", ".join(map(_literal, row)) + ")" for row in rows)
    none = ", ".join("NULL::VARCHAR" for _ in header)
    values = f"VALUES {written}" if rows else f"SELECT {none} WHERE false"
    return sqlglot.parse_one(f"SELECT * FROM ({values}) AS _dk_seen({named}) ORDER BY ALL", read="duckdb")


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
