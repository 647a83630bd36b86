"""Local search over joined classes: units move to other classes, swap places or stand alone, while that loses less."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from duckanon.engines.compiled import called, compiled, inner
from duckanon.engines.kanon.criteria.classes import ClassBoxes, Counts, absorb, empty, joined_loss
from duckanon.engines.kanon.criteria.diversity import Tally
from duckanon.engines.kanon.criteria.privacy_criteria import CriteriaArrays, meets, tally_for
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Codes, Floats

# Differences below this are rounding.
_NOTHING = 1e-9
# A pass that gains no more than this share of what all have gained is the last.
_LITTLE = 0.02
# Units of a class beyond which it is left alone: each visit costs as many steps.
_LARGE = 256
# Boxes that `move` needs in addition to those of the classes.
ROOM = 4


@called
def _box(boxes: ClassBoxes, at: int, units: ClassBoxes, members: Codes, count: int, without: int, extra: int) -> None:
    """Write into box `at` the hull of the members, less one and with another; -1 for none."""
    empty(boxes, at)
    for t in range(count + 1):
        u = members[t] if t < count else extra
        if u < 0 or u == without:
            continue
        absorb(boxes, at, units, u)


@inner
def _listed(heads: Codes, after: Codes, c: int, without: int, extra: int, members: Codes) -> int:
    """The units of class c, less one and with another, into `members`; how many."""
    count = 0
    u = heads[c]
    while u >= 0:
        if u != without:
            members[count] = u
            count += 1
        u = after[u]
    if extra >= 0:
        members[count] = extra
        count += 1
    return count


@inner
def _transfer(heads: Codes, after: Codes, owner: Labels, unit_counts: Codes, u: int, to: int) -> None:
    """Take unit u out of its class and put it in front of another."""
    c = owner[u]
    if heads[c] == u:
        heads[c] = after[u]
    else:
        t = heads[c]
        while after[t] != u:
            t = after[t]
        after[t] = after[u]
    after[u] = heads[to]
    heads[to] = u
    owner[u] = to
    unit_counts[c] -= 1
    unit_counts[to] += 1


@inner
def _loss(boxes: ClassBoxes, at: int) -> float:
    return float(boxes.size[at] * joined_loss(boxes, at, at))


class _Chains(NamedTuple):
    """Which of the u units are in which class, and what is kept about the classes."""

    heads: Codes  # (u,): the first unit of each class, -1 if there is none
    after: Codes  # (u,): the next unit of the same class, -1 for none
    unit_counts: Codes  # (u,): units of each class
    free: Counts  # (u,): numbers of the classes without any
    members: Codes  # (u + 1,): room for the units of a class
    other_members: Codes  # (u + 1,): for those of another
    losses: Floats  # (u,): loss of each class
    met: Counts  # (u,): in which look at a unit each class was met


def move(
    units: ClassBoxes, boxes: ClassBoxes, near: Codes, criteria: CriteriaArrays, owner: Labels, passes: int
) -> float:
    """Change `owner`, shape (u,), in place: the class of each unit, below u. Returns what was gained.

    boxes: room for u + ROOM boxes. Every class must meet the criteria, and does so afterwards.
    """
    count = len(owner)
    unit_counts = np.bincount(owner, minlength=count).astype(np.int32)
    chains = _Chains(
        np.full(count, -1, np.int32),
        np.full(count, -1, np.int32),
        unit_counts,
        np.empty(count, np.int64),
        np.empty(count + 1, np.int32),
        np.empty(count + 1, np.int32),
        np.zeros(count),
        np.full(count, -1, np.int64),
    )
    return _move(units, boxes, near, criteria, tally_for(criteria), owner, chains, passes)


@compiled
def _move(
    units: ClassBoxes,
    boxes: ClassBoxes,
    near: Codes,
    criteria: CriteriaArrays,
    tally: Tally,
    owner: Labels,
    chains: _Chains,
    passes: int,
) -> float:
    heads, after, unit_counts, free, members, other_members, losses, met = chains
    count = len(owner)
    for u in range(count - 1, -1, -1):
        after[u] = heads[owner[u]]
        heads[owner[u]] = u
    unused = 0
    look = 0
    for c in range(count):
        if unit_counts[c] == 0:
            free[unused] = c
            unused += 1
        else:
            _box(boxes, c, units, members, _listed(heads, after, c, -1, -1, members), -1, -1)
            losses[c] = _loss(boxes, c)
    rest, grown, swapped, took = count, count + 1, count + 2, count + 3
    gained = 0.0
    for _ in range(passes):
        before = gained
        for u in range(count):
            own = owner[u]
            if unit_counts[own] < 2 or unit_counts[own] > _LARGE:
                continue
            held = losses[own]
            if held <= _NOTHING:
                continue
            left = _listed(heads, after, own, u, -1, members)
            _box(boxes, rest, units, members, left, -1, -1)
            stays = meets(criteria, members, left, boxes.size[rest], tally)
            freed = held - _loss(boxes, rest)
            most = _NOTHING
            look += 1
            target = -1
            partner = -1
            if stays:
                members[left] = u
                if meets(criteria, members[left:], 1, int(units.size[u]), tally):
                    _box(boxes, grown, units, members, 0, -1, u)
                    most = max(freed - _loss(boxes, grown), 0.0) + 2 * _NOTHING
                    target = int(free[unused - 1])
            for x in range(near.shape[1] if near.shape[1] > 0 else count):
                v = near[u, x] if near.shape[1] > 0 else x
                if v < 0:
                    break
                other = owner[v]
                if other == own or unit_counts[other] > _LARGE:
                    continue
                theirs = losses[other]
                if stays and met[other] != look:
                    met[other] = look
                    _box(boxes, grown, units, members, 0, -1, u)
                    absorb(boxes, grown, boxes, other)
                    gain = freed - (_loss(boxes, grown) - theirs)
                    if gain > most:
                        inside = _listed(heads, after, other, -1, u, other_members)
                        if meets(criteria, other_members, inside, boxes.size[grown], tally):
                            most = gain
                            target = other
                            partner = -1
                # Swap u and v.
                _box(boxes, swapped, units, members, 0, -1, v)
                absorb(boxes, swapped, boxes, rest)
                gain = held - _loss(boxes, swapped)
                if gain <= most - theirs:
                    continue
                inside = _listed(heads, after, other, v, u, other_members)
                _box(boxes, took, units, other_members, inside, -1, -1)
                gain += theirs - _loss(boxes, took)
                if gain > most and meets(criteria, other_members, inside, boxes.size[took], tally):
                    inside = _listed(heads, after, own, u, v, other_members)
                    if meets(criteria, other_members, inside, boxes.size[swapped], tally):
                        most = gain
                        target = other
                        partner = v
            if target < 0:
                continue
            gained += most
            if unit_counts[target] == 0:
                unused -= 1
            _transfer(heads, after, owner, unit_counts, u, target)
            if partner >= 0:
                _transfer(heads, after, owner, unit_counts, partner, own)
            _box(boxes, own, units, members, _listed(heads, after, own, -1, -1, members), -1, -1)
            _box(boxes, target, units, members, _listed(heads, after, target, -1, -1, members), -1, -1)
            losses[own] = _loss(boxes, own)
            losses[target] = _loss(boxes, target)
        if gained - before <= _LITTLE * gained:
            break
    return gained
