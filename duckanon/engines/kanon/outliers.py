"""The records that cost a release most: without them, the classes that hold them would lose least."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.blocks import BLOCK
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria.classes import record_boxes, take
from duckanon.engines.kanon.criteria.leaving import fill_costs
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Floats, Records
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
        hashes = None if content is None else content[kept]
        cost, mean = _costs(some, anonymize(some, k, "order", content=hashes, control=Control(threads)))
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
        block = order[begin : ends[last]]
        starts = (np.append(begin, ends[first : last + 1]) - begin).astype(np.int32)
        room = np.zeros(2 * int(np.diff(starts).max()) + 2, np.intp)
        boxes = take(record_boxes(records.take(block)), np.append(np.arange(len(block)), room))
        costs = np.zeros(len(block))
        total += fill_costs(boxes, starts, costs)
        cost[block], begin = costs, int(ends[last])
    return cost, total / len(records)
