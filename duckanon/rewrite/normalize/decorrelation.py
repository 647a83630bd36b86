"""A subquery for one number that depends on the row around it, as a table of numbers that is looked up by keys.

`(SELECT avg(y.price) FROM items y WHERE y.product = x.product)` is a lookup in `SELECT product, avg(price) FROM items
GROUP BY product`, which depends on no row around it (Kim 1982). Where no group is found the number is that of no rows:
0 for a count, NULL for others.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import ROOT, Node, copied, given, name_of, nodes_of, queries_in
from duckanon.rewrite.normalize.grouped import aggregates_of

_CLAUSES = {"expressions", "from", "from_", "joins", "where", "with", "with_"}
_VALUE, _TABLE = "_dk_value", "_dk_by"
_COUNTS = ("count", "count_if", "countif", "regr_count")
# What has a value where its parts have, and is NULL where one of them is.
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Paren, exp.Neg, exp.Cast, exp.DataType, exp.Round, exp.Literal)


def decorrelated(query: Node, is_own: Callable[[Node], bool]) -> tuple[Node, Node] | None:
    """A SELECT of one number as a lookup, and the SELECT with GROUP BY within it; None where it is of another kind.

    It is an aggregate without GROUP BY, whose only conditions on the row around it are equations in WHERE. is_own:
    whether a column is one of what the SELECT reads.
    """
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return None
    if not {text for text, _ in given(query)} <= _CLAUSES:
        return None
    value = query.expressions[0].unalias()
    pairs, inside = _pairs(query, is_own)
    rest = [value, *inside, *(query.args.get("joins") or [])]
    if not pairs or not any(True for _ in aggregates_of(value)) or not all(_are_own(value, is_own) for value in rest):
        return None
    empty = _of_no_rows(value)
    if empty is None:
        return None
    grouped = copied(query, ("expressions", "where"))
    for condition in inside:
        grouped = grouped.where(copied(condition), copy=False)
    for at, (key, _) in enumerate(pairs):
        grouped.append("expressions", exp.alias_(copied(key), f"_dk_key{at}", quoted=True))
    grouped.append("expressions", exp.alias_(copied(value), _VALUE, quoted=True))
    grouped.set("group", exp.Group(expressions=[copied(key) for key, _ in pairs]))
    number: Node = exp.Max(this=exp.column(_VALUE, _TABLE, quoted=True))
    if not isinstance(empty, exp.Null):
        is_none = exp.EQ(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
        number = exp.Case(ifs=[exp.If(this=is_none, true=empty)], default=number)
    lookup = exp.Select(expressions=[number]).from_(
        exp.Subquery(this=grouped, alias=exp.TableAlias(this=exp.to_identifier(_TABLE, quoted=True)))
    )
    for at, (_, outer) in enumerate(pairs):
        equation = exp.EQ(this=exp.column(f"_dk_key{at}", _TABLE, quoted=True), expression=copied(outer))
        lookup = lookup.where(equation, copy=False)
    return lookup, grouped


def _pairs(query: Node, is_own: Callable[[Node], bool]) -> tuple[list[tuple[Node, Node]], list[Node]]:
    """What a SELECT calls equal to what the row around it has, and its other conditions."""
    where = query.args.get("where")
    pairs: list[tuple[Node, Node]] = []
    inside: list[Node] = []
    for condition in [] if where is None else _conjuncts(where.this):
        value, other = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else (None, None)
        if value is None or queries_in(condition):
            inside.append(condition)
        elif _are_own(value, is_own) and _are_none(other, is_own):
            pairs.append((value, other))
        elif _are_own(other, is_own) and _are_none(value, is_own):
            pairs.append((other, value))
        else:
            inside.append(condition)
    return pairs, inside


def _conjuncts(condition: Node) -> list[Node]:
    one = condition.unnest()
    return [each for side in one.flatten() for each in _conjuncts(side)] if isinstance(one, exp.And) else [one]


def _are_own(node: Node, is_own: Callable[[Node], bool]) -> bool:
    """Whether all columns in a node, outside of subqueries, are of what a SELECT reads."""
    return all(is_own(column) for column in _columns(node))


def _are_none(node: Node, is_own: Callable[[Node], bool]) -> bool:
    columns = _columns(node)
    return bool(columns) and not any(is_own(column) for column in columns)


def _columns(node: Node) -> list[Node]:
    """The columns in a node, but for those in subqueries."""
    inside = {id(value) for query in queries_in(node) for value in nodes_of(query, ROOT)}
    return [value for value in nodes_of(node, exp.Column) if id(value) not in inside]


def _of_no_rows(value: Node) -> Node | None:
    """What an aggregate expression is where there are no rows: a constant expression, or NULL; None if not known."""
    aggregates = list(aggregates_of(value))
    counts = [
        aggregate
        for aggregate in aggregates
        if name_of(aggregate.this if isinstance(aggregate, exp.Filter) else aggregate) in _COUNTS
    ]
    below = {id(node) for aggregate in aggregates for node in nodes_of(aggregate, ROOT)}
    beside = [node for node in nodes_of(value, ROOT) if id(node) not in below]
    if not all(isinstance(value, _ARITHMETIC) for value in beside) or (counts and len(counts) < len(aggregates)):
        return None
    if not counts:
        return exp.Null()
    empty = exp.Paren(this=copied(value))
    for one in list(aggregates_of(empty)):
        one.replace(exp.Literal.number(0))
    return empty
