"""LATERAL subqueries, as joins of what each unit has.

A subquery in FROM that has equal columns with a row before it is computed for all such columns at once, and joined by
them. LIMIT is then up to which number its rows count, in the order of ORDER BY, among those with equal columns.
"""

from __future__ import annotations

from dataclasses import replace

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Expr,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.relations import Block, Output, Source
from duckanon.rewrite.algebra.rows import outer_columns
from duckanon.units.conditions import apart
from duckanon.units.scope import NotLocal
from duckanon.units.windows import first_rows

_BY_EQUAL = (
    "A LATERAL subquery is followed where it depends on the row before it by equal columns: compare them by = in its "
    "WHERE."
)
# What is 0, not NULL, of no rows.
_COUNTS = ("count", "count_if", "regr_count")
_EMPTY = "A count in a LATERAL subquery is followed where it stands alone: compute with it around the subquery."


def joined(block: Block) -> Block:
    """The block with each source that depends on the sources before it as one that is joined. Raises NotLocal."""
    numbers = {source.number for source in block.sources}
    for source in block.sources:
        inner = source.relation
        if isinstance(inner, Block) and numbers & {column.source for column in outer_columns(inner)}:
            try:
                block = _joined(block, source, inner)
            except NotLocal as no:
                no.part = no.part or inner.node
                raise
    return block


def _joined(block: Block, source: Source, inner: Block) -> Block:
    if source.join not in ("inner", "left"):
        raise NotLocal(_BY_EQUAL)
    inside, pairs = apart(inner, {source.number for source in inner.sources})
    if not pairs or any(pair.operator != "=" for pair in pairs):
        raise NotLocal(_BY_EQUAL)
    inner = replace(inner, where=frozenset(inside))
    is_total, keys = inner.keys == (), tuple(pair.inner for pair in pairs)
    if is_total and (inner.having or inner.limited):
        raise NotLocal("HAVING and LIMIT of one row of aggregates are not followed in LATERAL: leave them out.")
    if inner.limited:
        inner = first_rows(inner, keys)
    names = [f"_dk_key{at}" for at in range(len(pairs))]
    outputs = (*inner.outputs, *map(Output, names, keys))
    grouped = None if inner.keys is None else tuple(dict.fromkeys((*inner.keys, *keys)))
    on = {Comparison("=", Column(source.number, name), pair.outer) for name, pair in zip(names, pairs, strict=True)}
    new = replace(source, relation=replace(inner, outputs=outputs, keys=grouped, order=(), node=None))
    if source.join == "left" or is_total:
        new = replace(new, join="left", on=source.on | on)
    sources = tuple(new if one.number == source.number else one for one in block.sources)
    joined = replace(block, sources=sources, where=block.where | (on if new.join == "inner" else frozenset()))
    if is_total and source.join == "inner":
        joined = replace(joined, where=joined.where | source.on)
    return _counting(joined, source.number, inner) if is_total else joined


def _counting(block: Block, number: int, inner: Block) -> Block:
    """The block in which counts of no rows are 0."""
    counts = set()
    for output in inner.outputs:
        if any(isinstance(each, Aggregate) and each.name in _COUNTS for each in walk(output.expr)):
            if not isinstance(output.expr, Aggregate):
                raise NotLocal(_EMPTY)
            counts.add(Column(number, fold(output.name)))

    def change(expression: Expr) -> Expr | None:
        return Coalesce((expression, Constant("0"))) if expression in counts else None

    others = tuple(replace(source, on=frozenset()) for source in block.sources)
    changed = replace(block, sources=others).rebuilt(lambda expr: rebuilt(expr, change))
    return replace(changed, sources=block.sources)
