"""A tree of regions whose leaves all lie at the same depth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from duckanon.errors import InvalidInput

Ints = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """The regions of each level, by number. Level 0 is the root alone; () is a root without levels below it.

    parents: for each level but the last, an int64 array: parents[l][i] is the number, at level l, of the parent of
    region i of level l + 1. Each region but those of the last level has a child.
    Raises InvalidInput for a tree that is not one: a parent out of range, or a branch that ends early.
    """

    parents: tuple[Ints, ...] = ()

    def __post_init__(self) -> None:
        regions = 1
        for level, parent in enumerate(self.parents):
            if parent.ndim != 1 or parent.dtype != np.int64:
                raise InvalidInput(f"The parents of level {level + 1} must be one int64 array.")
            if len(parent) == 0 or parent.min() < 0 or parent.max() >= regions:
                raise InvalidInput(f"Level {level + 1} has a region whose parent is not at level {level}.")
            if (np.bincount(parent, minlength=regions) == 0).any():
                raise InvalidInput(
                    f"A region of level {level} has no region below it: every branch must reach the last level."
                )
            regions = len(parent)

    @property
    def depth(self) -> int:
        """The number of levels."""
        return len(self.parents) + 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of regions of each level, from the root."""
        return (1, *(len(parent) for parent in self.parents))

    @cached_property
    def order(self) -> tuple[Ints, ...]:
        """For each level its regions in depth-first order: children of a parent are adjacent, in its order."""
        orders = [np.zeros(1, dtype=np.int64)]
        for parent in self.parents:
            rank = np.empty(len(orders[-1]), dtype=np.int64)
            rank[orders[-1]] = np.arange(len(rank))
            orders.append(np.argsort(rank[parent], kind="stable"))
        return tuple(orders)

    @property
    def ordered(self) -> Hierarchy:
        """The same tree with each level's regions numbered in `order`; engines see only such trees."""
        parents = []
        for upper, lower, parent in zip(self.order, self.order[1:], self.parents, strict=False):
            rank = np.empty(len(upper), dtype=np.int64)
            rank[upper] = np.arange(len(rank))
            parents.append(rank[parent[lower]])
        return Hierarchy(tuple(parents))

    @cached_property
    def starts(self) -> tuple[Ints, ...]:
        """In an ordered tree the children of region p of level l are starts[l][p]:starts[l][p + 1] of level l + 1."""
        return tuple(
            np.concatenate([[0], np.cumsum(np.bincount(parent, minlength=regions))])
            for parent, regions in zip(self.parents, self.sizes, strict=False)
        )

    def up(self, level: int, values: NDArray[Number]) -> NDArray[Number]:
        """Sums over children: from one row a region of level + 1 to one row a region of `level`."""
        parent = self.parents[level]
        brothers = values if (np.diff(parent) >= 0).all() else values[np.argsort(parent, kind="stable")]
        sums: NDArray[Number] = np.add.reduceat(brothers, self.starts[level][:-1], axis=0)
        return sums

    def levels(self, leaves: Ints) -> tuple[Ints, ...]:
        """One array a level, from the root to the leaves: the leaves' rows, added up."""
        sums = [leaves]
        for level in reversed(range(len(self.parents))):
            sums.append(self.up(level, sums[-1]))
        return tuple(reversed(sums))

    def consistent(self, levels: tuple[Ints, ...]) -> bool:
        """Whether children add up to their parent, everywhere."""
        return all(
            bool((self.up(level, lower) == upper).all()) for level, (upper, lower) in enumerate(pairwise(levels))
        )
