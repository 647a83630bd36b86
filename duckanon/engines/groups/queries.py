"""The queries that noise is added to, and their sensitivity: how far one privacy unit changes them at one level.

Neighbours differ in one privacy unit, by default one record. A record is added or removed, so one group changes its
size by at most `step` (1; with a quantity, its declared bound). Totals public: the group is there before and after,
with a size in 1..max_size. Totals private: it may also appear or vanish, which is a move from or to size 0. At each
level the group lies in exactly one region.

Let the group move from size s to s + k, 1 <= k <= step. Then, at one level:

histogram   n_s falls by one and n_(s+k) rises by one: 2, whatever k is (1 if the group appears).
forward     c_j = n_1 + ... + n_j falls by one for s <= j < s + k: k. If the group appears, all c_j with j >= k rise.
above       t_j = n_j + n_(j+1) + ... rises by one for s < j <= s + k: k, and no more if the group appears.
chain       the forward sums run over all regions, size after size: each step passes every region, k * regions.

A unit of several records, at most `contributions`, in any groups and regions: taking them away one by one makes a
path of as many tables, each with its next a record apart, so by the triangle inequality all of the above times
`contributions`. Where totals are private every table on the path is a table of groups; where they are public it need
not be one (a group may lose its last record on the way), so there a unit is one record.

A unit that is a group: it appears or vanishes as a whole, in one region at each level, and so does one entry n_s, with
s <= largest = min(contributions * step, max_size). Totals are private, or the group would be public. Then:

histogram   n_s alone: 1.
forward     c_j for all j >= s, at s = 1 every size there is.
above       t_j for 1 <= j <= s: at most `largest`.
chain       all entries from (s, region) on: at s = 1, in the first region, every size of every region.

Squares, for Gaussian noise: the differences' squares, added up (L2). One record, and one group as a whole, change each
entry by one at most, so these are the same numbers as above. A path of `contributions` tables is as long as its steps
together (triangle inequality), so for records the squares are those of one record times contributions^2: it is so far
where all of a unit's records are in groups of one size and region. The inequality holds for any norm that weighs the
entries, and so where noise differs by size (`split`): a path's privacy loss is at most contributions^2 times that of
one record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from duckanon.engines.groups.hierarchy import Ints

Unit = Literal["record", "group"]


@dataclass(frozen=True)
class Privacy:
    """What two neighbouring tables may differ in: the public facts that determine every sensitivity.

    step: by how many sizes one record can move a group. contributions: how many records one unit has at most.
    unit: 'record', or 'group': all records of a unit are one group, and lie in one region of each level.
    """

    step: int = 1
    contributions: int = 1
    unit: Unit = "record"


@dataclass(frozen=True)
class Query:
    """A query on one level's groups, int64 of shape (regions, max_size).

    of: the query. back: from its (noisy) values, and the regions' public totals where it leaves them out, to groups.
    sensitivity: from the number of regions and the step to the largest L1 distance, at one level, between tables that
    one record sets apart. whole: the same for one group as a whole, from the number of regions, of sizes, and its
    largest size. terms: how many values of the query one number of groups is made of, at most.
    """

    name: str
    of: Callable[[Ints], Ints]
    back: Callable[[Ints, Ints | None], Ints]
    sensitivity: Callable[[int, int], int]
    whole: Callable[[int, int, int], int]
    terms: int

    def distance(self, privacy: Privacy, regions: int, sizes: int) -> int:
        """The largest L1 distance between neighbours at a level of so many regions: see the top of this file."""
        if privacy.unit == "group":
            return self.whole(regions, sizes, min(privacy.contributions * privacy.step, sizes))
        return privacy.contributions * self.sensitivity(regions, privacy.step)

    def squares(self, privacy: Privacy, regions: int, sizes: int) -> int:
        """The square of the largest L2 distance between neighbours at a level of so many regions."""
        if privacy.unit == "group":
            return self.distance(privacy, regions, sizes)
        return privacy.contributions**2 * self.sensitivity(regions, privacy.step)


def _above(groups: Ints) -> Ints:
    return np.cumsum(groups[:, ::-1], axis=1)[:, ::-1]


def _from_above(above: Ints) -> Ints:
    return -np.diff(above, axis=1, append=0)


def _chain(groups: Ints) -> Ints:
    return np.cumsum(groups.T.reshape(-1)).reshape(groups.T.shape)


HISTOGRAM = Query(
    "histogram", np.copy, lambda values, _: values, lambda _regions, _step: 2, lambda _regions, _sizes, _largest: 1, 1
)
FORWARD = Query(
    "forward",
    lambda groups: np.cumsum(groups, axis=1),
    lambda values, _: np.diff(values, axis=1, prepend=0),
    lambda _, step: step,
    lambda _regions, sizes, _largest: sizes,
    2,
)
ABOVE = Query(
    "above",
    _above,
    lambda values, _: _from_above(values),
    lambda _, step: step,
    lambda _regions, _sizes, largest: largest,
    2,
)
# Where totals are public t_1 is one of them, and not measured.
INNER = Query(
    "inner",
    lambda groups: _above(groups)[:, 1:],
    lambda values, totals: _from_above(np.column_stack([totals, values]) if totals is not None else values),
    lambda _, step: step,
    lambda _regions, _sizes, largest: largest - 1,
    2,
)
CHAIN = Query(
    "chain",
    _chain,
    lambda values, _: np.diff(values.reshape(-1), prepend=0).reshape(values.shape).T,
    lambda regions, step: regions * step,
    lambda regions, sizes, _largest: regions * sizes,
    2,
)
