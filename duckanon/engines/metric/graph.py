"""The mDP graph: which records are neighbours, and how much their probabilities may differ (Qiu 2024, definition 3.1).

Lengths are epsilon times distance: the largest logarithm that a ratio of two neighbours' probabilities may have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.parallel import spread

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Records no further apart than this (epsilon times distance) get the same row of the mechanism: all ratios are 1.
NEAR = 2.0**-30
# Subtracted from each bound, so that rounding cannot exceed it.
MARGIN = 2.0**-40
# With no more nodes than this, starting threads takes longer than the work.
FEW = 64


@dataclass(frozen=True)
class Edges:
    """Undirected edges, each in both directions: those of node i are idx[ptr[i]:ptr[i + 1]], with their lengths."""

    ptr: Ints
    idx: Ints
    length: Floats

    @property
    def nodes(self) -> int:
        return len(self.ptr) - 1

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """Both ends of every directed edge."""
        return np.repeat(np.arange(self.nodes), np.diff(self.ptr)), self.idx

    def with_length(self, length: Floats) -> Edges:
        return Edges(self.ptr, self.idx, length)

    def inner(self) -> Edges:
        """The same edges, a margin shorter."""
        return self.with_length(self.length * (1 - MARGIN) - MARGIN)


@dataclass(frozen=True)
class Component:
    """A connected part of the graph.

    nodes: shape (n,), in the numbering of the whole graph. neighbours: all pairs among them, numbered from 0. edges:
    those of them that no path implies.
    """

    nodes: Ints
    neighbours: Edges
    edges: Edges

    def shortest(self, edges: Edges | None = None) -> Floats:
        """Lengths of shortest paths, shape (n, n), along `edges` (its own unless said otherwise)."""
        return shortest_paths(edges or self.edges)


@dataclass(frozen=True)
class Graph:
    """node: the node of each record, shape (records,). components: the parts that are independent (property 3.1)."""

    node: Ints
    components: tuple[Component, ...]


def shortest_paths(edges: Edges) -> Floats:
    """Lengths of shortest paths between all nodes; infinity where there is none."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    n = edges.nodes
    # Older versions of scipy accept only 32-bit indices.
    matrix = csr_array((edges.length, edges.idx.astype(np.int32), edges.ptr.astype(np.int32)), shape=(n, n))
    method = "FW" if len(edges.idx) > n * n / 16 else "D"
    return np.ascontiguousarray(shortest_path(matrix, method=method, directed=True))


def edges_of(lengths: Floats) -> Edges:
    """All pairs of finite length, from a symmetric matrix."""
    present = np.isfinite(lengths)
    np.fill_diagonal(present, False)
    first, second = np.nonzero(present)
    ptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    return Edges(ptr.astype(np.int64), second.astype(np.int64), lengths[first, second])


@compiled
def _drop_implied(
    ptr: Ints, idx: Ints, length: Floats, paths: Floats, begin: int, end: int, needed: npt.NDArray[np.bool_]
) -> None:
    """Take from `needed`, all true, the edges of the nodes begin..end-1 for which a detour over a node is as short."""
    n = len(ptr) - 1
    for i in range(begin, end):
        for e in range(ptr[i], ptr[i + 1]):
            j = idx[e]
            for m in range(n):
                if m != i and m != j and paths[i, m] + paths[m, j] <= length[e]:
                    needed[e] = False
                    break


def reduced(edges: Edges, threads: int = 1) -> Edges:
    """The edges that no path implies: dropping the others changes no solution.

    An edge (i, j) goes if D_im + D_mj <= d_ij for some m, D being shortest paths; such a detour consists of shorter
    edges, so that those that remain imply all that go.
    """
    paths = shortest_paths(edges)
    pieces = np.linspace(0, edges.nodes, 4 * threads + 1).astype(int)
    needed = np.ones(len(edges.length), dtype=np.bool_)
    spread(
        lambda piece: _drop_implied(edges.ptr, edges.idx, edges.length, paths, *piece, needed),
        list(zip(pieces[:-1].tolist(), pieces[1:].tolist(), strict=True)),
        threads,
    )
    first, second = edges.ends
    # An edge is kept in both directions or in neither, however the sums were rounded.
    kept = needed & needed[_reverse(first, second, edges.nodes)]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(first[kept], minlength=edges.nodes))])
    return Edges(ptr.astype(np.int64), second[kept], edges.length[kept])


def _reverse(first: Ints, second: Ints, nodes: int) -> Ints:
    """For each directed edge, where the opposite one stands. The edges are in order of (first, second)."""
    return np.searchsorted(first * nodes + second, second * nodes + first)


def _parts(joined: npt.NDArray[np.bool_]) -> Ints:
    """The connected component of each node, numbered from 0. joined: the adjacency matrix."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(csr_array(joined), directed=False)[1], dtype=np.int64)


def mdp_graph(distances: Floats, epsilon: float, radius: float | None = None, threads: int = 1) -> Graph:
    """The graph of records no further apart than `radius`; all pairs without one.

    distances: shape (records, records), symmetric, infinity where two records are no neighbours whatever the radius.
    Records closer than `NEAR` become one node; its distance to another is the shortest of its records' distances.
    """
    lengths = epsilon * distances
    if radius is not None:
        lengths[distances > radius] = np.inf
    np.fill_diagonal(lengths, 0.0)
    node = _parts(lengths <= NEAR)
    order = np.argsort(node, kind="stable")
    starts = np.flatnonzero(np.diff(node[order], prepend=-1))
    if len(starts) < len(node):
        lengths = np.minimum.reduceat(np.minimum.reduceat(lengths[order], starts, axis=0)[:, order], starts, axis=1)
    part = _parts(np.isfinite(lengths))
    components = []
    for number in range(part.max() + 1):
        nodes = np.flatnonzero(part == number)
        whole = edges_of(lengths[np.ix_(nodes, nodes)])
        components.append(Component(nodes, whole, reduced(whole, threads if len(nodes) > FEW else 1)))
    return Graph(node, tuple(components))
