"""From true group sizes to a private release: check the request, add noise, run the mechanism, check the result."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.groups.confidence_intervals import from_noise, guaranteed
from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.measurements import MOST, Estimate, Look, Measurements
from duckanon.engines.groups.methods import METHODS, Mechanism
from duckanon.engines.groups.queries import ABOVE, INNER, Privacy, Query, Unit
from duckanon.engines.groups.split import Split, as_asked, by_size
from duckanon.engines.randomness import Entropy, Source, check_scale, double_geometric
from duckanon.engines.registry import named
from duckanon.errors import DuckanonError, InvalidInput

Totals = Literal["public", "private"]
Intervals = Literal["guaranteed", "model"]
RELATIONS: dict[Totals, str] = {
    "public": "one person added to or removed from an existing group that keeps at least one; "
    "the number of groups of each region is public",
    "private": "one person added or removed, with whom a group may appear or vanish",
}


def relation(totals: Totals, *, unit: Unit = "record", contributions: int = 1) -> str:
    """The neighbouring tables in words, for the ledger: what is added or removed from one to the other."""
    if unit == "group":
        return f"one group added or removed, with all of its records, at most {contributions:,}"
    if contributions > 1:
        return (
            f"one unit added or removed, with at most {contributions:,} records; with them groups may appear or vanish"
        )
    return RELATIONS[totals]


@dataclass(frozen=True, eq=False)
class LevelRelease:
    """One level of a release: int64 of shape (regions, max_size); low <= groups <= high, a 95 % interval for each."""

    groups: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True, eq=False)
class Release:
    """A differentially private release. levels: one a level, from the root to the leaves. split: of epsilon."""

    levels: tuple[LevelRelease, ...]
    split: Split


def release(
    hierarchy: Hierarchy,
    groups: NDArray[np.int64],
    *,
    epsilon: Fraction,
    mechanism: str = "auto",
    totals: Totals = "public",
    split: tuple[Fraction, ...] | None = None,
    sensitivity: int = 1,
    contributions: int = 1,
    unit: Unit = "record",
    intervals: Intervals = "guaranteed",
    source: Source | None = None,
) -> Release:
    """Release how many groups of each size lie in each region, with epsilon-differential privacy.

    groups: int64 of shape (leaves, max_size); groups[r, s - 1] is the number of groups of size s in leaf region r.
    totals: whether the number of groups of each region is public (and then kept), or private. Neighbours: RELATIONS.
    split: positive shares of epsilon, one a level from the root to the leaves, that add up to one, alike for all sizes;
    None: equal ones or, for `auto`, chosen for each size (`split`).
    sensitivity: by how many sizes one record can move a group. contributions: how many records a privacy unit has at
    most. unit: 'record', its records lie in any groups; 'group', they are one whole group, in one leaf region. More
    than one record a unit, and groups as units, need private totals. What noise follows: `queries`.
    intervals: 'guaranteed' ones hold for any data; 'model' ones, of `auto` alone, assume that regions are
    like their parents.
    source: of randomness; None: the operating system.
    Raises InvalidInput for arguments that make no sense, before any noise is drawn; DuckanonError if a mechanism's
    result is inconsistent, not whole, negative, or does not keep the totals; nothing is released then.
    """
    return plan(
        hierarchy,
        groups,
        epsilon=epsilon,
        mechanism=mechanism,
        totals=totals,
        split=split,
        sensitivity=sensitivity,
        contributions=contributions,
        unit=unit,
        intervals=intervals,
    ).release(source)


def check(
    *,
    epsilon: Fraction,
    mechanism: str,
    totals: Totals,
    split: tuple[Fraction, ...] | None,
    depth: int,
    sensitivity: int = 1,
    contributions: int = 1,
    unit: Unit = "record",
    intervals: Intervals = "guaranteed",
) -> None:
    """Raises InvalidInput for whatever can be refused without the data, the number of levels being `depth`."""
    chosen = _mechanism(mechanism, totals)
    if sensitivity < 1:
        raise InvalidInput("One person must be able to move a group by at least one size: sensitivity >= 1.")
    _check_unit(totals, contributions, unit)
    if intervals not in ("guaranteed", "model"):
        raise InvalidInput("intervals must be 'guaranteed' or 'model'.")
    if intervals == "model" and not chosen.model:
        raise InvalidInput(f"{mechanism} has no model: its intervals are 'guaranteed'.")
    as_asked(epsilon, split, depth)


@dataclass(frozen=True, eq=False)
class Plan:
    """A release whose checks have all passed: it can be charged, and then drawn.

    groups: int64 of shape (leaves, max_size). query: what gets noise. split: of epsilon. distances: the sensitivity of
    the query at each level.
    """

    hierarchy: Hierarchy
    groups: Ints
    mechanism: str
    totals: Totals
    query: Query
    split: Split
    distances: tuple[int, ...]
    intervals: Intervals

    @property
    def scales(self) -> tuple[tuple[Fraction, ...], ...]:
        """The scales of the noise: for each level one for each way of the split."""
        return tuple(
            tuple(distance / way[level] for way in self.split.ways) for level, distance in enumerate(self.distances)
        )

    def _intervals(
        self, measured: Measurements, levels: tuple[Ints, ...], estimate: Estimate
    ) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
        if self.intervals == "model" and estimate.intervals:
            return estimate.intervals
        return guaranteed(measured, levels) if METHODS[self.mechanism].model else from_noise(measured, levels)

    def release(self, source: Source | None = None) -> Release:
        """Draw the noise and compute the release. source: of randomness; None: the operating system."""
        tree = self.hierarchy.ordered
        truth = tree.levels(self.groups[self.hierarchy.order[-1]])
        measured = self._measured(tree, truth, source or Entropy())
        estimate = METHODS[self.mechanism].run(measured)
        levels = tree.levels(estimate.leaves)
        _check(levels, measured)
        low, high = self._intervals(measured, levels, estimate)
        found = zip(self.hierarchy.order, levels, low, high, strict=True)
        return Release(tuple(LevelRelease(*_renumbered(order, *arrays)) for order, *arrays in found), self.split)

    def _measured(self, tree: Hierarchy, truth: tuple[Ints, ...], source: Source) -> Measurements:
        """Look at the root, if the split has a look, and then measure every level in the ways that this chose."""
        ways, look = np.zeros(self.query.of(truth[0]).shape[1], dtype=np.int64), None
        if self.split.look:
            look = look_at_root(truth[0], self.query, self.distances[0] / self.split.look, source)
            ways = self.split.choose(look.values, tree.sizes[-1], self.distances[0])
        return measure(tree, truth, self.query, self.scales, ways, look, self.totals == "public", source)


def plan(
    hierarchy: Hierarchy,
    groups: NDArray[np.int64],
    *,
    epsilon: Fraction,
    mechanism: str = "auto",
    totals: Totals = "public",
    split: tuple[Fraction, ...] | None = None,
    sensitivity: int = 1,
    contributions: int = 1,
    unit: Unit = "record",
    intervals: Intervals = "guaranteed",
) -> Plan:
    """Check everything that a release may be refused for, and divide epsilon. Arguments are those of `release`.

    Levels add up (sequential composition). The regions of a level are disjoint; the sensitivity is that of the whole
    level. A split by size is only for t_s, of which one record moves the same sizes at every level, and for records:
    where a group is the unit it moves all sizes up to its own. Refusals depend on the arguments and on the shape of
    `groups`, not on its contents, except for what no table of records can have: a number below zero, or more than 10^15
    groups.
    """
    check(
        epsilon=epsilon,
        mechanism=mechanism,
        totals=totals,
        split=split,
        depth=hierarchy.depth,
        sensitivity=sensitivity,
        contributions=contributions,
        unit=unit,
        intervals=intervals,
    )
    _check_groups(hierarchy, groups)
    sizes, privacy = groups.shape[1], Privacy(sensitivity, contributions, unit)
    query = METHODS[mechanism].query(totals == "public", privacy, sizes)
    distances = tuple(query.distance(privacy, regions, sizes) for regions in hierarchy.sizes)
    if METHODS[mechanism].by_size and split is None and unit == "record" and query in (ABOVE, INNER):
        divided = by_size(epsilon, hierarchy.depth, sizes - (query is INNER))
    else:
        divided = as_asked(epsilon, split, hierarchy.depth)
    planned = Plan(hierarchy, groups, mechanism, totals, query, divided, distances, intervals)
    widest = tuple(map(max, planned.scales))
    check_scale(max(widest))
    METHODS[mechanism].refuse(hierarchy.sizes, sizes, widest)
    return planned


def _renumbered(order: Ints, *arrays: Ints) -> tuple[Ints, ...]:
    """Rows back in the caller's numbering."""
    found = tuple(np.empty_like(array) for array in arrays)
    for into, array in zip(found, arrays, strict=True):
        into[order] = array
    return found


