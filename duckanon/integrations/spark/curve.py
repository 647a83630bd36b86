"""Where a table is cut into blocks of near records: an exact histogram along a Hilbert curve, cut between its bars.

A record's place is a word of 128 bits: its place on the curve, then a hash of the record, which parts those at one
place. Bars are exact counts, so the cuts depend on the records alone, not on how Spark has spread them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

Words = npt.NDArray[np.uint64]
# Bits that a histogram tells apart at once.
_DIGIT = 16
_WORD = 64
_DIGITS = 2 * _WORD // _DIGIT
# The columns of a place: its upper and its lower half.
PLACE, HASH = "_dk_place", "_dk_hash"


@dataclass(frozen=True, order=True)
class Bar:
    """Records whose places begin alike. digits: the first ones of their places. count: how many records."""

    digits: tuple[int, ...]
    count: int

    @property
    def start(self) -> int:
        """The least place in it."""
        filled = [*self.digits, *[0] * (_DIGITS - len(self.digits))]
        return sum(digit << (_DIGIT * (_DIGITS - 1 - i)) for i, digit in enumerate(filled))


def bars(table: DataFrame, most: int) -> list[Bar]:
    """The histogram of a table's places, finer where a bar would hold more than `most` records, in order."""
    found: list[Bar] = []
    large: list[tuple[int, ...]] = [()]
    for depth in range(1, _DIGITS + 1):
        if not large:
            break
        counted = _counted(table, large, depth)
        large = [bar.digits for bar in counted if bar.count > most and depth < _DIGITS]
        found += [bar for bar in counted if bar.count <= most or depth == _DIGITS]
    return sorted(found)


def _counted(table: DataFrame, within: list[tuple[int, ...]], depth: int) -> list[Bar]:
    """Bars of `depth` digits inside those that are named by one digit less."""
    keys = [_digit(i).alias(f"d{i}") for i in range(depth)]
    inside = F.lit(True)
    if depth > 1:
        inside = F.struct(*(_digit(i) for i in range(depth - 1))).isin(
            [F.struct(*(F.lit(digit).cast("bigint") for digit in digits)) for digits in within]
        )
    rows = table.where(inside).groupBy(*keys).count().toArrow()
    counts = rows["count"].to_pylist()
    digits = [rows[f"d{i}"].to_pylist() for i in range(depth)]
    return [Bar(tuple(one), count) for one, count in zip(zip(*digits, strict=True), counts, strict=True)]


def _digit(number: int) -> Column:
    """A digit of a record's place; the halves are whole numbers of 64 bits whose sign is their first bit."""
    half, place = divmod(number, _DIGITS // 2)
    shift = _WORD - _DIGIT * (place + 1)
    return F.shiftrightunsigned(F.col((PLACE, HASH)[half]), shift).bitwiseAND(F.lit((1 << _DIGIT) - 1).cast("bigint"))


@dataclass(frozen=True, eq=False)
class Cuts:
    """The blocks of a table. upper, lower: halves of the first place of each block but the first, ascending.

    ends: how many records are in each block and those before it, shape (blocks,).
    """

    upper: Words
    lower: Words
    ends: npt.NDArray[np.int64]

    @staticmethod
    def none(rows: int) -> Cuts:
        """The whole table as one block."""
        return Cuts(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.array([rows]))

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The records of each block, shape (blocks,)."""
        return np.diff(self.ends, prepend=0)

    def joined(self, blocks: Iterable[int]) -> Cuts:
        """The same, where some blocks have joined their smaller neighbours, two blocks at a time.

        One whose neighbours have joined others stays as it is; not all do. There are several blocks.
        """
        sizes, free, gone = self.sizes, np.ones(len(self.ends), np.bool_), list[int]()
        for block in sorted(blocks):
            near = [number for number in (block - 1, block + 1) if 0 <= number < len(free) and free[number]]
            if free[block] and near:
                other = min(near, key=lambda one: sizes[one])
                free[[block, other]] = False
                gone.append(min(block, other))
        kept = np.setdiff1d(np.arange(len(self.upper)), gone)
        return Cuts(self.upper[kept], self.lower[kept], np.append(self.ends[kept], self.ends[-1:]))


def cuts(histogram: list[Bar], size: int) -> Cuts:
    """A block is closed when it has `size` records or more. What is left at the end joins the last one if it is less
    than half of that, so every block of several has at least size / 2.
    """
    starts, ends = list[int](), list[int]()
    before = total = 0
    for bar in histogram:
        if total - before >= size:
            starts.append(bar.start)
            ends.append(total)
            before = total
        total += bar.count
    if starts and total - before < size / 2:
        starts.pop()
        ends.pop()
    low = (1 << _WORD) - 1
    upper, lower = [start >> _WORD for start in starts], [start & low for start in starts]
    return Cuts(np.array(upper, np.uint64), np.array(lower, np.uint64), np.array([*ends, total]))


def numbers(upper: Words, lower: Words, at: Cuts) -> npt.NDArray[np.int64]:
    """The block of each place, whose halves are `upper` and `lower`, shape (n,)."""
    first, last = np.searchsorted(at.upper, upper, side="left"), np.searchsorted(at.upper, upper, side="right")
    values = last.astype(np.int64)
    for start in np.unique(first[first < last]):
        here = np.flatnonzero((first == start) & (last > start))
        end = last[here[0]]
        values[here] = start + np.searchsorted(at.lower[start:end], lower[here], side="right")
    return values
