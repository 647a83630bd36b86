"""The cells near a cell through which it can be protected: few, so that linear programs over them are small.

In a crossing of dimensions what is taken from a cell is given to others that differ from it in one dimension, and taken
back where they differ in two, and so on. So a neighbourhood is itself a crossing: of some nodes of each dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.attacker import Target
from duckanon.engines.suppression.problem import DOWN, UP, Problem
from duckanon.engines.suppression.table import Axis

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


# Cells are found by a list of all places where these are no more than so many times the cells.
_DENSE = 8


@dataclass(frozen=True)
class Reach:
    """How far a neighbourhood goes. width: how many nodes beside each are taken, the cheapest.

    levels: how many sums above the cell's own node are taken with those beside them, in each hierarchy.
    """

    width: int
    levels: int


class Neighbourhoods:
    """The neighbourhoods of the cells of a problem."""

    def __init__(self, problem: Problem) -> None:
        system = problem.table
        self._places, self._dimensions = system.places, system.dimensions
        sizes = [dimension.hierarchies[0].nodes for dimension in self._dimensions]
        self._strides = np.array([int(np.prod(sizes[d + 1 :], dtype=np.int64)) for d in range(len(sizes))])
        self._keys = self._places @ self._strides
        self._added = _added_sums(problem, len(self._places))
        self._may = problem.always | problem.free
        # How far a cell may deviate both ways.
        self._room = np.minimum(problem.room[UP], problem.room[DOWN])
        self._parts = [[_parts(axis) for axis in dimension.hierarchies] for dimension in self._dimensions]
        self._parents = [[axis.parents.tolist() for axis in dimension.hierarchies] for dimension in self._dimensions]
        places = int(self._strides[0]) * sizes[0]
        self._dense = _numbers(self._keys, places) if places <= _DENSE * len(self._keys) else None

    def near(self, target: Target, cost: Floats) -> Neighbourhood:
        """What lies around a target's cell. cost: shape (cells,), of using a cell, as long as this is asked."""
        if target.cell < len(self._places):
            return Neighbourhood([self._lines(target.cell, target.demand, cost)], None)
        parts = self._added[target.cell]
        return Neighbourhood([self._lines(part, target.demand, cost) for part in parts], target.cell)

    def _lines(self, cell: int, demand: int, cost: Floats) -> _Lines:
        return _Lines(self, self._places[cell], demand, cost)

    def cells(self, chosen: Sequence[Ints]) -> Ints:
        """The cells that may deviate in the crossing of those nodes of each dimension."""
        keys = np.zeros(1, dtype=np.int64)
        for nodes, stride in zip(chosen, self._strides.tolist(), strict=True):
            keys = (keys[:, None] + nodes * stride).ravel()
        keys.sort()
        cells = self._at(keys)
        cells = cells[cells >= 0]
        return cells[self._may[cells]]

    def usable(self, d: int, total: int, hierarchy: int, place: Ints, but: int) -> tuple[Ints, Ints]:
        """The parts of a sum at which a cell that differs in this dimension alone may deviate, and these cells."""
        nodes, stride = self._parts[d][hierarchy][total], int(self._strides[d])
        cells = self._at(int(place @ self._strides) + (nodes - int(place[d])) * stride)
        usable = (cells >= 0) & (nodes != but)
        usable[usable] = self._may[cells[usable]]
        return nodes[usable], cells[usable]

    def has_parts(self, d: int, hierarchy: int, node: int) -> bool:
        return node in self._parts[d][hierarchy]

    def room(self, cells: Ints) -> float:
        """How far these may deviate both ways, all together."""
        return float(self._room[cells].sum())

    def parents(self, d: int) -> list[list[int]]:
        """For each hierarchy of a dimension, the sum that each node is a part of; -1 for the total."""
        return self._parents[d]

    def _at(self, keys: Ints) -> Ints:
        """The cells at those places, by number; -1 where there is none."""
        if self._dense is not None:
            return self._dense[keys]
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, at, -1)


