"""Simplifications that give equivalent queries one form: projections are merged, DISTINCT becomes grouping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.expressions import (
    SOMEWHERE,
    Aggregate,
    Column,
    DistinctOn,
    Expr,
    Nested,
    Row,
    Star,
    conjuncts,
    has,
    is_aggregated,
    is_windowed,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.relations import Block, Opaque, Output, Relation, Source, Table
from duckanon.rewrite.algebra.rows import columns_in
from duckanon.rewrite.normalize.joined_totals import correlated, joined, raised
from duckanon.rewrite.normalize.windows import collapsed, regrouped

Number = Callable[[], int]
_MOST_STEPS = 100


def simplified(block: Block | Opaque, number: Number) -> Block | Opaque:
    """The block in the form that recognisers expect; `number` gives numbers to new sources."""
    if isinstance(block, Opaque) or _is_of_one_table(block):
        return block
    for _ in range(_MOST_STEPS):
        for rule in RULES:
            changed = rule(block, number)
            if changed is not None:
                block = changed
                break
        else:
            break
    return block


def _is_of_one_table(block: Block) -> bool:
    """Whether a block reads a table alone, by conditions on its records: then it has that form, and no rule applies."""
    late = block.having or block.qualify or block.distinct is not None
    is_read = len(block.sources) == 1 and isinstance(block.sources[0].relation, Table)
    return is_read and not late and not any(has(output.expr, Nested) for output in block.outputs)


class _Unknown(Exception):
    """A column of a source is not known, so the source cannot be merged."""


def _dissolve(block: Block, _: Number) -> Block | None:
    """Merge a source that only filters and computes into the block."""
    if any(source.join in ("right", "full") for source in block.sources):
        return None
    for at, source in enumerate(block.sources):
        inner = source.relation
        if not isinstance(inner, Block) or not inner.is_plain or (inner.order and block.limited):
            continue
        if source.join == "inner":
            pass
        elif source.join != "left" or len(inner.sources) != 1 or not _only_columns(inner):
            continue
        if not inner.sources and len(block.sources) > 1:
            continue
        try:
            outer = _substituted(replace(block, sources=()), source.number, inner)
            others = [
                replace(
                    other,
                    on=_conditions(other.on, source.number, inner),
                    relation=_within(other, source.number, inner),
                )
                for other in block.sources
            ]
        except _Unknown:
            continue
        spliced = inner.sources
        where = outer.where
        if source.join == "left":
            spliced = (replace(spliced[0], join="left", on=others[at].on | inner.where),)
        else:
            where |= inner.where
        return replace(outer, sources=(*others[:at], *spliced, *others[at + 1 :]), where=where)
    return None


def _within(source: Source, number: int, inner: Block) -> Relation:
    """A source's relation, which may use columns of the merged one (LATERAL)."""
    return (
        source.relation
        if source.number == number
        else source.relation.rebuilt(lambda expr: _replaced(expr, number, inner))
    )


def _only_columns(inner: Block) -> bool:
    """Whether all outputs are bare columns, which are NULL for a row that an outer join adds."""
    return all(isinstance(output.expr, Column | Star) for output in inner.outputs)


def _unwrap(block: Block, _: Number) -> Block | None:
    """Merge a block that only projects and filters into the grouping or windowing block that it reads."""
    if (
        len(block.sources) != 1
        or block.keys is not None
        or block.qualify
        or not isinstance(inner := block.sources[0].relation, Block)
    ):
        return None
    if inner.is_plain or inner.limited or inner.distinct is not None:
        return None
    number = block.sources[0].number
    if any(column.source not in (number, SOMEWHERE) for column in columns_in(block.where)):
        # A row of a query around it is compared with groups, which are the same for all such rows.
        return None
    if inner.spread:
        only = len(block.outputs) == 1 and block.outputs[0] == Output("*", Star(number))
        return (
            replace(inner, node=block.node)
            if only and not block.where and not block.limited and not block.distinct
            else None
        )
    late = bool(inner.qualify) or any(is_windowed(output.expr) for output in inner.outputs)
    if late and any(is_windowed(output.expr) for output in block.outputs):
        return None
    try:
        outer = _substituted(replace(block, sources=()), number, inner)
    except _Unknown:
        return None
    return replace(
        inner,
        outputs=outer.outputs,
        having=inner.having if late else inner.having | outer.where,
        qualify=inner.qualify | outer.where if late else inner.qualify,
        distinct=outer.distinct,
        order=outer.order,
        limited=outer.limited,
        first=outer.first,
        node=block.node,
    )


def _descend(block: Block, number: Number) -> Block | None:
    """Move conditions on the rows of a source with windows into that source."""
    if block.keys is None or not block.where or len(block.sources) != 1:
        return None
    inner = block.sources[0].relation
    if not isinstance(inner, Block) or inner.keys is not None or inner.limited or inner.distinct is not None:
        return None
    if not any(is_windowed(output.expr) for output in inner.outputs):
        return None
    try:
        moved = _conditions(block.where, block.sources[0].number, inner)
    except _Unknown:
        return None
    below = simplified(replace(inner, qualify=inner.qualify | moved), number)
    return replace(block, sources=(replace(block.sources[0], relation=below),), where=frozenset())


def _sink(block: Block, _: Number) -> Block | None:
    """Move conditions on groups that use keys only from HAVING to WHERE."""
    if not block.keys or block.sets is not None:
        return None
    early = frozenset(
        condition
        for condition in block.having
        if not is_aggregated(condition) and not is_windowed(condition) and _of_keys(condition, block.keys)
    )
    if not early:
        return None
    return replace(block, where=block.where | early, having=block.having - early)


