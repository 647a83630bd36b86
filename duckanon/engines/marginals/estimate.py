"""One estimate of all tables from the noisy numbers of the measured marginals.

Each residual space is estimated from all measured marginals that contain it, weighted by their precisions. Measured
marginals are independent of each other, and so are the spaces within one. So this is the best linear unbiased estimate
of every table and of every linear function of one (Gauss and Markov), and tables that share attributes agree on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.marginals.plan import Plan
from duckanon.engines.marginals.residual_spaces import (
    Floats,
    Table,
    centred,
    precision_of,
    spread,
    summed,
    within,
)
from duckanon.errors import InvalidInput

# Floats hold the tables' sums to this, relative to the largest number in them.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Estimate:
    """All tables that follow from a plan's measured marginals.

    spaces: of each residual space, in records.
    """

    plan: Plan
    spaces: Mapping[Table, Floats]

    def marginal(self, table: Table) -> Floats:
        """The cells of a table, in records: float64 of the attributes' sizes.

        Rounding moves them by less than 1e-12 of the largest measured number.
        """
        if not self.plan.variances.answers(table):
            raise InvalidInput("This marginal does not follow from those that are measured.")
        cells = self._sum_of_spaces(table)
        for axis, at in enumerate(table):
            coarser = self._sum_of_spaces(tuple(other for other in table if other != at))
            largest = max(1.0, float(np.abs(cells).max()), float(np.abs(coarser).max()))
            if np.abs(cells.sum(axis=axis) - coarser).max() > _ROUNDING * largest * self.plan.workload.sizes[at]:
                raise AssertionError("Estimated marginals do not add up to each other: this is a bug in duckanon.")
        return cells

    def _sum_of_spaces(self, table: Table) -> Floats:
        sizes = self.plan.workload.sizes
        cells = np.zeros(self.plan.workload.shape(table))
        for space in within(table):
            cells += spread(sizes, table, space, self.spaces[space])
        return cells


def estimate(plan: Plan, noisy: Mapping[Table, NDArray[Any]]) -> Estimate:
    """The best linear unbiased estimate from the noisy numbers of the plan's measured marginals.

    noisy: whole numbers, of any size: parts of records, as `Workload` says. Their noise has the variance `Plan.noise`.
    """
    if set(noisy) != set(plan.measured):
        raise InvalidInput("Noisy numbers are needed of each measured marginal, and of no other.")
    workload, precisions = plan.workload, plan.variances.precisions
    spaces: dict[Table, Floats] = {}
    for table, variance in plan.measured.items():
        if noisy[table].shape != workload.shape(table):
            raise InvalidInput("The noisy numbers of a marginal must be one for each of its cells.")
        for space in within(table):
            share = float(precision_of(workload.sizes, table, space) / variance / precisions[space])
            sums = np.asarray(summed(noisy[table], table, space) / workload.whole(table), dtype=np.float64)
            spaces[space] = spaces.get(space, 0.0) + share * centred(sums)
    return Estimate(plan, spaces)
