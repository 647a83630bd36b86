"""What is counted, and how far one person moves it: the queries that noise is added to, level by level.

Neighbours. A person is added or removed, so one group changes its size by at most `step` (1; with a quantity, its
declared bound). Totals public: the group is there before and after, with a size in 1..max_size. Totals private: it may
also appear or vanish, which is a move from or to size 0. At each level the group lies in exactly one region.

Let the group move from size s to s + k, 1 <= k <= step. Then, at one level:

histogram   n_s falls by one and n_(s+k) rises by one: 2, whatever k is (1 if the group appears).
forward     c_j = n_1 + ... + n_j falls by one for s <= j < s + k: k. If the group appears, all c_j with j >= k rise.
above       t_j = n_j + n_(j+1) + ... rises by one for s < j <= s + k: k, and no more if the group appears.
chain       the forward sums run over all regions, size after size: each step passes every region, k * regions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from duckanon.engines.groups.hierarchy import Ints


@dataclass(frozen=True)
class Query:
    """A query on one level's groups, int64 of shape (regions, max_size).

    of: the query. back: from its (noisy) values, and the regions' public totals where it leaves them out, to groups.
    sensitivity: from the number of regions and the step to the largest L1 distance between neighbours at one level.
    terms: how many values of the query one number of groups is made of, at most.
    """

    name: str
    of: Callable[[Ints], Ints]
    back: Callable[[Ints, Ints | None], Ints]
    sensitivity: Callable[[int, int], int]
    terms: int


def _above(groups: Ints) -> Ints:
    return np.cumsum(groups[:, ::-1], axis=1)[:, ::-1]


def _from_above(above: Ints) -> Ints:
    return -np.diff(above, axis=1, append=0)


def _chain(groups: Ints) -> Ints:
    return np.cumsum(groups.T.reshape(-1)).reshape(groups.T.shape)


HISTOGRAM = Query("histogram", np.copy, lambda values, _: values, lambda _regions, _step: 2, 1)
FORWARD = Query(
    "forward",
    lambda groups: np.cumsum(groups, axis=1),
    lambda values, _: np.diff(values, axis=1, prepend=0),
    lambda _, step: step,
    2,
)
ABOVE = Query("above", _above, lambda values, _: _from_above(values), lambda _, step: step, 2)
# Where totals are public t_1 is one of them, and not measured.
INNER = Query(
    "inner",
    lambda groups: _above(groups)[:, 1:],
    lambda values, totals: _from_above(np.column_stack([totals, values]) if totals is not None else values),
    lambda _, step: step,
    2,
)
CHAIN = Query(
    "chain",
    _chain,
    lambda values, _: np.diff(values.reshape(-1), prepend=0).reshape(values.shape).T,
    lambda regions, step: regions * step,
    2,
)
