"""The part of a set of tables that bears on a target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckanon.engines.tables.junction import JunctionTree, Variables, component, tree, triangulate
from duckanon.engines.tables.released import Released, Releases, margin


@dataclass(frozen=True)
class Part:
    """tree: the cliques that matter; the first holds the target. tables: each lies inside one of them."""

    tree: JunctionTree
    tables: tuple[Released, ...]


def part_around(releases: Releases, target: Variables) -> Part:
    """The cliques and tables that matter for the target.

    Where a separator's counts are known exactly, what lies beyond it adds nothing: its counts become a table.
    """
    whole = tree(triangulate(releases.levels, [*(frozenset(t.scope) for t in releases.tables), target]))
    at = min(
        (i for i, clique in enumerate(whole.cliques) if target <= clique),
        key=lambda i: float(np.prod([float(releases.levels[v]) for v in whole.cliques[i]])),
    )
    known = [table for table in releases.tables if table.known_counts]
    cut, margins = [], {}
    for link in whole.links:
        separator = whole.separator(link)
        source = next((table for table in known if separator <= set(table.scope)), None)
        if source is not None:
            cut.append(link)
            margins[separator] = source
        elif not separator and releases.n is not None:
            cut.append(link)
    around = component(whole, at, cut)
    inside = [t for t in releases.tables if any(set(t.scope) <= clique for clique in around.cliques)]
    # A separator inside a table that is kept already follows from that table.
    added = [
        margin(source, tuple(sorted(separator)))
        for separator, source in margins.items()
        if separator
        and any(separator <= clique for clique in around.cliques)
        and not any(t.known_counts and separator <= set(t.scope) for t in inside)
    ]
    return Part(around, (*inside, *added))
