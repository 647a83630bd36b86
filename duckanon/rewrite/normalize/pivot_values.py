"""PIVOT with its values written out, as the GROUP BY that it means: a filtered aggregate for each value.

PIVOT t ON sex IN ('f', 'm') USING count(*) GROUP BY state becomes
SELECT state, count(*) FILTER (WHERE sex = 'f') AS f, count(*) FILTER (WHERE sex = 'm') AS m FROM t GROUP BY state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import product

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import Node, arg, copied, nodes_of
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.select_list import unnamed

# The most columns: nobody reads a wider table.
_MOST_VALUES = 1_000
_KEY = "from_" if "from_" in exp.Select.arg_types else "from"
_UNLISTED = (
    "PIVOT is followed with its values written out, as in PIVOT t ON sex IN ('f', 'm') USING count(*) GROUP BY state: "
    "write them out, or use GROUP BY."
)
_UNPIVOTED = "UNPIVOT is not followed: write a UNION ALL of the columns."


def grouped(tree: Node) -> Node:
    """The statement with its PIVOTs written as GROUP BY; it is changed in place. Raises UnsupportedQuery."""
    for one in nodes_of(tree, exp.Pivot):
        holder = one.parent
        if holder is None:
            tree = _select(one, one.this)
            given = arg(one, "with")
            if given is not None:
                tree.set("with_" if _KEY == "from_" else "with", given)
        elif one.arg_key == "pivots":
            _replace_source(holder, one)
        else:
            one.replace(_select(one, one.this))
    return tree


def _replace_source(source: Node, pivot: Node) -> None:
    """Replace a source of FROM with a PIVOT behind it by a subquery."""
    if len(source.args["pivots"]) != 1:
        raise UnsupportedQuery("One PIVOT is followed at a time: use a subquery.")
    bare = copied(source)
    bare.set("pivots", None)
    bare.set("joins", None)
    alias = pivot.args.get("alias")
    source.replace(exp.Subquery(this=_select(pivot, bare), alias=alias, joins=source.args.get("joins")))


def _select(pivot: Node, source: Node) -> Node:
    """The grouping query of a PIVOT of a source."""
    if pivot.args.get("unpivot"):
        raise UnsupportedQuery(_UNPIVOTED)
    fields = list(pivot.args.get("fields") or [])
    field = pivot.args.get("field")
    fields += [] if field is None else [field]
    using = list(pivot.args.get("using") or [])
    axes, aggregates = (fields, list(pivot.expressions)) if fields else (list(pivot.expressions), using)
    aggregates = aggregates or [exp.Count(this=exp.Star())]
    if not axes or not all(map(_is_listed, axes)) or pivot.args.get("include_nulls"):
        raise UnsupportedQuery(_UNLISTED)
    group = pivot.args.get("group")
    keys = [copied(one) for one in group.expressions] if group is not None else _others(source, [*axes, *aggregates])
    query = exp.Select(expressions=[*keys, *_columns(axes, aggregates)])
    query.set(_KEY, exp.From(this=copied(source)))
    query.set("group", exp.Group(all=True))
    return query


def with_values(text: str, ask: Callable[[str], Sequence[object]]) -> str:
    """The statement with the values of its PIVOTs written out, where it leaves them out.

    ask: gives the values of a query of one column. As DuckDB does, each column's values are asked for first. A text
    that is not one statement stays as it is. Raises UnsupportedQuery for too many values.
    """
    try:
        trees = sqlglot.parse(text, read=DIALECT)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        return text
    if len(trees) != 1 or trees[0] is None:
        return text
    tree = trees[0]
    pivots = [one for one in nodes_of(tree, exp.Pivot) if not one.args.get("unpivot") and not one.args.get("fields")]
    # Inside out: the source of a PIVOT may have another one.
    for pivot in reversed(pivots):
        for axis in [one for one in pivot.expressions if isinstance(one, exp.Column) and pivot.args.get("using")]:
            found = ask(_values_of(axis, pivot))
            if len(found) > _MOST_VALUES:
                raise UnsupportedQuery(f"PIVOT would make more than {_MOST_VALUES:,} columns: write out which.")
            axis.replace(exp.In(this=copied(axis), expressions=list(map(_literal, found))))
    return str(tree.sql(DIALECT)) if pivots else text


def _values_of(axis: Node, pivot: Node) -> str:
    """The query for the values of a PIVOT's column, with the common table expressions that can be seen there."""
    query = exp.Select(expressions=[copied(axis)], distinct=exp.Distinct())
    query.set(_KEY, exp.From(this=copied(pivot.this)))
    query = query.where(exp.Not(this=exp.Is(this=copied(axis), expression=exp.Null()))).order_by("1")
    above: list[Node] = []
    holder: Node | None = pivot
    while holder is not None:
        given = arg(holder, "with")
        seen = given.expressions if given is not None else []
        above = [copied(one) for one in seen if all(part is not pivot for part in one.walk())] + above
        holder = holder.parent
    if above:
        query.set("with_" if _KEY == "from_" else "with", exp.With(expressions=above))
    return str(query.sql(DIALECT))


def _literal(value: object) -> Node:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | Decimal):
        return exp.Literal.number(str(value))
    return exp.Literal.string(str(value))


def _is_listed(axis: Node) -> bool:
    values = axis.expressions if isinstance(axis, exp.In) and isinstance(axis.this, exp.Column) else []
    return bool(values) and all(isinstance(one, exp.Literal | exp.Boolean) for one in values)


def _columns(axes: Sequence[Node], aggregates: Sequence[Node]) -> list[Node]:
    """An aggregate of each combination of values, under DuckDB's name for it."""
    found = []
    for values in product(*(one.expressions for one in axes)):
        pairs = zip(axes, values, strict=True)
        where = exp.and_(
            *(exp.EQ(this=copied(axis.this), expression=copied(value)) for axis, value in pairs), copy=False
        )
        label = "_".join(str(one.this).lower() if isinstance(one, exp.Boolean) else str(one.this) for one in values)
        for one in aggregates:
            name = one.alias or (unnamed(one) if len(aggregates) > 1 else "")
            told = exp.Filter(this=copied(one.unalias()), expression=exp.Where(this=copied(where)))
            found.append(exp.alias_(told, f"{label}_{name}" if name else label, quoted=True))
    return found


def _others(source: Node, used: Sequence[Node]) -> list[Node]:
    """The columns of the source that a PIVOT without GROUP BY groups by: all that are not used otherwise."""
    names = {column.name.lower() for one in used for column in nodes_of(one, exp.Column)}
    query = source.this if isinstance(source, exp.Subquery) else None
    if isinstance(query, exp.Select) and not query.is_star and all(one.alias_or_name for one in query.expressions):
        shown = [one.alias_or_name for one in query.expressions]
        return [exp.column(exp.to_identifier(one, quoted=True)) for one in shown if one.lower() not in names]
    key = "except_" if "except_" in exp.Star.arg_types else "except"
    return [exp.Star(**{key: [exp.to_identifier(one, quoted=True) for one in sorted(names)]})]
