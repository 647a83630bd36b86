"""The rows of a suppressed table by codes, as rows by columns, of which each is a level of the codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckanon.catalog.names import fold
from duckanon.catalog.publication import Codes
from duckanon.errors import InvalidInput
from duckanon.functions.code_levels import Leveled, levels_of_codes
from duckanon.functions.suppressed_tables import Levels, form_of


@dataclass(frozen=True)
class Row:
    """A cell: the values of its columns, its levels in all lists, and its number as text, None where it is hidden."""

    values: tuple[Any, ...]
    levels: Levels
    number: str | None


def with_levels(keys: Sequence[str], rows: Sequence[Row], codes: Mapping[str, Codes]) -> tuple[list[str], list[Row]]:
    """The columns and rows with a column for each level of the codes. A code above the deepest has a row on each.

    keys: the columns of an answer of suppress, in its order. Raises InvalidInput where the codes lie elsewhere.
    """
    leveled_of: dict[str, Leveled] = {}
    for at, name in enumerate(keys):
        if fold(name) in codes:
            lines = codes[fold(name)]
            shown = {row.values[at] for row in rows} - {None} - {parent for _, parent in lines}
            leveled_of[fold(name)] = levels_of_codes(name, lines, sorted(shown))
    columns = [
        column_name
        for name in keys
        for column_name in (leveled_of[fold(name)].names if fold(name) in leveled_of else (name,))
    ]
    form = form_of(list(dict.fromkeys(row.levels for row in rows)), columns, in_answer=True)
    names = list(keys)
    for column, leveled in leveled_of.items():
        list_of = next(
            lists[0]
            for lists, dimension in zip(form.lists, form.dimensions, strict=True)
            if fold(dimension[0][-1]) == column
        )
        at = [fold(name) for name in names].index(column)
        rows = _leveled(rows, at, list_of, leveled)
        names = [*names[:at], *leveled.names, *names[at + 1 :]]
    return names, list(rows)


def _leveled(rows: Sequence[Row], at: int, list_of: int, leveled: Leveled) -> list[Row]:
    """at: the place of the column of codes. list_of: the list that it is."""
    nodes: dict[tuple[Any, int | None], list[tuple[int, tuple[str | None, ...]]]] = {}
    for label, level, here, labels in leveled.nodes:
        nodes.setdefault((label, level), []).append((here, labels))
    leveled_rows = []
    for row in rows:
        key = (row.values[at], row.levels[list_of])
        if key not in nodes:
            raise InvalidInput("A code is not on the level where its hierarchy has it: write the file as it was made.")
        for here, labels in nodes[key]:
            row_values = (*row.values[:at], *labels, *row.values[at + 1 :])
            leveled_rows.append(Row(row_values, (*row.levels[:list_of], here, *row.levels[list_of + 1 :]), row.number))
    return leveled_rows
