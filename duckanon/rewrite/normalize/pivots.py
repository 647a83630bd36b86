"""PIVOT rewritten as a grouped query, with a filtered aggregate for each value that becomes a column."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from sqlglot import exp

from duckanon.rewrite.algebra.expressions import Aggregate, Column, Comparison, Expr, walk
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.relations import Block, Output, Source
from duckanon.rewrite.algebra.translate import Scope, translate


def pivoted(pivot: Node, source: Source, scope: Scope, known: tuple[str, ...] | None) -> Block | None:
    """The block of a PIVOT, written as a statement or after a table; None if it is not understood.

    Without a list of values the columns depend on the data: then the block groups by the values.
    """
    if pivot.args.get("unpivot") or pivot.args.get("include_nulls"):
        return None
    using = list(pivot.args.get("using") or [])
    fields = list(pivot.args.get("fields") or [])
    field = pivot.args.get("field")
    fields += [field] if field is not None else []
    on, aggregates = (list(pivot.expressions), using) if using or not fields else (fields, list(pivot.expressions))
    aggregates = aggregates or [exp.Count(this=exp.Star())]
    calls = [(aggregate.alias, translate(aggregate, scope)) for aggregate in aggregates]
    if not all(isinstance(call, Aggregate) for _, call in calls):
        return None
    axes: list[tuple[Expr, list[Node] | None]] = []
    for condition in on:
        if isinstance(condition, exp.In) and not condition.args.get("query"):
            axes.append((translate(condition.this, scope), list(condition.expressions)))
        elif isinstance(condition, exp.Column):
            axes.append((translate(condition, scope), None))
        else:
            return None
    used = {
        part.name
        for expr in [*(axis for axis, _ in axes), *(c for _, c in calls)]
        for part in walk(expr)
        if isinstance(part, Column)
    }
    group = pivot.args.get("group")
    if group is not None:
        keys = [translate(expression, scope) for expression in group.expressions]
        names = [expression.alias_or_name for expression in group.expressions]
    elif known is not None:
        names = [name for name in known if name not in used]
        keys = [Column(source.number, name) for name in names]
    else:
        return None
    outputs = [Output(name, key) for name, key in zip(names, keys, strict=True)]
    if any(values is None for _, values in axes):
        keys += [axis for axis, _ in axes]
        outputs += [Output(f"pivot {at}", axis) for at, (axis, _) in enumerate(axes)]
        outputs += [Output(alias or f"using {at}", call) for at, (alias, call) in enumerate(calls)]
        return Block((source,), tuple(outputs), keys=tuple(keys), spread=True, node=pivot)
    for values in product(*(values or [] for _, values in axes)):
        label = "_".join(
            listed.alias_or_name if not isinstance(listed, exp.Literal) else listed.this for listed in values
        )
        where = frozenset(
            Comparison("=", axis, translate(listed, scope)) for (axis, _), listed in zip(axes, values, strict=True)
        )
        for alias, call in calls:
            assert isinstance(call, Aggregate)
            name = f"{label}_{alias}" if alias else label if len(calls) == 1 else f"{label}_{len(outputs)}"
            outputs.append(Output(name, replace(call, where=call.where | where)))
    return Block((source,), tuple(outputs), keys=tuple(keys), node=pivot)
