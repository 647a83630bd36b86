"""How many records agree with each one where NULL agrees with every value, as sdcMicro counts them (`freqCalc`).

Which classes agree is not transitive: (a, b) and (c, b) do not, and (NULL, b) agrees with both. So classes are compared
by what both show: for each two patterns of NULLs by the columns that are NULL in neither.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.records import Codes
from duckanon.errors import InvalidInput

Sizes = npt.NDArray[np.int64]

# Values that are compared at most: 10 to 20 million a second. To compare two patterns costs as much as some values.
_MOST_STEPS, _PAIR = 500_000_000, 1_000


def agreeing(keys: Codes, sizes: Sizes) -> Sizes:
    """How many records agree with a record of each class, those of the class itself included. Shape (classes,).

    keys: the values of each class, shape (classes, columns), -1 for NULL; no two classes have the same. sizes: records
    of each class. Raises InvalidInput if there are too many patterns of NULLs.
    """
    patterns, pattern = np.unique(keys >= 0, axis=0, return_inverse=True)
    if len(patterns) * (keys.size + _PAIR * len(patterns)) > _MOST_STEPS:
        raise InvalidInput(
            f"NULLs stand in {len(patterns):,} combinations of the columns qi, too many to find out which of "
            f"{len(keys):,} classes agree: name fewer columns, or leave containment out."
        )
    members = np.split(np.argsort(pattern.ravel(), kind="stable"), np.cumsum(np.bincount(pattern.ravel()))[:-1])
    counts = sizes.copy()  # classes of one pattern differ
    for a in range(len(patterns)):
        for b in range(a):
            shared = np.flatnonzero(patterns[a] & patterns[b])
            number = _numbered(keys[np.ix_(np.concatenate([members[a], members[b]]), shared)])
            first, second = np.split(number, [len(members[a])])
            counts[members[a]] += _sums(second, sizes[members[b]], number)[first]
            counts[members[b]] += _sums(first, sizes[members[a]], number)[second]
    return counts


def _numbered(rows: Codes) -> npt.NDArray[np.int64]:
    """A number for each row, from 0 without gaps, the same for equal rows. rows: shape (n, columns)."""
    number = np.zeros(len(rows), np.int64)
    for column in rows.T:
        number = np.unique(number * (int(column.max()) + 1) + column, return_inverse=True)[1].ravel()
    return number


def _sums(number: npt.NDArray[np.int64], sizes: Sizes, all_numbers: npt.NDArray[np.int64]) -> Sizes:
    """The sizes that have each number, added up."""
    totals = np.zeros(int(all_numbers.max()) + 1, np.int64)
    np.add.at(totals, number, sizes)
    return totals