def look_at_root(root: Ints, query: Query, scale: Fraction, source: Source) -> Look:
    """The query of the root, with noise of this scale."""
    exact = query.of(root)
    return Look((exact + double_geometric(scale, exact.shape, source))[0], scale)


def measure(
    hierarchy: Hierarchy,
    truth: tuple[Ints, ...],
    query: Query,
    scales: tuple[tuple[Fraction, ...], ...],
    ways: Ints,
    look: Look | None,
    public: bool,
    source: Source,
) -> Measurements:
    """The query of every level, with noise on each of its values. Arguments as in `Measurements`."""
    values = []
    for level, of_ways in zip(truth, scales, strict=True):
        exact = query.of(level)
        if len(of_ways) == 1:
            values.append(exact + double_geometric(of_ways[0], exact.shape, source))
            continue
        for way in np.unique(ways):
            own = exact[:, ways == way]
            exact[:, ways == way] = own + double_geometric(of_ways[way], own.shape, source)
        values.append(exact)
    known = tuple(level.sum(axis=1) for level in truth) if public else None
    return Measurements(hierarchy, truth[0].shape[1], query, tuple(values), scales, ways, known, look)


def _mechanism(mechanism: str, totals: Totals) -> Mechanism:
    chosen = named(METHODS, mechanism, kind="mechanism")
    if totals not in RELATIONS:
        raise InvalidInput("totals must be 'public' or 'private'.")
    if totals == "private" and chosen.private is None:
        raise InvalidInput(f"{mechanism} needs totals := 'public'; with private totals take auto.")
    return chosen


