"""The box of a class while it grows: what it covers of each attribute, and what that loses. For compiled loops."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import inlined
from duckanon.engines.kanon.kernels.loss import range_loss, tree_loss, values_loss
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats, Space


class Box(NamedTuple):
    """The smallest box around some records."""

    low: Floats  # (p + r,): least position on each measured attribute, least leaf of each hierarchy
    high: Floats  # (p + r,): greatest
    distinct: Codes  # (q,): distinct codes of each categorical attribute, NULL one of them
    has_null: npt.NDArray[np.bool_]  # (q,)
    met: npt.NDArray[
        np.int64
    ]  # (q, codes): the last box that held each code of each categorical attribute; -1 for none


def new_box(space: Space) -> Box:
    """Room for a box."""
    p, q = space.points.shape[1], len(space.units)
    met = np.full((q, max(space.nulls + 1, default=0)), -1, np.int64)
    return Box(np.empty(p), np.empty(p), np.empty(q, np.int32), np.empty(q, np.bool_), met)


@inlined
def clear(box: Box) -> None:
    """Make the box hold nothing."""
    low, high, distinct, has_null, _ = box
    for j in range(low.shape[0]):
        low[j] = np.inf
        high[j] = -np.inf
    for j in range(distinct.shape[0]):
        distinct[j] = 0
        has_null[j] = False


@inlined
def widen(space: Space, i: int, box: Box, number: int) -> float:
    """Widen the box over record i; what a record of it loses then.

    number: that of this box, the same since it was cleared, and of no box before it.
    """
    points, caps, symbols, nulls, units, whole, trees = space
    low, high, distinct, has_null, met = box
    loss = 0.0
    p = caps.shape[0]
    for j in range(p):
        v = points[i, j]
        if v < low[j]:
            low[j] = v
        if v > high[j]:
            high[j] = v
        loss += range_loss(low[j], high[j], caps[j])
    for j in range(p, low.shape[0]):
        v = points[i, j]
        if v < low[j]:
            low[j] = v
        if v > high[j]:
            high[j] = v
        loss += tree_loss(trees, j - p, low[j], high[j])
    for j in range(distinct.shape[0]):
        code = symbols[i, j]
        if met[j, code] != number:
            met[j, code] = number
            distinct[j] += 1
            has_null[j] |= code == nulls[j]
        loss += values_loss(distinct[j], has_null[j], units[j], whole[j])
    return loss


@inlined
def axis_loss(space: Space, box: Box, axis: int) -> float:
    """What a record of the box loses on one attribute, by its place in the space: measured ones first."""
    low, high, distinct, has_null, _ = box
    p = space.caps.shape[0]
    if axis < p:
        return float(range_loss(low[axis], high[axis], space.caps[axis]))
    if axis < low.shape[0]:
        return float(tree_loss(space.trees, axis - p, low[axis], high[axis]))
    q = axis - low.shape[0]
    return float(values_loss(distinct[q], has_null[q], space.units[q], space.whole[q]))


@inlined
def widen_axis(space: Space, i: int, box: Box, number: int, axis: int) -> float:
    """Widen the box over record i on one attribute only; what a record of it loses on this one then."""
    low, high, distinct, has_null, met = box
    p = low.shape[0]
    if axis < p:
        v = space.points[i, axis]
        if v < low[axis]:
            low[axis] = v
        if v > high[axis]:
            high[axis] = v
    else:
        q = axis - p
        code = space.symbols[i, q]
        if met[q, code] != number:
            met[q, code] = number
            distinct[q] += 1
            has_null[q] |= code == space.nulls[q]
    return axis_loss(space, box, axis)


def class_losses(space: Space, members: Codes, starts: Codes) -> Floats:
    """Loss of each class, summed over its records. Class c holds members[starts[c]] .. members[starts[c + 1] - 1]."""
    sizes = np.diff(starts)
    held = np.flatnonzero(sizes)
    first, owner = starts[held], np.repeat(np.arange(len(held)), sizes[held])
    loss = np.zeros(len(held))
    for j, cap in enumerate(space.caps):
        positions = space.points[members, j]
        loss += np.minimum(np.maximum.reduceat(positions, first) - np.minimum.reduceat(positions, first), cap)
    tops, powers = space.trees
    for j in range(len(tops)):
        leaves = space.points[members, len(space.caps) + j].astype(np.intp)
        low, high = np.minimum.reduceat(leaves, first), np.maximum.reduceat(leaves, first)
        step = powers[high - low]
        loss += np.where(low == high, 0.0, np.maximum(tops[j, step, low], tops[j, step, high - (1 << step)]))
    for j, null in enumerate(space.nulls):
        pairs = np.sort(owner * (int(null) + 1) + space.symbols[members, j])
        fresh = np.append(True, pairs[1:] != pairs[:-1])
        distinct = np.add.reduceat(fresh, first, dtype=np.int64)
        # (NULL has the greatest code, so it comes last.)
        has_null = pairs[first + sizes[held] - 1] % (int(null) + 1) == null
        loss += np.where(has_null & (distinct > 1), space.whole[j], (distinct - 1) * space.units[j])
    losses = np.zeros(len(sizes))
    losses[held] = sizes[held] * loss
    return losses


def total_loss(space: Space, labels: Codes) -> float:
    """Loss of a partition, summed over records. labels: from 0, without gaps."""
    starts = np.append(0, np.cumsum(np.bincount(labels))).astype(np.int32)
    return float(class_losses(space, by_label(labels), starts).sum())
