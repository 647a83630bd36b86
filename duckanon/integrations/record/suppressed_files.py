"""A file with a suppressed table, as `suppress` returns it: its numbers, and the equations among its hidden cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

from duckanon.catalog.names import fold, identifier, literal
from duckanon.catalog.publication import Codes
from duckanon.engines.witnesses import Equations
from duckanon.errors import InvalidInput
from duckanon.functions.code_rows import Row, with_levels
from duckanon.functions.suppressed_tables import (
    BY_LEVEL,
    LEVELS,
    Hierarchies,
    Place,
    above,
    form_of,
    level_columns,
    levels_of,
    place,
)

if TYPE_CHECKING:
    from duckanon.connection import Connection


@dataclass(frozen=True)
class SuppressedTable:
    """cells: in the file's order, by place: the number in units of the last decimal, or None where hidden.

    digits: how many decimals the numbers have. dimensions: the hierarchies of each.
    """

    cells: Mapping[Place, int | None]
    digits: int
    dimensions: tuple[Hierarchies, ...]

    @cached_property
    def hidden(self) -> dict[Place, int]:
        """The suppressed cells, numbered in the file's order."""
        return {cell: at for at, cell in enumerate(cell for cell, number in self.cells.items() if number is None)}

    @cached_property
    def equations(self) -> Equations:
        """Of the hidden cells: each total is the sum of its parts, and no hidden cell is empty."""
        rows, right, shown = [], [], [number for number in self.cells.values() if number is not None]
        for total, parts in self._sums().items():
            row: dict[int, int] = {}
            known = 0
            for cell, factor in [(total[0], -1), *((part, 1) for part in parts)]:
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

    def _sums(self) -> dict[tuple[Place, int, int], list[Place]]:
        """The parts of each cell that has some, along each hierarchy of each dimension."""
        places: dict[tuple[Place, int, int], list[Place]] = {}
        for cell in self.cells:
            for d, lists in enumerate(self.dimensions):
                for h, sum_of in enumerate(above(lists, cell[d])):
                    if sum_of is None:
                        continue
                    total = (*cell[:d], sum_of, *cell[d + 1 :])
                    if total in self.cells:
                        places.setdefault((total, d, h), []).append(cell)
        return places


def suppressed_table(
    con: Connection, table: str, codes: Mapping[str, Sequence[Sequence[str | None]]] | None = None
) -> SuppressedTable | None:
    """The suppressed table in a table of a connection; None if it holds none. Raises InvalidInput.

    codes: by column of codes, folded, each code and what it is a part of; then all columns are text.
    """
    relation = f"system.main.query_table({literal(table)})"
    names = [name for name, *_ in con.execute(f"DESCRIBE FROM {relation}").fetchall()]
    if not {*LEVELS, "value", "suppressed"} <= {fold(name) for name in names}:
        return None
    named = level_columns(names)
    keys = [name for name in names if fold(name) not in (*named, "value", "suppressed")]
    shown = [f"{BY_LEVEL}::BIGINT[]" if name == BY_LEVEL else f"{name}::BIGINT" for name in named]
    values = [f"nullif({identifier(name)}, '')" if codes else identifier(name) for name in keys]
    number_of = "nullif(\"value\"::VARCHAR, '')"
    listed = ", ".join([*values, *shown, number_of, "suppressed::BOOLEAN"])
    found = con.execute(f"SELECT {listed} FROM {relation}").fetchall()
    if any((text is None) != hidden for *_, text, hidden in found):
        raise _no_answer()
    rows = [Row(row[: len(keys)], levels_of(row[len(keys) : -2]), row[-2]) for row in found]
    if codes:
        keys, rows = with_levels(keys, rows, {name: _lines(lines) for name, lines in codes.items()})
    try:
        made = form_of(list(dict.fromkeys(row.levels for row in rows)), keys, in_answer=True)
    except InvalidInput:
        raise _no_answer() from None
    numbers = [None if row.number is None else Decimal(row.number) for row in rows]
    digits = max((-int(number.as_tuple().exponent) for number in numbers if number is not None), default=0)
    cells: dict[Place, int | None] = {}
    for row, number in zip(rows, numbers, strict=True):
        cell = place(made.nodes[row.levels], dict(zip(keys, row.values, strict=True)))
        if cell in cells:
            raise InvalidInput("A suppressed table has a cell more than once: write the file from suppress's answer.")
        cells[cell] = None if number is None else int(number.scaleb(max(digits, 0)))
    return SuppressedTable(cells, max(digits, 0), made.dimensions)


def _lines(lines: Sequence[Sequence[str | None]]) -> Codes:
    return tuple((code, parent) for code, parent in lines)


def _no_answer() -> InvalidInput:
    return InvalidInput(
        "A suppressed table has the columns that suppress gives it and no others, and no number where suppressed is "
        "true: write the file from its answer, without audit."
    )
