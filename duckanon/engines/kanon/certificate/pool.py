"""Classes that prices are fitted to: those of a partition, and those that searches met."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.certificate.points import Distinct
from duckanon.engines.kanon.kernels.box import class_losses
from duckanon.engines.kanon.records import Codes, Floats

Places = npt.NDArray[np.int64]


class Columns(NamedTuple):
    """Classes one after another. Class c has members[starts[c]] .. members[starts[c + 1] - 1]."""

    starts: Places  # (classes + 1,)
    members: Codes  # points
    times: Codes  # how many records of each
    cost: Floats  # (classes,): what its records lose together


class Rows(NamedTuple):
    """The same by points: those of point i stand from starts[i]."""

    starts: Places  # (points + 1,)
    column: Codes  # the class
    times: Codes  # how many records of the point are in it


def once(members: Codes, times: Codes) -> tuple[Codes, Codes]:
    """Classes as a search hands them over, with each point once. Shapes (classes, most), -1 behind the last member."""
    members, times = members.copy(), np.where(members >= 0, times, 0).astype(np.int32)
    # (Only the first point occurs twice: it stands for itself, and for its other copies.)
    again = members[:, 1:] == members[:, :1]
    times[:, 0] += (times[:, 1:] * again).sum(axis=1, dtype=np.int32)
    members[:, 1:][again] = -1
    return members, np.where(members >= 0, times, 0).astype(np.int32)


class Pool:
    """A set of classes over the distinct points of a table."""

    def __init__(self, distinct_points: Distinct) -> None:
        self._distinct = distinct_points
        # Classes are known by a sum of random numbers, one for each of their records.
        self._keys = np.random.default_rng(0).integers(1, 1 << 63, len(distinct_points), dtype=np.uint64)
        self._known = np.zeros(0, np.uint64)
        none = np.zeros(0, np.int32)
        self.columns = Columns(np.zeros(1, np.int64), none, none, np.zeros(0))

    def __len__(self) -> int:
        return len(self.columns.cost)

    def add(self, members: Codes, times: Codes) -> int:
        """Add classes, shape (classes, most), -1 behind the last member; how many are new. A point may occur twice."""
        if not len(members):
            return 0
        members, times = once(members, times)
        held = members >= 0
        known = (np.where(held, self._keys[members], 0) * times.astype(np.uint64)).sum(axis=1, dtype=np.uint64)
        fresh = np.zeros(len(members), np.bool_)
        fresh[np.unique(known, return_index=True)[1]] = True
        fresh &= ~np.isin(known, self._known)
        held &= fresh[:, None]
        sizes = held.sum(axis=1)[fresh]
        starts = np.append(0, np.cumsum(sizes)).astype(np.int64)
        entered, counts = members[held], times[held]
        if len(sizes):
            losses = class_losses(self._distinct.records.space, entered, starts.astype(np.int32)) / sizes
            cost = losses * np.add.reduceat(counts, starts[:-1], dtype=np.int64)
            old = self.columns
            self.columns = Columns(
                np.append(old.starts, old.starts[-1] + starts[1:]),
                np.append(old.members, entered),
                np.append(old.times, counts),
                np.append(old.cost, cost),
            )
            self._known = np.append(self._known, known[fresh])
        return len(sizes)

    def drop(self, prices: Floats, slack: float, first: int) -> None:
        """Drop classes that lose more than their prices and so much more, but for the `first`."""
        starts, members, times, cost = self.columns
        if not len(cost):
            return
        kept = cost - np.add.reduceat(prices[members] * times, starts[:-1]) <= slack
        kept[:first] = True
        sizes = np.diff(starts)
        entries = np.repeat(kept, sizes)
        self.columns = Columns(np.append(0, np.cumsum(sizes[kept])), members[entries], times[entries], cost[kept])
        self._known = self._known[kept]

    def rows(self) -> Rows:
        """The classes of each point."""
        starts, members, times, _ = self.columns
        owner = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(starts))
        order = np.argsort(members, kind="stable")
        counts = np.bincount(members, minlength=len(self._distinct))
        return Rows(np.append(0, np.cumsum(counts)), owner[order], times[order])


def as_members(distinct_points: Distinct, labels: Codes, k: int) -> tuple[Codes, Codes]:
    """The classes of a partition as `Pool.add` takes them. labels: shape (n,), from 0, of classes of k .. 2k - 1."""
    order = np.lexsort((distinct_points.of, labels))
    of, own = distinct_points.of[order], labels[order]
    fresh = np.append(True, (of[1:] != of[:-1]) | (own[1:] != own[:-1]))
    first = np.flatnonzero(fresh)
    counts, of, own = np.diff(np.append(first, len(of))), of[first], own[first]
    begins = np.flatnonzero(np.append(True, own[1:] != own[:-1]))
    number = np.cumsum(np.append(False, own[1:] != own[:-1]))
    place = np.arange(len(own)) - begins[number]
    members = np.full((len(begins), 2 * k - 1), -1, np.int32)
    times = np.zeros_like(members)
    members[number, place], times[number, place] = of, counts
    return members, times
