"""One table of shares and nothing else: the methods of engines/cells, whose cost does not depend on n or is small."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from duckanon.engines.cells.proportions import exact_bounds
from duckanon.engines.cells.rounded_proportions import CellBounds, rounded_bounds
from duckanon.engines.tables.cells import Ints, keys, places
from duckanon.engines.tables.part import Part
from duckanon.engines.tables.released import TIES, Counts, ExactShares, Released, Releases, RoundedShares
from duckanon.engines.tables.search import NoSolutionError
from duckanon.errors import Infeasible, InvalidInput


def single_conditional(
    releases: Releases, part: Part, target: Sequence[int], codes: Ints | None
) -> tuple[Ints, Ints, Ints] | None:
    """The target's cells with their least and largest counts; None unless one complete table of shares lists them,
    and the only other thing known is how many records there are. Raises NoSolutionError if no records have it.
    """
    table, n = _only(part), releases.total()
    if table is None or n[0] != n[1] or set(target) != set(table.scope):
        return None
    try:
        bounds = _bounds(table, n[0])
    except Infeasible:
        raise NoSolutionError from None
    if bounds is None:
        return None
    listed = table.codes[:, [table.scope.index(v) for v in target]]
    if codes is None:
        some = bounds.upper > 0
        return listed[some], bounds.lower[some], bounds.upper[some]
    sizes = [releases.levels[v] for v in target]
    at = places(keys(codes, sizes), keys(listed, sizes))
    return codes, np.where(at >= 0, bounds.lower[at], 0), np.where(at >= 0, bounds.upper[at], 0)


def _only(part: Part) -> Released | None:
    """The only table, if it is one of shares without holes; tables of no variables give the number of records."""
    tables = [table for table in part.tables if table.scope]
    if len(tables) != 1 or len(part.tree.cliques) > 1:
        return None
    table, content = tables[0], tables[0].content
    if isinstance(content, Counts) or not table.complete:
        return None
    shares = content.reduced if isinstance(content, ExactShares) else content.published
    return None if (shares < 0).any() else table


def _bounds(table: Released, n: int) -> CellBounds | None:
    """Bounds in the order of the table's cells; None where they would take too long."""
    content = table.content
    assert isinstance(content, ExactShares | RoundedShares)
    order = np.argsort(content.row, kind="stable")
    rows = content.row[order]
    try:
        if isinstance(content, ExactShares):
            whole = content.whole[rows].tolist()
            shares = [Fraction(r, w) for r, w in zip(content.reduced[order].tolist(), whole, strict=True)]
            bounds = exact_bounds(rows, shares, n)
        else:
            digits = len(str(content.scale)) - 1
            bounds = rounded_bounds(rows, content.published[order], digits, n, TIES[content.ties], shown=table.shown)
    except InvalidInput:
        return None
    back = np.argsort(order)
    return CellBounds(bounds.lower[back], bounds.upper[back], bounds.feasible[back])
