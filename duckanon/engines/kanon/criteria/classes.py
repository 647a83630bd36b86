"""Units, which are classes that may be joined but no longer split: their boxes, and what joining some loses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import inner
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.kernels.loss import range_loss, tree_loss, values_loss
from duckanon.engines.kanon.kernels.neighbours import neighbours, shuffled_orders
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats, Order, Records, Space, Trees, trees_of

Words = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

# Up to so many units every one is a neighbour of every other.
FEW = 256
_ORDERS, _WINDOW, _NEAR = 8, 12, 24


class ClassBoxes(NamedTuple):
    """The boxes of u classes, on the scale of `Space`, and what the loss of a box is made of."""

    low: Floats  # (u, p + r): least position on each measured attribute, least leaf of each hierarchy
    high: Floats  # (u, p + r): greatest; NULL lies at twice the weight
    holds: Words  # (u, words): a bit for each code of each categorical attribute, NULL the last one
    size: Counts  # (u,): records
    caps: Floats  # (p,)
    words: Codes  # (q + 1,): where each categorical attribute's words start
    nulls: Codes  # (q,)
    units: Floats  # (q,)
    whole: Floats  # (q,)
    trees: Trees


@inner
def _set_bits(word: np.uint64) -> int:
    """How many bits of the word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inner
def joined_loss(units: ClassBoxes, a: int, b: int) -> float:
    """Loss of a record of the class that joins a and b; of a alone if both are the same."""
    loss = 0.0
    for j in range(units.caps.shape[0]):
        high = units.high[a, j] if units.high[a, j] > units.high[b, j] else units.high[b, j]
        low = units.low[a, j] if units.low[a, j] < units.low[b, j] else units.low[b, j]
        loss += range_loss(low, high, units.caps[j])
    p = units.caps.shape[0]
    for j in range(p, units.low.shape[1]):
        high = units.high[a, j] if units.high[a, j] > units.high[b, j] else units.high[b, j]
        low = units.low[a, j] if units.low[a, j] < units.low[b, j] else units.low[b, j]
        loss += tree_loss(units.trees, j - p, low, high)
    for j in range(units.units.shape[0]):
        distinct = 0
        for w in range(units.words[j], units.words[j + 1]):
            distinct += _set_bits(units.holds[a, w] | units.holds[b, w])
        null = units.words[j] + (units.nulls[j] >> 6)
        bit = np.uint64(units.nulls[j] & 63)
        has_null = ((units.holds[a, null] | units.holds[b, null]) >> bit) & np.uint64(1) != 0
        loss += values_loss(distinct, has_null, units.units[j], units.whole[j])
    return loss


@inner
def added_loss(units: ClassBoxes, a: int, b: int) -> float:
    """What joining a and b adds to the loss, summed over their records."""
    together = (units.size[a] + units.size[b]) * joined_loss(units, a, b)
    return float(together - units.size[a] * joined_loss(units, a, a) - units.size[b] * joined_loss(units, b, b))


@inner
def empty(boxes: ClassBoxes, at: int) -> None:
    """Make a box hold nothing."""
    for j in range(boxes.low.shape[1]):
        boxes.low[at, j] = np.inf
        boxes.high[at, j] = -np.inf
    for w in range(boxes.holds.shape[1]):
        boxes.holds[at, w] = 0
    boxes.size[at] = 0


@inner
def absorb(boxes: ClassBoxes, a: int, units: ClassBoxes, b: int) -> None:
    """Stretch box a over box b, which may be of others."""
    for j in range(units.low.shape[1]):
        low, high = units.low[b, j], units.high[b, j]
        if low < boxes.low[a, j]:
            boxes.low[a, j] = low
        if high > boxes.high[a, j]:
            boxes.high[a, j] = high
    for w in range(units.holds.shape[1]):
        boxes.holds[a, w] |= units.holds[b, w]
    boxes.size[a] += units.size[b]


