"""From true group sizes to a private release: check the request, add noise, run the mechanism, check the result."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.groups.confidence_intervals import from_noise, guaranteed
from duckanon.engines.groups.draws import size, variance
from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.loss import Concentrated, Loss, Pure
from duckanon.engines.groups.measurements import MOST, Estimate, Look, Measurements
from duckanon.engines.groups.methods import DEARER, METHODS, Mechanism
from duckanon.engines.groups.queries import ABOVE, INNER, Privacy, Query, Unit
from duckanon.engines.groups.split import Split, as_asked, by_size
from duckanon.engines.noise import Noise
from duckanon.engines.randomness import Entropy, Source
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
    """A differentially private release. levels: one a level, from the root to the leaves. split: of its loss."""

    levels: tuple[LevelRelease, ...]
    split: Split


def release(
    hierarchy: Hierarchy,
    groups: NDArray[np.int64],
    *,
    epsilon: Fraction | None = None,
    rho: Fraction | None = None,
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

    rho: instead of an epsilon, for zero-concentrated differential privacy, with Gaussian noise.
    groups: int64 of shape (leaves, max_size); groups[r, s - 1] is the number of groups of size s in leaf region r.
    totals: whether the number of groups of each region is public (and then kept), or private. Neighbours: RELATIONS.
    split: positive shares of either, one a level from the root to the leaves, that add up to one, alike for all sizes;
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
        rho=rho,
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
    depth: int,
    epsilon: Fraction | None = None,
    rho: Fraction | None = None,
    mechanism: str,
    totals: Totals,
    split: tuple[Fraction, ...] | None,
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
    as_asked(_loss(epsilon, rho), split, depth)


@dataclass(frozen=True, eq=False)
class Plan:
    """A release whose checks have all passed: it can be charged, and then drawn.

    groups: int64 of shape (leaves, max_size). query: what gets noise. privacy: what that noise protects. split: of what
    the release costs.
    """

    hierarchy: Hierarchy
    groups: Ints
    mechanism: str
    totals: Totals
    query: Query
    privacy: Privacy
    split: Split
    intervals: Intervals

    @cached_property
    def noise(self) -> tuple[tuple[Noise, ...], ...]:
        """For each level the noise of each way of the split."""
        return tuple(
            tuple(self._for_part(level, way[level]) for way in self.split.ways) for level in range(self.hierarchy.depth)
        )

    @cached_property
    def noise_of_look(self) -> Noise:
        return self._for_part(0, self.split.look)

    def _for_part(self, level: int, part: Fraction) -> Noise:
        regions, sizes = self.hierarchy.sizes[level], self.groups.shape[1]
        return self.split.loss.noise(self.query, self.privacy, regions, sizes, part)

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
            look = look_at_root(truth[0], self.query, self.noise_of_look, source)
            rate = self.split.loss.rate(self.query, self.privacy, truth[0].shape[1], tree.depth)
            ways = self.split.choose(look.values, tree.sizes[-1], rate)
        return measure(tree, truth, self.query, self.noise, ways, look, self.totals == "public", source)


def plan(
    hierarchy: Hierarchy,
    groups: NDArray[np.int64],
    *,
    epsilon: Fraction | None = None,
    rho: Fraction | None = None,
    mechanism: str = "auto",
    totals: Totals = "public",
    split: tuple[Fraction, ...] | None = None,
    sensitivity: int = 1,
    contributions: int = 1,
    unit: Unit = "record",
    intervals: Intervals = "guaranteed",
) -> Plan:
    """Check everything that a release may be refused for, and divide what it costs. Arguments are those of `release`.

    Levels add up (sequential composition). The regions of a level are disjoint; the sensitivity is that of the whole
    level. A split by size is only for t_s, of which one record moves the same sizes at every level, and for records:
    where a group is the unit it moves all sizes up to its own. Refusals depend on the arguments and on the shape of
    `groups`, not on its contents, except for what no table of records can have: a number below zero, or more than 10^15
    groups.
    """
    check(
        epsilon=epsilon,
        rho=rho,
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
    loss = _loss(epsilon, rho)
    query = METHODS[mechanism].query(totals == "public", privacy, sizes, loss)
    if METHODS[mechanism].by_size and split is None and unit == "record" and query in (ABOVE, INNER):
        divided = by_size(loss, hierarchy.depth, sizes - (query is INNER))
    else:
        divided = as_asked(loss, split, hierarchy.depth)
    planned = Plan(hierarchy, groups, mechanism, totals, query, privacy, divided, intervals)
    widest = [max(of_ways, key=size) for of_ways in planned.noise]
    max(widest, key=size).check()
    METHODS[mechanism].refuse(hierarchy.sizes, sizes, tuple(map(size, widest)))
    return planned


def _loss(epsilon: Fraction | None, rho: Fraction | None) -> Loss:
    if (epsilon is None) == (rho is None):
        raise InvalidInput("A release costs either an epsilon or a rho.")
    return Pure(Fraction(epsilon)) if epsilon is not None else Concentrated(Fraction(rho or 0))


def is_gaussian_nearer(
    *,
    epsilon: Fraction,
    rho: Fraction,
    depth: int,
    sizes: int,
    mechanism: str,
    totals: Totals,
    split: tuple[Fraction, ...] | None,
    sensitivity: int = 1,
    contributions: int = 1,
    unit: Unit = "record",
    intervals: Intervals = "guaranteed",
) -> bool:
    """Whether Gaussian noise for rho has smaller standard deviations than Laplace noise for epsilon, in all levels
    together. It follows from the arguments alone, which are those of `release`; what `check` refuses is no release.

    What is measured may differ: then noise on n_s counts as `DEARER` times as wide. A chain is taken to have one
    region.
    """
    try:
        check(
            epsilon=epsilon,
            mechanism=mechanism,
            totals=totals,
            split=split,
            depth=depth,
            sensitivity=sensitivity,
            contributions=contributions,
            unit=unit,
            intervals=intervals,
        )
    except InvalidInput:
        return False
    privacy, shares = Privacy(sensitivity, contributions, unit), split or (Fraction(1, depth),) * depth

    def width(loss: Loss) -> float:
        chosen = METHODS[mechanism]
        query = chosen.query(totals == "public", privacy, sizes, loss)
        noise = [loss.noise(query, privacy, 1, sizes, loss.total * share) for share in shares]
        return sum(sqrt(variance(one)) for one in noise) * (DEARER if query is chosen.plain else 1)

    return width(Concentrated(rho)) < width(Pure(epsilon))


def _renumbered(order: Ints, *arrays: Ints) -> tuple[Ints, ...]:
    """Rows back in the caller's numbering."""
    found = tuple(np.empty_like(array) for array in arrays)
    for into, array in zip(found, arrays, strict=True):
        into[order] = array
    return found


