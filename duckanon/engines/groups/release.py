"""From true group sizes to a private release: check the request, add noise, run the mechanism, check the result."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.groups.confidence_intervals import from_noise, guaranteed
from duckanon.engines.groups.draws import size
from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.measurements import MOST, Estimate, Look, Measurements
from duckanon.engines.groups.methods import METHODS
from duckanon.engines.groups.queries import ABOVE, INNER, Query
from duckanon.engines.groups.request import Request
from duckanon.engines.groups.split import Split, as_asked, by_size
from duckanon.engines.noise import Noise
from duckanon.engines.randomness import Entropy, Source
from duckanon.errors import DuckanonError, InvalidInput


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


def release(hierarchy: Hierarchy, groups: NDArray[np.int64], request: Request, source: Source | None = None) -> Release:
    """Release how many groups of each size lie in each region, with differential privacy.

    groups: int64 of shape (leaves, max_size); groups[r, s - 1] is the number of groups of size s in leaf region r.
    source: of randomness; None: the operating system.
    Raises InvalidInput for arguments that make no sense, before any noise is drawn; DuckanonError if a mechanism's
    result is inconsistent, not whole, negative, or does not keep the totals; nothing is released then.
    """
    return plan(hierarchy, groups, request).release(source)


@dataclass(frozen=True, eq=False)
class Plan:
    """A release whose checks have all passed: it can be charged, and then drawn.

    groups: int64 of shape (leaves, max_size). query: what gets noise. split: of what the release costs.
    """

    hierarchy: Hierarchy
    groups: Ints
    request: Request
    query: Query
    split: Split

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
        return self.split.loss.noise(self.query, self.request.privacy, regions, sizes, part)

    def _intervals(
        self, measured: Measurements, levels: tuple[Ints, ...], estimate: Estimate
    ) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
        if self.request.intervals == "model" and estimate.intervals:
            return estimate.intervals
        return guaranteed(measured, levels) if METHODS[self.request.mechanism].model else from_noise(measured, levels)

    def release(self, source: Source | None = None) -> Release:
        """Draw the noise and compute the release. source: of randomness; None: the operating system."""
        tree = self.hierarchy.ordered
        truth = tree.levels(self.groups[self.hierarchy.order[-1]])
        measured = self._measured(tree, truth, source or Entropy())
        estimate = METHODS[self.request.mechanism].run(measured)
        levels = tree.levels(estimate.leaves)
        _check(levels, measured)
        low, high = self._intervals(measured, levels, estimate)
        by_level = zip(self.hierarchy.order, levels, low, high, strict=True)
        return Release(tuple(LevelRelease(*_renumbered(order, *arrays)) for order, *arrays in by_level), self.split)

    def _measured(self, tree: Hierarchy, truth: tuple[Ints, ...], source: Source) -> Measurements:
        """Look at the root, if the split has a look, and then measure every level in the ways that this chose."""
        ways, look = np.zeros(self.query.of(truth[0]).shape[1], dtype=np.int64), None
        if self.split.look:
            look = look_at_root(truth[0], self.query, self.noise_of_look, source)
            rate = self.split.loss.rate(self.query, self.request.privacy, truth[0].shape[1], tree.depth)
            ways = self.split.choose(look.values, tree.sizes[-1], rate)
        return measure(tree, truth, self.query, self.noise, ways, look, self.request.totals == "public", source)


def plan(hierarchy: Hierarchy, groups: NDArray[np.int64], request: Request) -> Plan:
    """Check everything that a release may be refused for, and divide what it costs. Arguments are those of `release`.

    Levels add up (sequential composition). The regions of a level are disjoint; the sensitivity is that of the whole
    level. A split by size is only for t_s, of which one record moves the same sizes at every level, and for records:
    where a group is the unit it moves all sizes up to its own. Refusals depend on the request and on the shape of
    `groups`, not on its contents, except for what no table of records can have: a number below zero, or more than 10^15
    groups.
    """
    request.check(hierarchy.depth)
    _check_groups(hierarchy, groups)
    mechanism, loss, sizes = METHODS[request.mechanism], request.loss, groups.shape[1]
    query = request.query(sizes)
    if mechanism.by_size and request.split is None and request.unit == "record" and query in (ABOVE, INNER):
        split = by_size(loss, hierarchy.depth, sizes - (query is INNER))
    else:
        split = as_asked(loss, request.split, hierarchy.depth)
    planned = Plan(hierarchy, groups, request, query, split)
    widest = [max(of_ways, key=size) for of_ways in planned.noise]
    max(widest, key=size).check()
    mechanism.refuse(hierarchy.sizes, sizes, tuple(map(size, widest)))
    return planned


def _renumbered(order: Ints, *arrays: Ints) -> tuple[Ints, ...]:
    """Rows back in the caller's numbering."""
    renumbered = tuple(np.empty_like(numbers) for numbers in arrays)
    for into, numbers in zip(renumbered, arrays, strict=True):
        into[order] = numbers
    return renumbered


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
    noisy = []
    for level, of_ways in zip(truth, noise, strict=True):
        exact = query.of(level)
        if len(of_ways) == 1:
            noisy.append(exact + _drawn(of_ways[0], exact, source))
            continue
        for way in np.unique(ways):
            own = exact[:, ways == way]
            exact[:, ways == way] = own + _drawn(of_ways[way], own, source)
        noisy.append(exact)
    known = tuple(level.sum(axis=1) for level in truth) if public else None
    return Measurements(hierarchy, truth[0].shape[1], query, tuple(noisy), noise, ways, known, look)


def _drawn(noise: Noise, exact: Ints, source: Source) -> Ints:
    draws: Ints = noise.draw(exact.shape, source, is_wide=False)
    return draws


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