def _cover(space: Space, members: Codes, starts: Codes, units: ClassBoxes) -> None:
    """Write the boxes of classes into `units`. Class c holds members[starts[c]] .. members[starts[c + 1] - 1]."""
    first = starts[:-1]
    for j in range(units.low.shape[1]):
        positions = space.points[members, j]
        units.low[:, j] = np.minimum.reduceat(positions, first)
        units.high[:, j] = np.maximum.reduceat(positions, first)
    for j in range(len(units.units)):
        codes = space.symbols[members, j]
        bits = np.uint64(1) << (codes & 63).astype(np.uint64)
        for word in range(units.words[j + 1] - units.words[j]):
            held = np.where(codes >> 6 == word, bits, np.uint64(0))
            units.holds[:, units.words[j] + word] = np.bitwise_or.reduceat(held, first)
    units.size[:] = np.diff(starts)


def empty_boxes(count: int, records: Records) -> ClassBoxes:
    """Boxes that hold nothing yet, for `count` classes of records with these attributes."""
    measured = [a for a in records.attributes if a.measured]
    trees = [a for a in records.attributes if a.joins is not None]
    categorical = [a for a in records.attributes if a.categorical]
    columns = len(measured) + len(trees)
    words = np.cumsum([0, *(a.distinct // 64 + 1 for a in categorical)]).astype(np.int32)
    return ClassBoxes(
        low=np.full((count, columns), np.inf),
        high=np.full((count, columns), -np.inf),
        holds=np.zeros((count, int(words[-1])), np.uint64),
        size=np.zeros(count, np.int64),
        caps=np.array([a.scale for a in measured], dtype=np.float64),
        words=words,
        nulls=np.array([a.distinct for a in categorical], dtype=np.int32),
        units=np.array([a.weight / max(a.distinct - 1, 1) for a in categorical], dtype=np.float64),
        whole=np.array([a.weight for a in categorical], dtype=np.float64),
        trees=trees_of(trees),
    )


def take(units: ClassBoxes, kept: npt.NDArray[np.intp]) -> ClassBoxes:
    """Some of the units, copied."""
    return units._replace(low=units.low[kept], high=units.high[kept], holds=units.holds[kept], size=units.size[kept])


def class_boxes(records: Records, labels: Labels) -> tuple[ClassBoxes, Labels]:
    """The classes of a partition as units, those with the same box as one; and the unit of each record.

    labels: shape (n,), from 0, without gaps. ClassBoxes are numbered as the labels are, the least of each counting.
    """
    members = by_label(labels)
    starts = np.append(0, np.cumsum(np.bincount(labels))).astype(np.int32)
    units = empty_boxes(len(starts) - 1, records)
    _cover(records.space, members, starts, units)
    # Columns of fixed-size bytes, so that equal rows are equal values. (No position is -0.0: none is below zero.)
    rows = np.concatenate([units.low.view(np.uint64), units.high.view(np.uint64), units.holds], axis=1)
    packed = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * 8))).ravel()
    _, first, same = np.unique(packed, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    unit = rank[same.ravel()]
    merged = take(units, np.sort(first))
    merged.size[:] = np.bincount(unit, weights=units.size).astype(np.int64)
    return merged, unit[labels]


def record_boxes(records: Records) -> ClassBoxes:
    """Each record as a unit of its own."""
    units = empty_boxes(len(records), records)
    every = np.arange(len(records) + 1, dtype=np.int32)
    _cover(records.space, every[:-1], every, units)
    return units


def centres(records: Records, unit: Labels) -> Records:
    """A record in the middle of each unit, by codes: it stands for the unit among the others. unit: shape (n,), from 0,
    without gaps.
    """
    order: Order = by_label(unit)
    starts = np.append(0, np.cumsum(np.bincount(unit))[:-1])
    middle = []
    for a in records.attributes:
        codes = a.codes[order]
        low, high = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
        middle.append(low if a.categorical else (low + high) // 2)
    return placed(records, middle)


def placed(records: Records, codes: Sequence[Codes]) -> Records:
    """Records with other codes of the same attributes."""
    return Records(tuple(replace(a, codes=c) for a, c in zip(records.attributes, codes, strict=True)))


def near_boxes(amid: Records, threads: int = 1) -> Codes:
    """Units near each unit, shape (u, w), -1 where there are no more; w = 0 stands for all others."""
    if len(amid) <= FEW:
        return np.empty((len(amid), 0), np.int32)
    return near_records(amid, threads)


def near_records(records: Records, threads: int = 1) -> Codes:
    """Records near each record, the nearest first, shape (n, w), -1 where there are no more."""
    return neighbours(records, shuffled_orders(records, _ORDERS, threads), _WINDOW, _NEAR, threads)[0]
