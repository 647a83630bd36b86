"""The SQL that copies a domain to the schema `duckanon`, of what a policy says alone or of other tables."""

from __future__ import annotations

from typing import Any

import duckdb

from duckanon.catalog.domain_sources import Range
from duckanon.catalog.names import literal, quoted


def creation(table: str, query: str) -> str:
    """The statement that makes a copy of what a query gives: its distinct rows, in order."""
    return f"CREATE TABLE {table} AS SELECT DISTINCT * FROM ({query}) ORDER BY ALL ASC NULLS LAST"


def written_out(column: str, source: tuple[Any, ...] | Range, kind: str) -> str:
    """A query for the values that a policy lists. kind: the column's type."""
    name = quoted([column])
    if isinstance(source, Range):
        return f"SELECT {cast('value', kind)} AS {name} FROM ({_values(source)}) AS _dk_range"
    values = ", ".join(f"({cast(_literal(value), kind)})" for value in source)
    return f"SELECT * FROM (VALUES {values}) AS _dk_listed({name})"


def types_of(con: duckdb.DuckDBPyConnection, path: tuple[str, str, str]) -> dict[str, str] | None:
    """The columns of a table or view, with their types; None if there is no such table or view."""
    try:
        rows = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {quoted(path)})").fetchall()
    except duckdb.Error:
        return None
    return dict(rows)


def cast(value: str, kind: str) -> str:
    """A value in SQL as the copy holds it: values of an ENUM as text, since its type would show all its values."""
    cast = f"CAST({value} AS {kind})"
    return f"CAST({cast} AS VARCHAR)" if kind.startswith("ENUM(") else cast


def _values(source: Range) -> str:
    """A query for the values of a range as texts, in the column `value`."""
    first, _ = source.ends
    if isinstance(first, int):
        wide = "HUGEINT" if first < 0 else "UHUGEINT"
        value = f"CAST('{first}' AS {wide}) + CAST(_dk_at.n AS {wide}) * CAST('{source.step}' AS {wide})"
    else:
        value = f"CAST('{first}' AS DATE) + CAST(_dk_at.n * {source.step} AS INTEGER)"
    null = " UNION ALL SELECT NULL" if source.nulls else ""
    return f"SELECT CAST({value} AS VARCHAR) AS value FROM system.main.range({source.count}) AS _dk_at(n){null}"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return literal(str(value))
