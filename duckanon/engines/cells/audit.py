"""What a table's exact conditional proportions and sample size disclose: from counts to bounds and totals of risk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from duckanon.engines.cells.knapsack import Feasible, Ints, knapsack
from duckanon.engines.cells.prior_knowledge import Fact, with_facts
from duckanon.engines.cells.reduction import Reduced, reduce
from duckanon.engines.cells.residues import residues
from duckanon.errors import DuckanonError, Infeasible, InvalidInput

# The most combinations of values: their number must fit DuckDB's widest integer.
MOST_PLACES = 10**38 - 1


@dataclass(frozen=True, eq=False)
class Audit:
    """Feasible multiples of each nonzero row: its cells can be the reduced counts times any of them, and nothing else.

    kind: int64 of shape (rows,), which of `feasible` holds the row's nu. offset: int64 of shape (rows,): a multiple
    of the row is offset + nu; offset is 1 without prior knowledge about the row.
    lower, upper, count: int64 of shape (rows,), smallest and largest multiple, and how many there are.
    """

    kind: Ints
    offset: Ints
    feasible: Feasible

    @property
    def lower(self) -> Ints:
        return self.offset + self.feasible.lower[self.kind]

    @property
    def upper(self) -> Ints:
        return self.offset + self.feasible.upper[self.kind]

    @property
    def count(self) -> Ints:
        return self.feasible.count[self.kind]


def audit(sums: Ints, target: int, facts: Sequence[Fact] = (), name: Callable[[int], str] = "row {}".format) -> Audit:
    """Bound every row by its reduced sum.

    sums: int64 of shape (rows,), r_i. target: N - R. facts, name: see `known`.
    Raises Infeasible if no table has these proportions, sample size and facts.
    """
    offset = np.ones(len(sums), dtype=np.int64)
    if facts:
        problem, kind, lower = with_facts(sums, target, facts, name)
        offset += np.array(lower, dtype=np.int64)
    else:
        problem, kinds = knapsack(sums, target)
        kind = kinds.astype(np.int64)
    feasible = residues(problem)
    if not feasible.count.all():
        raise Infeasible("No table has these proportions and this sample size: check n and the proportions.")
    return Audit(kind, offset, feasible)


def audit_table(table: Reduced, facts: Sequence[Fact] = (), name: Callable[[int], str] = "row {}".format) -> Audit:
    """Bound the rows of a table whose counts are known, and check that these lie within the bounds.

    Raises Infeasible as `audit`; DuckanonError if the facts are true and a true count lies outside of its bounds.
    """
    bounds = audit(table.sums, table.target, facts, name)
    outside = (bounds.lower > table.divisors) | (bounds.upper < table.divisors)
    if outside.any() and all(_holds(fact, table) for fact in facts):
        raise DuckanonError("cell_bounds lost a true count: this is a bug in duckanon, nothing was returned.")
    return bounds


def _holds(fact: Fact, table: Reduced) -> bool:
    """Whether the fact is true of the table."""
    true = fact.part * int(table.divisors[fact.row])
    return fact.lower <= true and (fact.upper is None or true <= fact.upper)


def report(rows: Ints, counts: Ints, small: int) -> dict[str, int]:
    """Totals of what is disclosed (Wright and Smucker 2014, Table 13).

    rows, counts: int64 of shape (cells,), each cell's row number and count.
    small: counts from 1 to small - 1 are small.
    Raises InvalidInput as `reduce`.
    """
    table = reduce(rows, counts)
    bounds = audit_table(table)
    disclosed = bounds.lower == bounds.upper
    # Rows of zeros are not among the table's rows.
    at = np.minimum(np.searchsorted(table.rows, rows), len(table.rows) - 1)
    exposed = (table.rows[at] == rows) & disclosed[at]
    return {
        "n": table.total,
        "nonzero_rows": len(table.rows),
        "unit_rows": int((table.sums == 1).sum()),
        "disclosed_rows": int(disclosed.sum()),
        "nonzero_cells": int((counts > 0).sum()),
        "disclosed_small_cells": int((exposed & (counts > 0) & (counts < small)).sum()),
        "reduced_total": table.reduced_total,
    }


def shape(measures: dict[str, int], row_levels: Sequence[int], col_levels: Sequence[int]) -> dict[str, int]:
    """How many rows, columns and zeros a table has, combinations without records included.

    measures: as `report` gives them. row_levels, col_levels: how many values each row and column variable has.
    Raises InvalidInput for more than MOST_PLACES combinations of values.
    """
    row_count, col_count = prod(row_levels), prod(col_levels)
    if row_count * col_count > MOST_PLACES:
        raise InvalidInput("There are more than 10^38 combinations of values: name fewer columns, or coarsen them.")
    nonzero = measures["nonzero_rows"]
    return {
        "row_count": row_count,
        "col_count": col_count,
        "zero_rows": row_count - nonzero,
        "zero_cells": nonzero * col_count - measures["nonzero_cells"],
    }
