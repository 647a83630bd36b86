"""A table of rows by columns with its totals: the axes, the cells in whole units, and the equations among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Sums of this many units are still exact in the solver's floats, with digits to spare.
MOST_UNITS = 2**45


@dataclass(frozen=True)
class Axis:
    """The rows or the columns of a table.

    parents: shape (nodes,), for each node the one whose sum it is part of, or -1. A node with children is their sum.
    """

    parents: Ints

    @staticmethod
    def of(parents: npt.ArrayLike | None, nodes: int) -> Axis:
        """The axis of that many nodes; None means that no node is a sum. Raises InvalidInput."""
        if parents is None:
            return Axis(np.full(nodes, -1, dtype=np.int64))
        parent_of = np.asarray(parents)
        if parent_of.shape != (nodes,) or parent_of.dtype.kind not in "iu":
            raise InvalidInput("The parents of an axis are one whole number for each of its rows or columns.")
        axis = Axis(parent_of.astype(np.int64))
        if nodes and not (axis.parents.min() >= -1 and axis.parents.max() < nodes):
            raise InvalidInput("A parent is the number of another row or column, or -1 where there is none.")
        if len(axis.upward) < nodes:
            raise InvalidInput("The parents of an axis form a circle: a total cannot be part of itself.")
        return axis

    @property
    def nodes(self) -> int:
        return len(self.parents)

    @cached_property
    def leaves(self) -> Bools:
        """Shape (nodes,): which nodes have no children."""
        leaves = np.ones(self.nodes, dtype=bool)
        leaves[self.parents[self.parents >= 0]] = False
        return leaves

    @cached_property
    def upward(self) -> Ints:
        """The nodes with children before their parents. Nodes of a circle are missing."""
        waiting = np.bincount(self.parents[self.parents >= 0], minlength=self.nodes)
        ready = np.flatnonzero(waiting == 0).tolist()
        for node in ready:
            parent = int(self.parents[node])
            if parent >= 0:
                waiting[parent] -= 1
                if waiting[parent] == 0:
                    ready.append(parent)
        return np.array(ready, dtype=np.int64)

    def equations(self) -> csr_array:
        """Shape (nodes with children, nodes): 1 for the sum and -1 for each of its parts."""
        from scipy.sparse import csr_array

        sums = np.flatnonzero(~self.leaves)
        parts = np.flatnonzero(self.parents >= 0)
        rows = np.concatenate([np.arange(len(sums)), np.searchsorted(sums, self.parents[parts])])
        signs = np.concatenate([np.ones(len(sums)), -np.ones(len(parts))])
        return csr_array((signs, (rows, np.concatenate([sums, parts]))), shape=(len(sums), self.nodes))


@dataclass(frozen=True)
class Dimension:
    """hierarchies: over the same nodes, which are sums in one of them, in several, or in none."""

    hierarchies: tuple[Axis, ...]

    @staticmethod
    def of(nodes: int, *parents: npt.ArrayLike | None) -> Dimension:
        """parents: of each hierarchy, see `Axis.of`. Raises InvalidInput if they are no hierarchies together."""
        dimension = Dimension(tuple(Axis.of(hierarchy, nodes) for hierarchy in parents or (None,)))
        if not dimension._ordered:
            raise InvalidInput("The hierarchies of a dimension form a circle: a total cannot be part of itself.")
        return dimension

    @property
    def nodes(self) -> int:
        return self.hierarchies[0].nodes

    @cached_property
    def leaves(self) -> Bools:
        """Shape (nodes,): which nodes are sums in no hierarchy."""
        leaves: Bools = np.all([hierarchy.leaves for hierarchy in self.hierarchies], axis=0)
        return leaves

    @property
    def _ordered(self) -> bool:
        """Whether no node is a part of itself through several hierarchies."""
        height = np.zeros(self.nodes, dtype=np.int64)
        for _ in range(self.nodes + 1):
            higher = height.copy()
            for hierarchy in self.hierarchies:
                parts = np.flatnonzero(hierarchy.parents >= 0)
                np.maximum.at(higher, hierarchy.parents[parts], height[parts] + 1)
            if (higher == height).all():
                return True
            height = higher
        return False

    def within(self, kept: Ints) -> Dimension:
        """The dimension of some of the nodes, ascending: a sum stays one where all its parts are kept."""
        place = np.full(self.nodes, -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        axes = []
        for hierarchy in self.hierarchies:
            above = hierarchy.parents >= 0
            broken = np.unique(hierarchy.parents[above & (place < 0)])
            parents = np.where(above & ~np.isin(hierarchy.parents, broken), place[np.maximum(hierarchy.parents, 0)], -1)
            axes.append(Axis(parents[kept]))
        return Dimension(tuple(axes))


@dataclass(frozen=True)
class Table:
    """Cells in whole units of `step`; cell (r, c) is number r * columns + c wherever cells are flat.

    units: shape (rows, columns), non-negative, and the totals add up.
    """

    units: Ints
    rows: Axis
    columns: Axis
    step: float

    @staticmethod
    def of(
        values: npt.ArrayLike,
        rows: npt.ArrayLike | None = None,
        columns: npt.ArrayLike | None = None,
        step: float = 1.0,
    ) -> Table:
        """A table of counts or magnitudes, totals included.

        values: shape (rows, columns), multiples of `step`. rows, columns: parents (see `Axis`), or None without sums.
        Raises InvalidInput if it is no such table.
        """
        units = whole_units(values, step)
        if units.ndim != 2:
            raise InvalidInput("A table has two dimensions: rows and columns.")
        table = Table(units, Axis.of(rows, units.shape[0]), Axis.of(columns, units.shape[1]), step)
        if not table.adds_up(units.ravel()):
            raise InvalidInput("The totals do not add up: each one must be the sum of its parts, to the last unit.")
        return table

    @property
    def cells(self) -> int:
        return self.units.size

    @property
    def places(self) -> Ints:
        """Shape (cells, 2): the row and the column of each cell."""
        return np.indices(self.units.shape).reshape(2, -1).T

    @property
    def dimensions(self) -> tuple[Dimension, Dimension]:
        """What the places are of."""
        return Dimension((self.rows,)), Dimension((self.columns,))

    @cached_property
    def flat(self) -> Ints:
        """Shape (cells,): the units of each cell."""
        return self.units.ravel()

    @cached_property
    def equations(self) -> csr_array:
        """Shape (equations, cells): the table is additive where equations @ cells = 0. No equation implies another.

        Sums along the rows' axis hold in every column. Given these, sums along the columns' axis need only hold in
        rows that are no sums themselves.
        """
        from scipy.sparse import csr_array, eye_array, kron, vstack

        leaves = eye_array(self.rows.nodes, format="csr")[np.flatnonzero(self.rows.leaves)]
        down = kron(self.rows.equations(), eye_array(self.columns.nodes))
        across = kron(leaves, self.columns.equations())
        matrix = csr_array(vstack([down, across], format="csr"))
        # The product of matrices may store zeros.
        matrix.eliminate_zeros()
        return matrix

    def adds_up(self, units: Ints) -> bool:
        """Whether flat cells meet every equation, computed in integers."""
        return not (self.equations.astype(np.int64) @ units).any()


def whole_units(values: npt.ArrayLike, step: float) -> Ints:
    """The values in units of `step`. Raises InvalidInput unless they are non-negative multiples of it."""
    if not (np.isfinite(step) and step > 0):
        raise InvalidInput("A step is a positive number.")
    amounts = np.asarray(values)
    if amounts.dtype.kind not in "iuf" or not np.isfinite(amounts).all():
        raise InvalidInput("The cells of a table are numbers: NULL, NaN and infinity have no place there.")
    scaled = amounts / step
    units = np.rint(scaled)
    if (units < 0).any():
        raise InvalidInput("A table with a negative cell cannot be protected: contributions must be at least 0.")
    if (units > MOST_UNITS).any():
        raise InvalidInput("The cells are too large to be exact: give a larger step, such as 1000.")
    if (np.abs(scaled - units) > 1e-6).any():
        raise InvalidInput("The cells are no multiples of the step: round them first, or give a smaller step.")
    return units.astype(np.int64)
