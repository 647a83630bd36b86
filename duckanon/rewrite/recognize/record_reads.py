"""Reads of records: a query shows records of a protected table, or values of single records."""

from __future__ import annotations

from duckanon.rewrite.algebra.aggregates import SHOWING
from duckanon.rewrite.algebra.expressions import Aggregate, Column, Expr, Star, is_aggregated, walk
from duckanon.rewrite.algebra.relations import Block, Table
from duckanon.rewrite.algebra.rows import columns_in, watched
from duckanon.rewrite.recognize.findings import RecordReads


def record_reads(block: Block) -> RecordReads | None:
    """The read of records in a block, with the protected columns that it shows; None if it shows none itself."""
    protected = {
        source.number: source.relation.name
        for source in block.sources
        if isinstance(source.relation, Table) and source.relation.protected and source.join not in ("semi", "anti")
    }
    if not protected:
        return None
    exprs = [output.expr for output in block.outputs]
    shown = [
        column
        for output in block.outputs
        for expr in _values(output.expr, block.keys, counted=any(map(is_aggregated, exprs)))
        for column in columns_in([expr])
        if column.source in protected or column.source == 0
    ]
    if not shown and block.keys is not None:
        return None
    tables = watched(block)
    first = next(
        (protected[column.source] for column in shown if column.source in protected), next(iter(protected.values()))
    )
    return RecordReads(
        table=first,
        tables=tables,
        sources=block.sources,
        filter=block.where,
        node=block.node,
        columns=tuple(dict.fromkeys(shown)),
    )


def _values(expr: Expr, keys: tuple[Expr, ...] | None, *, counted: bool) -> list[Expr]:
    """The parts of an output that are values of records: neither aggregates nor the keys of groups."""
    if keys is None or not counted:
        return [expr]
    expressions: list[Expr] = []
    for node in walk(expr, into=lambda part: not isinstance(part, Aggregate) and part not in keys):
        if isinstance(node, Aggregate) and node.name in SHOWING:
            expressions += (*node.operands, *node.order)
        elif isinstance(node, Column | Star) and node not in keys:
            expressions.append(node)
    return expressions
