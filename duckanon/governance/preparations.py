"""What a steward prepared: marginals of a protected table that were bought at once, as the ledger records them.

That something is prepared, of what, and with how much noise, is public. What was measured is a table of its own in the
schema `duckanon`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cached_property
from math import floor, prod, sqrt
from typing import TYPE_CHECKING, Any

from duckanon.accounting import written
from duckanon.governance.locations import Location

if TYPE_CHECKING:
    from duckanon.engines.marginals.plan import Plan
    from duckanon.engines.marginals.workload import Workload

# Attributes as their positions, in order: what a table is by.
Table = tuple[int, ...]
# Of a column of numbers: what a record adds to its least value, to its largest, and whether it has none.
OF_NUMBER = 3


@dataclass(frozen=True)
class PreparedNumber:
    """A column of numbers, clamped and rounded to steps, as `duckanon.releases.measures.Number` has it."""

    column: str
    low: str
    step: str
    steps: int


@dataclass(frozen=True)
class Design:
    """What is prepared. Attributes are the keys, and then the numbers; a table has one number at most.

    keys: columns with domains, as stored. sizes: of these domains. tables: those that were asked for. measured: those
    that got noise, and its variance in records, whole numbers of which a record adds to. looked_up: of columns that
    are looked up for each record, what their values depend on, as a hash. complete: the keys of whose domains no
    record's value lies outside, by the column's type: they have no cell for that.
    """

    keys: tuple[str, ...]
    sizes: tuple[int, ...]
    numbers: tuple[PreparedNumber, ...]
    tables: tuple[Table, ...]
    measured: Mapping[Table, Fraction]
    looked_up: Mapping[str, str] = field(default_factory=dict)
    complete: frozenset[str] = frozenset()

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The cells of each attribute: of a key its domain's values and one for all others, if there can be others."""
        keys = zip(self.keys, self.sizes, strict=True)
        return (*(size + (name not in self.complete) for name, size in keys), *(OF_NUMBER for _ in self.numbers))

    def outside(self, table: Table) -> list[str]:
        """The keys of which a table has a cell that is not told: for values outside of their domains."""
        return [self.keys[at] for at in table if at < len(self.keys) and self.keys[at] not in self.complete]

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the attributes."""
        return (*self.keys, *(number.column for number in self.numbers))

    def number(self, table: Table) -> PreparedNumber | None:
        """The number of a table, if it has one."""
        return next((self.numbers[at - len(self.keys)] for at in table if at >= len(self.keys)), None)

    @cached_property
    def workload(self) -> Workload:
        """As it is planned and estimated: the cells of values outside are measured, and no error is looked at there."""
        from duckanon.engines.marginals.workload import Workload

        parts = [1 for _ in self.keys] + [number.steps for number in self.numbers]
        inside = [*self.sizes] + [OF_NUMBER - 1 for _ in self.numbers]
        return Workload(self.shape, self.tables, (Fraction(1),) * len(self.tables), tuple(inside), tuple(parts))

    @cached_property
    def plan(self) -> Plan:
        """What is measured, for units of one record."""
        from duckanon.engines.marginals.plan import Plan

        return Plan(self.workload, self.measured)

    def cells(self, table: Table) -> int:
        """How many combinations of keys a table has."""
        return prod(self.sizes[at] for at in table if at < len(self.keys))

    def variance(
        self,
        table: Table,
        rows: int,
        added_up: tuple[int, Sequence[Fraction]] | None = None,
        ends: tuple[Fraction, Fraction] | None = None,
    ) -> Fraction:
        """Of the number of records of a cell; of a table with a number, of the sum in a cell.

        added_up: the place in the table of a key whose values are added up as numbers, and these values. ends: what is
        added up for the number's least and largest value, if it is not these themselves.
        """
        number = self.number(table)
        if number is None and added_up is None:
            return self.plan.variance(table) * rows**2
        factors = [[Fraction(int(cell == 0)) for cell in range(self.shape[at])] for at in table]
        if number is not None:
            low, step = Fraction(number.low), Fraction(number.step)
            factors[-1] = [*(ends or (low, low + number.steps * step)), Fraction(0)]
        if added_up is not None:
            axis, values = added_up
            factors[axis] = [*values, *[Fraction(0)] * (self.shape[table[axis]] - len(values))]
        return self.plan.variances.of_product(table, factors) * rows**2

    def error(self, table: Table, rows: int) -> tuple[float, float]:
        """The standard deviation of a cell's number, as in `variance`, and how far 95 % are from the truth at most."""
        from duckanon.engines.marginals.intervals import half_width

        variance, factor = float(self.variance(table, rows)), self.factor(rows)
        if self.number(table) is None:
            return sqrt(variance), floor(half_width(variance, factor, is_whole=self.is_whole) + 0.5)
        return sqrt(variance), half_width(variance, factor, is_whole=False)

    def factor(self, rows: int) -> float:
        """How many standard deviations 95 % of what follows are from the truth at most."""
        from duckanon.engines.marginals.intervals import factor

        return factor(float(min(self.plan.noise(table, rows) for table in self.measured)))

    def rows(self, rows: int) -> list[dict[str, Any]]:
        """The tables with their errors, as prepare and prepared show them. rows: that count of a unit."""
        values = []
        for table in self.tables:
            sd, within = self.error(table, rows)
            columns = [self.columns[at] for at in table]
            told = {"columns": columns, "cells": self.cells(table), "outside": self.outside(table)}
            values.append({**told, "sd": sd, "within": within})
        return values

    @property
    def is_whole(self) -> bool:
        """Whether all sums of cells that follow are whole numbers: those of one table of counts."""
        (first, *others) = self.measured
        return not others and self.number(first) is None

    def dump(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "keys": self.keys,
            "sizes": self.sizes,
            "numbers": [[number.column, number.low, number.step, number.steps] for number in self.numbers],
            "tables": self.tables,
            "measured": [[table, written(variance)] for table, variance in self.measured.items()],
            **({"looked_up": dict(self.looked_up)} if self.looked_up else {}),
            **({"complete": sorted(self.complete)} if self.complete else {}),
        }

    @staticmethod
    def load(found: Mapping[str, Any]) -> Design:
        """What `dump` wrote."""
        return Design(
            tuple(found["keys"]),
            tuple(found["sizes"]),
            tuple(PreparedNumber(*value) for value in found["numbers"]),
            tuple(map(tuple, found["tables"])),
            {tuple(table): Fraction(variance) for table, variance in found["measured"]},
            found.get("looked_up", {}),
            frozenset(found.get("complete", ())),
        )


@dataclass(frozen=True)
class Preparation:
    """A preparation that was charged. key: of its measurements. version, edition: of the policy and the population.

    rows: how many records of a unit count. day: on which it was charged. number: of the ledger's line.
    """

    key: str
    of: Location
    version: int
    edition: int
    rows: int
    design: Design
    day: date
    number: int


def detail(version: int, rows: int, design: Design) -> dict[str, Any]:
    """What the ledger's line of a preparation has besides, for JSON."""
    return {"prepared": {"version": version, "rows": rows, **design.dump()}}


def recorded(line: Any) -> Preparation:
    """The preparation that a line of the ledger charged."""
    found = line.details["prepared"]
    return Preparation(
        line.release,
        line.location,
        found["version"],
        line.edition,
        found["rows"],
        Design.load(found),
        line.recorded_at.date(),
        line.number,
    )
