"""Linear equations and inequalities in whole numbers, and what follows from them by propagation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.tables.cells import Ints
from duckanon.engines.tables.released import UNBOUNDED
from duckanon.errors import InvalidInput

# Sweeps of propagation: bounds are valid after any number of them.
_SWEEPS = 200
# Every sum that propagation may form stays below it.
_LARGEST = 2**61


@dataclass(frozen=True, eq=False)
class System:
    """All whole x with lower <= x <= upper whose rows lie between their ends.

    start: int64 of shape (rows + 1,), where each row's terms begin. column, coefficient: int64 of shape (terms,).
    least, most: int64 of shape (rows,), -UNBOUNDED and UNBOUNDED for none. lower, upper: int64 of shape (columns,).
    """

    start: Ints
    column: Ints
    coefficient: Ints
    least: Ints
    most: Ints
    lower: Ints
    upper: Ints

    @property
    def rows(self) -> int:
        return len(self.least)

    @property
    def columns(self) -> int:
        return len(self.lower)

    def row_of_terms(self) -> Ints:
        return np.repeat(np.arange(self.rows), np.diff(self.start))

    def activity(self, x: Ints) -> Ints:
        """The value of each row."""
        return _sums(self.coefficient * x[self.column], self.start)

    def holds(self, x: Ints) -> bool:
        """Whether x is a solution, in whole numbers."""
        rows = self.activity(x)
        return bool(
            (x >= self.lower).all()
            and (x <= self.upper).all()
            and (rows >= self.least).all()
            and (rows <= self.most).all()
        )


def _sums(terms: Ints, start: Ints) -> Ints:
    running = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(terms)])
    return np.asarray(running[start[1:]] - running[start[:-1]])


@dataclass
class Builder:
    """Collects columns and rows of a system."""

    _lower: list[Ints] = field(default_factory=list)
    _upper: list[Ints] = field(default_factory=list)
    _terms: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    _least: list[Ints] = field(default_factory=list)
    _most: list[Ints] = field(default_factory=list)
    columns: int = 0
    rows: int = 0

    def add_columns(self, count: int, lower: int | Ints = 0, upper: int | Ints = UNBOUNDED) -> Ints:
        """New columns; returns their positions."""
        self._lower.append(np.broadcast_to(np.asarray(lower, dtype=np.int64), count))
        self._upper.append(np.broadcast_to(np.asarray(upper, dtype=np.int64), count))
        self.columns += count
        return np.arange(self.columns - count, self.columns)

    def add_rows(self, parts: list[tuple[Ints, Ints, Ints]], least: Ints, most: Ints) -> None:
        """New rows. parts: terms as (row from 0, column, coefficient), each of shape (terms,); equal places add up."""
        for row, column, coefficient in parts:
            self._terms.append(
                (row + self.rows, column, np.broadcast_to(np.asarray(coefficient, dtype=np.int64), len(row)))
            )
        self._least.append(np.broadcast_to(least, len(least)))
        self._most.append(most)
        self.rows += len(least)

    def build(self, total: int) -> System:
        """The system, each column at most `total`. Raises InvalidInput where whole numbers would not fit 64 bits."""
        row, column, coefficient = (np.concatenate([term[k] for term in self._terms]) for k in range(3))
        order = np.lexsort((column, row))
        row, column, coefficient = row[order], column[order], coefficient[order]
        first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(column, prepend=-1) != 0))
        coefficient = np.add.reduceat(coefficient, first) if len(first) else coefficient
        row, column = row[first], column[first]
        start = np.searchsorted(row, np.arange(self.rows + 1))
        lower = np.concatenate(self._lower)
        upper = np.minimum(np.concatenate(self._upper), total)
        reach = np.bincount(row, weights=np.abs(coefficient).astype(float), minlength=self.rows) * float(max(total, 1))
        if reach.max(initial=0) >= _LARGEST:
            raise InvalidInput(
                "The number of records times the digits of the shares is too large for these tables together: bound "
                "one table at a time, or give fewer digits."
            )
        least, most = np.concatenate(self._least), np.concatenate(self._most)
        return System(start.astype(np.int64), column, coefficient, least, most, lower, upper)


@compiled
def _propagate(
    start: Ints, column: Ints, coefficient: Ints, least: Ints, most: Ints, lower: Ints, upper: Ints, sweeps: int
) -> bool:
    """Narrow lower and upper until nothing changes; whether no column is left without a value."""
    for _ in range(sweeps):
        changed = False
        for r in range(len(least)):
            low = high = 0
            for k in range(start[r], start[r + 1]):
                j, v = column[k], coefficient[k]
                if v > 0:
                    low += v * lower[j]
                    high += v * upper[j]
                else:
                    low += v * upper[j]
                    high += v * lower[j]
            if low > most[r] or high < least[r]:
                return False
            if low >= least[r] and high <= most[r]:
                continue
            for k in range(start[r], start[r + 1]):
                j, v = column[k], coefficient[k]
                size = abs(v)
                # What the column's part may be beyond its least, and short of its most.
                width = size * (upper[j] - lower[j])
                beyond, short = most[r] - low, high - least[r]
                if beyond < 0 or short < 0:
                    return False
                if beyond < width:
                    if v > 0:
                        upper[j] = lower[j] + beyond // size
                    else:
                        lower[j] = upper[j] - beyond // size
                    changed = True
                    high -= width - size * (upper[j] - lower[j])
                    width = size * (upper[j] - lower[j])
                    short = high - least[r]
                    if short < 0:
                        return False
                if short < width:
                    before = size * (upper[j] - lower[j])
                    if v > 0:
                        lower[j] = upper[j] - short // size
                    else:
                        upper[j] = lower[j] + short // size
                    changed = True
                    low += before - size * (upper[j] - lower[j])
        if not changed:
            return True
    return True


def propagate(system: System, lower: Ints, upper: Ints) -> bool:
    """Narrow the bounds in place by each row in turn (feasibility-based bound tightening), in whole numbers.

    Returns False if no solution is left.
    """
    return bool((lower <= upper).all()) and _propagate(
        system.start, system.column, system.coefficient, system.least, system.most, lower, upper, _SWEEPS
    )
