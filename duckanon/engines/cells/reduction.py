"""From counts to reduced counts, sums and totals (section 2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.cells.knapsack import LARGEST, Ints
from duckanon.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Reduced:
    """The nonzero rows of a table, in the order of their numbers.

    rows: int64 of shape (nonzero rows,), each row's number.
    divisors: d_i, the greatest common divisor of the row's counts.
    sums: r_i = o_i / d_i, the reduced sum.
    total: N, the sample size; reduced_total: R, the sum of `sums`; zero_rows: rows given that hold only zeros.
    """

    rows: Ints
    divisors: Ints
    sums: Ints
    total: int
    reduced_total: int
    zero_rows: int

    @property
    def target(self) -> int:
        """N - R: what the rows' multiples, beyond the first of each, must add up to."""
        return self.total - self.reduced_total


def reduce(rows: npt.ArrayLike, counts: npt.ArrayLike) -> Reduced:
    """Reduce a table given as cells; cells that are not given are zero.

    rows: shape (cells,), each cell's row number. counts: shape (cells,), integers.
    Raises InvalidInput for no cells, negative counts, no count above zero and a total above 10^18.
    Source: Wright and Smucker 2014, section 2.
    """
    row, count = np.asarray(rows, dtype=np.int64), np.asarray(counts, dtype=np.int64)
    if not len(row):
        raise InvalidInput("The table has no rows: there is nothing to bound.")
    if count.min() < 0:
        raise InvalidInput("A count is negative: counts of records are zero or more.")
    # In floats first, because the sum of the integers may overflow.
    if float(count.astype(np.float64).sum()) > 1.1 * LARGEST or (total := int(count.sum())) > LARGEST:
        raise InvalidInput("The counts add up to more than 10^18, which is more than cell bounds are made for.")
    if total == 0:
        raise InvalidInput("All counts are zero: a table without records has no proportions.")
    if (np.diff(row) < 0).any():
        order = np.argsort(row, kind="stable")
        row, count = row[order], count[order]
    starts = np.flatnonzero(np.diff(row, prepend=row[0] - 1))
    sums = np.add.reduceat(count, starts)
    divisors = np.gcd.reduceat(count, starts)
    some = sums > 0
    reduced = sums[some] // divisors[some]
    return Reduced(
        row[starts][some],
        divisors[some],
        reduced,
        total,
        int(reduced.sum()),
        int((~some).sum()),
    )
