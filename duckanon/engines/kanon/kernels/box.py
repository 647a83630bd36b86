"""The box of a class while it grows: what it covers of each attribute, and what that loses. For compiled loops."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inner
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats, Space

Marks = npt.NDArray[np.int64]


class Box(NamedTuple):
    """The smallest box around some records."""

    low: Floats  # (p,): least position on each ordered attribute
    high: Floats  # (p,): greatest position
    distinct: Codes  # (q,): distinct codes of each categorical attribute, NULL one of them
    has_null: npt.NDArray[np.bool_]  # (q,)


def new_box(space: Space) -> Box:
    """Room for a box."""
    p, q = len(space.caps), len(space.units)
    return Box(np.empty(p), np.empty(p), np.empty(q, np.int32), np.empty(q, np.bool_))


def new_marks(space: Space) -> Marks:
    """Room to mark each code of each categorical attribute, shape (q, codes); marks are -1."""
    return np.full((len(space.nulls), max(space.nulls + 1, default=0)), -1, np.int64)


@inner
def clear(box: Box) -> None:
    """Make the box hold nothing."""
    low, high, distinct, has_null = box
    for j in range(low.shape[0]):
        low[j] = np.inf
        high[j] = -np.inf
    for j in range(distinct.shape[0]):
        distinct[j] = 0
        has_null[j] = False


@compiled
def _class_losses(space: Space, members: Codes, starts: Codes, marks: Marks, losses: Floats) -> None:
    points, caps, symbols, nulls, units, whole = space
    for c in range(losses.shape[0]):
        start, stop = starts[c], starts[c + 1]
        loss = 0.0
        for j in range(caps.shape[0]):
            low, high = np.inf, -np.inf
            for t in range(start, stop):
                v = points[members[t], j]
                low = min(low, v)
                high = max(high, v)
            loss += min(high - low, caps[j])
        for j in range(units.shape[0]):
            distinct = 0
            has_null = False
            for t in range(start, stop):
                code = symbols[members[t], j]
                if marks[j, code] != c:
                    marks[j, code] = c
                    distinct += 1
                    has_null |= code == nulls[j]
            loss += whole[j] if has_null and distinct > 1 else (distinct - 1) * units[j]
        losses[c] = (stop - start) * loss


def class_losses(space: Space, members: Codes, starts: Codes) -> Floats:
    """Loss of each class, summed over its records. Class c holds members[starts[c]] .. members[starts[c + 1] - 1]."""
    losses = np.empty(len(starts) - 1)
    _class_losses(space, members, starts, new_marks(space), losses)
    return losses


def total_loss(space: Space, labels: Codes) -> float:
    """Loss of a partition, summed over records. labels: from 0, without gaps."""
    starts = np.append(0, np.cumsum(np.bincount(labels))).astype(np.int32)
    return float(class_losses(space, by_label(labels), starts).sum())
