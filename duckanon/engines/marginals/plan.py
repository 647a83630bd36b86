"""Which marginals are measured, and how precisely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf

from duckanon.engines.marginals.residual_spaces import Table
from duckanon.engines.marginals.variances import Variances, combined
from duckanon.engines.marginals.workload import Workload

# What the noise of measured marginals costs, in zero-concentrated differential privacy.
Charges = Mapping[Table, Fraction]


@dataclass(frozen=True, eq=False)
class Plan:
    """Marginals with independent discrete Gaussian noise, from which all tables of a workload follow.

    measured: sigma^2 of the noise in each cell of a measured marginal, counted in records, for units of one record.
    gap: how much the plan's aim (the error at a charge, or the charge at an error) is at most above the least one that
    noise on the marginals of the workload and their margins allows, relatively; infinite where that is not known.
    """

    workload: Workload
    measured: Mapping[Table, Fraction]
    gap: float = inf

    @property
    def charges(self) -> Charges:
        """What the noise of each measured marginal costs, exactly."""
        return {table: 1 / (2 * variance) for table, variance in self.measured.items()}

    @cached_property
    def rho(self) -> Fraction:
        """What all noise together costs, exactly."""
        return sum(self.charges.values(), Fraction(0))

    def noise(self, table: Table, records: int = 1) -> Fraction:
        """sigma^2 of the noise that the whole numbers of a measured marginal get, for units of so many records."""
        return self.measured[table] * (records * self.workload.whole(table)) ** 2

    @cached_property
    def variances(self) -> Variances:
        """How far noise moves the tables that follow, and functions of them, for units of one record."""
        return combined(self.workload.sizes, self.measured)

    def variance(self, table: Table) -> Fraction:
        """The variance of each cell of a table that follows, for units of one record: at most that, exactly."""
        return self.variances.of_cell(table)

    @cached_property
    def error(self) -> Fraction:
        """The mean variance of all cells of the workload that count, each table with its weight, for one record."""
        of, cells = Fraction(0), Fraction(0)
        for table, weight in zip(self.workload.tables, self.workload.weights, strict=True):
            counted = weight * self.workload.counted(table)
            of, cells = of + counted * self.variance(table), cells + counted
        return of / cells
