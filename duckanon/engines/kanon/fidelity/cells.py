"""Columns whose cells are values, intervals or sets of values; each value of a cell is equally likely."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers in n rows, each an interval, a value where the ends agree, or missing.

    low, high: of each distinct cell, shape (d,), in ascending order; NaN where missing. index: the cell of each row,
    shape (n,). whole: whether only whole numbers occur, so that an interval stands for those inside.
    """

    low: Floats
    high: Floats
    index: Ints
    whole: bool

    @staticmethod
    def of(low: Floats, high: Floats, *, whole: bool) -> Numbers:
        """The column with these ends in each row, shape (n,)."""
        lows, first = np.unique(low, return_inverse=True)
        highs, second = np.unique(high, return_inverse=True)
        pairs, index = np.unique(first.ravel() * len(highs) + second.ravel(), return_inverse=True)
        return Numbers(lows[pairs // len(highs)], highs[pairs % len(highs)], index.ravel(), whole)

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        return np.asarray(np.isnan(self.low) | np.isnan(self.high))

    @property
    def middle(self) -> Floats:
        """The mean of each cell."""
        return np.asarray(self.low / 2 + self.high / 2)

    @property
    def variance(self) -> Floats:
        """The variance within each cell."""
        width = self.high - self.low
        return np.asarray(width * (width + 2) / 12 if self.whole else width**2 / 12)

    def chance(self, least: float, most: float) -> Floats:
        """The chance that a value of each cell lies between these ends, which count as inside, shape (d,)."""
        half = 0.5 if self.whole else 0.0
        low, high = self.low - half, self.high + half
        width = high - low
        overlap = np.minimum(high, most + half) - np.maximum(low, least - half)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            spread = np.clip(overlap / width, 0.0, 1.0)
        inside = (low >= least) & (low <= most)
        return np.where(self.missing, 0.0, np.where(width > 0, spread, inside))

    def quantile(self, weights: Floats, share: float) -> float:
        """The least value below or at which this share of the values lies. weights: of each cell, shape (d,).

        The column must not be missing throughout. (Below or at a value means by a billionth part less, too, because
        sums are rounded.)
        """
        there = ~self.missing & (weights > 0)
        half = 0.5 if self.whole else 0.0
        low, high, weights = self.low[there] - half, self.high[there] + half, weights[there]
        target = share * weights.sum() * (1 - 1e-9)

        def reached(point: float) -> float:
            """How many of the values lie below or at the point."""
            width = np.where(high > low, high - low, 1.0)
            with np.errstate(over="ignore"):
                spread = np.clip((point - low) / width, 0.0, 1.0)
            return float(weights @ np.where(high > low, spread, low <= point))

        # The least end of a cell that is far enough; before it the number grows evenly from the end before.
        edges = np.unique(np.concatenate((low, high)))
        place = bisect_left(edges, target, key=reached) if target > reached(edges[0]) else 0
        quantile = float(edges[place])
        if place:
            start, single = float(edges[place - 1]), float(weights[(low == quantile) & (high == quantile)].sum())
            lower, upper = reached(start), reached(quantile) - single
            if upper >= target:
                quantile = start + (quantile - start) * (target - lower) / (upper - lower)
        return float(np.ceil(quantile - half - 1e-6)) if self.whole else quantile


@dataclass(frozen=True, eq=False)
class Categories:
    """A column of categories in n rows, each a set, a value where it has one member, or missing where it has none.

    members: the codes of each distinct cell, one cell after the other; ends: where each starts, and the end, shape
    (d + 1,). index: the cell of each row, shape (n,). names: of the codes.
    """

    members: Ints
    ends: Ints
    index: Ints
    names: Sequence[str]

    @staticmethod
    def of(members: Ints, ends: Ints, names: Sequence[str]) -> Categories:
        """The column with these members in each row; ends: shape (n + 1,)."""
        cells = [np.unique(row).tobytes() for row in np.split(members.astype(np.int64), ends[1:-1])]
        place = {cell: i for i, cell in enumerate(sorted(set(cells)))}
        distinct = [np.frombuffer(cell, np.int64) for cell in place]
        starts = np.append(0, np.cumsum([len(codes) for codes in distinct])).astype(np.int64)
        flat = np.concatenate(distinct) if distinct else np.zeros(0, np.int64)
        return Categories(flat, starts, np.array([place[cell] for cell in cells], np.int64), names)

    @staticmethod
    def single(codes: Ints, names: Sequence[str]) -> Categories:
        """The column with one value in each row, shape (n,); -1 is missing."""
        distinct, index = np.unique(codes, return_inverse=True)
        ends = np.append(0, np.cumsum(distinct >= 0)).astype(np.int64)
        return Categories(distinct[distinct >= 0], ends, index.ravel(), names)

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        return np.asarray(np.diff(self.ends) == 0)

    def chance(self, chosen: npt.NDArray[np.bool_]) -> Floats:
        """The chance that a value of each cell is one of those chosen, shape (d,). chosen: a flag for each code."""
        reached = np.append(0, np.cumsum(chosen[self.members]))[self.ends]
        return np.asarray(np.diff(reached) / np.maximum(np.diff(self.ends), 1))


@dataclass(frozen=True, eq=False)
class Cells:
    """A table: columns of n rows, and how many records each row stands for, shape (n,)."""

    columns: Sequence[Numbers | Categories]
    weights: Floats

    @cached_property
    def records(self) -> float:
        return float(self.weights.sum())

    def weighed(self, column: int) -> Floats:
        """How many records each cell of a column stands for, shape (d,)."""
        cells = self.columns[column]
        return np.bincount(cells.index, self.weights, len(cells.missing)).astype(np.float64)

    def canonical(self) -> Cells:
        """The same with the rows in an order that follows their content alone."""
        order = np.lexsort([self.weights, *(column.index for column in reversed(self.columns))])
        return Cells([_reordered(column, order) for column in self.columns], self.weights[order])


def _reordered(column: Numbers | Categories, order: Ints) -> Numbers | Categories:
    if isinstance(column, Numbers):
        return Numbers(column.low, column.high, column.index[order], column.whole)
    return Categories(column.members, column.ends, column.index[order], column.names)
