"""Bounds from published exact proportions: they give the reduced counts, as an outsider would compute them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from duckanon.engines.cells.audit import audit
from duckanon.engines.cells.knapsack import LARGEST, Ints
from duckanon.engines.cells.rounded_proportions import CellBounds
from duckanon.errors import Infeasible, InvalidInput

# Different fractions with denominators up to this have different doubles.
MOST_FOR_DOUBLE = 94_906_265


def from_double(double: float, n: int) -> Fraction:
    """The only fraction with a denominator up to n <= MOST_FOR_DOUBLE that is this double.

    Raises InvalidInput if there is none.
    """
    fraction = Fraction(double).limit_denominator(n)
    if float(fraction) != double:
        raise InvalidInput(
            "A proportion is no fraction with a denominator up to n: if proportions were rounded, say to how many "
            "digits, as in digits := 3."
        )
    return fraction


def exact_bounds(
    rows: Ints, shares: Sequence[Fraction], n: int, name: Callable[[int], str] = "row {}".format
) -> CellBounds:
    """Bound every cell of a table of exact row proportions.

    rows: shape (cells,), row numbers from 0, ascending. shares: proportions, in lowest terms as Fractions are.
    n: the sample size. name: how to call a row in an error.
    Raises InvalidInput for rows that do not add up to 1, Infeasible if no table has these proportions.
    Source: Wright and Smucker 2014, section 2: the common denominator of a row is its reduced sum.
    """
    starts = np.flatnonzero(np.diff(rows, prepend=-1)).tolist()
    ends = [*starts[1:], len(rows)]
    sums = []
    for row, (begin, end) in enumerate(zip(starts, ends, strict=True)):
        if sum(shares[begin:end]) != 1:
            raise InvalidInput(
                f"The proportions of {name(row)} do not add up to 1: if they were rounded, say to how many digits, "
                "as in digits := 3."
            )
        sums.append(lcm(*(share.denominator for share in shares[begin:end])))
    total = sum(sums)
    if n < total:
        raise Infeasible(
            f"No table has these proportions: their reduced counts add up to {total} records, and n is {n}."
        )
    if n > LARGEST:
        raise InvalidInput("n is more than 10^18, which is more than cell bounds are made for.")
    bounds = audit(np.array(sums, dtype=np.int64), n - total)
    of = np.repeat(np.arange(len(sums)), [end - begin for begin, end in zip(starts, ends, strict=True)])
    reduced = np.array([int(share * sums[i]) for share, i in zip(shares, of.tolist(), strict=True)], dtype=np.int64)
    return CellBounds(
        reduced * bounds.lower[of],
        reduced * bounds.upper[of],
        np.where(reduced == 0, 1, bounds.count[of]),
    )
