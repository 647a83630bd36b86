"""Releases derived from a finer one by joining its classes, so that both together disclose no more than the finer.

Everything is computed from the finer release alone: that is post-processing, whatever the table holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import allocating, compiled
from duckanon.engines.kanon.criteria.classes import Words, empty_boxes
from duckanon.engines.kanon.criteria.enforcement import settle_boxes
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.orders import canonical, hilbert, lexicographic
from duckanon.engines.kanon.points import runs
from duckanon.engines.kanon.records import Attribute, Codes, Order, Records
from duckanon.engines.kanon.risk import Sensitive
from duckanon.engines.parallel import spread

# Cells in a leaf of the tree, and points that a thread looks up at a time.
_LEAF = 8
_SHARE = 32_768


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one attribute in n released records.

    attribute: numbers the values; its own codes are not used. low, high: codes of the ends, shape (n,), NULL where the
    cell is NULL. starts: None, or for sets where each record's codes start in `low`, shape (n + 1,); a NULL set is
    empty. own: codes of the table's records, if they were numbered too.
    """

    attribute: Attribute
    low: Codes
    high: Codes
    starts: npt.NDArray[np.int64] | None
    own: Codes

    @property
    def rows(self) -> int:
        return len(self.low) if self.starts is None else len(self.starts) - 1

    def middle(self, rows: Order) -> Codes:
        """A code from the middle of each of these rows' cells."""
        if self.starts is None:
            return ((self.low[rows].astype(np.int64) + self.high[rows]) // 2).astype(np.int32)
        null = self.attribute.distinct
        least = np.append(self.low, null)[self.starts[rows]]
        return np.where(self.starts[rows] == self.starts[rows + 1], null, least).astype(np.int32)

    def bits(self) -> Words:
        """Sets as bits of codes, NULL the last one, shape (n, words)."""
        if self.starts is None:
            raise ValueError("an interval has no bits")
        holds = np.zeros((self.rows, self.attribute.distinct // 64 + 1), np.uint64)
        row = np.repeat(np.arange(self.rows), np.diff(self.starts))
        codes = self.low.astype(np.uint64)
        np.bitwise_or.at(holds, (row, self.low // 64), np.uint64(1) << (codes & np.uint64(63)))
        null = np.flatnonzero(np.diff(self.starts) == 0)
        holds[null, self.attribute.distinct // 64] |= np.uint64(1) << np.uint64(self.attribute.distinct & 63)
        return holds


def coarser(
    released: Sequence[Cells],
    whole: Records,
    sensitive: Sequence[Sensitive],
    criteria: PrivacyCriteria,
    threads: int = 1,
    subjects: Codes | None = None,
) -> Labels:
    """Labels of the released records, shape (n,), -1 where they are dropped: unions of the finer release's classes.

    whole: the attributes of `released`, with their weights. subjects: as for `private_classes`. Raises
    InvalidInput as `settle_boxes` does.
    """
    first, unit = _distinct(released)
    units = empty_boxes(len(first), whole)
    units.size[:] = np.bincount(unit)
    words = 0
    for cell, a, axis in zip(released, whole.attributes, whole.axes, strict=True):
        if cell.starts is None:
            places = np.append(a.positions, 2.0) * a.scale if a.measured else np.arange(a.distinct + 1.0)
            units.low[:, axis], units.high[:, axis] = places[cell.low[first]], places[cell.high[first]]
        else:
            held = cell.bits()[first]
            units.holds[:, words : words + held.shape[1]] = held
            words += held.shape[1]
    amid = _placed(whole, [cell.middle(first) for cell in released])
    return settle_boxes(units, amid, unit, sensitive, criteria, threads, subjects).labels[unit]


def _placed(records: Records, codes: Sequence[Codes]) -> Records:
    return Records(tuple(replace(a, codes=own) for a, own in zip(records.attributes, codes, strict=True)))


def _distinct(cells: Sequence[Cells]) -> tuple[Order, Labels]:
    """A record of each class of records with the same cells, and the class of each record.

    Classes are numbered by what they show, in whatever order the records come.
    """
    columns: list[npt.NDArray[Any]] = []
    for cell in cells:
        columns += [cell.low, cell.high] if cell.starts is None else list(cell.bits().T)
    keys = []
    for column in columns:
        distinct, codes = np.unique(column, return_inverse=True)
        keys.append(Attribute("", codes.ravel().astype(np.int32), None, len(distinct), 0.0, 1.0))
    records = Records(tuple(keys))
    order = lexicographic(records, range(len(keys)))
    starts = runs(records.take(order))
    unit = np.empty(len(order), np.int32)
    unit[order] = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
    return order[starts[:-1]], unit


# --- whether a table's records lie in the classes ---------------------------------------------------------------------


class _Tree(NamedTuple):
    """Boxes in leaves, and hulls of them: node v has the children 2v and 2v + 1, the root is 1.

    Leaf `leaves + t` has the boxes t _LEAF .. (t + 1) _LEAF - 1.
    """

    leaves: int
    low: Codes  # (boxes, p)
    high: Codes
    holds: Words  # (boxes, words)
    node_low: Codes  # (2 leaves, p)
    node_high: Codes
    node_holds: Words
    words: Codes  # (q + 1,): where each categorical attribute's words start


def is_release(cells: Sequence[Cells], threads: int = 1) -> bool:
    """Whether the cells may be a release of the table, which has m records more.

    Then every end and every value of a cell is one of a record, but for those of hierarchies, and all records but m at
    most lie in some class.
    """
    more = len(cells[0].own) - cells[0].rows
    return more >= 0 and all(map(_known, cells)) and strangers(cells, threads) <= more


def _known(cell: Cells) -> bool:
    if cell.attribute.joins is not None:
        return True
    occurs = np.zeros(cell.attribute.distinct + 1, np.bool_)
    occurs[cell.own] = True
    occurs[-1] = True
    return bool(occurs[cell.low].all() and occurs[cell.high].all())


def strangers(cells: Sequence[Cells], threads: int = 1) -> int:
    """How many of the table's records lie in no class."""
    table = Records(tuple(replace(cell.attribute, codes=cell.own) for cell in cells))
    points = table.take(canonical(table), threads)
    starts = runs(points)
    points = points.take(starts[:-1], threads)
    tree = _tree(cells, points, threads)
    numbers, symbols = (
        np.stack([np.zeros(len(points), np.int32), *(a.codes for a in points.attributes if a.categorical == sets)], 1)
        for sets in (False, True)
    )

    def share(start: int) -> int:
        part = slice(start, start + _SHARE)
        return _outside(tree, numbers[part, 1:], symbols[part, 1:], np.diff(starts)[part])

    return sum(spread(share, range(0, len(points), _SHARE), threads))


def _tree(cells: Sequence[Cells], points: Records, threads: int) -> _Tree:
    """The boxes of all classes along a Hilbert curve. A cell that is NULL holds everything."""
    first, _ = _distinct(cells)
    first = first[hilbert(_placed(points, [cell.middle(first) for cell in cells]), threads)]
    ends, sets = [], [np.zeros((len(first), 0), np.uint64)]
    for cell in cells:
        null = cell.attribute.distinct
        if cell.starts is None:
            low, high = cell.low[first], cell.high[first]
            ends.append((np.where(low == null, 0, low), np.where(low == null, null, high)))
        else:
            held = cell.bits()[first]
            held[cell.starts[first] == cell.starts[first + 1]] = ~np.uint64(0)
            sets.append(held)
    low, high = (
        np.stack([np.zeros(len(first), np.int32), *side], 1)[:, 1:]
        for side in ([a for a, _ in ends], [b for _, b in ends])
    )
    holds = np.concatenate(sets, axis=1)
    leaves = 1
    while leaves * _LEAF < len(first):
        leaves *= 2
    words = np.cumsum([0, *(held.shape[1] for held in sets[1:])]).astype(np.int32)
    p = low.shape[1]
    tree = _Tree(
        leaves,
        low.astype(np.int32),
        high.astype(np.int32),
        holds,
        np.full((2 * leaves, p), 2**31 - 1, np.int32),
        np.full((2 * leaves, p), -1, np.int32),
        np.zeros((2 * leaves, holds.shape[1]), np.uint64),
        words,
    )
    _cover(tree)
    return tree


@compiled
def _cover(tree: _Tree) -> None:
    for b in range(tree.low.shape[0]):
        v = tree.leaves + b // _LEAF
        for j in range(tree.low.shape[1]):
            tree.node_low[v, j] = min(tree.node_low[v, j], tree.low[b, j])
            tree.node_high[v, j] = max(tree.node_high[v, j], tree.high[b, j])
        for w in range(tree.holds.shape[1]):
            tree.node_holds[v, w] |= tree.holds[b, w]
    for v in range(tree.leaves - 1, 0, -1):
        for j in range(tree.low.shape[1]):
            tree.node_low[v, j] = min(tree.node_low[2 * v, j], tree.node_low[2 * v + 1, j])
            tree.node_high[v, j] = max(tree.node_high[2 * v, j], tree.node_high[2 * v + 1, j])
        for w in range(tree.holds.shape[1]):
            tree.node_holds[v, w] = tree.node_holds[2 * v, w] | tree.node_holds[2 * v + 1, w]


@compiled
def _inside(low: Codes, high: Codes, holds: Words, words: Codes, at: int, numbers: Codes, symbols: Codes) -> bool:
    for j in range(numbers.shape[0]):
        if numbers[j] < low[at, j] or numbers[j] > high[at, j]:
            return False
    for j in range(symbols.shape[0]):
        code = symbols[j]
        if not (holds[at, words[j] + (code >> 6)] >> np.uint64(code & 63)) & np.uint64(1):
            return False
    return True


@allocating
def _outside(tree: _Tree, numbers: Codes, symbols: Codes, copies: Codes) -> int:
    """How many records lie in no box. copies: records at each point, shape (points,)."""
    lost = 0
    for i in range(copies.shape[0]):
        stack = [1]
        is_inside = False
        while len(stack) > 0 and not is_inside:
            v = stack.pop()
            if not _inside(tree.node_low, tree.node_high, tree.node_holds, tree.words, v, numbers[i], symbols[i]):
                continue
            if v < tree.leaves:
                stack.append(2 * v + 1)
                stack.append(2 * v)
                continue
            start = (v - tree.leaves) * _LEAF
            for b in range(start, min(start + _LEAF, tree.low.shape[0])):
                if _inside(tree.low, tree.high, tree.holds, tree.words, b, numbers[i], symbols[i]):
                    is_inside = True
                    break
        if not is_inside:
            lost += copies[i]
    return lost
