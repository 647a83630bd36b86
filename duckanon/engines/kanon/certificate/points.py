"""The distinct points of some records, with losses in whole numbers, so that sums and comparisons have no rounding.

A loss is counted in grains of 2^-40. Positions are rounded down, and so is what anything else loses, so that a class
loses at most one grain for each measured attribute less than it is counted with (`Distinct.slack`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.points import runs
from duckanon.engines.kanon.records import Codes, Floats, Order, Records, Space

Whole = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

# What a loss of 1 is counted as.
GRAINS = 1 << 40
# A loss and the number of a point fit into one whole number.
POINT_BITS = 22
MOST_POINTS = 1 << POINT_BITS
# Points in a leaf of the tree.
LEAF = 8
# No place is beyond these.
_FAR = 1 << 60


class Points(NamedTuple):
    """Distinct points as arrays for the compiled loops: `records.Space` in whole numbers.

    A set of codes is a bit for each code, in words of 64. Attributes that differ most come first.
    """

    places: Whole  # (points, p + r): positions on each measured attribute, then the leaves of each hierarchy
    caps: Whole  # (p,): the most that a measured attribute loses
    tops: Whole  # (r, steps, d): what hierarchies lose, as in `records.Trees`
    powers: Codes  # (d,)
    words: Codes  # (points, q): the word that holds the code of each categorical attribute
    bits: Words  # (points, q): its bit
    nulls: Flags  # (points, q): whether it stands for NULL
    units: Whole  # (q,): loss of one more distinct value
    whole: Whole  # (q,): the most that a categorical attribute loses
    copies: Whole  # (points,): how many records are at each point


class Tree(NamedTuple):
    """A kd-tree: node v has the children 2v and 2v + 1, the root is 1. Leaf `leaves + t` holds points from LEAF t."""

    leaves: int
    low: Whole  # (2 leaves, p + r)
    high: Whole  # (2 leaves, p + r)
    sets: Words  # (2 leaves, words)


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct points of n records in the order of a kd-tree.

    records: a record at each point. of: shape (n,), the point of each record.
    """

    points: Points
    records: Records
    tree: Tree
    of: Codes

    def __len__(self) -> int:
        return len(self.points.copies)

    @property
    def slack(self) -> int:
        """A class loses more than its loss in grains less so many, for each of its records."""
        return len(self.points.caps)


def distinct(records: Records) -> Distinct:
    """The distinct points of records in any order. Attributes that lose nothing are left out."""
    records = Records(tuple(a for a in records.attributes if a.scale > 0) or records.attributes[:1])
    order = canonical(records)
    ordered = records.take(order)
    starts = runs(ordered)
    representatives = ordered.take(starts[:-1])
    along = _kd_order(representatives)
    representatives = representatives.take(along)
    points = _points(representatives.space, np.diff(starts)[along].astype(np.int64))
    rank = np.empty(len(along), np.int32)
    rank[along] = np.arange(len(along), dtype=np.int32)
    of = np.empty(len(records), np.int32)
    of[order] = np.repeat(rank, np.diff(starts))
    return Distinct(points, representatives, _tree(points), of)


def _grains(losses: Floats) -> Whole:
    """Losses in grains, rounded down; a product with a power of two is exact."""
    return np.floor(losses * GRAINS).astype(np.int64)


def _points(space: Space, copies: Whole) -> Points:
    p = len(space.caps)
    measured = np.argsort(-space.points[:, :p].std(axis=0), kind="stable")
    places = np.concatenate([_grains(space.points[:, measured]), space.points[:, p:].astype(np.int64)], axis=1)
    first = np.append(0, np.cumsum(space.nulls // 64 + 1))[:-1]
    whole = _grains(space.whole)
    return Points(
        places=np.ascontiguousarray(places),
        caps=_grains(space.caps[measured]),
        tops=_grains(space.trees.tops),
        powers=space.trees.powers,
        words=(first + space.symbols // 64).astype(np.int32),
        bits=np.uint64(1) << (space.symbols % 64).astype(np.uint64),
        nulls=space.symbols == space.nulls,
        # No number of values loses more than all of them.
        units=np.minimum(_grains(space.units), whole // np.maximum(space.nulls - 1, 1)),
        whole=whole,
        copies=copies,
    )


def _leaves(n: int) -> int:
    leaves = 1
    while leaves * LEAF < n:
        leaves *= 2
    return leaves


def _kd_order(points: Records) -> Order:
    """An order in which each LEAF 2^h points from a multiple of that number are the points of a node."""
    n = len(points)
    # (Categories count half: their order means nothing.)
    sides = [np.append(a.positions, 1.0) * a.scale * (0.5 if a.categorical else 1.0) for a in points.attributes]
    places = np.stack([side[a.codes] for side, a in zip(sides, points.attributes, strict=True)], axis=1)
    order, size = np.arange(n), _leaves(n) * LEAF
    while size > LEAF:
        here = places[order]
        starts, node = np.arange(0, n, size), np.arange(n) // size
        mean = np.add.reduceat(here, starts) / np.diff(np.append(starts, n))[:, None]
        spread = np.add.reduceat((here - mean[node]) ** 2, starts)
        widest = here[np.arange(n), np.argmax(spread, axis=1)[node]]
        order = order[np.lexsort((widest, node))]
        size //= 2
    return order.astype(np.int32)


def _tree(points: Points) -> Tree:
    n, axes = points.places.shape
    leaves, words = _leaves(n), int(points.words.max(initial=-1)) + 1
    low = np.full((2 * leaves, axes), _FAR)
    high = np.full((2 * leaves, axes), -_FAR)
    sets = np.zeros((2 * leaves, words), np.uint64)
    starts = np.arange(0, n, LEAF)
    held = slice(leaves, leaves + len(starts))
    low[held], high[held] = np.minimum.reduceat(points.places, starts), np.maximum.reduceat(points.places, starts)
    leaf = leaves + np.arange(n) // LEAF
    for j in range(points.words.shape[1]):
        np.bitwise_or.at(sets, (leaf, points.words[:, j]), points.bits[:, j])
    first = leaves // 2
    while first:
        upper, left, right = slice(first, 2 * first), slice(2 * first, 4 * first, 2), slice(2 * first + 1, 4 * first, 2)
        low[upper], high[upper] = np.minimum(low[left], low[right]), np.maximum(high[left], high[right])
        sets[upper] = sets[left] | sets[right]
        first //= 2
    return Tree(leaves, low, high, sets)
