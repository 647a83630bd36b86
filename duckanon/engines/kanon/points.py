"""Records with equal quasi-identifiers: how they are found, and how many of them a search has to look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Order, Records


def runs(records: Records) -> npt.NDArray[np.int32]:
    """Where each run of equal records starts, and the number of records at the end. Shape (runs + 1,).

    Over records in an order that keeps equal ones together, a run is a distinct point.
    """
    n = len(records)
    fresh = np.zeros(n, dtype=bool)
    fresh[0] = True
    for a in records.attributes:
        fresh[1:] |= a.codes[1:] != a.codes[:-1]
    return np.append(np.flatnonzero(fresh), n).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Core:
    """The records a search has to look at, and classes of equal records, which lose nothing and are left out of the
    search.

    core: numbers of the records in play, ascending. aside: numbers of the others, run by run, and `labels` their
    classes from 0.
    """

    core: Order
    aside: Order
    labels: Labels

    def join(self, labels: Labels) -> Labels:
        """Labels of all records, from labels of the core, shape (core,), that number its classes from 0."""
        joined = np.empty(len(self.core) + len(self.aside), dtype=np.int32)
        joined[self.core] = labels
        joined[self.aside] = self.labels + int(labels.max()) + 1
        return joined


def core(records: Records, k: int) -> Core:
    """Leave 3k - 1 records in play of each point that has 4k - 1 or more; the rest of it is a class that loses nothing.

    records: in canonical order.
    """
    starts = runs(records)
    copies = np.diff(starts)
    spare = np.where(copies >= 4 * k - 1, copies - (3 * k - 1), 0)
    apart = np.zeros(len(records), dtype=bool)
    ends = starts[1:]
    for run in np.flatnonzero(spare):
        apart[ends[run] - spare[run] : ends[run]] = True
    spared = spare[spare > 0]
    return Core(
        np.flatnonzero(~apart).astype(np.int32),
        np.flatnonzero(apart).astype(np.int32),
        np.repeat(np.arange(len(spared), dtype=np.int32), spared),
    )
