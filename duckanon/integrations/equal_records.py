"""Records of a table that are equal in all columns, and may be one person several times."""

from __future__ import annotations

from typing import Any

from duckanon.catalog.names import literal

# Of a table with few columns most records equal others, and that says nothing.
_MOST = 0.1
# More records are not compared: all their columns would be in memory, or on disk, once more.
_LARGE = 10_000_000


def equal_records(con: Any, table: str) -> str:
    """A sentence on the records that equal another one; nothing if there are none, or so many that it means nothing.

    con: a DuckDB connection. table: as the functions take it. Raises duckdb.Error.
    """
    source = f"FROM system.main.query_table({literal(table)})"
    ((records,),) = con.execute(f"SELECT system.main.count(*) {source}").fetchall()
    if records > _LARGE:
        return ""
    ((different,),) = con.execute(f"SELECT system.main.count(*) FROM (SELECT DISTINCT * {source})").fetchall()  # noqa: S608
    more = records - different
    if not 0 < more <= _MOST * records:
        return ""
    return (
        f"{more:,} of {records:,} records {'equals' if more == 1 else 'equal'} another one in all columns. If they are "
        "the same persons again, k counts these several times: take each record once, as from a view with DISTINCT."
    )
