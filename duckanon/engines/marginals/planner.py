"""Plans of a workload: the least error at a charge, or the least charge for an error.

Noise of variance sigma^2 on a marginal costs rho = 1 / (2 sigma^2), and all marginals of the workload and their margins
may be measured. The error of a table is a sum over its residual spaces of numbers by their precisions, and these are
linear in rho: a convex program (`least_charge`). In most plans only the largest marginals are measured.

Floats choose the plan. What it costs and promises is computed from the scales as they are, in fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, log10
from typing import Any

import numpy as np

from duckanon.engines.marginals.least_charge import least_precisions
from duckanon.engines.marginals.plan import Charges, Plan
from duckanon.engines.marginals.residual_spaces import Table, part_of_a_cell, precision_of, within
from duckanon.engines.marginals.workload import Workload
from duckanon.errors import InvalidInput

# Charges are multiples of a power of ten, so many digits below an equal share of the whole: so prices are decimals.
_DIGITS = 5


def plan(workload: Workload, rho: Fraction) -> Plan:
    """The least mean variance of the cells that count, each table with its weight, at a charge of at most rho."""
    if rho <= 0:
        raise InvalidInput("The charge for marginals must be above zero.")
    counted = [
        weight * workload.counted(table) for table, weight in zip(workload.tables, workload.weights, strict=True)
    ]
    whole = sum(counted, Fraction(0))
    errors = [{table: float(own / whole) for table, own in zip(workload.tables, counted, strict=True)}]
    charges, least = _least_charges(workload, errors)
    rounded = _measured(workload, _times(charges, rho / sum(charges.values())), floor)
    # Errors are proportional to the inverse of the charge, and 1 at the charge `least`.
    return Plan(workload, rounded.measured, max(0.0, float(rounded.error * rho) / least - 1))


def plan_within(workload: Workload, variances: Sequence[Fraction]) -> Plan:
    """The least charge for which no cell's variance is above what is given for its table, for units of one record.

    variances: for each table of the workload, above zero. Weights do not matter.
    """
    if len(variances) != len(workload.tables) or min(variances) <= 0:
        raise InvalidInput("Each marginal needs one variance that is allowed, which is above zero.")
    allowed = dict(zip(workload.tables, variances, strict=True))
    charges, least = _least_charges(workload, [{table: 1 / float(most)} for table, most in allowed.items()])
    rounded = _measured(workload, charges, ceil)
    over = max(rounded.variance(table) / most for table, most in allowed.items())
    if over > 1:
        rounded = _measured(workload, _times(rounded.charges, over), ceil)
    return Plan(workload, rounded.measured, max(0.0, float(rounded.rho) / least - 1))


def _least_charges(workload: Workload, errors: Iterable[Mapping[Table, float]]) -> tuple[Charges, float]:
    """The charges of least sum for which each error is at most 1, and a sum that no charges can be below.

    errors: each a sum of the variances of tables' cells, by their weights. Floats: they are met up to rounding.
    """
    least = least_precisions(_precisions(workload), _of_spaces(workload, errors))
    charges = {
        table: Fraction(float(x)) / 2 for table, x in zip(workload.spaces, least.of_marginals, strict=True) if x > 0
    }
    return charges, float(least.of_marginals.sum()) / 2 / (1 + least.gap)


def _measured(workload: Workload, charges: Charges, rounded: Any) -> Plan:
    """The plan with these charges, rounded to multiples of a power of ten, so that their sum is a short decimal."""
    step = Fraction(10) ** (floor(log10(sum(charges.values()) / len(charges))) - _DIGITS)
    multiples = {table: rounded(charge / step) for table, charge in charges.items()}
    return Plan(workload, {table: 1 / (2 * step * multiple) for table, multiple in multiples.items() if multiple})


def _times(charges: Charges, factor: Fraction) -> Charges:
    return {table: charge * factor for table, charge in charges.items()}


def _precisions(workload: Workload) -> Any:
    """The sparse matrix whose columns are marginals with noise of variance 1, and whose rows the spaces' precisions."""
    at = {space: position for position, space in enumerate(workload.spaces)}
    entries = [
        (float(precision_of(workload.sizes, table, space)), at[space], column)
        for column, table in enumerate(workload.spaces)
        for space in within(table)
    ]
    return _sparse(entries, (len(at), len(at)))


def _of_spaces(workload: Workload, errors: Iterable[Mapping[Table, float]]) -> Any:
    """The sparse matrix whose rows are errors, and whose columns what a space of variance 1 adds to each."""
    at = {space: position for position, space in enumerate(workload.spaces)}
    rows = list(errors)
    entries = [
        (weight * float(part_of_a_cell(workload.sizes, table, space)), row, at[space])
        for row, error in enumerate(rows)
        for table, weight in error.items()
        for space in within(table)
    ]
    return _sparse(entries, (len(rows), len(at)))


def _sparse(entries: Sequence[tuple[float, int, int]], shape: tuple[int, int]) -> Any:
    """A sparse matrix of values, rows and columns. Entries at the same place add up."""
    from scipy.sparse import csr_matrix

    numbers, rows, columns = (np.array(entry_part) for entry_part in zip(*entries, strict=True))
    return csr_matrix((numbers, (rows, columns)), shape=shape)