def _of_keys(expr: Expr, keys: tuple[Expr, ...]) -> bool:
    """Whether an expression is computed from keys alone."""
    return all(
        not isinstance(node, Column | Star)
        for node in walk(expr, into=lambda part: part not in keys)
        if node not in keys
    )


def _rolled(block: Block, _: Number) -> Block | None:
    """Write sums of finer counts (or sums) as counts (or sums) by the coarser keys."""
    if block.keys is None or len(block.sources) != 1 or not isinstance(inner := block.sources[0].relation, Block):
        return None
    if not inner.keys or not _groups_only(inner):
        return None
    number = block.sources[0].number
    summed = False

    def change(expr: Expr) -> Expr | None:
        nonlocal summed
        if isinstance(expr, Aggregate):
            summed = True
            return _sum_of_counts(expr, number, inner)
        if isinstance(expr, Column) and expr.source == number:
            expression = inner.output(expr.name)
            if expression is None or is_aggregated(expression):
                raise _Unknown
            return expression
        if isinstance(expr, Star) or (isinstance(expr, Column) and expr.source == SOMEWHERE):
            raise _Unknown
        return None

    try:
        changed = replace(block, sources=()).rebuilt(lambda expr: rebuilt(expr, change))
    except _Unknown:
        return None
    if not summed:
        return None
    return replace(changed, sources=inner.sources, where=changed.where | inner.where)


def _groups_only(block: Block) -> bool:
    """Whether a block groups its records, and neither filters the groups nor computes windows over them."""
    more = (block.sets is not None, block.having, block.qualify, block.limited, block.distinct, block.spread)
    return not any(more) and not any(is_windowed(output.expr) for output in block.outputs)


def _sum_of_counts(expr: Aggregate, number: int, inner: Block) -> Aggregate:
    """A sum over the counts (or sums) of source `number`, as that count (or sum) of its records. Raises _Unknown."""
    expression = expr.argument
    if not isinstance(expression, Column) or expression.source != number or expr.name != "sum" or expr.distinct:
        raise _Unknown
    below = inner.output(expression.name)
    if not isinstance(below, Aggregate) or below.name not in ("count", "sum") or below.distinct:
        raise _Unknown
    where = frozenset().union(*(conjuncts(_replaced(condition, number, inner)) for condition in expr.where))
    if any(is_aggregated(condition) for condition in where):
        raise _Unknown
    return replace(below, where=below.where | where)


def _distinct(block: Block, number: Number) -> Block | None:
    """Write DISTINCT as grouping by all outputs."""
    if block.distinct is None or any(isinstance(expression, DistinctOn) for expression in block.distinct):
        return None
    if any(is_windowed(expr) for expr in block.distinct) or block.qualify:
        return None
    if block.keys is None:
        return replace(block, keys=_once(block.distinct), distinct=None)
    if block.sets is None and set(block.keys) <= set(block.distinct):
        return replace(block, distinct=None)
    if any(isinstance(output.expr, Star) for output in block.outputs):
        return None
    named = tuple(Output(f"_{at}", output.expr) for at, output in enumerate(block.outputs))
    inner = replace(block, outputs=named, distinct=None, order=(), limited=False)
    above = number()
    columns = tuple(Column(above, output.name) for output in named)
    outputs = tuple(Output(output.name, column) for output, column in zip(block.outputs, columns, strict=True))
    return Block((Source(above, inner),), outputs, keys=columns, limited=block.limited, node=block.node)


def _once(exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(dict.fromkeys(exprs))


RULES: tuple[Callable[[Block, Number], Block | None], ...] = (
    _dissolve,
    _unwrap,
    _descend,
    _sink,
    _rolled,
    _distinct,
    collapsed,
    regrouped,
    raised,
    joined,
    correlated,
)


def _replaced(expr: Expr, number: int, inner: Block) -> Expr:
    """The expression with the columns of source `number` written in terms of what that source reads."""

    def change(expression: Expr) -> Expr | None:
        if isinstance(expression, Column):
            if expression.source == SOMEWHERE:
                raise _Unknown
            if expression.source == number:
                below_output = inner.output(expression.name)
                if below_output is None:
                    raise _Unknown
                return below_output
        if isinstance(expression, Star):
            if expression.source == SOMEWHERE:
                raise _Unknown
            if expression.source == number:
                if len(inner.outputs) == 1 and isinstance(inner.outputs[0].expr, Star) and inner.outputs[0].name == "*":
                    below = inner.outputs[0].expr
                    return Star(below.source, below.without | expression.without)
                return Row(tuple(output.expr for output in inner.outputs))
        return None

    return rebuilt(expr, change)


def _conditions(exprs: frozenset[Expr], number: int, inner: Block) -> frozenset[Expr]:
    return frozenset().union(*(conjuncts(_replaced(expr, number, inner)) for expr in exprs))


def _substituted(block: Block, number: int, inner: Block) -> Block:
    outputs: list[Output] = []
    for output in block.outputs:
        outputs += list(_expanded(output, number, inner))
    bare = replace(block, outputs=(), where=frozenset())
    changed = bare.rebuilt(lambda expr: _replaced(expr, number, inner))
    return replace(changed, outputs=tuple(outputs), where=_conditions(block.where, number, inner))


def _expanded(output: Output, number: int, inner: Block) -> Iterator[Output]:
    star = output.expr
    if output.name != "*" or not isinstance(star, Star) or star.source != number:
        yield Output(output.name, _replaced(output.expr, number, inner))
        return
    for below_output in inner.outputs:
        if isinstance(below_output.expr, Star) and below_output.name == "*":
            yield Output("*", Star(below_output.expr.source, below_output.expr.without | star.without))
        elif fold(below_output.name) not in star.without:
            yield below_output
