"""The box of a class while it grows: what it covers of each attribute, and what that loses. For compiled loops."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import inlined
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats, Space


class Box(NamedTuple):
    """The smallest box around some records."""

    low: Floats  # (p + r,): least position on each measured attribute, least leaf of each hierarchy
    high: Floats  # (p + r,): greatest
    distinct: Codes  # (q,): distinct codes of each categorical attribute, NULL one of them
    has_null: npt.NDArray[np.bool_]  # (q,)


def new_box(space: Space) -> Box:
    """Room for a box."""
    p, q = space.points.shape[1], len(space.units)
    return Box(np.empty(p), np.empty(p), np.empty(q, np.int32), np.empty(q, np.bool_))


@inlined
def clear(box: Box) -> None:
    """Make the box hold nothing."""
    low, high, distinct, has_null = box
    for j in range(low.shape[0]):
        low[j] = np.inf
        high[j] = -np.inf
    for j in range(distinct.shape[0]):
        distinct[j] = 0
        has_null[j] = False


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