def look_at_root(root: Ints, query: Query, noise: Noise, source: Source) -> Look:
    """The query of the root, with this noise."""
    exact = query.of(root)
    return Look((exact + _drawn(noise, exact, source))[0], noise)


def measure(
    hierarchy: Hierarchy,
    truth: tuple[Ints, ...],
    query: Query,
    noise: tuple[tuple[Noise, ...], ...],
    ways: Ints,
    look: Look | None,
    public: bool,
    source: Source,
) -> Measurements:
    """The query of every level, with noise on each of its values. Arguments as in `Measurements`."""
    values = []
    for level, of_ways in zip(truth, noise, strict=True):
        exact = query.of(level)
        if len(of_ways) == 1:
            values.append(exact + _drawn(of_ways[0], exact, source))
            continue
        for way in np.unique(ways):
            own = exact[:, ways == way]
            exact[:, ways == way] = own + _drawn(of_ways[way], own, source)
        values.append(exact)
    known = tuple(level.sum(axis=1) for level in truth) if public else None
    return Measurements(hierarchy, truth[0].shape[1], query, tuple(values), noise, ways, known, look)


def _drawn(noise: Noise, exact: Ints, source: Source) -> Ints:
    found: Ints = noise.draw(exact.shape, source, is_wide=False)
    return found


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
