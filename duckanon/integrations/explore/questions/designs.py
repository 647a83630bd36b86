"""Table designs: how many there are, all of them, and the bounds and shares of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar, Self

from duckanon.catalog.names import identifier, literal
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call
from duckanon.integrations.explore.catalog import Column, Table
from duckanon.integrations.explore.choices import Choices, names
from duckanon.integrations.explore.jobs import Running

# More points than this are too many for a picture, and for a browser.
_MOST = 60_000
# Seconds for each design and for each of its cells, measured on Adult: good for an order of magnitude.
_A_DESIGN, _A_CELL = 2e-4, 3e-8
# How much of a table of bounds the page shows.
_SHOWN_ROWS, _SHOWN_COLUMNS = 40, 12
_MEASURES = (
    "unit_rows", "disclosed_rows", "zero_cells", "disclosed_small_cells", "row_count", "col_count", "information",
    "dependence",
)  # fmt: skip
_BOUNDS = '"duckanon.bounds"'


def number_of_designs(variables: int, most_columns: int) -> int:
    """How many designs table_designs would audit: a variable is in the rows, in the columns, or left out."""
    return sum(
        comb(variables, used) * comb(used, columns)
        for used in range(2, variables + 1)
        for columns in range(1, min(most_columns, used - 1) + 1)
    )


@dataclass(frozen=True)
class Estimate:
    """How many designs there are, and about how long they take, before anything starts."""

    table: Table
    variables: tuple[Column, ...]
    most_columns: int
    lane: ClassVar[str] = "short"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        table = choices.table()
        variables = choices.columns("variables", table, least=2, most=16)
        return cls(table, variables, choices.whole("most_columns", 1, 15, len(variables) - 1))

    @property
    def designs(self) -> int:
        return number_of_designs(len(self.variables), self.most_columns)

    def answer(self, run: Running) -> object:
        """`designs`, `cells` with records of all variables together, `seconds`, and whether these are too many."""
        listed = ", ".join(identifier(variable.name) for variable in self.variables)
        ((cells,),) = run.rows(f"SELECT count(*) FROM (SELECT 1 FROM {self.table.sql} GROUP BY {listed})")  # noqa: S608
        seconds = self.designs * (_A_DESIGN + _A_CELL * cells)
        return {"designs": self.designs, "cells": cells, "seconds": seconds, "is_too_many": self.designs > _MOST}


@dataclass(frozen=True)
class Designs(Estimate):
    """All designs of some variables, with what each would disclose."""

    lane: ClassVar[str] = "long"

    def answer(self, run: Running) -> object:
        """`designs`: for each its rows and columns as positions of variables, then its measures; `sql`: the call."""
        if self.designs > _MOST:
            raise InvalidInput(
                f"There are {self.designs:,} designs, more than {_MOST:,}: choose fewer variables or fewer columns."
            )
        most = self.most_columns if self.most_columns < len(self.variables) - 1 else None
        asked = call("table_designs", self.table.sql, names(self.variables), max_cols=most)
        at = {name: i for i, name in enumerate(names(self.variables))}
        found = [
            [[at[row] for row in rows], [at[col] for col in cols], *measures]
            for rows, cols, *measures in run.rows(f"SELECT rows, cols, {', '.join(_MEASURES)} {asked}")
        ]
        return {"variables": names(self.variables), "measures": _MEASURES, "designs": found, "sql": asked}


@dataclass(frozen=True)
class Bounds:
    """The bounds of every count that follow from one design's shares, and the shares."""

    table: Table
    rows: tuple[Column, ...]
    cols: tuple[Column, ...]
    lane: ClassVar[str] = "short"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        table = choices.table()
        return cls(
            table, choices.columns("rows", table, least=1, most=16), choices.columns("cols", table, least=1, most=16)
        )

    def answer(self, run: Running) -> object:
        """The rows that give away most, and the columns with most records, each a list of values.

        `cells`: row, column, count, lower, upper, whether it is disclosed, share; those that are not there are zeros.
        `row_count` and so on: of the whole, without rows and columns of zeros.
        """
        asked = call("cell_bounds", self.table.sql, names(self.rows), names(self.cols))
        run.rows(
            f"CREATE OR REPLACE TEMP TABLE {_BOUNDS} AS SELECT {_key(self.rows)} AS r, {_key(self.cols)} AS c, n, "
            f'"lower" AS low, "upper" AS high, disclosed AS d {asked} WHERE n > 0'
        )
        ((row_count, col_count, disclosed, occupied),) = run.rows(
            f"SELECT count(DISTINCT r), count(DISTINCT c), count(*) FILTER (d), count(*) FROM {_BOUNDS}"  # noqa: S608
        )
        down = _listed(run, "r", "count(*) FILTER (d) DESC, sum(n) DESC", _SHOWN_ROWS)
        right = sorted(_listed(run, "c", "sum(n) DESC", _SHOWN_COLUMNS), key=_order)
        shown = " ".join(
            f"SEMI JOIN (SELECT unnest({_lists(keys)}) AS {key}) USING ({key})"
            for key, keys in (("r", down), ("c", right))
        )
        share = f"SELECT *, n / sum(n) OVER (PARTITION BY r) AS share FROM {_BOUNDS}"  # noqa: S608
        cells = run.rows(f"SELECT r, c, n, low, high, d, share FROM ({share}) {shown}")  # noqa: S608 - texts are quoted
        at_row, at_column = ({tuple(values): i for i, values in enumerate(part)} for part in (down, right))
        return {
            "rows": down,
            "cols": right,
            "cells": [[at_row[tuple(r)], at_column[tuple(c)], *rest] for r, c, *rest in cells],
            "row_count": row_count,
            "col_count": col_count,
            "disclosed": disclosed,
            "occupied": occupied,
            "sql": asked,
        }


def _key(columns: Sequence[Column]) -> str:
    """The values of columns, as a list of texts."""
    return "[" + ", ".join(f"{identifier(column.name)}::VARCHAR" for column in columns) + "]"


def _listed(run: Running, key: str, order: str, most: int) -> list[list[Any]]:
    rows = run.rows(f"SELECT {key} FROM {_BOUNDS} GROUP BY {key} ORDER BY {order}, {key} LIMIT {most}")  # noqa: S608
    return [value for (value,) in rows]


def _order(values: Sequence[str | None]) -> list[tuple[bool, float, str]]:
    """Numbers by size, other texts by the alphabet, NULL last."""

    def one(value: str | None) -> tuple[bool, float, str]:
        try:
            return value is None, float(value or "inf"), value or ""
        except ValueError:
            return False, float("inf"), value or ""

    return [one(value) for value in values]


def _lists(keys: Sequence[Sequence[str | None]]) -> str:
    """Lists of texts, as SQL."""
    written = ("[" + ", ".join("NULL" if text is None else literal(text) for text in key) + "]" for key in keys)
    return "[" + ", ".join(written) + "]::VARCHAR[][]"
