"""Cells of one or several tables over crossed dimensions, as one system of equations.

A cell has a node in each dimension, and cells with the same nodes are one unknown in whichever tables they stand. So
tables that share cells are linked, and what follows from all of them together follows from the one system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.table import Axis, Dimension, Table, whole_units
from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Places of cells are numbers of 64 bits.
_MOST_PLACES = 2**62


@dataclass(frozen=True)
class Layout:
    """Which cells there are, and their equations, before they have values.

    places: shape (cells, dimensions), the node of each cell in each dimension; cells are sorted by them. equations:
    shape (equations, cells), as those of a `Table`: 1 for a sum and -1 for each of its parts.
    """

    places: Ints
    equations: csr_array
    dimensions: tuple[Dimension, ...]

    @staticmethod
    def of(dimensions: Sequence[Dimension], tables: Sequence[Sequence[npt.ArrayLike]] | None = None) -> Layout:
        """tables: for each one the nodes that it has in each dimension; by default one table with all nodes.

        Raises InvalidInput for tables that do not fit the dimensions.
        """
        strides = _strides([dimension.nodes for dimension in dimensions])
        every = [[np.arange(dimension.nodes) for dimension in dimensions]] if tables is None else tables
        grids = [_nodes(dimensions, table) for table in every]
        if not grids:
            raise InvalidInput("Suppression needs a table: name one at least.")
        keys = np.unique(np.concatenate([_keys(grid, strides) for grid in grids]))
        equations = _Equations(strides)
        for grid in grids:
            equations.add(dimensions, grid)
        places = np.stack([keys // stride for stride in strides], axis=1)
        sizes = np.array([dimension.nodes for dimension in dimensions])
        return Layout(places % sizes, equations.matrix(keys), tuple(dimensions))


@dataclass(frozen=True)
class System:
    """Cells of any tables in whole units of `step`: the same interface as `Table`, but for the shape.

    units: shape (cells,), non-negative, and the totals add up. equations: shape (equations, cells). places: see
    `Layout`; cells that were added as sums have none. dimensions: of the places.
    """

    units: Ints
    equations: csr_array
    step: float
    places: Ints
    dimensions: tuple[Dimension, ...]

    @staticmethod
    def of(layout: Layout, values: npt.ArrayLike, step: float = 1.0) -> System:
        """values: shape (cells,), multiples of `step`. Raises InvalidInput if they are no such table."""
        units = whole_units(values, step)
        if units.shape != (len(layout.places),):
            raise InvalidInput("A system of tables has one value for each cell.")
        system = System(units, layout.equations, step, layout.places, layout.dimensions)
        if not system.adds_up(units):
            raise InvalidInput("The totals do not add up: each one must be the sum of its parts, to the last unit.")
        return system

    @property
    def cells(self) -> int:
        return self.units.size

    @property
    def flat(self) -> Ints:
        return self.units

    def adds_up(self, units: Ints) -> bool:
        """Whether the cells meet every equation, computed in integers."""
        return not (self.equations.astype(np.int64) @ units).any()


# What the search and the audit ask of: cells with equations, of one shape or another.
Additive = Table | System


def with_sums(system: Additive, sums: Sequence[Ints]) -> System:
    """The system with another cell for each of the sums, which are lists of its cells. Nobody publishes these.

    So a sum of cells that must not be known, such as all that one contributor gave, is protected as a cell is.
    """
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    count, cells = len(sums), system.cells
    starts = np.concatenate([[0], np.cumsum([len(summands) for summands in sums])])
    which = np.concatenate([*sums, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    parts = csr_array((-np.ones(len(which)), which, starts), shape=(count, cells))
    above = hstack([system.equations, csr_array((system.equations.shape[0], count))])
    equations = csr_array(vstack([above, hstack([parts, eye_array(count)])], format="csr"))
    added = -(parts.astype(np.int64) @ system.flat)
    units = np.concatenate([system.flat, added])
    return System(units, equations, system.step, system.places, tuple(system.dimensions))


def with_parts(system: Additive, units: Ints, sums: Ints) -> System:
    """The system with further cells, of which some of its own are sums. Nobody publishes these.

    So what is published has to be margins of something that is not negative. units: shape (parts,). sums: shape
    (tables, parts), for each table the cell that a part is in. A cell of these is the sum of all its parts. Raises
    InvalidInput for one that is not.
    """
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    cells, count = system.cells, len(units)
    if sums.size and not (sums.min() >= 0 and sums.max() < cells):
        raise InvalidInput("A part is in one cell of each table.")
    known = csr_array(hstack([system.equations, csr_array((system.equations.shape[0], count))]))
    rows = [known]
    for own in sums:
        totals = np.unique(own)
        of = csr_array((np.ones(count), (np.searchsorted(totals, own), np.arange(count))), shape=(len(totals), count))
        rows.append(csr_array(hstack([eye_array(cells, format="csr")[totals], -of])))
    equations = csr_array(vstack(rows, format="csr"))
    extended = System(
        np.concatenate([system.flat, units]), equations, system.step, system.places, tuple(system.dimensions)
    )
    if not extended.adds_up(extended.units):
        raise InvalidInput("The parts do not add up to the cells that they are in.")
    return extended


def same_owner(system: Additive, owners: Ints) -> list[Ints]:
    """The cells of an equation whose values all come from one contributor, where there are several: each a sum.

    Who else knows the equation's other cells knows what that contributor gave to all of them together. owners: shape
    (cells,), the only contributor of a cell, and 0 where there is none.
    """
    rows = system.equations.tocoo()
    owned = (rows.data < 0) & (owners[rows.col] != 0)
    line, cell = rows.row[owned].astype(np.int64), rows.col[owned].astype(np.int64)
    order = np.lexsort((cell, owners[cell], line))
    line, cell = line[order], cell[order]
    fresh = np.flatnonzero((np.diff(line) != 0) | (np.diff(owners[cell]) != 0)) + 1
    groups = [group for group in np.split(cell, fresh) if len(group) > 1]
    return [np.array(members) for members in dict.fromkeys(tuple(group.tolist()) for group in groups)]


def _strides(sizes: Sequence[int]) -> list[int]:
    """What a node's number counts in the number of a place, for each dimension."""
    strides, stride = [], 1
    for size in reversed(sizes):
        strides.append(stride)
        stride *= max(1, size)
    if stride > _MOST_PLACES:
        raise InvalidInput("The dimensions have more than 2^62 combinations: name fewer of them.")
    return strides[::-1]


