"""Near points of every distinct point, found as neighbours in several shuffled orders. Any mix of attributes.

No tree is built: records that are near stand together in at least one of a few Hilbert curves and lexicographic
orders with high probability, and a point keeps the nearest of those it meets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.kernels.loss import pair_loss
from duckanon.engines.kanon.orders import hilbert, lexicographic
from duckanon.engines.kanon.records import Codes, Order, Records, Space
from duckanon.engines.parallel import spread

# Points a thread takes at a time.
_SHARE = 32_768

Distances = npt.NDArray[np.float32]


class Graph(NamedTuple):
    """Which distinct points are near which."""

    point: Codes  # (n,): the point of each record
    first: Codes  # (points + 1,): where each point's records start; they follow one another
    near: Codes  # (points, q): near points, the nearest first, -1 where there are no more
    apart: Distances  # (points, q): what a record of a class of the two would lose


def _meet(space: Space, order: Order, start: int, stop: int, window: int, near: Codes, apart: Distances) -> None:
    """Let the points at positions start..stop-1 of the order meet the `window` points on either side."""
    first = max(start - window, 0)
    names = order[first : stop + window]
    here = space._replace(points=space.points[names], symbols=space.symbols[names])
    _meet_here(here, names, start - first, stop - first, window, near, apart)


@compiled
def _meet_here(space: Space, names: Order, start: int, stop: int, window: int, near: Codes, apart: Distances) -> None:
    """As `_meet`, where row t of the space is the point that is called names[t]."""
    n = names.shape[0]
    kept = near.shape[1]
    for t in range(start, stop):
        here = names[t]
        for s in range(max(t - window, 0), min(t + window + 1, n)):
            if s == t:
                continue
            loss = pair_loss(space, t, s)
            if loss >= apart[here, kept - 1]:
                continue
            there = names[s]
            known = False
            for r in range(kept):
                if near[here, r] == there:
                    known = True
                    break
            if known:
                continue
            r = kept - 1
            while r > 0 and apart[here, r - 1] > loss:
                apart[here, r] = apart[here, r - 1]
                near[here, r] = near[here, r - 1]
                r -= 1
            apart[here, r] = loss
            near[here, r] = there


def shuffled_orders(records: Records, count: int, threads: int = 1) -> list[Order]:
    """`count` orders in which near records tend to be neighbours: Hilbert curves and lexicographic ones by turns."""
    rng = np.random.default_rng(0)
    orders = []
    for turn in range(count):
        if turn % 2 == 0:
            orders.append(hilbert(records, threads, rng if turn else None))
        else:
            orders.append(lexicographic(records, rng.permutation(len(records.attributes)).tolist()))
    return orders


def neighbours(
    records: Records, orders: list[Order], window: int, kept: int, threads: int = 1
) -> tuple[Codes, Distances]:
    """For each record up to `kept` near ones, the nearest first, -1 where there are no more, and how far they are.

    Both of shape (n, kept); how far: what a record of a class of the two would lose.

    records: all different. Each record meets the `window` records on either side of it in every order.
    """
    n = len(records)
    near = np.full((n, kept), -1, dtype=np.int32)
    apart = np.full((n, kept), np.inf, dtype=np.float32)
    for order in orders:
        spread(
            lambda start, order=order: _meet(  # type: ignore[misc]
                records.space, order, start, min(start + _SHARE, n), window, near, apart
            ),
            range(0, n, _SHARE),
            threads,
        )
    return near, apart
