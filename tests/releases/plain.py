"""What a paid question counts, in plain Python: slow, and without a line in common with what it tests."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import duckdb
import numpy as np

Record = dict[str, Any]
Cell = tuple[Any, ...]


Typed = tuple[object, str]
"""A value, and its type in DuckDB."""


def in_order(unit: Typed, rows: Sequence[tuple[Typed, ...]]) -> list[int]:
    """The positions of a unit's records in the order in which they count. rows: all that each adds, and its cell."""
    seen: Counter[tuple[Typed, ...]] = Counter()
    places = []
    for at, row in enumerate(rows):
        seen[row] += 1
        places.append((_hashed(unit, *row, (seen[row], "BIGINT")), at))
    return [at for _, at in sorted(places)]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@cache
def _hashed(*values: Typed) -> int:
    """DuckDB's hash of its hash of these values, by which the records of a unit are put in order."""
    marks = ", ".join(f"CAST(? AS {kind})" for _, kind in values)
    return int(_connection().execute(f"SELECT hash(hash({marks}))", [value for value, _ in values]).fetchall()[0][0])


@dataclass
class Counted:
    """A question about records with the columns unit, group and keys. Domains are lists of rows by column.

    kept, events: conditions. unit, group: columns; None for no such thing. most: how many records of a unit count.
    """

    keys: Sequence[str]
    domains: Sequence[list[Record]]
    kept: Callable[[Record], bool | None]
    events: Sequence[Callable[[Record], bool | None]] = ()
    unit: str | None = None
    group: str | None = None
    most: int = 1
    distinct: bool = False
    max_size: int = 0

    def cells(self) -> list[Cell]:
        """Every combination that all domains allow, in order, NULL last."""
        found = set()
        for rows in product(*self.domains):
            merged: Record = {}
            if all(merged.setdefault(name, value) == value for row in rows for name, value in row.items()):
                found.add(tuple(merged[one] for one in self.keys))
        ordered = sorted(found, key=lambda cell: [(one is None, one if one is not None else 0) for one in cell])
        return [(*cell, *flags) for cell in ordered for flags in product((0, 1), repeat=len(self.events))]

    def placed(self, records: Sequence[Record]) -> list[tuple[Record, int]]:
        """The records that count before contribution is bounded, each with the number of its cell."""
        number = {cell: at for at, cell in enumerate(self.cells())}
        found = []
        for one in records:
            cell = (*(one[key] for key in self.keys), *(0 if event(one) is True else 1 for event in self.events))
            if self.kept(one) is not True or cell not in number:
                continue
            if any(column is not None and one[column] is None for column in (self.unit, self.group)):
                continue
            found.append((one, number[cell]))
        return found

    def bounded(self, records: Sequence[Record]) -> list[tuple[Record, int]]:
        """The first records of each unit, in an order that its own records decide."""
        placed = self.placed(records)
        if self.unit is None:
            return placed
        own: dict[Any, list[tuple[Record, int]]] = defaultdict(list)
        for one in placed:
            own[one[0][self.unit]].append(one)

        return [mine[at] for unit, mine in own.items() for at in self._in_order(unit, mine)[: self.most]]

    def _in_order(self, unit: Any, placed: Sequence[tuple[Record, int]]) -> list[int]:
        rows = []
        for record, cell in placed:
            group = () if self.group is None else ((record[self.group], "INTEGER"), (1, "INTEGER"))
            rows.append(((cell, "BIGINT"), *group))
        return in_order((unit, "INTEGER"), rows)

    def counts(self, records: Sequence[Record]) -> list[int]:
        counted = [0] * len(self.cells())
        whole = self.distinct and not self.keys and not self.events
        bounded = self.placed(records) if whole else self.bounded(records)
        if not self.distinct:
            for _, cell in bounded:
                counted[cell] += 1
            return counted
        for _, cell in {(record[self.unit or ""], cell) for record, cell in bounded}:
            counted[cell] += 1
        return counted

    def sizes(self, records: Sequence[Record]) -> np.ndarray:
        """How many groups of each size there are in each leaf region."""
        assert self.group is not None
        largest = self.max_size
        if self.unit == self.group:
            largest = min(largest, self.most)
            own: dict[Any, list[tuple[Record, int]]] = defaultdict(list)
            for one in self.placed(records):
                own[one[0][self.group]].append(one)
            homes = {unit: mine[self._in_order(unit, mine)[0]][1] for unit, mine in own.items()}
            bounded = [(record, cell) for unit, mine in own.items() for record, cell in mine if cell == homes[unit]]
        else:
            bounded = self.bounded(records)
        groups: dict[tuple[Any, int], int] = defaultdict(int)
        for record, cell in bounded:
            groups[record[self.group], cell] += 1
        found = np.zeros((len(self.cells()), self.max_size), dtype=np.int64)
        for (_, cell), size in groups.items():
            found[cell, min(size, largest) - 1] += 1
        return found
