"""Bounds from a set of tables the slow and obvious way: every table is listed. A twin to test against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from duckanon.engines.tables.released import Exact, Released, counts, shares

Cell = tuple[int, ...]
Table = dict[Cell, int]


@dataclass(frozen=True)
class Publication:
    """A table as an agency prints it: cells with their values, None where one is suppressed.

    kind: 'counts' or 'shares'. to: base or digits; None for exact values. complete, shown: as in Released.
    """

    name: str
    kind: str
    variables: tuple[int, ...]
    given: tuple[int, ...]
    to: int | None
    ties: str
    complete: bool
    shown: bool
    cells: dict[Cell, Exact | None]

    @property
    def scope(self) -> tuple[int, ...]:
        return self.given + self.variables

    def released(self) -> Released:
        codes, values = list(self.cells), list(self.cells.values())
        if self.kind == "counts":
            return counts(
                self.name, self.variables, codes, values, base=self.to, complete=self.complete, shown=self.shown
            )
        return shares(
            self.name,
            self.variables,
            self.given,
            codes,
            values,
            digits=self.to,
            ties=self.ties,
            complete=self.complete,
            shown=self.shown,
        )

    def agrees(self, table: Table) -> bool:
        """Whether these records may have led to this publication."""
        found = margin(table, self.scope)
        rows = margin(table, self.given)
        if self.complete and any(count and cell not in self.cells for cell, count in found.items()):
            return False
        for cell, value in self.cells.items():
            count = found.get(cell, 0)
            if self.shown and not count:
                return False
            if self.kind == "counts":
                if value is not None and not near(Fraction(count), Fraction(value), self.to, "any"):
                    return False
                continue
            row = rows.get(cell[: len(self.given)], 0)
            if not row:
                return False
            if value is not None:
                step = None if self.to is None else Fraction(1, 10**self.to)
                if not near(Fraction(count, row), Fraction(value), step, self.ties):
                    return False
        return True


def near(exact: Fraction, printed: Fraction, step: int | Fraction | None, ties: str) -> bool:
    """Whether `exact`, rounded to a multiple of step, may be printed so."""
    if step is None:
        return exact == printed
    if 2 * abs(exact - printed) != step:
        return 2 * abs(exact - printed) < step
    up = printed > exact
    even = (printed / step) % 2 == 0
    return {"any": True, "up": up, "down": not up, "even": even, "none": False}[ties]


def rounded(exact: Fraction, step: int | Fraction | None) -> Fraction:
    """The nearest multiple of step, halves up."""
    return exact if step is None else Fraction((exact / step + Fraction(1, 2)) // 1 * step)


def margin(table: Table, variables: Sequence[int]) -> Table:
    found: Table = {}
    for cell, count in table.items():
        part = tuple(cell[v] for v in variables)
        found[part] = found.get(part, 0) + count
    return found


def tables(levels: Sequence[int], total: int) -> Iterator[Table]:
    """Every table with so many records."""
    cells = list(product(*map(range, levels)))
    for split in compositions(total, len(cells)):
        yield dict(zip(cells, split, strict=True))


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def bounds(
    levels: Sequence[int], published: Sequence[Publication], totals: Sequence[int], target: Sequence[int]
) -> dict[Cell, tuple[int, int]]:
    """Least and largest count of each target cell over all tables that agree with everything; empty if none does."""
    found: dict[Cell, tuple[int, int]] = {}
    for total in totals:
        for table in tables(levels, total):
            if all(one.agrees(table) for one in published):
                for cell, count in margin(table, target).items():
                    low, high = found.get(cell, (count, count))
                    found[cell] = (min(low, count), max(high, count))
    return found
