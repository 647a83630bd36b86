"""Ways to cut the graph into parts for Benders decomposition (Qiu 2024, section 3.4 and supplement C)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.engines.metric.graph import Edges
from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from duckanon.engines.metric.problem import Program

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# k-means starts from a fixed draw, so that a partition is the same in every run.
_SEED = 20240424


@dataclass(frozen=True)
class Partition:
    """part: the part of each node, numbered from 0. boundary: whether a node has a neighbour in another part."""

    part: Ints
    boundary: Flags

    @property
    def internal(self) -> list[Ints]:
        """The internal nodes of each part (definition 3.2)."""
        return [np.flatnonzero((self.part == number) & ~self.boundary) for number in range(self.part.max() + 1)]

    def master_components(self, edges: Edges) -> list[Ints]:
        """The connected components of the boundary nodes' graph (Qiu 2024, figure 5)."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        nodes = np.flatnonzero(self.boundary)
        if not len(nodes):
            return []
        ends = edges.idx.astype(np.int32), edges.ptr.astype(np.int32)
        matrix = csr_array((np.ones(len(edges.idx)), *ends), shape=(edges.nodes, edges.nodes))
        count, label = connected_components(matrix[nodes][:, nodes], directed=False)
        return [nodes[label == component] for component in range(count)]


def _centres(vectors: Floats, parts: int, rng: np.random.Generator) -> Floats:
    """Starting centres of k-means (k-means++): each is drawn with probability proportional to the squared distance."""
    chosen = [int(rng.integers(len(vectors)))]
    nearest = np.full(len(vectors), np.inf)
    while len(chosen) < parts:
        nearest = np.minimum(nearest, ((vectors - vectors[chosen[-1]]) ** 2).sum(axis=1))
        total = float(nearest.sum())
        if total == 0:
            break
        chosen.append(int(rng.choice(len(vectors), p=nearest / total)))
    return vectors[chosen]


def _clusters(vectors: Floats, parts: int) -> Ints:
    """k-means (equations 18, 40, 42 and 46), the best of a few starts."""
    from scipy.cluster.vq import ClusterError, kmeans2

    rng = np.random.default_rng(_SEED)
    best, least = np.zeros(len(vectors), dtype=np.int64), np.inf
    for _ in range(5):
        try:
            centres, label = kmeans2(vectors, _centres(vectors, parts, rng), minit="matrix", missing="raise", iter=50)
        except ClusterError:
            continue
        spread = float(((vectors - centres[label]) ** 2).sum())
        if spread < least:
            best, least = label.astype(np.int64), spread
    return np.asarray(np.unique(best, return_inverse=True)[1], dtype=np.int64)


def _adjacency(edges: Edges) -> Floats:
    adjacency = np.zeros((edges.nodes, edges.nodes))
    adjacency[edges.ends] = 1.0
    return adjacency


def _spectral(edges: Edges, parts: int) -> Floats:
    """The first eigenvectors of the graph's Laplacian, shape (nodes, parts) (equation 45)."""
    from scipy.linalg import eigh

    weights = _adjacency(edges)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    return np.asarray(eigh(laplacian, subset_by_index=[0, min(parts, edges.nodes) - 1])[1])


def _by_records(program: Program, parts: int) -> Ints:
    if program.points is None:
        raise InvalidInput("The partition 'k-m-rec' needs features: a table of distances has none. Take 'k-m-dv'.")
    return _clusters(program.points, parts)


PARTITIONS: dict[str, Callable[[Program, int], Ints]] = {
    # By distance vectors: equation 18.
    "k-m-dv": lambda program, parts: _clusters(program.paths, parts),
    # By the records themselves: equation 40.
    "k-m-rec": _by_records,
    # By rows of the adjacency matrix: equation 42.
    "k-m-adj": lambda program, parts: _clusters(_adjacency(program.neighbours), parts),
    # Balanced spectral clustering: equations 43 to 46.
    "bsc": lambda program, parts: _clusters(_spectral(program.neighbours, parts), parts),
}


def named(name: str, parts: int | None) -> Callable[[Program], Partition]:
    """The partition of that name. parts: how many; by default one for each 20 nodes, as in the paper."""
    if name not in PARTITIONS:
        known = ", ".join(f"'{partition}'" for partition in PARTITIONS)
        raise InvalidInput(f"There is no partition '{name}': choose one of {known}.")
    return partial(_cut, name, parts)


def _cut(name: str, parts: int | None, program: Program) -> Partition:
    nodes = program.edges.nodes
    count = max(1, min(nodes, parts or max(2, nodes // 20)))
    part = PARTITIONS[name](program, count) if count > 1 else np.zeros(nodes, dtype=np.int64)
    # Edges that others imply are left out: the program is the same, with fewer boundary nodes.
    first, second = program.edges.ends
    boundary = np.zeros(nodes, dtype=np.bool_)
    boundary[first[part[first] != part[second]]] = True
    return Partition(part, boundary)
