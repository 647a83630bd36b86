"""Frechet bounds: closed forms for sets of exact counts whose variables form a decomposable graph.

With maximal tables C and separators S of a junction tree, a cell is at most the least of its counts in the C, and at
least their sum less the sum of its counts in the S. Both are reached by tables of whole counts (Dobra and Fienberg
2000, "Bounds for cell entries in contingency tables given marginal totals and decomposable graphs", Theorem 4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duckanon.engines.tables.cells import Ints, keys, places
from duckanon.engines.tables.clique import clique_cells
from duckanon.engines.tables.junction import Variables, acyclic
from duckanon.engines.tables.part import Part
from duckanon.engines.tables.released import Counts, Released, Releases, margin


def decomposable(
    releases: Releases, part: Part, target: Sequence[int], codes: Ints | None
) -> tuple[Ints, Ints, Ints] | None:
    """The target's cells with their least and largest counts; None where the closed form does not apply."""
    if part.tree.cliques != (frozenset(target),) or not all(table.known_counts for table in part.tables):
        return None
    junction_tree = acyclic(frozenset(table.scope) for table in part.tables)
    if junction_tree is None:
        return None
    if codes is None:
        clique = clique_cells(target, releases.levels, part.tables)
        codes = clique.on(target)
    largest = np.full(len(codes), np.iinfo(np.int64).max)
    least = np.zeros(len(codes), dtype=np.int64)
    for scope in junction_tree.cliques:
        inside = _counts(releases, part.tables, scope, target, codes)
        largest, least = np.minimum(largest, inside), least + inside
    for link in junction_tree.links:
        least -= _counts(releases, part.tables, junction_tree.separator(link), target, codes)
    return codes, np.maximum(least, 0), largest


def _counts(
    releases: Releases, tables: Sequence[Released], scope: Variables, target: Sequence[int], codes: Ints
) -> Ints:
    """Each cell's count in the margin of some variables."""
    source = next(table for table in tables if scope <= set(table.scope))
    known = margin(source, tuple(sorted(scope)))
    assert isinstance(known.content, Counts)
    sizes = [releases.levels[v] for v in known.scope]
    at = places(keys(codes[:, [list(target).index(v) for v in known.scope]], sizes), keys(known.codes, sizes))
    return np.where(at >= 0, known.content.lower[at], 0)
