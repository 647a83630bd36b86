"""A file with a suppressed table, as `suppress` returns it: its numbers, and the equations among its hidden cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from duckanon.catalog.names import fold, identifier, literal
from duckanon.engines.witnesses import Equations
from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from duckanon.connection import Connection

_LEVELS = ("row_level", "col_level")
# A row or column of the table: the values of its first columns.
Node = tuple[Any, ...]


@dataclass(frozen=True)
class SuppressedTable:
    """cells: in the file's order, by row and column: the number in units of the last decimal, or None where hidden.

    digits: how many decimals the numbers have.
    """

    cells: dict[tuple[Node, Node], int | None]
    digits: int

    @cached_property
    def hidden(self) -> dict[tuple[Node, Node], int]:
        """The suppressed cells, numbered in the file's order."""
        return {cell: at for at, cell in enumerate(cell for cell, number in self.cells.items() if number is None)}

    @cached_property
    def equations(self) -> Equations:
        """Of the hidden cells: each total is the sum of its parts, and no hidden cell is empty."""
        rows, right, shown = [], [], [number for number in self.cells.values() if number is not None]
        for total, parts in self._sums():
            row: dict[int, int] = {}
            known = 0
            for cell, factor in [(total, -1), *((part, 1) for part in parts)]:
                if cell in self.hidden:
                    row[self.hidden[cell]] = factor
                else:
                    known += factor * (self.cells.get(cell) or 0)
            if row:
                rows.append(row)
                right.append(-known)
            elif known:
                raise InvalidInput("A total is not the sum of its parts: give the table as suppress made it.")
        return Equations(len(self.hidden), rows, right, 1, 2 * max(shown, default=0) + 1000)

    def _sums(self) -> Iterator[tuple[tuple[Node, Node], list[tuple[Node, Node]]]]:
        """Each cell with parts, and its parts: along the rows, and along the columns."""
        rows, cols = ({cell[side]: None for cell in self.cells} for side in (0, 1))
        for row, parts in _parts(list(rows)).items():
            for col in cols:
                yield (row, col), [(part, col) for part in parts]
        for col, parts in _parts(list(cols)).items():
            for row in rows:
                yield (row, col), [(row, part) for part in parts]


def _parts(nodes: list[Node]) -> dict[Node, list[Node]]:
    """The parts of each node that has some."""
    found: dict[Node, list[Node]] = {}
    known = set(nodes)
    for node in nodes:
        if node and node[:-1] in known:
            found.setdefault(node[:-1], []).append(node)
    return found


def suppressed_table(con: Connection, table: str) -> SuppressedTable | None:
    """The suppressed table in a table of a connection; None if it holds none. Raises InvalidInput."""
    relation = f"system.main.query_table({literal(table)})"
    names = [name for name, *_ in con.execute(f"DESCRIBE FROM {relation}").fetchall()]
    if not {*_LEVELS, "value", "suppressed"} <= {fold(name) for name in names}:
        return None
    keys = [name for name in names if fold(name) not in (*_LEVELS, "value", "suppressed")]
    shown = ", ".join([*map(identifier, keys), *_LEVELS, '"value"::VARCHAR', "suppressed::BOOLEAN"])
    found = con.execute(f"SELECT {shown} FROM {relation}").fetchall()
    rows, cols = (max((row[len(keys) + side] for row in found), default=0) for side in (0, 1))
    if rows + cols != len(keys) or any((text is None) != hidden for *_, text, hidden in found):
        raise InvalidInput(
            "A suppressed table has the columns that suppress gives it and no others, and no number where suppressed "
            "is true: write the file from its answer, without audit."
        )
    numbers = [None if text is None else Decimal(text) for *_, text, _ in found]
    digits = max((-int(one.as_tuple().exponent) for one in numbers if one is not None), default=0)
    cells: dict[tuple[Node, Node], int | None] = {}
    for row, number in zip(found, numbers, strict=True):
        at = row[len(keys)], row[len(keys) + 1]
        cell = tuple(row[: at[0]]), tuple(row[rows : rows + at[1]])
        if cell in cells:
            raise InvalidInput("A suppressed table has a cell more than once: write the file from suppress's answer.")
        cells[cell] = None if number is None else int(number.scaleb(max(digits, 0)))
    return SuppressedTable(cells, max(digits, 0))
