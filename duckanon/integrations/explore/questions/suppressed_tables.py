"""A suppressed table: which cells are sensitive, which others are suppressed, what readers learn; and it for print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isinf, log1p
from typing import Any, ClassVar, Self

from duckanon.catalog.names import identifier, literal
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call
from duckanon.integrations.explore.catalog import Column
from duckanon.integrations.explore.choices import Choices, names
from duckanon.integrations.explore.jobs import Running
from duckanon.integrations.explore.suppressing import Suppressing
from duckanon.integrations.printed_tables import Key, Printed

# Cells that are computed for the page, and how much of a table it shows.
_MOST_CELLS, _SHOWN_ROWS, _SHOWN_COLUMNS = 20_000, 200, 30
_MADE, _KEYED, _KEY = '"duckanon.suppressed"', '"duckanon.keyed"', "duckanon record key"
_LARGEST_DEVIATION = 100
FORMS = ("csv", "parquet", "excel")

Cells = dict[tuple[Key, Key], dict[str, Any]]


@dataclass(frozen=True)
class Suppressed:
    """A suppressed table, and beside it the same cells perturbed by cell key, with keys drawn for this look.

    max_deviation, variance: of the perturbation table.
    """

    asked: Suppressing
    max_deviation: int
    variance: int
    lane: ClassVar[str] = "long"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        asked = Suppressing.read(choices)
        return cls(
            asked, choices.whole("max_deviation", 1, _LARGEST_DEVIATION, 5), choices.whole("variance", 1, 400, 2)
        )

    def answer(self, run: Running) -> object:
        """`rows` and `cols`: the values of each as texts, as many as its level. `cells`: for each row its columns'.

        A cell is its status, true value, cost, what cell_key makes of it, and the ends that readers can compute of it:
        none where they are not computed, the upper one None where there is none. The counts are of the whole table.
        """
        cells = _cells(self.asked, run)
        keyed = self._keyed(run)
        down, across = _order(row for row, _ in cells), _order(col for _, col in cells)
        costs = {key: _cost(cell["true_value"], self.asked.cost) for key, cell in cells.items()}
        shown = [
            [_told(cells[row, col], costs[row, col], keyed.get((row, col), 0)) for col in across[:_SHOWN_COLUMNS]]
            for row in down[:_SHOWN_ROWS]
        ]
        return {
            "rows": down[:_SHOWN_ROWS],
            "cols": across[:_SHOWN_COLUMNS],
            "row_count": len(down),
            "col_count": len(across),
            "cells": shown,
            "suppression": self._suppression(cells, costs),
            "cell_key": _perturbation(cells, keyed),
            "sql": self.asked.query(),
        }

    def _suppression(self, cells: Cells, costs: dict[tuple[Key, Key], float]) -> object:
        """Cells and their costs by status, and which share of all that is counted lies in suppressed cells."""
        deepest = len(self.asked.rows), len(self.asked.cols)
        leaves = [cell for (row, col), cell in cells.items() if (len(row), len(col)) == deepest]
        gone = sum(leaf["true_value"] for leaf in leaves if leaf["suppressed"])
        total = sum(leaf["true_value"] for leaf in leaves)
        count = {
            status: sum(cell["status"] == status for cell in cells.values()) for status in ("primary", "secondary")
        }
        cost = sum(costs[key] for key, cell in cells.items() if cell["status"] == "secondary")
        return {
            **count,
            "cells": len(cells),
            "occupied": sum(cell["true_value"] > 0 for cell in cells.values()),
            "cost": cost,
            "hidden": gone / total if total else 0,
        }

    def _keyed(self, run: Running) -> dict[tuple[Key, Key], Any]:
        """What cell_key makes of the cells that it does not leave out as zeros."""
        asked = self.asked
        run.rows(
            f"CREATE OR REPLACE TEMP TABLE {_KEYED} AS "  # noqa: S608 - names of the catalog
            f"SELECT *, random() AS {identifier(_KEY)} FROM {asked.table.sql}"
        )
        found = call(
            "cell_key",
            _KEYED,
            names(asked.rows),
            key=_KEY,
            cols=names(asked.cols),
            totals=True,
            value=asked.value.name if asked.value else None,
            digits=asked.digits or None,
            max_deviation=self.max_deviation,
            variance=self.variance,
        )
        shown = '"value"' if asked.value else "n"
        rows = run.rows(f"SELECT {_keys(asked)}, {shown} {found}")
        run.rows(f"DROP TABLE {_KEYED}")
        return {(_key(row), _key(col)): value for row, col, value in rows}


@dataclass(frozen=True)
class ForPrint:
    """A suppressed table as a file for print. The answer is fetched as `printed`."""

    asked: Suppressing
    form: str

    @classmethod
    def read(cls, choices: Choices) -> Self:
        return cls(Suppressing.read(choices), choices.word("form", FORMS))

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.asked.table.name}_suppressed.{'xlsx' if self.form == 'excel' else self.form}"

    def file(self, run: Running) -> bytes:
        """The file. Raises InvalidInput as `Printed` does."""
        cells = _cells(self.asked, run)
        values = {key: None if cell["suppressed"] else cell["true_value"] for key, cell in cells.items()}
        rows, cols = names(self.asked.rows), names(self.asked.cols)
        return Printed.of(rows, cols, values, self.asked.measure).file(self.form)


def _cells(asked: Suppressing, run: Running) -> Cells:
    """The cells of the table by the values of row and column, in its order, with what is not for publication.

    They are kept on the lane's connection until another table is asked for. Raises InvalidInput for more cells than a
    page is for.
    """
    query = asked.query(audit=True)
    if not _is_made(query, run):
        down, across = (_nodes(part, asked, run) for part in (asked.rows, asked.cols))
        if down * across > _MOST_CELLS:
            raise InvalidInput(
                f"The table has {down * across:,} cells, and the page shows tables of {_MOST_CELLS:,} at most: choose "
                "columns with fewer values, or call suppress in SQL."
            )
        run.rows(f"CREATE OR REPLACE TEMP TABLE {_MADE} AS\n{query}")
        run.rows(f"COMMENT ON TABLE {_MADE} IS {literal(query)}")
    columns = 'suppressed, status, true_value, "lower", "upper"'
    records = run.records(f"SELECT {_keys(asked)}, {columns} FROM {_MADE}")  # noqa: S608 - names of the catalog
    return {(_key(record["row"]), _key(record["col"])): record for record in records}


def _is_made(query: str, run: Running) -> bool:
    """Whether the lane's connection has the answer of this query already."""
    name = literal(_MADE.strip('"'))
    rows = run.rows(f"SELECT comment FROM duckdb_tables() WHERE temporary AND table_name = {name}")  # noqa: S608
    return rows == [(query,)]


