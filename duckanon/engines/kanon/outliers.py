"""The records that cost a release most: without them, the classes that hold them would lose least."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.blocks import BLOCK
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria.classes import ClassBoxes, absorb, empty, joined_loss, record_boxes, take
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats, Records
from duckanon.engines.kanon.ties import Hashes

# A share of the records is dropped at a time: the classes that are left change with each.
_ROUNDS = 4


def outliers(
    records: Records, k: int, allowed: int, content: Hashes | None = None, threads: int = 1
) -> npt.NDArray[np.bool_]:
    """At most `allowed` of n records that cost most, of equals the first. Shape (n,); at least k are left.

    records: in an order that depends on what they hold alone. A record costs what its class, as `order` finds it, loses
    with it more than without it. None is dropped that costs no more than the mean loss of a record: without it the
    others' mean would not fall.
    """
    gone = np.zeros(len(records), np.bool_)
    allowed = min(allowed, len(records) - k)
    for left in range(_ROUNDS, 0, -1):
        kept = np.flatnonzero(~gone).astype(np.int32)
        some = records.take(kept, threads)
        mine = None if content is None else content[kept]
        cost, mean = _costs(some, anonymize(some, k, "order", content=mine, control=Control(threads)))
        dearest = np.argsort(-cost, kind="stable")[: -(-allowed // left)]
        dearest = dearest[cost[dearest] > mean]
        gone[kept[dearest]] = True
        allowed -= len(dearest)
        if not len(dearest) or not allowed:
            break
    return gone


def _costs(records: Records, labels: Labels) -> tuple[Floats, float]:
    """What each record costs its class, summed over the class's records, shape (n,); and the mean loss of a record."""
    order, ends = by_label(labels), np.cumsum(np.bincount(labels))
    cost, total, begin = np.zeros(len(records)), 0.0, 0
    for last in np.unique(np.searchsorted(ends, np.arange(BLOCK, len(records) + BLOCK, BLOCK)).clip(max=len(ends) - 1)):
        first = int(np.searchsorted(ends, begin, side="right"))
        mine = order[begin : ends[last]]
        starts = (np.append(begin, ends[first : last + 1]) - begin).astype(np.int32)
        room = np.zeros(2 * int(np.diff(starts).max()) + 2, np.intp)
        boxes = take(record_boxes(records.take(mine)), np.append(np.arange(len(mine)), room))
        costs = np.zeros(len(mine))
        total += _fill(boxes, starts, costs)
        cost[mine], begin = costs, int(ends[last])
    return cost, total / len(records)


@compiled
def _fill(boxes: ClassBoxes, starts: Codes, cost: Floats) -> float:
    """Fill in the costs; the loss of all classes, summed over records.

    boxes: those of the n records, class by class, and room for twice the largest class and two.
    """
    n = cost.shape[0]
    total = 0.0
    for c in range(starts.shape[0] - 1):
        size = starts[c + 1] - starts[c]
        # Box before + t covers the first t records of the class, box behind + t those from t on.
        before = n
        behind = n + size + 1
        empty(boxes, before)
        empty(boxes, behind + size)
        for t in range(size):
            empty(boxes, before + t + 1)
            absorb(boxes, before + t + 1, boxes, before + t)
            absorb(boxes, before + t + 1, boxes, starts[c] + t)
        for t in range(size - 1, -1, -1):
            empty(boxes, behind + t)
            absorb(boxes, behind + t, boxes, behind + t + 1)
            absorb(boxes, behind + t, boxes, starts[c] + t)
        whole = size * joined_loss(boxes, behind, behind)
        total += whole
        for t in range(size):
            cost[starts[c] + t] = whole - (size - 1) * joined_loss(boxes, before + t, behind + t + 1)
    return total
