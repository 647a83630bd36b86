"""Records of a table that are equal in all columns, and may be one person several times."""

from __future__ import annotations

from typing import Any

from duckanon.catalog.names import literal

# Of a table with few columns most records equal others, and that says nothing.
_MOST = 0.1


def equal_records(con: Any, table: str) -> str:
    """A sentence on the records that equal another one; nothing if there are none, or so many that it means nothing.

    con: a DuckDB connection. table: as the functions take it. Raises duckdb.Error.
    """
    source = f"FROM system.main.query_table({literal(table)})"
    ((records, different),) = con.execute(
        f"SELECT (SELECT system.main.count(*) {source}), "  # noqa: S608 - a literal
        f"(SELECT system.main.count(*) FROM (SELECT DISTINCT * {source}))"
    ).fetchall()
    more = records - different
    if not 0 < more <= _MOST * records:
        return ""
    return (
        f"{more:,} of {records:,} records {'equals' if more == 1 else 'equal'} another one in all columns. If they are "
        "the same persons again, k counts these several times: take each record once, as from a view with DISTINCT."
    )
