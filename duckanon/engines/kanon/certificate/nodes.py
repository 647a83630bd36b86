"""Boxes of a search for classes: what any class must cover, and what that loses, in whole numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from duckanon.engines.compiled import inlined, inner
from duckanon.engines.kanon.certificate.points import Flags, Points, Tree, Whole, Words
from duckanon.engines.kanon.records import Codes


class Nodes(NamedTuple):
    """A row for each box."""

    low: Whole  # (boxes, p + r)
    high: Whole  # (boxes, p + r)
    sets: Words  # (boxes, words)
    distinct: Whole  # (boxes, q): codes in the sets
    null: Flags  # (boxes, q): whether NULL is one of them


def new_nodes(points: Points, tree: Tree, count: int) -> Nodes:
    """Room for so many boxes."""
    axes, q = points.places.shape[1], len(points.units)
    return Nodes(
        np.zeros((count, axes), np.int64),
        np.zeros((count, axes), np.int64),
        np.zeros((count, tree.sets.shape[1]), np.uint64),
        np.zeros((count, q), np.int64),
        np.zeros((count, q), np.bool_),
    )


@inlined
def measured_loss(low: int, high: int, cap: int) -> int:
    """What a class loses on a measured attribute that reaches from one place to another."""
    width = high - low
    return width if width < cap else cap


@inlined
def tree_loss(tops: Whole, powers: Codes, j: int, low: int, high: int) -> int:
    """What it loses on the j-th hierarchy, from leaf `low` to leaf `high`; 0 if that is no greater."""
    if low >= high:
        return 0
    step = powers[high - low]
    left_top = tops[j, step, low]
    right_top = tops[j, step, high - (1 << step)]
    return int(left_top if left_top > right_top else right_top)


@inlined
def values_loss(distinct: int, null: bool, unit: int, whole: int) -> int:
    """What it loses on a categorical attribute with so many codes, NULL perhaps one of them."""
    return whole if null and distinct > 1 else (distinct - 1) * unit


@inner
def begin(points: Points, nodes: Nodes, at: int, t: int) -> None:
    """Make a box hold point t alone."""
    for j in range(nodes.low.shape[1]):
        nodes.low[at, j] = points.places[t, j]
        nodes.high[at, j] = points.places[t, j]
    for j in range(nodes.sets.shape[1]):
        nodes.sets[at, j] = 0
    for j in range(nodes.distinct.shape[1]):
        nodes.sets[at, points.words[t, j]] |= points.bits[t, j]
        nodes.distinct[at, j] = 1
        nodes.null[at, j] = points.nulls[t, j]


@inner
def copy(nodes: Nodes, at: int, to: int) -> None:
    """Make a box the same as another."""
    for j in range(nodes.low.shape[1]):
        nodes.low[to, j] = nodes.low[at, j]
        nodes.high[to, j] = nodes.high[at, j]
    for j in range(nodes.sets.shape[1]):
        nodes.sets[to, j] = nodes.sets[at, j]
    for j in range(nodes.distinct.shape[1]):
        nodes.distinct[to, j] = nodes.distinct[at, j]
        nodes.null[to, j] = nodes.null[at, j]


@inner
def widen(points: Points, nodes: Nodes, at: int, t: int) -> None:
    """Make a box cover point t."""
    for j in range(nodes.low.shape[1]):
        v = points.places[t, j]
        nodes.low[at, j] = min(nodes.low[at, j], v)
        nodes.high[at, j] = max(nodes.high[at, j], v)
    for j in range(nodes.distinct.shape[1]):
        word = points.words[t, j]
        if not nodes.sets[at, word] & points.bits[t, j]:
            nodes.sets[at, word] |= points.bits[t, j]
            nodes.distinct[at, j] += 1
            nodes.null[at, j] |= points.nulls[t, j]


@inner
def box_loss(points: Points, nodes: Nodes, at: int) -> int:
    """What a record loses in a class that covers the box."""
    low, high, _, distinct, null = nodes
    loss = 0
    p = points.caps.shape[0]
    for j in range(p):
        loss += measured_loss(low[at, j], high[at, j], points.caps[j])
    for j in range(points.tops.shape[0]):
        loss += tree_loss(points.tops, points.powers, j, low[at, p + j], high[at, p + j])
    for j in range(distinct.shape[1]):
        loss += values_loss(distinct[at, j], null[at, j], points.units[j], points.whole[j])
    return loss


@inner
def stretched(points: Points, nodes: Nodes, at: int, t: int, most: int) -> int:
    """What it loses with point t too; a number of at least `most` if that is as much."""
    places, caps, tops, powers, words, bits, nulls, units, whole, _ = points
    low, high, sets, distinct, null = nodes
    loss = 0
    p = caps.shape[0]
    for j in range(p):
        v = places[t, j]
        bottom = low[at, j]
        top = high[at, j]
        loss += measured_loss(v if v < bottom else bottom, v if v > top else top, caps[j])
    for j in range(tops.shape[0]):
        v = places[t, p + j]
        bottom = low[at, p + j]
        top = high[at, p + j]
        loss += tree_loss(tops, powers, j, v if v < bottom else bottom, v if v > top else top)
    if loss >= most:
        return loss
    for j in range(units.shape[0]):
        more = 0 if sets[at, words[t, j]] & bits[t, j] else 1
        loss += values_loss(distinct[at, j] + more, null[at, j] or nulls[t, j], units[j], whole[j])
    return loss


@inner
def to_tree_node(points: Points, tree: Tree, a: int, v: int) -> int:
    """No class of point a and a point below node v of the tree loses less."""
    _, low, high, sets = tree
    loss = 0
    p = points.caps.shape[0]
    for j in range(p):
        x = points.places[a, j]
        gap = max(low[v, j] - x, x - high[v, j])
        if gap > 0:
            loss += min(gap, points.caps[j])
    for j in range(points.tops.shape[0]):
        x = points.places[a, p + j]
        if low[v, p + j] <= high[v, p + j]:  # a node may be empty
            loss += tree_loss(points.tops, points.powers, j, x, low[v, p + j])
            loss += tree_loss(points.tops, points.powers, j, high[v, p + j], x)
    for j in range(points.units.shape[0]):
        if not sets[v, points.words[a, j]] & points.bits[a, j]:
            loss += points.whole[j] if points.nulls[a, j] else points.units[j]
    return loss
