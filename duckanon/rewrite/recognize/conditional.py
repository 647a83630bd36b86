"""Conditional tables: counts (or sums) over their row totals."""

from __future__ import annotations

from dataclasses import replace

from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Arithmetic,
    Column,
    Comparison,
    Constant,
    Expr,
    In,
    Is,
    Nested,
    Not,
    Null,
    Star,
    Window,
    conjuncts,
    walk,
)
from duckanon.rewrite.algebra.relations import Block, Output
from duckanon.rewrite.algebra.rows import is_clean, is_closed, records, watched, whose
from duckanon.rewrite.recognize.findings import Conditional, Role
from duckanon.rewrite.recognize.measures import Measure, measure, share
from duckanon.rewrite.recognize.ratios import Ratio, ratio, terms


def conditionals(block: Block) -> tuple[Conditional, ...]:
    """The shares that a block shows: a finding for each of its columns that is a share."""
    if block.keys is None or not is_closed(block) or not records(block.sources):
        return ()
    if not all(map(is_clean, (*block.where, *block.keys))):
        return ()
    if not all(_is_told(condition, block) for condition in (*block.having, *block.qualify, *block.order)):
        return ()
    shares = [_column(block, output) for output in block.outputs]
    roles = [
        "share" if conditional is not None else "key" if output.expr in block.keys else "derived"
        for conditional, output in zip(shares, block.outputs, strict=True)
    ]
    columns = tuple(
        Role(name=output.name, what=role, expr=output.expr) for role, output in zip(roles, block.outputs, strict=True)
    )
    return tuple(replace(conditional, columns=columns) for conditional in shares if conditional is not None)


def _is_told(expr: Expr, block: Block) -> bool:
    """Whether a condition on groups, or their order, depends on keys, counts and shares only."""
    keys = block.keys or ()
    for node in walk(expr, into=lambda part: part not in keys and not isinstance(part, Aggregate)):
        if node in keys:
            continue
        if isinstance(node, Column | Star | Nested):
            return False
        if isinstance(node, Aggregate) and not node.is_of_aggregates:
            meant = measure(node, block.sources)
            if (meant is None or meant.weight is not None) and share(node, block.sources) is None:
                return False
    return True


def _column(block: Block, output: Output) -> Conditional | None:
    keys = block.keys or ()
    quotient = ratio(output.expr)
    if quotient is None or block.sets is not None:
        return None
    parts = _parts(quotient, block)
    if parts is None:
        return None
    above, below, rows = parts
    if above.weight != below.weight or not all(follows(condition, above.where) for condition in below.where):
        return None
    event = above.where - below.where
    cols = tuple(key for key in keys if key not in rows)
    if not cols and not event:
        return None
    scale = quotient.scale * above.scale / below.scale
    weight = above.weight
    if weight is not None and (not is_clean(weight) or any(isinstance(node, Star) for node in walk(weight))):
        return None
    if not all(map(is_clean, above.where)):
        return None
    table = whose(block.sources, Aggregate("sum", (weight,)) if weight is not None else Aggregate("count"), block.where)
    tables = watched(block)
    if table is None:
        table = next(iter(tables), None)
    if table is None or scale <= 0:
        return None
    return Conditional(
        table=table,
        tables=tables,
        sources=block.sources,
        filter=block.where,
        node=block.node,
        name=output.name,
        rows=tuple(key for key in keys if key in rows),
        cols=cols,
        event=event,
        of=below.where,
        weight=weight,
        scale=str(scale),
        digits=quotient.digits,
        kept=block.having | block.qualify,
    )


def _whole(total: Arithmetic, block: Block) -> Measure | None:
    """A sum of counts, each for another value of one expression, as a count of records with one of the values."""
    measures = [measure(term, block.sources) for term in terms(total)]
    counts = [counted for counted in measures if counted is not None and counted.weight is None and counted.scale == 1]
    shared = frozenset.intersection(*(counted.where for counted in counts)) if counts else frozenset()
    subjects: set[Expr] = set()
    values: list[Expr] = []
    for counted in counts:
        match tuple(counted.where - shared):
            case (Comparison("=", subject, Constant() as value),):
                subjects.add(subject)
                values.append(value)
            case _:
                return None
    if len(counts) != len(measures) or len(subjects) != 1 or len(set(values)) != len(values):
        return None
    return Measure(None, shared | {In(next(iter(subjects)), tuple(values))})


def follows(condition: Expr, expressions: frozenset[Expr]) -> bool:
    """Whether a condition follows from those given, as the text shows.

    It is among them, lists the value that one of them requires, or says that one of them is not NULL.
    """
    if condition in expressions:
        return True
    match condition:
        case In(operand, values):
            return any(Comparison("=", operand, listed) in expressions for listed in values)
        case Not(Is(operand, Null())):
            return conjuncts(operand) <= expressions
    return False


def _parts(quotient: Ratio, block: Block) -> tuple[Measure, Measure, frozenset[Expr]] | None:
    """Numerator, denominator, and the keys by which the denominator is summed."""
    keys = frozenset(block.keys or ())
    if quotient.below is None:
        pair = share(quotient.above, block.sources)
        return None if pair is None else (*pair, keys)
    above = measure(quotient.above, block.sources)
    if above is None:
        return None
    if isinstance(quotient.below, Aggregate):
        below = measure(quotient.below, block.sources)
        return None if below is None else (above, below, keys)
    if isinstance(quotient.below, Arithmetic):
        below = _whole(quotient.below, block)
        return None if below is None else (above, below, keys)
    if (
        not isinstance(quotient.below, Window)
        or quotient.below.order
        or quotient.below.frame
        or not quotient.below.partition <= keys
    ):
        return None
    call = quotient.below.call
    if not isinstance(call, Aggregate) or call.argument is None or call != Aggregate("sum", call.operands):
        return None
    below = measure(call.argument, block.sources)
    return None if below is None else (above, below, quotient.below.partition)
