"""Boxes of a few records, for searches that add and take back records: codes are in a list, so a box is cheap to
copy.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import inlined, inner, inner_allocating
from duckanon.engines.kanon.kernels.loss import range_loss, tree_loss, values_loss
from duckanon.engines.kanon.records import Codes, Floats, Space


class Boxes(NamedTuple):
    """A row for each box, as `box.Box` has them: what it covers of the attributes."""

    low: Floats  # (boxes, p + r)
    high: Floats  # (boxes, p + r)
    distinct: Codes  # (boxes, q)
    has_null: npt.NDArray[np.bool_]  # (boxes, q)


@inner_allocating
def new_boxes(space: Space, count: int) -> Boxes:
    """Room for so many boxes."""
    p, q = space.points.shape[1], space.units.shape[0]
    return Boxes(
        np.empty((count, p)), np.empty((count, p)), np.empty((count, q), np.int32), np.empty((count, q), np.bool_)
    )


@inlined
def _is_among(codes: Codes, count: int, j: int, code: int) -> bool:
    """Whether one of the first `count` points has this code on attribute j."""
    for t in range(count):
        if codes[t, j] == code:
            return True
    return False


@inner
def stretched(space: Space, boxes: Boxes, at: int, codes: Codes, count: int, i: int) -> float:
    """Loss of the box with point i in it. codes: (count, q), the codes of the points in the box."""
    points, caps, symbols, nulls, units, whole, trees = space
    low, high, held, has_null = boxes
    loss = 0.0
    p = caps.shape[0]
    for j in range(p):
        v = points[i, j]
        bottom = low[at, j]
        top = high[at, j]
        loss += range_loss(v if v < bottom else bottom, v if v > top else top, caps[j])
    for j in range(p, points.shape[1]):
        v = points[i, j]
        bottom = low[at, j]
        top = high[at, j]
        loss += tree_loss(trees, j - p, v if v < bottom else bottom, v if v > top else top)
    for j in range(units.shape[0]):
        code = symbols[i, j]
        distinct = held[at, j] + (0 if _is_among(codes, count, j, code) else 1)
        loss += values_loss(distinct, has_null[at, j] or code == nulls[j], units[j], whole[j])
    return loss


@inner
def begin(space: Space, boxes: Boxes, at: int, codes: Codes, i: int) -> None:
    """Make the box hold point i alone."""
    points, _, symbols, nulls, _, _, _ = space
    low, high, distinct, has_null = boxes
    for j in range(low.shape[1]):
        low[at, j] = high[at, j] = points[i, j]
    for j in range(distinct.shape[1]):
        codes[0, j] = symbols[i, j]
        distinct[at, j] = 1
        has_null[at, j] = symbols[i, j] == nulls[j]


@inner
def put(space: Space, boxes: Boxes, at: int, to: int, codes: Codes, count: int, i: int) -> None:
    """Write into box `to` the box `at`, which may be the same, with point i as the next of its `count` points."""
    points, _, symbols, nulls, _, _, _ = space
    low, high, distinct, has_null = boxes
    for j in range(low.shape[1]):
        v = points[i, j]
        low[to, j] = min(low[at, j], v)
        high[to, j] = max(high[at, j], v)
    for j in range(distinct.shape[1]):
        code = symbols[i, j]
        distinct[to, j] = distinct[at, j] + (0 if _is_among(codes, count, j, code) else 1)
        codes[count, j] = code
        has_null[to, j] = has_null[at, j] or code == nulls[j]
