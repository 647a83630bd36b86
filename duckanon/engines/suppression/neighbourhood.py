"""The cells near a cell through which it can be protected: few, so that linear programs over them are small.

In a crossing of dimensions what is taken from a cell is given to others that differ from it in one dimension, and taken
back where they differ in two, and so on. So a neighbourhood is itself a crossing: of some nodes of each dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.attacker import Target
from duckanon.engines.suppression.problem import DOWN, UP, Problem
from duckanon.engines.suppression.table import Axis

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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

    def around(self, target: Target, reach: Reach, cost: Floats) -> Ints:
        """The cells of a crossing around a target's. cost: shape (cells,), of using a cell."""
        return self._around(target.cell, target.demand, reach, cost)

    def _around(self, cell: int, demand: int, reach: Reach, cost: Floats) -> Ints:
        if cell >= len(self._places):
            parts = [self._around(part, demand, reach, cost) for part in self._added[cell]]
            return np.unique(np.concatenate([np.array([cell]), *parts]))
        place = self._places[cell]
        chosen = [self._nodes(d, place, demand, reach, cost) for d in range(len(self._dimensions))]
        keys = np.zeros(1, dtype=np.int64)
        for nodes, stride in zip(chosen, self._strides.tolist(), strict=True):
            keys = (keys[:, None] + nodes * stride).ravel()
        keys.sort()
        numbers = self._at_places(keys)
        cells = numbers[numbers >= 0]
        return cells[self._may[cells]]

    def _at_places(self, keys: Ints) -> Ints:
        """The cells at those places, by number; -1 where there is none."""
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, at, -1)

    def _nodes(self, d: int, place: Ints, demand: int, reach: Reach, cost: Floats) -> Ints:
        """The nodes of a dimension: the cell's own, some beside it with their parts, and sums with those beside them.

        Where the cells beside one cannot take up the demand, its sum has to: then that is taken, too.
        """
        own = int(place[d])
        chosen = {own}
        for axis, parts in zip(self._dimensions[d].hierarchies, self._parts[d], strict=True):
            self._below(d, own, parts, place, reach.width, cost, chosen)
            node, width, left = own, reach.width, reach.levels
            while (parent := int(axis.parents[node])) >= 0:
                beside = self._usable(d, parts[parent], place, node)
                for neighbour in self._cheapest(beside, width, cost):
                    chosen.add(neighbour)
                    self._below(d, neighbour, parts, place, max(2, width // 2), cost, chosen)
                if left == 0 and self._room[beside[1]].sum() >= demand:
                    break
                left = max(0, left - 1)
                chosen.add(parent)
                node, width = parent, max(2, width // 2)
        return np.array(sorted(chosen), dtype=np.int64)

    def _below(
        self, d: int, node: int, parts: dict[int, Ints], place: Ints, width: int, cost: Floats, chosen: set[int]
    ) -> None:
        """Parts of a sum, and parts of these: one may take up what the sum does."""
        while node in parts:
            cheapest = self._cheapest(self._usable(d, parts[node], place, -1), width, cost)
            if not cheapest:
                return
            chosen.update(cheapest)
            node = cheapest[0]

    def _usable(self, d: int, nodes: Ints, place: Ints, but: int) -> tuple[Ints, Ints]:
        """The nodes at which a cell that differs in this dimension alone may deviate, and these cells."""
        base = int(place @ self._strides) - int(place[d]) * int(self._strides[d])
        cells = self._at_places(base + nodes * int(self._strides[d]))
        usable = (cells >= 0) & (nodes != but)
        usable[usable] = self._may[cells[usable]]
        return nodes[usable], cells[usable]

    def _cheapest(self, usable: tuple[Ints, Ints], width: int, cost: Floats) -> list[int]:
        """The nodes whose cells cost least, that many at most."""
        nodes, cells = usable
        return [int(node) for node in nodes[np.argsort(cost[cells], kind="stable")[:width]]]


def _added_sums(problem: Problem, placed: int) -> dict[int, list[int]]:
    """The parts of the cells that have no place, being sums that were added."""
    rows, columns = problem.table.equations, problem.table.equations.tocsc()
    parts_of = {}
    for cell in range(placed, problem.table.cells):
        row = int(columns.indices[columns.indptr[cell]])
        parts = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
        parts_of[cell] = [int(part) for part in parts if part != cell]
    return parts_of


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
