"""Prices made valid for the sum of squares: the prices of no class of k to 2k - 1 points add up to more than it has.

Points are taken from the cheapest to the dearest, and each price falls by as much as the classes of that point and
cheaper ones are exceeded, at prices that have fallen already. (As in `certificate.pricing`, where classes lose by
their boxes.) The classes are searched depth first, by branch and bound.

The sum of squares of a class of t points is the sum over its pairs of their squared distances, divided by t. So of a
class that has the points S and r others, t together, the value (prices less sum) is at most what S has by itself, over
t, and the r best of the others, each by its price, its distances from S, and half of its r - 1 least distances from
any points, over t.

Three points may have a price too (`Triples`): what a class pays that has two of them or all. It is taken off the value
once the second of them is in the class, so the bound holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from duckanon.engines.compiled import compiled, inlined, inner
from duckanon.engines.kanon.records import Codes, Floats

# A search that is cut short is tried again at this share of its price, so many times at most.
_LOWER, _TRIES = 0.6, 6
# Pairs that are looked at before the clock is.
_LOOKS = 1 << 22


class OutOfTime(Exception):
    """The time, or what could be looked at, was used up before all prices were valid."""


class MetClasses(NamedTuple):
    """Room for classes that searches meet: members, -1 behind the last, shape (room, 2k - 1)."""

    members: Codes
    worth: Floats  # (room,): prices less the sum of squares
    filled: Codes  # (1,): how many


class Triples(NamedTuple):
    """Triples of points, of which a partition has at most one class with two or more (subset-row cuts, Jepsen et al.
    2008), and their prices, 0 or more.
    """

    points: Codes  # (triples, 3)
    prices: Floats  # (triples,)
    starts: Codes  # (n + 1,): where the triples of each point start in `of`
    of: Codes  # (3 triples,)


def triples(points: Codes, prices: Floats, n: int) -> Triples:
    """Those of n points. points: shape (triples, 3)."""
    starts = np.append(0, np.cumsum(np.bincount(points.ravel(), minlength=n))).astype(np.int32)
    return Triples(points, prices, starts, (np.argsort(points.ravel(), kind="stable") // 3).astype(np.int32))


class Space(NamedTuple):
    """What a search works on."""

    points: Floats  # (n, d)
    least: Floats  # (n, 2k - 1): as from `least_distances`
    triples: Triples


class _Room(NamedTuple):
    """Room for a search: what stands at depth s belongs to the first s points of the class that is built."""

    chosen: Codes  # (2k,): the points
    others: Codes  # (2k, n): points that may follow
    away: Floats  # (2k, n): the sum of their squared distances from the chosen points
    counts: Codes  # (2k,): how many of them there are
    at: Codes  # (2k,): the next one to be tried
    pairs: Floats  # (2k,): the sum of the squared distances of the chosen points
    price: Floats  # (2k,): the sum of their prices
    top: Floats  # (2k, 2k): for each size the values of the best points that follow, falling


@inlined
def _squared(points: Floats, i: int, other: int) -> float:
    distance = 0.0
    for j in range(points.shape[1]):
        away = points[i, j] - points[other, j]
        distance += away * away
    return distance


@inlined
def _worth(prices: Floats, least: Floats, i: int, away: float, size: int, left: int) -> float:
    """What point i adds to a class of `size` at most, of which `left` points are missing with it."""
    return float(prices[i] - (away + 0.5 * least[i, left - 1]) / size)


@inner
def _bound(room: _Room, prices: Floats, least: Floats, depth: int, k: int) -> float:
    """The most that a class has which follows at this depth. Fills in `room.top`."""
    best = -np.inf
    for size in range(max(k, depth + 1), 2 * k):
        left = size - depth
        top = room.top[size]
        for x in range(left):
            top[x] = -np.inf
        for t in range(room.at[depth], room.counts[depth]):
            worth = _worth(prices, least, room.others[depth, t], room.away[depth, t], size, left)
            if worth > top[left - 1]:
                x = left - 1
                while x > 0 and top[x - 1] < worth:
                    top[x] = top[x - 1]
                    x -= 1
                top[x] = worth
        whole = room.price[depth] - room.pairs[depth] / size
        for x in range(left):
            whole += top[x]
        best = max(best, whole)
    return best


@inner
def _thin_out(room: _Room, prices: Floats, least: Floats, depth: int, k: int, best: float) -> None:
    """Leave out points that no class above `best` has. room.top: as `_bound` fills it in."""
    kept = 0
    for t in range(room.counts[depth]):
        i = room.others[depth, t]
        for size in range(max(k, depth + 1), 2 * k):
            left = size - depth
            whole = room.price[depth] - room.pairs[depth] / size
            whole += _worth(prices, least, i, room.away[depth, t], size, left)
            for x in range(left - 1):
                whole += room.top[size, x]
            if whole > best:
                room.others[depth, kept] = i
                room.away[depth, kept] = room.away[depth, t]
                kept += 1
                break
    room.counts[depth] = kept


@inner
def _paid(room: _Room, triple: Triples, depth: int, i: int) -> float:
    """The prices of triples of which point i is the second in the class."""
    paid = 0.0
    for e in range(triple.starts[i], triple.starts[i + 1]):
        number = triple.of[e]
        held = 0
        for x in range(depth):
            for part in range(3):
                held += room.chosen[x] == triple.points[number, part]
        if held == 1:
            paid += triple.prices[number]
    return paid


@inner
def _open(points: Floats, triple: Triples, room: _Room, prices: Floats, depth: int, t: int) -> int:
    """Add the t-th point that may follow at this depth, and list those that may follow it; how many."""
    i = room.others[depth, t]
    room.chosen[depth] = i
    room.pairs[depth + 1] = room.pairs[depth] + room.away[depth, t]
    room.price[depth + 1] = room.price[depth] + prices[i] - _paid(room, triple, depth, i)
    filled = 0
    for x in range(t + 1, room.counts[depth]):
        other = room.others[depth, x]
        room.others[depth + 1, filled] = other
        room.away[depth + 1, filled] = room.away[depth, x] + _squared(points, i, other)
        filled += 1
    room.counts[depth + 1] = filled
    room.at[depth + 1] = 0
    return filled


@inner
def _record(room: _Room, met: MetClasses, first: int, size: int, worth: float, keep: int) -> None:
    """Keep a class among the `keep` best of this search, whose places begin at `first`."""
    count = met.filled[0]
    place = count
    if count - first >= keep:
        place = first
        for c in range(first, count):
            if met.worth[c] < met.worth[place]:
                place = c
        if met.worth[place] >= worth:
            return
    else:
        met.filled[0] = count + 1
    met.worth[place] = worth
    for x in range(met.members.shape[1]):
        met.members[place, x] = room.chosen[x] if x < size else -1


@inner
def _search(
    space: Space, prices: Floats, room: _Room, k: int, steps: int, met: MetClasses, keep: int
) -> tuple[float, bool, int]:
    """The most that a class has of point room.chosen[0] and those listed at depth 1, at least 0; whether that is only a
    bound, as the search was cut short after so many steps; and how many it took.
    """
    points, least, triple = space
    best = 0.0
    depth = 1
    spent = room.counts[1]
    first = met.filled[0]
    if _bound(room, prices, least, 1, k) <= best:
        return best, False, spent
    _thin_out(room, prices, least, 1, k, best)
    while depth > 0:
        t = room.at[depth]
        if t >= room.counts[depth]:
            depth -= 1
            continue
        if spent > steps:
            bound = best
            for d in range(1, depth + 1):
                bound = max(bound, _bound(room, prices, least, d, k))
            return bound, True, spent
        room.at[depth] = t + 1
        spent += 1 + _open(points, triple, room, prices, depth, t)
        size = depth + 1
        if size >= k:
            worth = room.price[size] - room.pairs[size] / size
            if keep > 0 and worth > 0.0:
                _record(room, met, first, size, worth, keep)
            best = max(best, worth)
        if size < 2 * k - 1 and _bound(room, prices, least, size, k) > best:
            _thin_out(room, prices, least, size, k, best)
            depth = size
    return best, False, spent


@compiled
def _take(
    space: Space,
    order: Codes,
    prices: Floats,
    room: _Room,
    k: int,
    begin: int,
    effort: tuple[int, int, int],
    met: MetClasses,
) -> tuple[int, int]:
    """Lower the prices of some points, from order[begin] on, until so many pairs were looked at.

    effort: steps of a search, classes that each keeps, and pairs. How many points are done, and the pairs looked at.
    """
    steps, keep, looks = effort
    spent = 0
    while begin < order.shape[0] and spent < looks and met.filled[0] + keep <= met.members.shape[0]:
        a = order[begin]
        raw = prices[a]
        tried = raw
        valid = -np.inf
        for trial in range(_TRIES):
            prices[a] = tried
            room.chosen[0] = a
            room.pairs[1] = 0.0
            room.price[1] = tried
            room.at[1] = 0
            for t in range(begin):
                room.others[1, t] = order[begin - 1 - t]
                room.away[1, t] = _squared(space.points, a, room.others[1, t])
            room.counts[1] = begin
            above, short, looked = _search(space, prices, room, k, steps, met, keep if trial == 0 else 0)
            spent += looked + begin
            valid = max(valid, tried - above)
            tried = tried * _LOWER
            if not short or valid >= tried:
                break
        prices[a] = min(valid, raw)
        begin += 1
    return begin, spent


def least_distances(points: Floats, most: int) -> Floats:
    """The sum of the least squared distances of each point from others: of 0 .. most - 1 of them. Shape (n, most)."""
    from scipy.spatial import cKDTree

    apart = cKDTree(points).query(points, min(most, len(points)))[0]
    apart = np.atleast_2d(apart.reshape(len(points), -1))
    # A little less, as they are rounded; a point's distance from itself, the first, is zero.
    sums = np.zeros((len(points), most))
    sums[:, : apart.shape[1]] = np.cumsum(apart**2, axis=1) * (1.0 - 1e-9)
    sums[:, apart.shape[1] :] = sums[:, apart.shape[1] - 1 : apart.shape[1]]
    return sums


def valid_prices(
    space: Space,
    raw: Floats,
    k: int,
    effort: tuple[int, int],
    is_over: Callable[[int], bool] = lambda _: False,
) -> tuple[Floats, Codes, int]:
    """Prices as high as `raw`, or lower where they must be; the classes met, as in `MetClasses`; the pairs looked at.

    The prices of triples stay as they are. raw: shape (n,), 0 or more. effort: steps of
    a search, and classes that each keeps. is_over: called some times a second, with how much has been looked at; raises
    `OutOfTime` once it is true.
    """
    n, largest = len(raw), 2 * k - 1
    order = np.argsort(raw, kind="stable").astype(np.int32)
    prices, parts = raw.copy(), list[Codes]()
    held = max(20_000, 2 * effort[1])
    met = MetClasses(np.full((held, largest), -1, np.int32), np.zeros(held), np.zeros(1, np.int32))
    room = _Room(
        np.zeros(2 * k, np.int32),
        np.zeros((2 * k, n), np.int32),
        np.zeros((2 * k, n)),
        np.zeros(2 * k, np.int32),
        np.zeros(2 * k, np.int32),
        np.zeros(2 * k),
        np.zeros(2 * k),
        np.zeros((2 * k, 2 * k)),
    )
    done, spent = 0, 0
    while done < n:
        met.filled[0] = 0
        done, looked = _take(space, order, prices, room, k, done, (*effort, _LOOKS), met)
        parts.append(met.members[: met.filled[0]].copy())
        spent += looked
        if done < n and is_over(spent):
            raise OutOfTime
    return prices, np.concatenate(parts), spent
