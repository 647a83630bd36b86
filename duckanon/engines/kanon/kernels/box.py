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


@inner
def clear(box: Box) -> None:
    """Make the box hold nothing."""
    box.low[:] = np.inf
    box.high[:] = -np.inf
    box.distinct[:] = 0
    box.has_null[:] = False


@inner
def new_box(space: Space) -> Box:
    """An empty box."""
    p = space.caps.shape[0]
    q = space.units.shape[0]
    box = Box(np.empty(p), np.empty(p), np.empty(q, np.int32), np.empty(q, np.bool_))
    clear(box)
    return box


@inner
def new_marks(space: Space) -> Marks:
    """Room to mark each code of each categorical attribute, shape (q, codes); marks are -1."""
    widest = 0
    for null in space.nulls:
        widest = max(widest, null + 1)
    return np.full((space.nulls.shape[0], widest), -1, np.int64)


@inner
def admit(box: Box, space: Space, i: int, marks: Marks, token: int) -> None:
    """Stretch the box over record i. marks: codes already in the box are marked with its `token`."""
    for j in range(box.low.shape[0]):
        v = space.points[i, j]
        box.low[j] = min(box.low[j], v)
        box.high[j] = max(box.high[j], v)
    for j in range(box.distinct.shape[0]):
        code = space.symbols[i, j]
        if marks[j, code] != token:
            marks[j, code] = token
            box.distinct[j] += 1
            if code == space.nulls[j]:
                box.has_null[j] = True


@inner
def loss_of(box: Box, space: Space) -> float:
    """Loss of one record of a class with this box."""
    loss = 0.0
    for j in range(box.low.shape[0]):
        loss += min(box.high[j] - box.low[j], space.caps[j])
    for j in range(box.distinct.shape[0]):
        if box.has_null[j] and box.distinct[j] > 1:
            loss += space.whole[j]
        else:
            loss += (box.distinct[j] - 1) * space.units[j]
    return loss


@compiled
def class_losses(space: Space, members: Codes, starts: Codes) -> Floats:
    """Loss of each class, summed over its records. Class c holds members[starts[c]] .. members[starts[c + 1] - 1]."""
    box = new_box(space)
    marks = new_marks(space)
    losses = np.empty(starts.shape[0] - 1)
    for c in range(losses.shape[0]):
        clear(box)
        for t in range(starts[c], starts[c + 1]):
            admit(box, space, members[t], marks, c)
        losses[c] = (starts[c + 1] - starts[c]) * loss_of(box, space)
    return losses


def total_loss(space: Space, labels: Codes) -> float:
    """Loss of a partition, summed over records. labels: from 0, without gaps."""
    starts = np.append(0, np.cumsum(np.bincount(labels))).astype(np.int32)
    return float(class_losses(space, by_label(labels), starts).sum())
