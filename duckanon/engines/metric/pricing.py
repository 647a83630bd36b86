"""Pricing: which vectors of the cone have a negative reduced cost, and the lower bound of the loss that follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.metric.graph import Edges, shortest_paths
from duckanon.engines.metric.problem import Limits, Program
from duckanon.engines.metric.tree_simplex import cheapest_of, raise_into_cone, shortest_path_tree
from duckanon.engines.parallel import spread

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Each length is increased by a different share of up to this, so that no two trees tie. Lower bounds stay valid,
# because the cone only becomes larger.
_STRETCH = 1e-9
# A number of moves that suffices for any tree.
UNLIMITED = 10**9
# After so many moves of each tree, and about so many nodes of trees, it is asked whether the time is up.
_BETWEEN, _NODES = 200, 100_000


def _stretched(edges: Edges) -> Edges:
    first, second = edges.ends
    low, high = np.minimum(first, second), np.maximum(first, second)
    pair = (low * edges.nodes + high).astype(np.uint64)
    # A fixed hash (Steele, Lea and Flood 2014): the same for both directions, and in every run.
    with np.errstate(over="ignore"):
        pair = (pair + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        pair = (pair ^ (pair >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        pair = (pair ^ (pair >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    share = (pair >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return edges.with_length(edges.length * (1 + _STRETCH * (1 + share) / 2))


def into_cone(logs: Floats, edges: Edges, threads: int) -> Floats:
    """Vectors of the cone, (vectors, nodes), from logarithms that are in it but for `_STRETCH` and rounding."""
    # Inside the cone but for the margin of short edges, so that mostly nothing is left to raise.
    inside = logs * (1 - 1.2 * _STRETCH)
    spread(lambda vector: raise_into_cone(vector, edges.ptr, edges.idx, edges.length), inside, threads)
    return np.asarray(np.exp(inside))


class Pricing:
    """The best tree found for each output, kept from one call to the next."""

    def __init__(self, program: Program, limits: Limits) -> None:
        self._program, self._limits = program, limits
        self._edges = _stretched(program.component.edges)
        self._costs = np.ascontiguousarray(program.cost.T)
        outputs, nodes = self._costs.shape
        self._parents = np.empty((outputs, nodes), dtype=np.int32)
        self._by = np.empty((outputs, nodes), dtype=np.int32)
        self._above = np.zeros((outputs, nodes), dtype=np.int8)
        self.logs = np.empty((outputs, nodes))
        self.values = np.zeros(outputs)
        self._moves = np.zeros(outputs, dtype=np.int64)
        self._whole = False
        self._plant()

    def _plant(self) -> None:
        edges, roots = self._edges, self._program.roots
        paths = shortest_paths(edges)
        planted: dict[int, int] = {}
        for k, root in enumerate(roots.tolist()):
            if root in planted:
                self._parents[k], self._by[k] = self._parents[planted[root]], self._by[planted[root]]
            else:
                planted[root] = k
                shortest_path_tree(root, paths[root], edges.ptr, edges.idx, edges.length, self._parents[k], self._by[k])

    def _run(self, which: Ints, prices: Floats, most: int) -> bool:
        """Improve the trees of some outputs. Returns whether all of them are optimal."""
        edges, moves, more = self._edges, 0, 0

        def run(part: Ints) -> None:
            if not self._limits.expired:
                cheapest_of(
                    part, self._program.roots, self._costs, prices, self._parents, self._by, self._above, self.logs,
                    edges.ptr, edges.idx, edges.length, more, self.values, self._moves,
                )  # fmt: skip

        while len(which) and moves < most:
            more = min(_BETWEEN, most - moves)
            pieces = min(len(which), max(8 * self._limits.threads, len(which) * edges.nodes // _NODES))
            self._moves[which] = more
            spread(run, [which[piece::pieces] for piece in range(pieces)], self._limits.threads)
            which = which[self._moves[which] >= more]
            moves += more
            if self._limits.expired:
                break
        return not len(which)

    def run(self, prices: Floats, most: int) -> bool:
        """Price every output: `values`, `logs`. False if a tree was stopped after `most` moves, or by the clock."""
        self._whole = self._run(np.arange(len(self.values)), prices, most)
        return self._whole

    def worth(self, share: float) -> Floats:
        """The vectors of outputs whose value is below -share, moved into the program's cone: (vectors, nodes)."""
        return into_cone(self.logs[self.values < -share], self._program.edges, self._limits.threads)

    def bound(self, prices: Floats) -> float:
        """A lower bound of the program's value, after `run` of the same prices; -inf if that did not come to its end.

        The sum of the prices less every output's excess is one, an output being used no more than once at its root. So
        it is for prices that are evenly lower: they are lowered until no vector's value exceeds its cost (Dinkelbach
        1967), and the best bound on the way is returned.
        """
        if not self._whole:
            return -np.inf
        which = np.flatnonzero(self.values < 0)
        states: tuple[Any, ...] = (self._parents, self._by, self._above, self.logs, self.values)
        kept = [state[which] for state in states]
        left, lowered, best = which, 0.0, -np.inf
        while True:
            reached = float(prices.sum()) - len(prices) * lowered + float(self.values[left].sum())
            better = reached > best
            best = max(best, reached)
            if not len(left) or (lowered and not better):
                break
            lowered += float((-self.values[left] / np.exp(self.logs[left]).sum(axis=1)).max())
            if not self._run(left, prices - lowered, UNLIMITED):
                break
            left = left[self.values[left] < 0]
        for state, before in zip(states, kept, strict=True):
            state[which] = before
        return best
