"""The whole way from true group sizes to a private release: budget, noise, mechanism, check."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.intervals import from_noise
from duckanon.engines.groups.measurements import Measurements
from duckanon.engines.groups.methods import MECHANISMS
from duckanon.engines.groups.queries import Query
from duckanon.engines.randomness import Entropy, Source, check_scale, double_geometric
from duckanon.errors import DuckanonError, InvalidInput

Totals = Literal["public", "private"]
RELATIONS: dict[Totals, str] = {
    "public": "one person added to or removed from an existing group that keeps at least one; "
    "the number of groups of each region is public",
    "private": "one person added or removed, with whom a group may appear or vanish",
}
# Sums of counts and of noise stay exact in floats below it.
_MOST = 10**15


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
    source: Source | None = None,
) -> Release:
    """Release how many groups of each size lie in each region, with epsilon-differential privacy.

    groups: int64 of shape (leaves, max_size); groups[r, s - 1] is the number of groups of size s in leaf region r.
    totals: whether the number of groups of each region is public (and then kept), or private. Neighbours: RELATIONS.
    split: positive shares of epsilon, one a level from the root to the leaves, that add up to one; None: equal ones.
    sensitivity: by how many sizes one person can move a group. source: of randomness; None: the operating system.
    Raises InvalidInput for arguments that make no sense, before any noise is drawn; DuckanonError if a mechanism breaks
    its own promises (consistent, whole, non-negative, totals kept), with nothing released.
    """
    return plan(
        hierarchy,
        groups,
        epsilon=epsilon,
        mechanism=mechanism,
        totals=totals,
        split=split,
        sensitivity=sensitivity,
    ).release(source)


def check(
    *,
    epsilon: Fraction,
    mechanism: str,
    totals: Totals,
    split: tuple[Fraction, ...] | None,
    depth: int,
    sensitivity: int = 1,
) -> tuple[Fraction, ...]:
    """Refuse, with InvalidInput, what can be refused without the data. The charge for each of the `depth` levels."""
    _query(mechanism, totals)
    if sensitivity < 1:
        raise InvalidInput("One person must be able to move a group by at least one size: sensitivity >= 1.")
    return _charges(epsilon, split, depth)


@dataclass(frozen=True, eq=False)
class Plan:
    """A release that nothing stands against any more: it can be charged, and then drawn.

    groups: int64 of shape (leaves, max_size). charges, scales: of each level, the epsilon and the scale of the noise.
    """

    hierarchy: Hierarchy
    groups: Ints
    mechanism: str
    totals: Totals
    charges: tuple[Fraction, ...]
    scales: tuple[Fraction, ...]

    def release(self, source: Source | None = None) -> Release:
        """Draw the noise, make a release of what was measured. source: of randomness; None: the operating system."""
        tree = self.hierarchy.ordered
        truth = tree.levels(self.groups[self.hierarchy.order[-1]])
        query = _query(self.mechanism, self.totals)
        measured = measure(tree, truth, query, self.scales, self.totals == "public", source or Entropy())
        estimate = MECHANISMS[self.mechanism].run(measured)
        levels = tree.levels(estimate.leaves)
        _check(levels, measured)
        low, high = estimate.intervals or from_noise(measured, levels)
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
) -> Plan:
    """Check everything that a release may be refused for, and say what it will cost. Arguments are those of `release`.

    Levels compose in sequence. The regions of a level are disjoint, and the sensitivity is that of the whole level.
    """
    charges = check(
        epsilon=epsilon,
        mechanism=mechanism,
        totals=totals,
        split=split,
        depth=hierarchy.depth,
        sensitivity=sensitivity,
    )
    _check_groups(hierarchy, groups)
    query = _query(mechanism, totals)
    scales = tuple(
        Fraction(query.sensitivity(regions, sensitivity)) / charge
        for regions, charge in zip(hierarchy.sizes, charges, strict=True)
    )
    check_scale(max(scales))
    MECHANISMS[mechanism].refuse(hierarchy.sizes, groups.shape[1], scales)
    return Plan(hierarchy, groups, mechanism, totals, charges, scales)


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


def _query(mechanism: str, totals: Totals) -> Query:
    if mechanism not in MECHANISMS:
        raise InvalidInput(f"There is no mechanism '{mechanism}': choose one of {', '.join(map(repr, MECHANISMS))}.")
    if totals not in RELATIONS:
        raise InvalidInput("totals must be 'public' or 'private'.")
    chosen = MECHANISMS[mechanism]
    query = chosen.public if totals == "public" else chosen.private
    if query is None:
        raise InvalidInput(f"{mechanism} needs totals := 'public'; with private totals take auto.")
    return query


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
    if groups.sum(dtype=np.float64) > _MOST:
        raise InvalidInput("There are too many groups: at most 10^15.")


def _check(levels: tuple[Ints, ...], measured: Measurements) -> None:
    """Every release is checked before anybody sees it."""
    whole = all(level.dtype == np.int64 and bool((level >= 0).all()) for level in levels)
    total = measured.total
    kept = total is None or all(int(level.sum()) == total for level in levels)
    if not (whole and kept and measured.hierarchy.consistent(levels)):
        raise DuckanonError("A release broke a sum or a sign: this is a bug in duckanon, nothing was released.")