def _check_unit(totals: Totals, contributions: int, unit: Unit) -> None:
    if unit not in ("record", "group"):
        raise InvalidInput("unit must be 'record' or 'group'.")
    if not 1 <= contributions <= MOST:
        raise InvalidInput("contributions must be 1 or more, and at most 10^15: how many records one unit may have.")
    if totals == "public" and unit == "group":
        raise InvalidInput("Where a whole group is to be protected its existence is private: take totals 'private'.")
    if totals == "public" and contributions > 1:
        raise InvalidInput("Where a unit may have several records the totals must be private: take totals 'private'.")


def _check_groups(hierarchy: Hierarchy, groups: Ints) -> None:
    if groups.dtype != np.int64 or groups.ndim != 2 or len(groups) != hierarchy.sizes[-1]:
        raise InvalidInput("groups must be an int64 array with one row for each region of the last level.")
    if groups.shape[1] < 1:
        raise InvalidInput("max_size must be at least 1.")
    if groups.min() < 0:
        raise InvalidInput("A number of groups must not be negative.")
    if groups.sum(dtype=np.float64) > MOST:
        raise InvalidInput("There are too many groups: at most 10^15.")


def _check(levels: tuple[Ints, ...], measured: Measurements) -> None:
    """Raises DuckanonError for a release that is inconsistent, negative, or does not keep the total."""
    whole = all(level.dtype == np.int64 and bool((level >= 0).all()) for level in levels)
    total = measured.total
    kept = total is None or all(int(level.sum()) == total for level in levels)
    if not (whole and kept and measured.hierarchy.consistent(levels)):
        raise DuckanonError("A release broke a sum or a sign: this is a bug in duckanon, nothing was released.")
