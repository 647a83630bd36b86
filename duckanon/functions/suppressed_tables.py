"""A table of counts or sums with suppressed cells, as `suppress` returns it: its margins, and which cells are hidden.

Totals stand in the same table as their parts. `row_level` and `col_level` say by how many of the row columns and column
columns a row is counted: all rows of one pair of levels are a margin. Without these two columns there is one margin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import duckdb

from duckanon.catalog.names import fold, identifier
from duckanon.errors import InvalidInput

LEVELS = ("row_level", "col_level")


@dataclass(frozen=True)
class Margin:
    """Numbers by some variables. levels: which rows of the table they are, as SQL. total: whether it has parts.

    rows: how many of the variables identify a row of the printed table; the others identify a column.
    """

    variables: tuple[str, ...]
    levels: str
    total: bool
    rows: int


def margins(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Iterable[str], variables: Sequence[str]
) -> list[Margin]:
    """The margins of a suppressed table with these columns, the smallest first.

    variables: all that identify a cell, those of the rows before those of the columns. Raises InvalidInput for levels
    that do not fit them.
    """
    if not set(LEVELS) <= {fold(name) for name in columns}:
        return [Margin(tuple(variables), "true", False, len(variables))]
    found = con.execute(f"SELECT DISTINCT row_level, col_level FROM {relation} ORDER BY ALL").fetchall()
    if not found or any(one is None or one < 0 for pair in found for one in pair):
        raise InvalidInput("row_level and col_level say how many columns identify a cell: publish what suppress gives.")
    rows, cols = (max(pair[side] for pair in found) for side in (0, 1))
    if rows + cols != len(variables):
        raise InvalidInput(
            f"The cells of the release are identified by {rows + cols} columns: name all that suppress had as rows, "
            "and then all that it had as cols, in variables."
        )
    parts = tuple(variables)
    return [
        Margin((*parts[:row], *parts[rows : rows + col]), _are(row, col), (row, col) != (rows, cols), row)
        for row, col in sorted(found, key=lambda pair: (sum(pair), pair))
    ]


def _are(row: int, col: int) -> str:
    return f"{identifier('row_level')} = {row} AND {identifier('col_level')} = {col}"
