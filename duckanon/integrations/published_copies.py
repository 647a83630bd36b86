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


def published(con: Connection, path: Path, table: str, publications: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The publication whose copy has the rows of a file, if there is one.

    table: into which the file was read. publications: rows of publications() that are not withdrawn.
    Raises duckdb.Error.
    """
    read = [(table, False)]
    file = DataFile.of(path)
    if publications and file.is_delimited:
        # Read with types, the text 007 is the number 7. A text file tells no empty text from NULL.
        read.append((file.load(con, f"{path} as text", typed=[]), True))
    for publication in publications:
        copy = f"duckanon.{identifier(publication['name'])}"
        if any(same_rows(con, f"system.main.query_table({literal(name)})", copy, is_text) for name, is_text in read):
            return publication
    return None


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
