"""Ruin and recreate for the sum of squares: dissolve a few near classes, build new ones, keep what is less.

A new class grows from a seed by the point nearest to its mean. What is built is improved at once: points move to other
new classes, or two change places, while that lowers the sum (Schrimpf et al. 2000, as in `methods.refine`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inlined, inner
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.kernels.random_bits import Bits, random_below
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats

Counts = npt.NDArray[np.int64]

# Changes below this share of the sum of squares are rounding.
_ROUNDING = 1e-12
# Points that are dissolved at a time, at most; and up to which k how many classes, at least and at most.
_POOL = 96
_RUINED = ((4, (2, 7)), (2**31, (2, 5)))
# A change for the worse may pass at first: by about this share of the mean sum of the classes that are dissolved (those
# of outliers are thousands of times those of others), shrinking to nothing when that share of the budget is spent. And
# in how many steps it shrinks.
_HEAT, _COOL, _ROUNDS = 0.08, 0.9, 50


class _Classes(NamedTuple):
    """Which of n points are in which class. A class has a row of `members`."""

    owner: Labels  # (n,)
    members: Codes  # (classes, 2k - 1)
    sizes: Codes  # (classes,): points of each, 0 where the row is free
    sums: Floats  # (classes,): squared distances from the mean
    free: Codes  # (classes,): rows without points
    met: Counts  # (classes,): in which visit each was met


class _Room(NamedTuple):
    """Room for one visit: what is dissolved, and the new classes."""

    chosen: Codes  # the classes that are dissolved
    pool: Codes  # their points
    at: Codes  # the new class of each point of the pool, -1 for none yet
    totals: Floats  # (most, d): the sum of the points of each new class
    sizes: Codes  # (most,)
    sums: Floats  # (most,): squared distances from the mean
    middle: Floats  # (d,)
    number: Counts  # (1,): how many rows are free
    state: Bits


@inlined
def _apart(points: Floats, i: int, total: Floats, count: int) -> float:
    """The squared distance of a point from the mean of `count` points with this total."""
    squared = 0.0
    for j in range(points.shape[1]):
        away = points[i, j] - total[j] / count
        squared += away * away
    return squared


@inner
def _ruin(start: int, near: Codes, classes: _Classes, room: _Room, visit: int, fewest: int, most: int) -> int:
    """Choose the class of point `start` and others near it, and put their points into the pool; how many points."""
    owner, sizes, met = classes.owner, classes.sizes, classes.met
    goal = fewest + random_below(room.state, most - fewest + 1)
    room.chosen[:] = -1
    room.chosen[0] = owner[start]
    met[owner[start]] = visit
    count = int(sizes[owner[start]])
    chosen = 1
    for x in range(near.shape[1]):
        if chosen >= goal:
            break
        c = owner[near[start, x]]
        # Leave out one in four: otherwise the nearest classes would always give the same pool.
        if met[c] == visit or count + sizes[c] > room.pool.shape[0] or random_below(room.state, 4) == 0:
            continue
        met[c] = visit
        room.chosen[chosen] = c
        chosen += 1
        count += sizes[c]
    filled = 0
    for t in range(chosen):
        c = room.chosen[t]
        for place in range(sizes[c]):
            room.pool[filled] = classes.members[c, place]
            room.at[filled] = -1
            filled += 1
    return filled


@inner
def _enter(points: Floats, room: _Room, place: int, c: int) -> None:
    """Put a point of the pool into a new class."""
    room.at[place] = c
    room.sizes[c] += 1
    for j in range(points.shape[1]):
        room.totals[c, j] += points[room.pool[place], j]


@inner
def _random(room: _Room, left: int) -> int:
    """One of the `left` points of the pool without a class."""
    skip = random_below(room.state, left)
    t = 0
    while room.at[t] >= 0 or skip > 0:
        skip -= room.at[t] < 0
        t += 1
    return t


@inner
def _outlier(points: Floats, room: _Room, count: int, left: int) -> int:
    """The point farthest from the mean of the `left` points of the pool without a class."""
    room.middle[:] = 0.0
    for t in range(count):
        if room.at[t] < 0:
            for j in range(points.shape[1]):
                room.middle[j] += points[room.pool[t], j]
    best = -1
    farthest = -1.0
    for t in range(count):
        if room.at[t] < 0:
            away = _apart(points, room.pool[t], room.middle, left)
            if away > farthest:
                farthest = away
                best = t
    return best


@inner
def _recreate(points: Floats, room: _Room, count: int, k: int, built: int) -> None:
    """Build `built` classes of k points of the pool, and let those left over join where they add least."""
    outliers = random_below(room.state, 2) == 0
    left = count
    for c in range(built):
        room.totals[c, :] = 0.0
        room.sizes[c] = 0
        seed = _outlier(points, room, count, left) if outliers else _random(room, left)
        _enter(points, room, seed, c)
        left -= 1
        while room.sizes[c] < k:
            best = -1
            least = np.inf
            for t in range(count):
                if room.at[t] < 0:
                    away = _apart(points, room.pool[t], room.totals[c], room.sizes[c])
                    if away < least:
                        least = away
                        best = t
            _enter(points, room, best, c)
            left -= 1
    for t in range(count):
        if room.at[t] >= 0:
            continue
        best = 0
        least = np.inf
        for c in range(built):
            size = room.sizes[c]
            added = _apart(points, room.pool[t], room.totals[c], size) * size / (size + 1)
            if size < 2 * k - 1 and added < least:
                least = added
                best = c
        _enter(points, room, t, best)


@inlined
def _change(points: Floats, room: _Room, a: int, b: int, place: int, other: int) -> float:
    """What the sums grow by if point `place` of class a and point `other` of class b change places."""
    first = room.pool[place]
    second = room.pool[other]
    n = room.sizes[a]
    m = room.sizes[b]
    grown = 0.0
    apart = 0.0
    for j in range(points.shape[1]):
        x = points[first, j]
        y = points[second, j]
        # |y - A|^2 - |x - A|^2 + |x - B|^2 - |y - B|^2 = 2 (x - y) (A - B)
        grown += 2.0 * (x - y) * (room.totals[a, j] / n - room.totals[b, j] / m)
        apart += (x - y) * (x - y)
    return float(grown - apart / n - apart / m)


@inner
def _leave(points: Floats, room: _Room, place: int) -> None:
    """Take a point of the pool out of its new class."""
    c = room.at[place]
    room.sizes[c] -= 1
    for j in range(points.shape[1]):
        room.totals[c, j] -= points[room.pool[place], j]


@inner
def _step(points: Floats, room: _Room, place: int, count: int, built: int, k: int, least: float) -> bool:
    """Make the change of one point that lowers the sums most, if one does by more than `least`: a move or a swap."""
    a = room.at[place]
    best = -least
    target = -1
    partner = -1
    if room.sizes[a] > k:
        n = room.sizes[a]
        freed = _apart(points, room.pool[place], room.totals[a], n) * n / (n - 1)
        for c in range(built):
            m = room.sizes[c]
            if c != a and m < 2 * k - 1:
                grown = _apart(points, room.pool[place], room.totals[c], m) * m / (m + 1) - freed
                if grown < best:
                    best = grown
                    target = c
    for other in range(count):
        b = room.at[other]
        if b != a:
            grown = _change(points, room, a, b, place, other)
            if grown < best:
                best = grown
                target = b
                partner = other
    if target < 0:
        return False
    _leave(points, room, place)
    if partner >= 0:
        _leave(points, room, partner)
        _enter(points, room, partner, a)
    _enter(points, room, place, target)
    return True


@inner
def _sum(points: Floats, room: _Room, count: int, built: int) -> float:
    """The squared distances of all points of the pool from the means of their new classes; also of each class."""
    whole = 0.0
    for c in range(built):
        room.sums[c] = 0.0
    for t in range(count):
        c = room.at[t]
        room.sums[c] += _apart(points, room.pool[t], room.totals[c], room.sizes[c])
    for c in range(built):
        whole += room.sums[c]
    return whole


@inner
def _renew(classes: _Classes, room: _Room, count: int, built: int) -> None:
    """Put the new classes in place of the dissolved ones."""
    unused = room.number[0]
    for t in range(room.chosen.shape[0]):
        c = room.chosen[t]
        if c >= 0:
            classes.sizes[c] = 0
            classes.free[unused] = c
            unused += 1
    for c in range(built):
        classes.sums[classes.free[unused - 1 - c]] = room.sums[c]
    for t in range(count):
        row = classes.free[unused - 1 - room.at[t]]
        classes.members[row, classes.sizes[row]] = room.pool[t]
        classes.sizes[row] += 1
        classes.owner[room.pool[t]] = row
    room.number[0] = unused - built


@compiled
def _search(
    points: Floats, near: Codes, classes: _Classes, room: _Room, k: int, ruined: tuple[int, int], heat: float,
    visits: tuple[int, int],
) -> float:  # fmt: skip
    """The loop; what was gained. heat: how much worse a change may be, as a share of a dissolved class.

    visits: the first one's number and the one behind the last.
    """
    n = classes.owner.shape[0]
    gained = 0.0
    for visit in range(visits[0], visits[1]):
        start = random_below(room.state, n)
        if classes.sums[classes.owner[start]] == 0.0:
            continue
        count = _ruin(start, near, classes, room, visit, ruined[0], ruined[1])
        old = 0.0
        for t in range(room.chosen.shape[0]):
            if room.chosen[t] >= 0:
                old += classes.sums[room.chosen[t]]
        built = count // k
        # One time in ten a class fewer.
        if built > 1 and count <= (built - 1) * (2 * k - 1) and random_below(room.state, 10) == 0:
            built -= 1
        _recreate(points, room, count, k, built)
        least = _ROUNDING * old
        changed = built > 1
        passes = 0
        while changed and passes < 20:
            changed = False
            passes += 1
            for place in range(count):
                if _step(points, room, place, count, built, k, least):
                    changed = True
        new = _sum(points, room, count, built)
        worst = old - least
        if heat > 0.0:
            worst -= heat * old * k / count * np.log((random_below(room.state, 1 << 30) + 1.0) / (1 << 30))
        if new < worst:
            _renew(classes, room, count, built)
            gained += old - new
    return gained


def improve(
    points: Floats,
    near: Codes,
    labels: Labels,
    k: int,
    visits: float,
    proceed: Callable[[float], bool] = lambda _: True,
) -> Labels:
    """Classes of k .. 2k - 1 points with a sum of squares that is no greater. Labels of shape (n,), from 0.

    points: shape (n, d). near: shape (n, w), points near each, the nearest first. labels: classes of k .. 2k - 1, from
    0 without gaps. visits: how often each point is where a try begins, on average. proceed: called with the share of
    them made; False ends it.
    """
    n = len(points)
    classes, unused = _as_they_are(points, labels, k)
    ruined = next(few for largest, few in _RUINED if k <= largest)
    width = max(_POOL, 2 * (2 * k - 1))
    most = width // k
    room = _Room(
        np.full(ruined[1], -1, np.int32),
        np.zeros(width, np.int32),
        np.zeros(width, np.int32),
        np.zeros((most, points.shape[1])),
        np.zeros(most, np.int32),
        np.zeros(most),
        np.zeros(points.shape[1]),
        np.array([unused]),
        np.array([0x9E3779B97F4A7C15], np.uint64),
    )
    total = max(1, int(visits * n))
    loss = best_loss = float(classes.sums.sum())
    best, step = labels, max(1, total // _ROUNDS)
    for done in range(0, total, step):
        if not proceed(done / total):
            break
        heat = _HEAT * max(0.0, 1.0 - done / (_COOL * total))
        loss -= _search(points, near, classes, room, k, ruined, heat, (done, done + step))
        if loss < best_loss:
            best, best_loss = numbered(classes.owner), loss
    return best


def numbered(owner: Labels) -> Labels:
    """The same classes, numbered from 0."""
    return np.unique(owner, return_inverse=True)[1].ravel().astype(np.int32)


def _as_they_are(points: Floats, labels: Labels, k: int) -> tuple[_Classes, int]:
    """The classes, with room for as many as there can be, and how many rows are free."""
    n = len(labels)
    rows, sizes = n // k, np.bincount(labels)
    members = np.zeros((rows, 2 * k - 1), np.int32)
    order = by_label(labels)
    place = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members[labels[order], place] = order
    filled, sums, free = np.zeros(rows, np.int32), np.zeros(rows), np.zeros(rows, np.int32)
    filled[: len(sizes)] = sizes
    sums[: len(sizes)] = class_sums(points, labels)
    unused = rows - len(sizes)
    free[:unused] = np.arange(rows - 1, len(sizes) - 1, -1)
    return _Classes(labels.copy(), members, filled, sums, free, np.full(rows, -1, np.int64)), unused


def class_sums(points: Floats, labels: Labels) -> Floats:
    """The squared distances of the points of each class from its mean. labels: from 0 without gaps."""
    order, sizes = by_label(labels), np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    means = np.add.reduceat(points[order], starts) / sizes[:, None]
    away = points[order] - means[labels[order]]
    sums: Floats = np.add.reduceat((away * away).sum(axis=1), starts)
    return sums