def _nodes(dimensions: Sequence[Dimension], table: Sequence[npt.ArrayLike]) -> list[Ints]:
    """The nodes of a table in each dimension, ascending."""
    if len(table) != len(dimensions):
        raise InvalidInput("A table says for each dimension which of its nodes it has.")
    grid = []
    for dimension, nodes in zip(dimensions, table, strict=True):
        kept = np.unique(np.asarray(nodes, dtype=np.int64))
        if not len(kept) or kept[0] < 0 or kept[-1] >= dimension.nodes:
            raise InvalidInput("A table has one node at least of each dimension, by its number.")
        grid.append(kept)
    return grid


def _keys(grid: Sequence[Ints], strides: Sequence[int]) -> Ints:
    """The numbers of the places of all combinations of nodes."""
    keys = np.zeros(1, dtype=np.int64)
    for nodes, stride in zip(grid, strides, strict=True):
        keys = (keys[:, None] + nodes * stride).ravel()
    return keys


class _Equations:
    """Collects the equations of tables, each once, in the numbers of places."""

    def __init__(self, strides: Sequence[int]) -> None:
        self._strides = strides
        self._totals: dict[tuple[int, int], Ints] = {}
        self._parts: list[tuple[Ints, Ints, Floats]] = []
        self._count = 0

    def add(self, dimensions: Sequence[Dimension], grid: Sequence[Ints]) -> None:
        """The equations of one table. No equation of it implies another.

        Sums along the first dimension hold at all nodes of the others. Given these, sums along the second need only
        hold at nodes of the first that are no sums themselves, and so on.
        """
        kept = [dimension.within(nodes) for dimension, nodes in zip(dimensions, grid, strict=True)]
        for d, dimension in enumerate(kept):
            beside = [np.zeros(1, dtype=np.int64) if e == d else nodes for e, nodes in enumerate(grid)]
            for e in range(d):
                beside[e] = grid[e][kept[e].leaves]
            offsets = _keys(beside, self._strides)
            for h, axis in enumerate(dimension.hierarchies):
                self._take((d, h), axis, grid[d] * self._strides[d], offsets)

    def _take(self, of: tuple[int, int], axis: Axis, keys: Ints, offsets: Ints) -> None:
        """The equations of one hierarchy at all those offsets, without those that another table has too."""
        sums = axis.equations().tocoo()
        totals = np.flatnonzero(~axis.leaves)
        if not len(totals) or not len(offsets):
            return
        places = keys[totals][:, None] + offsets
        known = self._totals.get(of, np.zeros(0, dtype=np.int64))
        fresh = ~np.isin(places, known)
        self._totals[of] = np.concatenate([known, places[fresh]])
        number = np.where(fresh, self._count + np.cumsum(fresh).reshape(fresh.shape) - 1, -1)
        rows, columns = number[sums.row], keys[sums.col][:, None] + offsets
        signs = np.broadcast_to(sums.data[:, None], rows.shape)
        new = rows >= 0
        self._parts.append((rows[new], columns[new], signs[new]))
        self._count += int(fresh.sum())

    def matrix(self, keys: Ints) -> csr_array:
        """keys: of all cells, sorted."""
        from scipy.sparse import csr_array

        if not self._parts:
            return csr_array((0, len(keys)))
        rows, columns, signs = (np.concatenate(columns_of_parts) for columns_of_parts in zip(*self._parts, strict=True))
        return csr_array((signs, (rows, np.searchsorted(keys, columns))), shape=(self._count, len(keys)))
