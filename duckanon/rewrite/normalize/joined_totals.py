"""Totals from a join or from a correlated subquery, rewritten as window functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Column,
    Comparison,
    Constant,
    Expr,
    ScalarQuery,
    Window,
    is_aggregated,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.relations import Block, Output, Source, Table
from duckanon.rewrite.algebra.rows import columns_in

_SAME = ("any_value", "min", "max", "avg")


class _No(Exception):
    """The other source is no total of the same records."""


def raised(block: Block, _: Callable[[], int]) -> Block | None:
    """A block that joins a grouped source with totals, rewritten as the grouped block joined with the totals."""
    if block.keys is not None or block.qualify or block.distinct is not None or len(block.sources) < 2:
        return None
    first = max(block.sources, key=_keys)
    inner = first.relation
    if not isinstance(inner, Block) or not inner.keys or inner.sets or inner.limited or inner.qualify or inner.distinct:
        return None
    rest = tuple(source for source in block.sources if source is not first)
    if first.join != "inner" or not all(_is_total(source) for source in rest):
        return None

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Column) and expr.source == first.number:
            expression = inner.output(expr.name)
            if expression is None:
                raise _No
            return expression
        return None

    try:
        upper = replace(block, sources=rest).rebuilt(lambda expr: rebuilt(expr, change))
    except _No:
        return None
    extra = upper.where
    merged = replace(
        inner,
        sources=(*inner.sources, *upper.sources),
        outputs=upper.outputs,
        having=inner.having,
        order=upper.order,
        limited=block.limited,
        first=block.first,
        node=block.node,
    )
    conditions = frozenset(
        expression
        for expression in extra
        if any(c.source in {s.number for s in rest} for c in columns_in([expression]))
    )
    return _joined(replace(merged, having=inner.having | (extra - conditions)), conditions)


def _keys(source: Source) -> int:
    return len(source.relation.keys or ()) if isinstance(source.relation, Block) else 0


def joined(block: Block, _: Callable[[], int]) -> Block | None:
    """A grouping block that joins its records with totals of the same records, rewritten with windows."""
    if not block.keys or block.sets is not None or not any(_is_total(source) for source in block.sources):
        return None
    return _joined(block, frozenset())


def _joined(block: Block, conditions: frozenset[Expr]) -> Block | None:
    totals = [source for source in block.sources if _is_total(source)]
    main = tuple(source for source in block.sources if not _is_total(source))
    if not main or not totals:
        return None
    bare = replace(block, sources=main)
    try:
        for total in totals:
            bare, conditions = _without(bare, total, conditions)
    except _No:
        return None
    return None if conditions else bare


def _is_total(source: Source) -> bool:
    relation = source.relation
    return (
        isinstance(relation, Block)
        and relation.keys is not None
        and not (relation.sets or relation.limited or relation.having or relation.qualify or relation.distinct)
        and source.join in ("inner", "left")
        and len(relation.sources) == 1
        and isinstance(relation.sources[0].relation, Table)
    )


def _without(block: Block, total: Source, conditions: frozenset[Expr]) -> tuple[Block, frozenset[Expr]]:
    """The block with one joined total replaced by windows over its groups."""
    inner = total.relation
    assert isinstance(inner, Block)
    where = block.where | total.on | conditions
    bound: dict[Expr, Expr] = {}
    used = set()
    for condition in where:
        pair = _pair(condition, total.number)
        if pair is not None and (key := inner.output(pair[0].name)) in (inner.keys or ()):
            assert key is not None
            bound[key] = pair[1]
            used.add(condition)
    if set(bound) != set(inner.keys or ()):
        raise _No
    keys = tuple(key for key in block.keys or () if not _of(key, total.number))
    if not set(bound.values()) <= set(keys):
        raise _No
    same, extra = _same_records(block.sources, block.where - used, inner)
    if any(_of(expression, total.number) for expression in extra):
        # A condition that compares records with the total is none of what is counted alone.
        raise _No
    if any(rebuilt(key, same) != replacement for key, replacement in bound.items()):
        raise _No
    partition = frozenset(bound.values())

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Aggregate) and expr.name in _SAME and expr.argument is not None and not expr.where:
            column = expr.argument
            return change(column) if isinstance(column, Column) and column.source == total.number else None
        if isinstance(expr, Column) and expr.source == total.number:
            expression = inner.output(expr.name)
            if expression in bound:
                return bound[expression]
            return _window(expression, same, partition)
        return None

    return _finished(block, change, keys, used, extra), conditions - used


def correlated(block: Block, _: Callable[[], int]) -> Block | None:
    """A grouping block with subqueries that count all records or those of its row, rewritten with windows."""
    if not block.keys or block.sets is not None:
        return None
    nested = [scalar for output in block.outputs for scalar in _scalars(output.expr)]
    for scalar_query in nested:
        try:
            return _uncorrelated(block, scalar_query)
        except _No:
            continue
    return None


def _scalars(expr: Expr) -> list[ScalarQuery]:
    return [node for node in walk(expr) if isinstance(node, ScalarQuery)]


def _uncorrelated(block: Block, nested: ScalarQuery) -> Block:
    inner = nested.query
    if not isinstance(inner, Block) or inner.keys != () or inner.having or inner.limited or len(inner.outputs) != 1:
        raise _No
    if len(inner.sources) != 1 or not isinstance(inner.sources[0].relation, Table):
        raise _No
    own = inner.sources[0].number
    bound: dict[Expr, Expr] = {}
    used = set()
    for condition in inner.where:
        pair = _pair(condition, own)
        if pair is not None and not any(column.source == own for column in columns_in([pair[1]])):
            bound[pair[0]] = pair[1]
            used.add(condition)
    bare = replace(inner, where=inner.where - used)
    same, extra = _same_records(block.sources, block.where, bare)
    if any(rebuilt(key, same) != replacement for key, replacement in bound.items()) or not set(bound.values()) <= set(
        block.keys or ()
    ):
        raise _No
    window = _window(inner.outputs[0].expr, same, frozenset(bound.values()))

    def change(expr: Expr) -> Expr | None:
        return window if expr is nested or expr == nested else None

    return _finished(block, change, block.keys or (), set(), extra)


def _pair(condition: Expr, number: int) -> tuple[Column, Expr] | None:
    """A column of source `number`, and the expression to which a condition sets it equal."""
    if not isinstance(condition, Comparison) or condition.operator not in ("=", "IS NOT DISTINCT FROM"):
        return None
    left, right = condition.left, condition.right
    for expression, other in ((left, right), (right, left)):
        if isinstance(expression, Column) and expression.source == number and not _of(other, number):
            return expression, other
    return None


def _of(expr: Expr, number: int) -> bool:
    return any(column.source == number for column in columns_in([expr]))


def _same_records(
    sources: tuple[Source, ...], where: frozenset[Expr], inner: Block
) -> tuple[Callable[[Expr], Expr | None], frozenset[Expr]]:
    """How the total's columns are named in the block, and the block's conditions that the total does not have.

    Raises _No if they do not read the same table, or the total leaves out records that the block has.
    """
    tables = [source for source in sources if isinstance(source.relation, Table)]
    inner_source = inner.sources[0]
    if len(sources) != 1 or len(tables) != 1 or tables[0].relation != inner_source.relation:
        raise _No

    def same(expr: Expr) -> Expr | None:
        if isinstance(expr, Column) and expr.source == inner_source.number:
            return Column(tables[0].number, expr.name)
        return None

    conditions = frozenset(rebuilt(condition, same) for condition in inner.where)
    if not conditions <= where:
        raise _No
    return same, where - conditions


def _window(expression: Expr | None, same: Callable[[Expr], Expr | None], partition: frozenset[Expr]) -> Expr:
    if not isinstance(expression, Aggregate) or expression.distinct or expression.name not in ("count", "sum"):
        raise _No
    return Window(Aggregate("sum", (rebuilt(expression, same),)), partition)


def _finished(
    block: Block,
    change: Callable[[Expr], Expr | None],
    keys: tuple[Expr, ...],
    used: set[Expr],
    extra: frozenset[Expr],
) -> Block:
    """The block with the totals put in. Conditions that the totals do not have become filters of its aggregates."""

    def filtered(expr: Expr) -> Expr | None:
        changed = change(expr)
        if changed is not None:
            return changed
        if extra and isinstance(expr, Aggregate):
            return replace(expr, where=expr.where | extra)
        if isinstance(expr, Window):
            raise _No
        return None

    outputs = tuple(Output(output.name, rebuilt(output.expr, filtered)) for output in block.outputs)
    having = frozenset(rebuilt(condition, filtered) for condition in block.having)
    if extra:
        if not all(is_aggregated(condition) for condition in having):
            raise _No
        having |= {Comparison(">", Aggregate("count", where=extra), Constant("0"))}
    order = tuple(rebuilt(expression, filtered) for expression in block.order) if not extra else ()
    return replace(block, outputs=outputs, keys=keys, where=block.where - used - extra, having=having, order=order)
