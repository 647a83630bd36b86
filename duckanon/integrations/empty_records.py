"""Records without a value in any column, such as empty lines of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckanon.catalog.names import identifier, literal


def empty_records(con: Any, table: str) -> str:
    """A sentence on the records without a value; nothing if there are none.

    con: a DuckDB connection. table: as the functions take it; in a column of text an empty one is no value. Raises
    duckdb.Error.
    """
    source = f"FROM system.main.query_table({literal(table)})"
    names = [name for name, *_ in con.execute(f"DESCRIBE {source}").fetchall()]
    ((many,),) = con.execute(f"SELECT system.main.count(*) {source} WHERE {no_value(names)}").fetchall()
    return in_words(many) if many else ""


def no_value(names: Sequence[str]) -> str:
    """SQL: whether a record has no value in any of the columns."""
    return " AND ".join(f"nullif(CAST({identifier(name)} AS VARCHAR), '') IS NULL" for name in names)


def in_words(many: int) -> str:
    """The sentence on so many records."""
    text = "1 record has no value" if many == 1 else f"{many:,} records have no value"
    return f"{text} in any column, and would be released as such: leave out empty lines."
