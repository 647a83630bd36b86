"""What a subquery in FROM computes of its rows, groups and windows, computed around it instead.

`avg(d)` over `max(x) - min(x) AS d` is `avg(a - b)` over `max(x) AS a, min(x) AS b`. So numbers are computed where they
leave the units, and bounds and domains are those of the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.expressions import Aggregate, Column, Expr, Nested, Star, Unclear, Window, has, rebuilt
from duckanon.rewrite.algebra.relations import Block, Output, Source, is_protected
from duckanon.rewrite.algebra.rows import is_closed

_BARE = (Column, Aggregate, Window)


def lifted(block: Block, is_across: Callable[[Block], bool]) -> Block:
    """The block around sources that compute nothing of their rows, groups and windows.

    is_across: whether a block groups records of several units, which is answered as it is written.
    """
    for source in block.sources:
        inner = source.relation
        if source.join == "inner" and isinstance(inner, Block) and _computes(inner) and not is_across(inner):
            block = _lifted(block, source, inner)
    return block


def _computes(inner: Block) -> bool:
    """Whether some column is computed of rows, groups or windows, in a block that is understood."""
    whole = inner.distinct is None and inner.sets is None and not inner.spread and is_protected(inner)
    exprs = [one.expr for one in inner.outputs]
    known = not any(has(one, (Star, Unclear, Nested)) for one in exprs) and is_closed(inner)
    parts = (Column, Aggregate, Window) if inner.is_plain else (Aggregate, Window)
    return whole and known and any(has(one, parts) and not isinstance(one, _BARE) for one in exprs)


def _lifted(block: Block, source: Source, inner: Block) -> Block:
    below: dict[Expr, Column] = {}

    def part(one: Expr) -> Expr | None:
        if isinstance(one, _BARE) or one in (inner.keys or ()):
            return below.setdefault(one, Column(source.number, f"_dk_{len(below)}"))
        return None

    shown: dict[Expr, Expr] = {Column(source.number, fold(one.name)): rebuilt(one.expr, part) for one in inner.outputs}
    outputs = tuple(Output(column.name, one) for one, column in below.items())
    others = tuple(one for one in block.sources if one.number != source.number)
    changed = replace(block, sources=others).rebuilt(lambda expr: rebuilt(expr, lambda one: shown.get(one)))
    sources = iter(changed.sources)
    new = replace(source, relation=replace(inner, outputs=outputs, order=()))
    kept = tuple(new if one.number == source.number else next(sources) for one in block.sources)
    return replace(changed, sources=kept)
