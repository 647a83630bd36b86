"""From true group sizes to a private release: check the request, add noise, run the mechanism, check the result."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.groups.confidence_intervals import from_noise, guaranteed
from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.measurements import MOST, Estimate, Measurements
from duckanon.engines.groups.methods import METHODS, Mechanism
from duckanon.engines.groups.queries import Privacy, Query, Unit
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
    """A differentially private release.

    levels: one a level, from the root to the leaves. charges: the epsilon spent on each level; they add up to epsilon.
    """

    levels: tuple[LevelRelease, ...]
    charges: tuple[Fraction, ...]


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
    split: positive shares of epsilon, one a level from the root to the leaves, that add up to one; None: equal ones.
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
) -> tuple[Fraction, ...]:
    """The charge for each of the `depth` levels. Raises InvalidInput for whatever can be refused without the data."""
    chosen = _mechanism(mechanism, totals)
    if sensitivity < 1:
        raise InvalidInput("One person must be able to move a group by at least one size: sensitivity >= 1.")
    _check_unit(totals, contributions, unit)
    if intervals not in ("guaranteed", "model"):
        raise InvalidInput("intervals must be 'guaranteed' or 'model'.")
    if intervals == "model" and not chosen.model:
        raise InvalidInput(f"{mechanism} has no model: its intervals are 'guaranteed'.")
    return _charges(epsilon, split, depth)


@dataclass(frozen=True, eq=False)
class Plan:
    """A release whose checks have all passed: it can be charged, and then drawn.

    groups: int64 of shape (leaves, max_size). query: what gets noise. charges, scales: of each level, the epsilon and
    the scale of the noise.
    """

    hierarchy: Hierarchy
    groups: Ints
    mechanism: str
    totals: Totals
    query: Query
    charges: tuple[Fraction, ...]
    scales: tuple[Fraction, ...]
    intervals: Intervals

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
        measured = measure(tree, truth, self.query, self.scales, self.totals == "public", source or Entropy())
        estimate = METHODS[self.mechanism].run(measured)
        levels = tree.levels(estimate.leaves)
        _check(levels, measured)
        low, high = self._intervals(measured, levels, estimate)
        found = zip(self.hierarchy.order, levels, low, high, strict=True)
        return Release(tuple(LevelRelease(*_renumbered(order, *arrays)) for order, *arrays in found), self.charges)


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
    """Check everything that a release may be refused for, and compute its charges. Arguments are those of `release`.

    The levels' charges add up (sequential composition). The regions of a level are disjoint; the sensitivity is that of
    the whole level. Refusals depend on the arguments and on the shape of `groups`, not on its contents, except for what
    no table of records can have: a number below zero, or more than 10^15 groups.
    """
    charges = check(
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
    scales = tuple(
        Fraction(query.distance(privacy, regions, sizes)) / charge
        for regions, charge in zip(hierarchy.sizes, charges, strict=True)
    )
    check_scale(max(scales))
    METHODS[mechanism].refuse(hierarchy.sizes, sizes, scales)
    return Plan(hierarchy, groups, mechanism, totals, query, charges, scales, intervals)


def _renumbered(order: Ints, *arrays: Ints) -> tuple[Ints, ...]:
    """Rows back in the caller's numbering."""
    found = tuple(np.empty_like(array) for array in arrays)
    for into, array in zip(found, arrays, strict=True):
        into[order] = array
    return found


def measure(
    hierarchy: Hierarchy,
    truth: tuple[Ints, ...],
    query: Query,
    scales: tuple[Fraction, ...],
    public: bool,
    source: Source,
) -> Measurements:
    """The query of every level, with noise of its level's scale on each of its values."""
    values = []
    for level, scale in zip(truth, scales, strict=True):
        exact = query.of(level)
        values.append(exact + double_geometric(scale, exact.shape, source))
    known = tuple(level.sum(axis=1) for level in truth) if public else None
    return Measurements(hierarchy, truth[0].shape[1], query, tuple(values), scales, known)


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


def _charges(epsilon: Fraction, split: tuple[Fraction, ...] | None, depth: int) -> tuple[Fraction, ...]:
    if epsilon <= 0:
        raise InvalidInput("epsilon must be positive.")
    if split is None:
        split = (Fraction(1, depth),) * depth
    if len(split) != depth:
        raise InvalidInput(f"split must have one share for each of the {depth} levels, the whole included.")
    if min(split) <= 0 or sum(split) != 1:
        raise InvalidInput("The shares of split must be positive and add up to exactly one.")
    return tuple(Fraction(epsilon) * share for share in split)


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
