"""Ruin and recreate under privacy criteria: dissolve a few near classes, build new ones, keep what loses less.

It takes records one by one, where `local_search` moves whole units. A new class grows from a seed by the record that
adds least, of a subject that it lacks, until it meets the criteria; records left over join where they add least.
(Schrimpf et al. 2000, as in `methods.refine`.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from duckanon.engines.compiled import compiled, inner
from duckanon.engines.kanon.criteria.classes import ClassBoxes, Counts, absorb, empty, joined_loss, take
from duckanon.engines.kanon.criteria.diversity import Tally
from duckanon.engines.kanon.criteria.privacy_criteria import CriteriaArrays, meets, tally_for
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.kernels.random_bits import Bits, random_below
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats

# Differences below this are rounding.
_NOTHING = 1e-10
# Records that are dissolved at a time, at most; and classes, at least and at most.
_POOL, _FEWEST, _MOST = 192, 2, 7
# A change for the worse may pass at first: by about this share of a class's mean loss, shrinking to nothing.
_HEAT, _COOL, _ROUNDS = 0.1, 0.9, 40


class _Classes(NamedTuple):
    """Which of n records are in which class."""

    owner: Labels  # (n,): the class of each record, below n
    heads: Codes  # (n,): the first record of each class, -1 if there is none
    after: Codes  # (n,): the next record of the same class, -1 for none
    sizes: Codes  # (n,): records of each class
    losses: Floats  # (n,): loss of each class, summed over its records
    free: Codes  # (n,): numbers of the classes without any
    met: Counts  # (n,): in which visit each class was met


class _Room(NamedTuple):
    """Room for one visit."""

    chosen: Codes  # the classes that are dissolved
    pool: Codes  # their records: those not placed yet in front, then the new classes, the last one first
    sizes: Codes  # of the new classes, without the records left over
    joins: Codes  # of each record left over: which new class it joins
    members: Codes
    met: Counts  # by subject: the number of the last new class that took it in
    number: Counts  # (2,): of the class that grows its number, and how many numbers of classes are free
    state: Bits


@inner
def _ruin(start: int, near: Codes, classes: _Classes, room: _Room, visit: int) -> int:
    """Choose the class of record `start` and others near it; how many. 0 if that class is too large."""
    owner, sizes, met = classes.owner, classes.sizes, classes.met
    goal = _FEWEST + random_below(room.state, _MOST - _FEWEST + 1)
    room.chosen[0] = owner[start]
    met[owner[start]] = visit
    count = int(sizes[owner[start]])
    chosen = 1 if count <= _POOL else 0
    for x in range(near.shape[1]):
        v = near[start, x]
        if v < 0 or chosen == 0 or chosen >= goal:
            break
        c = owner[v]
        # Leave out one in four: otherwise the nearest classes would always give the same pool.
        if met[c] == visit or count + sizes[c] > _POOL or random_below(room.state, 4) == 0:
            continue
        met[c] = visit
        room.chosen[chosen] = c
        chosen += 1
        count += sizes[c]
    return chosen


@inner
def _counts(criteria: CriteriaArrays, room: _Room, u: int) -> bool:
    """Whether record u counts in the class that grows: its subject is not in it yet, or records count."""
    if criteria.held.shape[0] == 0:
        return True
    if criteria.held[u] == criteria.held[u + 1]:
        return False
    return bool(room.met[criteria.subjects[criteria.held[u]]] != room.number[0])


@inner
def _grow(boxes: ClassBoxes, criteria: CriteriaArrays, tally: Tally, room: _Room, at: int, left: int) -> int:
    """Build a class of the first `left` records of the pool in box `at`; how many it has, 0 if they do not suffice.

    They stand behind the others then.
    """
    pool, members = room.pool, room.members
    empty(boxes, at)
    room.number[0] += 1
    size = 0
    counted = 0
    best = random_below(room.state, left)
    while best >= 0:
        u = pool[best]
        size += 1
        pool[best] = pool[left - size]
        pool[left - size] = u
        absorb(boxes, at, boxes, u)
        members[size - 1] = u
        if _counts(criteria, room, u):
            counted += 1
            if criteria.held.shape[0] > 0:
                room.met[criteria.subjects[criteria.held[u]]] = room.number[0]
        if counted >= criteria.k and (criteria.ordered.shape[0] == 0 or meets(criteria, members, size, size, tally)):
            return size
        least = np.inf
        best = -1
        for t in range(left - size):
            if _counts(criteria, room, pool[t]):
                loss = joined_loss(boxes, at, pool[t])
                if loss < least:
                    least = loss
                    best = t
    return 0


@inner
def _place_rest(boxes: ClassBoxes, room: _Room, first: int, built: int, left: int) -> None:
    """Let each of the first `left` records of the pool join the new class where it adds least."""
    for t in range(left):
        u = room.pool[t]
        least = np.inf
        for c in range(built):
            size = boxes.size[first + c]
            own = joined_loss(boxes, first + c, first + c)
            added = (size + 1) * joined_loss(boxes, first + c, u) - size * own
            if added < least:
                least = added
                room.joins[t] = c
        absorb(boxes, first + room.joins[t], boxes, u)


@inner
def _still_meet(criteria: CriteriaArrays, tally: Tally, room: _Room, built: int, left: int) -> bool:
    """Whether the new classes meet the criteria with the records that joined them."""
    if criteria.ordered.shape[0] == 0 or left == 0:
        return True
    stop = left
    for c in range(built - 1, -1, -1):
        count = 0
        for t in range(stop, stop + room.sizes[c]):
            room.members[count] = room.pool[t]
            count += 1
        stop += room.sizes[c]
        for t in range(left):
            if room.joins[t] == c:
                room.members[count] = room.pool[t]
                count += 1
        if not meets(criteria, room.members, count, count, tally):
            return False
    return True


@inner
def _enter(classes: _Classes, number: int, u: int) -> None:
    """Put record u into a class."""
    classes.owner[u] = number
    classes.after[u] = classes.heads[number]
    classes.heads[number] = u
    classes.sizes[number] += 1


@inner
def _renew(boxes: ClassBoxes, classes: _Classes, room: _Room, chosen: int, built: int, left: int, unused: int) -> int:
    """Put the new classes in place of the dissolved ones; how many numbers of classes are free then."""
    first = classes.owner.shape[0]
    for t in range(chosen):
        classes.sizes[room.chosen[t]] = 0
        classes.heads[room.chosen[t]] = -1
        classes.free[unused + t] = room.chosen[t]
    unused += chosen
    for c in range(built):
        number = classes.free[unused - 1 - c]
        classes.losses[number] = boxes.size[first + c] * joined_loss(boxes, first + c, first + c)
    for t in range(left):
        _enter(classes, int(classes.free[unused - 1 - room.joins[t]]), room.pool[t])
    stop = left
    for c in range(built - 1, -1, -1):
        for t in range(stop, stop + room.sizes[c]):
            _enter(classes, int(classes.free[unused - 1 - c]), room.pool[t])
        stop += room.sizes[c]
    return unused - built


@compiled
def _rebuild(
    boxes: ClassBoxes,
    near: Codes,
    criteria: CriteriaArrays,
    tally: Tally,
    classes: _Classes,
    room: _Room,
    unused: int,
    visits: int,
    heat: float,
    begin: int,
) -> float:
    """The loop. unused: how many of `classes.free` are there. heat: how much worse a change may be, about."""
    first = classes.owner.shape[0]
    gained = 0.0
    for visit in range(begin, begin + visits):
        start = random_below(room.state, first)
        if classes.losses[classes.owner[start]] <= _NOTHING:
            continue
        chosen = _ruin(start, near, classes, room, visit)
        left = 0
        old = 0.0
        for t in range(chosen):
            old += classes.losses[room.chosen[t]]
            u = classes.heads[room.chosen[t]]
            while u >= 0:
                room.pool[left] = u
                left += 1
                u = classes.after[u]
        # What the new classes must stay below.
        worst = old - _NOTHING
        if heat > 0.0:
            worst -= heat * np.log((random_below(room.state, 1 << 30) + 1.0) / (1 << 30))
        built = 0
        new = 0.0
        while left >= criteria.k and new < worst:
            size = _grow(boxes, criteria, tally, room, first + built, left)
            if size == 0:
                break
            room.sizes[built] = size
            new += size * joined_loss(boxes, first + built, first + built)
            built += 1
            left -= size
        if built == 0 or new >= worst:
            continue
        _place_rest(boxes, room, first, built, left)
        new = 0.0
        for c in range(built):
            new += boxes.size[first + c] * joined_loss(boxes, first + c, first + c)
        if new < worst and _still_meet(criteria, tally, room, built, left):
            unused = _renew(boxes, classes, room, chosen, built, left, unused)
            gained += old - new
    room.number[1] = unused
    return gained


def rebuild(
    records: ClassBoxes,
    near: Codes,
    criteria: CriteriaArrays,
    labels: Labels,
    visits: float,
    proceed: Callable[[float], bool],
) -> Labels:
    """Improve classes of records that meet the criteria, and do so afterwards. Labels from 0 without gaps, shape (n,).

    records: as from `record_boxes`; the criteria are for the same units. near: as from `near_records`. visits: how
    often each record is where a try begins, on average. proceed: called with the share of them made; False ends it.
    """
    n, labels = len(labels), _numbered(labels)
    boxes = take(records, np.append(np.arange(n), np.zeros(_POOL // criteria.k + 1, np.intp)))
    classes, unused = _as_they_are(boxes, labels)
    most = max(int(classes.sizes.max()), _POOL) + 1
    pool, sizes, joins, members = np.zeros((4, most), np.int32)
    met = np.full(int(criteria.subjects.max(initial=0)) + 1, -1, np.int64)
    state = np.array([0x9E3779B97F4A7C15], np.uint64)
    room = _Room(np.zeros(_MOST, np.int32), pool, sizes, joins, members, met, np.array([0, unused]), state)
    tally, total = tally_for(criteria), max(1, int(visits * n))
    loss = best_loss = float(classes.losses.sum())
    best = labels
    step = max(1, total // _ROUNDS)
    for done in range(0, total, step):
        if not proceed(done / total):
            break
        heat = _HEAT * max(0.0, 1.0 - done / (_COOL * total)) * criteria.k * loss / n
        loss -= _rebuild(boxes, near, criteria, tally, classes, room, int(room.number[1]), step, heat, done)
        if loss < best_loss:
            best, best_loss = _numbered(classes.owner), loss
    return best


def _numbered(owner: Labels) -> Labels:
    """The same classes, numbered from 0."""
    return np.unique(owner, return_inverse=True)[1].ravel().astype(np.int32)


def _as_they_are(boxes: ClassBoxes, labels: Labels) -> tuple[_Classes, int]:
    """The classes, and how many of n numbers are free for others."""
    n, order, sizes = len(labels), by_label(labels), np.bincount(labels, minlength=len(labels)).astype(np.int32)
    heads, after = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    ends = np.cumsum(sizes[sizes > 0]) - 1
    after[order[:-1]] = order[1:]
    after[order[ends]] = -1
    heads[: len(ends)] = order[ends - sizes[: len(ends)] + 1]
    free = np.zeros(n, np.int32)
    unused = n - len(ends)
    free[:unused] = np.arange(n - 1, len(ends) - 1, -1)
    classes = _Classes(labels.copy(), heads, after, sizes, np.zeros(n), free, np.full(n, -1, np.int64))
    _losses(boxes, classes)
    return classes, unused


@compiled
def _losses(boxes: ClassBoxes, classes: _Classes) -> None:
    """Fill in the loss of each class."""
    n = classes.owner.shape[0]
    for c in range(n):
        if classes.sizes[c] == 0:
            continue
        empty(boxes, n)
        u = classes.heads[c]
        while u >= 0:
            absorb(boxes, n, boxes, u)
            u = classes.after[u]
        classes.losses[c] = classes.sizes[c] * joined_loss(boxes, n, n)
