"""Suppressed tables as an office prints them: one row for each row of the table, totals by name, x for suppressed."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from duckanon.errors import InvalidInput
from duckanon.integrations.office_files import workbook

if TYPE_CHECKING:
    import pyarrow as pa

SUPPRESSED = "x"
# What stands for a total and for a NULL; the next one where a category is called so already.
_TOTALS = ("Total", "All", "Total of all", "Sum of all categories")
_MISSING = ("not stated", "no value", "NULL", "value is missing")
# Columns of values at most: more are no page, and no sheet that anybody reads.
_MOST_COLUMNS = 1000

# A row or column: its values as text, as many as its level. What a cell holds: None where it is suppressed.
Key = tuple[str | None, ...]
Number = int | Decimal
Cells = Mapping[tuple[Key, Key], Number | None]


@dataclass(frozen=True)
class Printed:
    """heads: the names of the columns. rows: their values; None for an empty heading."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str | Number, ...], ...]

    @staticmethod
    def of(rows: Sequence[str], cols: Sequence[str], cells: Cells, measure: str) -> Printed:
        """The table. rows, cols: names of its columns. measure: what stands over the values of a table without cols.

        cells: by the values that identify a row and a column, the widest first, as many as its level; None where a cell
        is suppressed. Rows and columns stand in their order. Raises InvalidInput for more columns than anybody reads.
        """
        down = list(dict.fromkeys(row for row, _ in cells))
        across = list(dict.fromkeys(col for _, col in cells))
        if len(across) > _MOST_COLUMNS:
            raise InvalidInput(f"The table has {len(across):,} columns: exchange its rows and columns for print.")
        known = {text for key in (*down, *across) for text in key if text is not None}
        total, missing = _free(_TOTALS, known), _free(_MISSING, known)

        def label(value: str | None) -> str:
            return missing if value is None else value

        heads = [", ".join(map(label, col)) or (total if cols else measure) for col in across]
        lines = (
            (
                *(label(text) for text in row),
                *[total] * (len(rows) - len(row)),
                *(SUPPRESSED if (value := cells[row, col]) is None else value for col in across),
            )
            for row in down
        )
        return Printed(_apart([*rows, *heads]), tuple(lines))

    def arrow(self) -> pa.Table:
        """The table with texts in all columns, as CSV and Parquet have one type in each."""
        import pyarrow as pa

        columns = zip(*self.rows, strict=True)
        values = [pa.array([str(value) for value in column], pa.string()) for column in columns]
        return pa.table(dict(zip(self.heads, values, strict=True)))

    def file(self, form: str) -> bytes:
        """The table as a file. form: csv, parquet or excel; in Excel numbers are numbers.

        Raises InvalidInput where the extra for Excel is missing.
        """
        out = io.BytesIO()
        if form == "excel":
            return workbook("table", [self.heads, *self.rows])
        if form == "parquet":
            from pyarrow import parquet

            parquet.write_table(self.arrow(), out)
        else:
            from pyarrow import csv

            csv.write_csv(self.arrow(), out)
        return out.getvalue()


def _free(names: Sequence[str], known: set[str]) -> str:
    """The first of the names that no category has."""
    return next((name for name in names if name not in known), names[0])


def _apart(heads: Sequence[str]) -> tuple[str, ...]:
    """The heads, with a number after those that stand there already."""
    found: dict[str, None] = {}
    for head in heads:
        numbered = (head if i == 1 else f"{head} ({i})" for i in range(1, len(heads) + 2))
        found[next(text for text in numbered if text not in found)] = None
    return tuple(found)
