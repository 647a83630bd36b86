"""Lists of constants that are not written as IN (...), and constants in subqueries, are written as plain ones.

    x = ANY (ARRAY[1, 2])          x IN (1, 2)
    x <> ALL ([1, 2])              NOT x IN (1, 2)
    x < ANY ([1, 2])               x < 1 OR x < 2
    x IN (VALUES (1), (2))         x IN (1, 2)
    (SELECT now() - INTERVAL 1 DAY)        (now() - INTERVAL 1 DAY)

DuckDB takes the former for subqueries; in a question about a protected table each would be one more query over records.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import Node, arg, given, name_of, nodes_of
from duckanon.rewrite.allowed import AGGREGATES, TABLE_FUNCTIONS
from duckanon.rewrite.normalize.postgresql import items_of
from duckanon.rewrite.quote import takes_over

# Where a subquery is no value, or where DuckDB reads one itself.
_READING = (exp.From, exp.Join, exp.Any, exp.In, exp.Exists, exp.CTE, exp.Limit, exp.Offset)
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
# The nodes that it is about.
LISTS = (exp.Subquery, exp.In, *_COMPARED)
# Values more than these are no list that somebody wrote.
_MOST = 10_000


def written_out(query: Node) -> None:
    """Write lists and constants out, in place."""
    for node in nodes_of(query, exp.Subquery):
        constant = _constant(node)
        if constant is not None:
            _put(node, exp.Paren(this=constant))
    for node in nodes_of(query, exp.In):
        constants = _of_values(node)
        if constants:
            node.set("query", None)
            node.set("expressions", constants)
    for node in nodes_of(query, *_COMPARED):
        new = _quantified(node)
        if new is not None:
            _put(node, new)


def _put(node: Node, by: Node) -> None:
    takes_over(by, node)
    node.replace(by)


def _constant(subquery: Node) -> Node | None:
    """The one value of a subquery in an expression that reads nothing."""
    query = subquery.this
    while isinstance(query, exp.Subquery) and {name for name, _ in given(query)} == {"this"}:
        query = query.this
    is_value = not isinstance(subquery.parent, _READING)
    plain = isinstance(query, exp.Select) and {name for name, _ in given(query)} == {"expressions"}
    if not is_value or not plain or {name for name, _ in given(subquery)} != {"this"} or len(query.expressions) != 1:
        return None
    expression = query.expressions[0].unalias()
    reads = nodes_of(expression, exp.Column, exp.Star, exp.Query, exp.Window, exp.AggFunc, exp.Unnest, exp.Placeholder)
    several = [node for node in nodes_of(expression, exp.Func) if name_of(node) in AGGREGATES | TABLE_FUNCTIONS]
    return None if reads or several else expression


def _of_values(node: Node) -> list[Node]:
    """The values of IN (VALUES ...); none if it is another IN."""
    query = node.args.get("query")
    query = query.this if isinstance(query, exp.Subquery) else query
    listed = node.expressions
    listed_values = query if isinstance(query, exp.Values) else listed[0] if len(listed) == 1 else None
    if not isinstance(listed_values, exp.Values) or arg(listed_values, "with") is not None:
        return []
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in listed_values.expressions]
    return [row[0].copy() for row in rows] if all(len(row) == 1 for row in rows) and len(rows) <= _MOST else []


def _quantified(comparison: Node) -> Node | None:
    """A comparison with ANY or ALL of a list that is written out, as comparisons with its items."""
    listed = _list_of(comparison.expression)
    if listed is None or nodes_of(comparison.this, exp.Any):
        return None
    is_any, items = listed
    if not items:
        # Of an empty list: whatever is compared with it.
        return exp.false() if is_any else exp.true()
    subject = comparison.this
    if isinstance(comparison, exp.EQ) and is_any:
        return exp.In(this=subject.copy(), expressions=items)
    if isinstance(comparison, exp.NEQ) and not is_any:
        return exp.Not(this=exp.In(this=subject.copy(), expressions=items))
    parts: list[Any] = [type(comparison)(this=subject.copy(), expression=item) for item in items]
    return exp.Paren(
        this=reduce(lambda part, other: (exp.Or if is_any else exp.And)(this=part, expression=other), parts)
    )


def _item(written: str | None) -> Node:
    return exp.Null() if written is None else exp.Literal.string(written)


def _list_of(node: Node) -> tuple[bool, Sequence[Node]] | None:
    """Whether it is ANY or ALL of a list, and the list's items as copies; None for everything else."""
    if isinstance(node, exp.Any | exp.All):
        is_any, listed = isinstance(node, exp.Any), node.this
    elif isinstance(node, exp.Anonymous) and fold(node.name) in ("any", "some", "all") and len(node.expressions) == 1:
        is_any, listed = fold(node.name) != "all", node.expressions[0]
    else:
        return None
    kind = None
    while isinstance(listed, exp.Paren | exp.Cast):
        if isinstance(listed, exp.Cast):
            kinds = listed.to.expressions
            if kind is not None or listed.to.this != exp.DataType.Type.ARRAY or len(kinds) != 1:
                return None
            kind = kinds[0]
        listed = listed.this
    if isinstance(listed, exp.Literal) and listed.is_string and kind is None:
        written = items_of(str(listed.this))
        listed = listed if written is None else exp.Array(expressions=[_item(item) for item in written])
    if not isinstance(listed, exp.Array) or len(listed.expressions) > _MOST:
        return None
    items = [expression.copy() for expression in listed.expressions]
    if any(nodes_of(item, exp.Query, exp.Star, exp.Unnest) for item in items):
        return None
    return is_any, items if kind is None else [exp.Cast(this=item, to=kind.copy()) for item in items]
