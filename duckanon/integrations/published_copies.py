"""Which publication of a database a file holds: the one whose copy has the same columns and rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.catalog.names import fold, identifier, literal
from duckanon.catalog.types import NUMBERS, base
from duckanon.integrations.data_files import DataFile

if TYPE_CHECKING:
    from duckanon.connection import Connection


def published(
    con: Connection, read: Sequence[tuple[str, bool]], publications: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """The publication whose copy has the rows of a file, if there is one.

    read: see `readings`. publications: rows of publications() that are not withdrawn. Raises duckdb.Error.
    """
    for publication in publications:
        if has_rows(con, read, f"duckanon.{identifier(publication['name'])}"):
            return publication
    return None


def readings(con: Connection, path: Path, table: str) -> list[tuple[str, bool]]:
    """The tables with a file's rows, each with whether it has text alone. table: into which the file was read.

    Raises duckdb.Error.
    """
    file = DataFile.of(path)
    if not file.is_delimited:
        return [(table, False)]
    # Read with types, the text 007 is the number 7. A text file tells no empty text from NULL.
    return [(table, False), (file.load(con, f"{path} as text", typed=[]), True)]


def has_rows(con: Connection, read: Sequence[tuple[str, bool]], relation: str) -> bool:
    """Whether a file, as `readings` gives it, has the columns and rows of a relation."""
    return any(same_rows(con, f"system.main.query_table({literal(name)})", relation, is_text) for name, is_text in read)


def same_rows(con: Any, relation: str, other: str, is_text: bool = False) -> bool:
    """Whether two relations have the same columns and the same rows, each in any order.

    Values are compared by their text, and numbers of `other` as numbers, so that 5 equals 5.00. is_text: whether
    `relation` has text alone, in which an empty one stands for NULL. con: a DuckDB connection. Raises duckdb.Error.
    """
    first, second = (
        {fold(name): base(kind) for name, kind, *_ in con.execute(f"DESCRIBE FROM {each}").fetchall()}
        for each in (relation, other)
    )
    if first.keys() != second.keys():
        return False
    shown = ", ".join(_shown(name, kind, second[name], is_text) for name, kind in first.items())
    rows = [f"(SELECT {shown} FROM {each})" for each in (relation, other)]  # noqa: S608 - columns are quoted
    differ = f"({rows[0]} EXCEPT ALL {rows[1]}) UNION ALL ({rows[1]} EXCEPT ALL {rows[0]}) LIMIT 1"
    return not con.execute(differ).fetchall()


def _shown(name: str, kind: str, other: str, is_text: bool) -> str:
    """SQL: a value as it is compared. kind, other: the types of the column in both relations."""
    value = identifier(name)
    if other == "BOOLEAN" and kind in NUMBERS:  # some kinds of files have no truth values
        return f"CAST({value} AS DOUBLE)"
    text = f"CAST({value} AS VARCHAR)"
    if is_text:
        text = f"nullif({text}, '')"
    if other in NUMBERS:
        text = rf"system.main.regexp_replace({text}, '^(-?\d+)(?:\.0+|(\.\d*[1-9])0+)$', '\1\2')"
    return text
