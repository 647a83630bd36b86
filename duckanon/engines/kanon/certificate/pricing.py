"""Prices made valid: no class of k to 2k - 1 records loses less than the prices of its records add up to.

Points are taken from the cheapest to the dearest, and each price is lowered by what the search from its point
(`search`) bounds from above, over classes of that point and cheaper ones, at prices that are lowered already. So every
class is valid once its dearest point has been taken, and stays so, since no price rises again. Lowering all prices
at once by what each search found would be valid too, but loses several times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.certificate.points import Distinct, Points, Tree, Whole
from duckanon.engines.kanon.certificate.search import Classes, Room, new_room, search
from duckanon.engines.kanon.records import Codes

# Candidates that are looked at before the clock is, some tens of milliseconds.
_LOOKS = 1 << 21
# Classes that are handed over at a time, by numbers in them.
_HANDED = 1 << 20
# A search that is cut short is tried again at this share of its price, so many times at most: what is left of a lower
# price may be more.
_LOWER, _OF, _TRIES = 3, 5, 9


class OutOfTime(Exception):
    """The time, or what could be looked at, was used up before all prices were valid."""


class Effort(NamedTuple):
    """steps: candidates that a search looks at before it is cut short. keep: classes that each hands over at most."""

    steps: int
    keep: int


@dataclass(frozen=True, eq=False)
class Priced:
    """prices: shape (points,), in grains, valid. members, times: the classes that were met, as in `Classes`.

    cut: shape (points,), how much a price was lowered whose first search was cut short, else 0. spent: all that was
    looked at.
    """

    prices: Whole
    members: Codes
    times: Codes
    cut: Whole
    spent: int


@compiled
def _take(
    points: Points,
    tree: Tree,
    room: Room,
    order: Codes,
    rank: Codes,
    prices: Whole,
    cut: Whole,
    left: int,
    most: int,
    k: int,
    effort: Effort,
    classes: Classes,
    looks: int,
) -> tuple[int, int, int, int]:
    """Lower the prices of some points, from order[left - 1] downwards, until so many candidates were looked at.

    cut: shape (points,), set to how much a price was lowered if its first search was cut short. Returns how many points
    are left, the greatest valid price, how many classes were found, and the candidates looked at.
    """
    spent = 0
    class_count = 0
    space = classes.members.shape[0] - 1 - effort.keep
    while left > 0 and spent < looks and class_count <= space:
        left -= 1
        a = order[left]
        raw = prices[a]
        cut[a] = 0
        if raw <= 0:
            continue
        tried = raw
        valid = -(1 << 62)
        for trial in range(_TRIES):
            prices[a] = tried
            keep = effort.keep if trial == 0 else 0
            above, short, looked, better = search(
                points, tree, room, rank, prices, a, max(tried, most), k, effort.steps, classes, class_count, keep
            )
            spent += looked
            class_count += better
            valid = max(valid, tried - above)
            tried = tried * _LOWER // _OF
            if trial == 0 and short:
                cut[a] = 1
            if not short or valid >= tried:
                break
        cut[a] *= raw - valid
        prices[a] = valid
        most = max(most, valid)
    return left, most, class_count, spent


def valid_prices(
    distinct_points: Distinct,
    raw: Whole,
    k: int,
    effort: Effort,
    is_over: Callable[[int], bool] = lambda _: False,
    progress: Callable[[float], None] = lambda _: None,
) -> Priced:
    """Prices as high as `raw`, or lower where they must be. raw: shape (points,), in grains.

    is_over: called some times a second, with how much has been looked at; raises `OutOfTime` once it is true.
    """
    n, largest = len(distinct_points), 2 * k - 1
    order = np.argsort(-raw, kind="stable").astype(np.int32)
    rank = np.empty(n, np.int32)
    rank[order] = np.arange(n, dtype=np.int32)
    prices, cut = raw.copy(), np.zeros(n, np.int64)
    handed = max(_HANDED // largest, 2 * effort.keep) + 1
    classes = Classes(np.full((handed, largest), -1, np.int32), np.zeros((handed, largest), np.int32))
    room, parts = new_room(distinct_points, k), list[tuple[Codes, Codes]]()
    left, most, spent = n, 0, 0
    while left:
        left, most, met, looked = _take(
            distinct_points.points,
            distinct_points.tree,
            room,
            order,
            rank,
            prices,
            cut,
            left,
            most,
            k,
            effort,
            classes,
            _LOOKS,
        )
        parts.append((classes.members[:met].copy(), classes.times[:met].copy()))
        spent += looked
        progress(1.0 - left / n)
        if left and is_over(spent):
            raise OutOfTime
    members, times = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Priced(prices, members, times, cut, spent)


def total(distinct_points: Distinct, prices: Whole) -> int:
    """The prices of all records together, in grains: a whole number of any size."""
    return int(np.dot(prices.astype(object), distinct_points.points.copies.astype(object)))
