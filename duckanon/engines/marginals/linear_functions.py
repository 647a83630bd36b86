"""Linear functions of a table that is estimated from noisy marginals: how its noise varies, in closed form.

The best estimate of a table is a sum over sets A of its attributes: the residual of A, with noise of variance tau_A
that adds up to zero along each attribute of A, spread evenly over the other attributes. So the covariance of two cells
depends only on which attributes they agree in, and that of two functions on how much they have in groups of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.marginals.residual_spaces import Floats, Table
from duckanon.engines.marginals.variances import Variances


@dataclass(frozen=True)
class Weights:
    """A linear function of the cells of a table. cells: their numbers, row by row. weights: of each."""

    cells: NDArray[np.int64]
    weights: Floats

    @staticmethod
    def of(cells: NDArray[np.int64], part_weights: Sequence[float]) -> Weights:
        """Of some cells all of their parts, which are the last attribute. part_weights: those of the parts."""
        parts = cells[:, None] * len(part_weights) + np.arange(len(part_weights))
        return Weights(parts.reshape(-1), np.tile(np.array(part_weights, dtype=np.float64), len(cells)))


@dataclass(frozen=True, eq=False)
class Along:
    """An attribute whose cells are added up as numbers. axis: its place in the table.

    ways: of each of its cells how far the number is from the least value to the largest, 0 to 1; NaN for none.
    """

    axis: int
    ways: Floats

    def weights(self, sizes: Sequence[int], cells: NDArray[np.int64], end_weights: Sequence[float]) -> Weights:
        """A linear function of some cells. end_weights: those of the least value, of the largest, and of none."""
        ways = self.ways[np.unravel_index(cells, sizes)[self.axis]]
        down, up, none = end_weights
        return Weights(cells, np.where(np.isnan(ways), none, down * (1 - ways) + up * ways))


@dataclass(frozen=True)
class Noise:
    """The noise of an estimated table. sizes: of its attributes.

    residuals: tau of each set of attributes, at the number whose bit at place i says whether attribute i is in the set.
    """

    sizes: tuple[int, ...]
    residuals: tuple[float, ...]

    @staticmethod
    def of(known: Variances, table: Table, records: int) -> Noise:
        """Of a table that follows from measured ones. records: of a unit, by which their noise was multiplied."""
        spaces = [
            tuple(attribute for place, attribute in enumerate(table) if at >> place & 1)
            for at in range(2 ** len(table))
        ]
        residuals = tuple(float(records**2 / known.precisions[space]) for space in spaces)
        return Noise(tuple(known.sizes[attribute] for attribute in table), residuals)

    def covariance(self, first: Weights, second: Weights) -> float:
        """Of two linear functions. Its relative error is that of sums of doubles."""
        axes = range(len(self.sizes))
        places = (
            [np.unravel_index(function.cells, self.sizes) for function in (first, second)] if self.sizes else [(), ()]
        )
        total = 0.0
        for agreed in range(2 ** len(self.sizes)):
            own = [at for at in axes if agreed >> at & 1]
            total += self._factors[agreed] * self._together(own, places, first, second)
        return total

    def variance(self, of: Weights) -> float:
        """Of a linear function, never below zero."""
        return max(self.covariance(of, of), 0.0)

    def _together(self, axes: Sequence[int], places: Sequence[Sequence[NDArray[np.int64]]], *of: Weights) -> float:
        """The sum over groups of cells that agree in some attributes of the product of what both have in a group."""
        if not axes:
            return float(of[0].weights.sum() * of[1].weights.sum())
        sizes = [self.sizes[at] for at in axes]
        groups = [np.ravel_multi_index([place[at] for at in axes], sizes) for place in places]
        known, at = np.unique(np.concatenate(groups), return_inverse=True)
        first = np.bincount(at[: len(groups[0])], of[0].weights, len(known))
        second = np.bincount(at[len(groups[0]) :], of[1].weights, len(known))
        return float(first @ second)

    @property
    def _factors(self) -> list[float]:
        """For each set of attributes what is added for a pair of cells that agree in them, whatever the others."""
        whole, factors = 2 ** len(self.sizes), [0.0] * 2 ** len(self.sizes)
        for residual in range(whole):
            spread = prod(size for at, size in enumerate(self.sizes) if not residual >> at & 1)
            for agreed in range(whole):
                if agreed & ~residual:
                    continue
                left = [size for at, size in enumerate(self.sizes) if (residual & ~agreed) >> at & 1]
                sign = -1 if len(left) % 2 else 1
                factors[agreed] += sign * self.residuals[residual] / (prod(left) * spread**2)
        return factors
