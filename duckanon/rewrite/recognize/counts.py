"""Plain counts: how many records, or how many different units, by some keys."""

from __future__ import annotations

from duckanon.rewrite.algebra.expressions import Aggregate, Column, Expr, Nested, Star, is_aggregated, walk
from duckanon.rewrite.algebra.relations import Block, Output
from duckanon.rewrite.algebra.rows import is_clean, is_closed, records, watched, whose
from duckanon.rewrite.recognize.findings import Counts, Role
from duckanon.rewrite.recognize.measures import measure


def counts(block: Block) -> Counts | None:
    """What a block counts, if its columns are keys, counts, and what is computed from these."""
    if block.keys is None or (block.spread and not block.keys) or not is_closed(block) or not records(block.sources):
        return None
    if any(isinstance(node, Nested) for key in block.keys for node in walk(key)) or not all(map(is_clean, block.keys)):
        return None
    counted = _counted(block, block.keys)
    # A query that shows keys only, chosen by a count, shows values and no counts.
    if counted is None or not any(is_aggregated(output.expr) for output in block.outputs):
        return None
    units, events = dict.fromkeys(unit for unit, _ in counted), dict.fromkeys(event for _, event in counted)
    if len(units) != 1 or not all(
        map(is_clean, (*block.where, *block.having, *(expression for event in events for expression in event)))
    ):
        return None
    unit = next(iter(units))
    size = Aggregate("count") if unit is None else Aggregate("count", (unit,))
    table = whose(block.sources, size, block.where)
    if table is None:
        return None
    return Counts(
        table=table,
        tables=watched(block),
        sources=block.sources,
        filter=block.where,
        node=block.node,
        keys=block.keys,
        unit=unit,
        events=tuple(events),
        kept=block.having,
        sets=tuple(tuple(sorted(numbers)) for numbers in block.sets) if block.sets is not None else (),
        columns=tuple(_role(output, block.keys, block) for output in block.outputs),
    )


def _counted(block: Block, keys: tuple[Expr, ...]) -> list[tuple[Expr | None, frozenset[Expr]]] | None:
    """What each count of a block counts; None if the block computes more than keys and counts."""
    counted = []
    for expr in (*(output.expr for output in block.outputs), *block.having, *block.qualify, *block.order):
        for node in walk(expr, into=lambda part: part not in keys and not _is_count(part)):
            if node in keys:
                continue
            if isinstance(node, Column | Star | Nested):
                return None
            if isinstance(node, Aggregate) and not node.is_of_aggregates:
                expressions = _what_is_counted(node, block)
                if expressions is None:
                    return None
                counted.append(expressions)
    return counted


def _role(output: Output, keys: tuple[Expr, ...], block: Block) -> Role:
    """What an output is: a key, a count under conditions, or something computed from these."""
    role = "key" if output.expr in keys else "count" if _is_count(output.expr) else "derived"
    expressions = _what_is_counted(output.expr, block) if isinstance(output.expr, Aggregate) else None
    where = frozenset[Expr]() if expressions is None else expressions[1]
    return Role(name=output.name, what=role, expr=output.expr, where=where)


def _is_count(expr: Expr) -> bool:
    return isinstance(expr, Aggregate) and expr.name in ("count", "sum") and not expr.is_of_aggregates


def _what_is_counted(expr: Aggregate, block: Block) -> tuple[Expr | None, frozenset[Expr]] | None:
    """What an aggregate counts (None: records, else an expression's different values), and under which conditions."""
    if expr.name == "count" and expr.distinct and isinstance(expr.argument, Column):
        return expr.argument, expr.where
    meant = measure(expr, block.sources)
    if meant is None or meant.weight is not None or meant.scale != 1:
        return None
    return None, meant.where
