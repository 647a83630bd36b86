"""Which of several records with equal quasi-identifiers goes into which class.

A method sees them as interchangeable, yet their other columns differ, so the choice must not depend on the order in
which they were stored. It must not follow a sensitive column either: dealt out in sorted order, equal values would
fill a class of their own. So tied records are ranked by a hash of their content and dealt out by a fixed shuffle of
the ranks.
"""

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Order, Records

Hashes = npt.NDArray[np.uint64]


def shuffled(ranks: npt.NDArray[np.int64]) -> Hashes:
    """A fixed bijection of 64-bit numbers that leaves no order (the finaliser of SplitMix64)."""
    x = ranks.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def settle(records: Records, order: Order, labels: Labels, content: Hashes) -> Order:
    """Rearrange `order` within runs of equal records that span several classes.

    records: in canonical order. order: shape (n,), the input row at each canonical position. labels: shape (n,), by
    canonical position. content: shape (n,), a hash of each input row's full content.
    Returns the order in which the input row at each position takes that position's label.
    """
    n = len(records)
    same = np.ones(n, dtype=bool)
    same[0] = False
    for a in records.attributes:
        same[1:] &= a.codes[1:] == a.codes[:-1]
    group = np.cumsum(~same) - 1
    torn = np.zeros(group[-1] + 1, dtype=bool)
    torn[group[1:][same[1:] & (labels[1:] != labels[:-1])]] = True
    at = np.flatnonzero(torn[group])
    if len(at) == 0:
        return order
    rows, groups = order[at], group[at]
    ranked = np.lexsort((content[rows], groups))
    first = np.searchsorted(groups, groups, side="left")
    dealt = np.lexsort((shuffled(np.arange(len(at)) - first), groups))
    settled = order.copy()
    settled[at] = rows[ranked][dealt]
    return settled
