"""The cells near a cell through which it can be protected: few, so that linear programs over them are small.

In a crossing of dimensions what is taken from a cell is given to others that differ from it in one dimension, and taken
back where they differ in two, and so on. So a neighbourhood is itself a crossing: of some nodes of each dimension.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.problem import Problem
from duckanon.engines.suppression.table import Axis

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Neighbourhoods:
    """The neighbourhoods of the cells of a problem."""

    def __init__(self, problem: Problem) -> None:
        system = problem.table
        self._places, self._dimensions = system.places, system.dimensions
        sizes = [one.hierarchies[0].nodes for one in self._dimensions]
        self._strides = np.array([int(np.prod(sizes[d + 1 :], dtype=np.int64)) for d in range(len(sizes))])
        self._keys = self._places @ self._strides
        self._added = _added_sums(problem, len(self._places))
        self._may = problem.always | problem.free
        self._parts = [[_parts(axis) for axis in one.hierarchies] for one in self._dimensions]

    def around(self, cell: int, width: int, cost: Floats) -> Ints:
        """The cells of a crossing around one. width: how many nodes beside each are taken, the cheapest.

        cost: shape (cells,), of using a cell.
        """
        if cell >= len(self._places):
            parts = [self.around(part, width, cost) for part in self._added[cell]]
            return np.unique(np.concatenate([np.array([cell]), *parts]))
        place = self._places[cell]
        chosen = [self._nodes(d, place, width, cost) for d in range(len(self._dimensions))]
        keys = np.zeros(1, dtype=np.int64)
        for nodes, stride in zip(chosen, self._strides.tolist(), strict=True):
            keys = (keys[:, None] + nodes * stride).ravel()
        keys.sort()
        found = self._found(keys)
        cells = found[found >= 0]
        return cells[self._may[cells]]

    def _found(self, keys: Ints) -> Ints:
        """The cells at those places, by number; -1 where there is none."""
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, at, -1)

    def _nodes(self, d: int, place: Ints, width: int, cost: Floats) -> Ints:
        """The nodes of a dimension: the cell's own, some beside it with their parts, from some width on wider ones."""
        own = int(place[d])
        found = {own}
        for axis, parts in zip(self._dimensions[d].hierarchies, self._parts[d], strict=True):
            self._below(d, own, parts, place, width, cost, found)
            node, wider = own, width
            while (parent := int(axis.parents[node])) >= 0:
                for beside in self._cheapest(d, parts[parent], place, wider, cost, node):
                    found.add(beside)
                    self._below(d, beside, parts, place, max(2, width // 2), cost, found)
                if width < _WIDE:
                    break
                found.add(parent)
                node, wider = parent, max(2, wider // 2)
        return np.array(sorted(found), dtype=np.int64)

    def _below(
        self, d: int, node: int, parts: dict[int, Ints], place: Ints, width: int, cost: Floats, found: set[int]
    ) -> None:
        """Parts of a sum, and parts of these: one may take up what the sum does."""
        while node in parts:
            cheapest = self._cheapest(d, parts[node], place, width, cost, -1)
            if not cheapest:
                return
            found.update(cheapest)
            node = cheapest[0]

    def _cheapest(self, d: int, nodes: Ints, place: Ints, width: int, cost: Floats, but: int) -> list[int]:
        """Nodes at which a cell that differs in this dimension alone is cheap."""
        base = int(place @ self._strides) - int(place[d]) * int(self._strides[d])
        cells = self._found(base + nodes * int(self._strides[d]))
        usable = (cells >= 0) & (nodes != but)
        usable[usable] = self._may[cells[usable]]
        nodes, cells = nodes[usable], cells[usable]
        order = np.argsort(cost[cells], kind="stable")[:width]
        return [int(one) for one in nodes[order]]


# From this width on a neighbourhood has wider sums than the cell, too.
_WIDE = 20


def _added_sums(problem: Problem, placed: int) -> dict[int, list[int]]:
    """The parts of the cells that have no place, being sums that were added."""
    rows, columns = problem.table.equations, problem.table.equations.tocsc()
    found = {}
    for cell in range(placed, problem.table.cells):
        row = int(columns.indices[columns.indptr[cell]])
        parts = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
        found[cell] = [int(one) for one in parts if one != cell]
    return found


def _parts(axis: Axis) -> dict[int, Ints]:
    """The parts of each sum."""
    order = np.argsort(axis.parents, kind="stable")
    parents = axis.parents[order]
    first = int(np.searchsorted(parents, 0))
    if first == len(parents):
        return {}
    sums, starts = np.unique(parents[first:], return_index=True)
    pieces = np.split(order[first:], starts[1:])
    return {int(one): piece for one, piece in zip(sums, pieces, strict=True)}