def _nodes(columns: Sequence[Column], asked: Suppressing, run: Running) -> int:
    """How many rows or columns the table has: combinations of values at each level, and the total."""
    if not columns:
        return 1
    listed = ", ".join(column.sql for column in columns)
    ((count,),) = run.rows(f"SELECT count(*) FROM (SELECT 1 FROM {asked.table.sql} GROUP BY ROLLUP ({listed}))")  # noqa: S608
    return int(count)


def _keys(asked: Suppressing) -> str:
    """SQL for the level and the values of a cell's row and column."""

    def one(level: str, columns: Sequence[Column], name: str) -> str:
        values = ", ".join(f"{column.sql}::VARCHAR" for column in columns)
        return f"{{'level': {level}, 'values': [{values}]::VARCHAR[]}} AS {name}"

    return f"{one('row_level', asked.rows, 'row')}, {one('col_level', asked.cols, 'col')}"


def _key(place: Mapping[str, Any]) -> Key:
    """The values that identify a row or column, as many as its level."""
    return tuple(place["values"][: place["level"]])


def _order(keys: Iterable[Key]) -> list[Key]:
    """Each key once, as they come."""
    return list(dict.fromkeys(keys))


def _cost(value: Any, cost: str) -> float:
    """What suppressing a cell costs."""
    if cost == "log":
        return log1p(value)
    return float(value) if cost == "value" else 1.0


def _told(cell: Mapping[str, Any], cost: float, keyed: Any) -> list[Any]:
    """A cell for the page: see `Suppressed.answer`."""
    lower, upper = cell["lower"], cell["upper"]
    ends = None if lower is None or upper is None else [lower, None if isinf(upper) else upper]
    return [cell["status"], cell["true_value"], cost, keyed, ends]


def _perturbation(cells: Cells, keyed: Mapping[tuple[Key, Key], Any]) -> dict[str, Any]:
    """How many cells with records cell_key changes, and by how much on average and at most."""
    changes = [abs(keyed.get(at, 0) - cell["true_value"]) for at, cell in cells.items() if cell["true_value"] > 0]
    many = max(1, len(changes))
    return {
        "changed": sum(change > 0 for change in changes),
        "mean": float(sum(changes)) / many,
        "most": max(changes, default=0),
    }
