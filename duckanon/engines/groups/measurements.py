"""What a mechanism computes from: noisy counts and public facts, never the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckanon.engines.groups.draws import variance
from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.isotonic_regression import Floats
from duckanon.engines.groups.queries import Query
from duckanon.engines.noise import Noise

# The most groups that a table may have, so that sums of counts and noise are exact in floats. A public constant.
MOST = 10**15


@dataclass(frozen=True, eq=False)
class Look:
    """A first measurement of the root, by which `Split.choose` chose. values: int64, with noise of this kind."""

    values: Ints
    noise: Noise


@dataclass(frozen=True, eq=False)
class Measurements:
    """Noisy values of one query at every level.

    values: one int64 array a level, root to leaves, shaped as the query makes them. noise: for each
    level one for each way of `Split`. ways: which of them, for each value of a row; zeros if there is one way. look: by
    which the ways were chosen, if there are several. totals: the number of groups of each region, one int64 array a
    level, where that is public; else None.
    """

    hierarchy: Hierarchy
    max_size: int
    query: Query
    values: tuple[Ints, ...]
    noise: tuple[tuple[Noise, ...], ...]
    ways: Ints
    totals: tuple[Ints, ...] | None
    look: Look | None = None

    @property
    def total(self) -> int | None:
        """G, the number of all groups, where it is public."""
        return None if self.totals is None else int(self.totals[0][0])

    def variances(self, level: int) -> Floats:
        """The variance of the noise on each value of a row."""
        return np.array([variance(noise) for noise in self.noise[level]])[self.ways]

    def histograms(self) -> tuple[Ints, ...]:
        """Noisy numbers of groups, (regions, max_size) a level: unbiased, neither consistent nor non-negative."""
        return tuple(self.histogram(level) for level in range(len(self.values)))

    def histogram(self, level: int) -> Ints:
        """As `histograms`, of one level."""
        return self.query.back(self.values[level], None if self.totals is None else self.totals[level])


@dataclass(frozen=True, eq=False)
class Estimate:
    """The result of a mechanism.

    leaves: int64 of shape (leaves, max_size); the levels above are its sums. intervals: the low and the high ends, one
    int64 array a level, of 95 % intervals, if the mechanism has a model for them.
    """

    leaves: Ints
    intervals: tuple[tuple[Ints, ...], tuple[Ints, ...]] | None = None
