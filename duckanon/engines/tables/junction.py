"""Junction trees: which cross-classifications are enough to describe a set of tables.

Each table is a hyperedge over its variables. In a triangulation of their graph, non-negative integer tables on the
cliques that agree on the separators are exactly the projections of non-negative integer tables over all variables
(Lauritzen 1996, "Graphical Models", sections 2.1 and 4.4; integer: cells of two cliques with the same separator are
joined by a transportation table, which is integral). So bounds inside a clique need tables of the cliques' size only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log

Variables = frozenset[int]


@dataclass(frozen=True)
class JunctionTree:
    """cliques: sets of variables. links: pairs of positions in `cliques`; a tree, or a forest once it is cut."""

    cliques: tuple[Variables, ...]
    links: tuple[tuple[int, int], ...]

    def separator(self, link: tuple[int, int]) -> Variables:
        return self.cliques[link[0]] & self.cliques[link[1]]


def triangulate(levels: Sequence[int], hyperedges: Iterable[Variables]) -> tuple[Variables, ...]:
    """The maximal cliques of a triangulation, by least fill-in, then by the smallest clique."""
    edges = [edge for edge in hyperedges if edge]
    near: dict[int, set[int]] = {v: set() for edge in edges for v in edge}
    for edge in edges:
        for v in edge:
            near[v] |= edge - {v}
    cliques: list[Variables] = []
    left = set(near)
    while left:
        v = min(left, key=lambda candidate: _cost(candidate, near, left, levels))
        around = near[v] & left
        for a, b in combinations(around, 2):
            near[a].add(b)
            near[b].add(a)
        left.remove(v)
        cliques.append(frozenset(around | {v}))
    return maximal(cliques)


def _cost(v: int, near: dict[int, set[int]], left: set[int], levels: Sequence[int]) -> tuple[int, float, int]:
    around = near[v] & left
    fill = sum(b not in near[a] for a, b in combinations(around, 2))
    return fill, sum(log(levels[u]) for u in around) + log(levels[v]), v


def maximal(sets: Iterable[Variables]) -> tuple[Variables, ...]:
    """Those that lie in no other, each once."""
    largest: list[Variables] = []
    for candidate in sorted(set(sets), key=lambda variables: (-len(variables), sorted(variables))):
        if not any(candidate <= other for other in largest):
            largest.append(candidate)
    return tuple(largest)


def tree(cliques: tuple[Variables, ...]) -> JunctionTree:
    """A spanning tree with the largest separators, which is a junction tree if the cliques are those of a
    chordal graph.
    """
    joined, links = {0}, []
    while len(joined) < len(cliques):
        a, b = max(
            ((i, j) for i in joined for j in range(len(cliques)) if j not in joined),
            key=lambda pair: (len(cliques[pair[0]] & cliques[pair[1]]), -pair[0], -pair[1]),
        )
        links.append((a, b))
        joined.add(b)
    return JunctionTree(cliques, tuple(links))


def acyclic(hyperedges: Iterable[Variables]) -> JunctionTree | None:
    """A junction tree whose cliques are the maximal hyperedges themselves; None if they are not decomposable.

    They are exactly if a spanning tree of largest separators has the running intersection property, which is to say
    that each variable occurs in one separator less than in cliques.
    """
    cliques = maximal(hyperedges)
    if not cliques:
        return None
    junction_tree = tree(cliques)
    for v in frozenset[int]().union(*cliques):
        separators = sum(v in junction_tree.separator(link) for link in junction_tree.links)
        if separators != sum(v in clique for clique in cliques) - 1:
            return None
    return junction_tree


def component(whole: JunctionTree, start: int, cut: Iterable[tuple[int, int]]) -> JunctionTree:
    """The part of the tree around one clique that is left when some links are cut; that clique comes first."""
    gone = set(cut)
    kept = [link for link in whole.links if link not in gone]
    order = [start]
    for at in order:
        for a, b in kept:
            if at in (a, b):
                other = b if at == a else a
                if other not in order:
                    order.append(other)
    new = {old: position for position, old in enumerate(order)}
    return JunctionTree(
        tuple(whole.cliques[old] for old in order), tuple((new[a], new[b]) for a, b in kept if a in new and b in new)
    )