class _Lines:
    """The lines of cells that differ from one cell in one dimension, by what it costs to use them."""

    def __init__(self, near: Neighbourhoods, place: Ints, demand: int, cost: Floats) -> None:
        self._near, self._place, self._demand, self._cost = near, place, demand, cost
        self._known: dict[tuple[int, int, int, int], tuple[list[int], float]] = {}

    def around(self, reach: Reach) -> Ints:
        """The cells of a crossing around the cell."""
        return self._near.cells([self._nodes(d, reach) for d in range(len(self._place))])

    def _nodes(self, d: int, reach: Reach) -> Ints:
        """The nodes of a dimension: the cell's own, some beside it with their parts, and sums with those beside them.

        Where the cells beside one cannot take up the demand, its sum has to: then that is taken, too.
        """
        own = int(self._place[d])
        chosen = {own}
        for hierarchy, parents in enumerate(self._near.parents(d)):
            self._below(d, hierarchy, own, reach.width, chosen)
            node, width, left = own, reach.width, reach.levels
            while (parent := parents[node]) >= 0:
                nodes, room = self._cheapest(d, hierarchy, parent, node)
                for beside in nodes[:width]:
                    chosen.add(beside)
                    self._below(d, hierarchy, beside, max(2, width // 2), chosen)
                if left == 0 and room >= self._demand:
                    break
                left = max(0, left - 1)
                chosen.add(parent)
                node, width = parent, max(2, width // 2)
        return np.array(sorted(chosen), dtype=np.int64)

    def _below(self, d: int, hierarchy: int, node: int, width: int, chosen: set[int]) -> None:
        """Parts of a sum, and parts of these: one may take up what the sum does."""
        while self._near.has_parts(d, hierarchy, node):
            nodes, _ = self._cheapest(d, hierarchy, node, -1)
            if not nodes:
                return
            chosen.update(nodes[:width])
            node = nodes[0]

    def _cheapest(self, d: int, hierarchy: int, total: int, but: int) -> tuple[list[int], float]:
        """The usable parts of a sum, the cheapest first, and how far their cells may deviate together."""
        key = (d, hierarchy, total, but)
        if key not in self._known:
            nodes, cells = self._near.usable(d, total, hierarchy, self._place, but)
            order = np.argsort(self._cost[cells], kind="stable")
            self._known[key] = nodes[order].tolist(), self._near.room(cells)
        return self._known[key]


@dataclass(frozen=True)
class Neighbourhood:
    """What lies around a target: its cell's lines, or those of the cells that it is the sum of. added: that sum."""

    lines: list[_Lines]
    added: int | None

    def around(self, reach: Reach) -> Ints:
        """The cells within reach, ascending."""
        if self.added is None:
            return self.lines[0].around(reach)
        return np.unique(np.concatenate([np.array([self.added]), *(lines.around(reach) for lines in self.lines)]))


def _added_sums(problem: Problem, placed: int) -> dict[int, list[int]]:
    """The parts of the cells that have no place, being sums that were added."""
    rows, columns = problem.table.equations, problem.table.equations.tocsc()
    parts_of = {}
    for cell in range(placed, problem.table.cells):
        row = int(columns.indices[columns.indptr[cell]])
        parts = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
        parts_of[cell] = [int(part) for part in parts if part != cell]
    return parts_of


def _numbers(keys: Ints, places: int) -> Ints:
    """Shape (places,): the number of the cell at each place; -1 where there is none."""
    numbers = np.full(places, -1, dtype=np.int64)
    numbers[keys] = np.arange(len(keys))
    return numbers


def _parts(axis: Axis) -> dict[int, Ints]:
    """The parts of each sum."""
    order = np.argsort(axis.parents, kind="stable")
    parents = axis.parents[order]
    first = int(np.searchsorted(parents, 0))
    if first == len(parents):
        return {}
    sums, starts = np.unique(parents[first:], return_index=True)
    pieces = np.split(order[first:], starts[1:])
    return {int(total): piece for total, piece in zip(sums, pieces, strict=True)}
