"""PIVOT with its values written out, as the GROUP BY that it means: a filtered aggregate for each value.

PIVOT t ON sex IN ('f', 'm') USING count(*) GROUP BY state becomes
SELECT state, count(*) FILTER (WHERE sex = 'f') AS f, count(*) FILTER (WHERE sex = 'm') AS m FROM t GROUP BY state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from sqlglot import exp

from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import Node, arg
from duckanon.rewrite.normalize.select_list import unnamed

_KEY = "from_" if "from_" in exp.Select.arg_types else "from"
# A PIVOT without values makes two statements: DuckDB reads the values first.
_UNLISTED = (
    "PIVOT is followed with its values written out, as in PIVOT t ON sex IN ('f', 'm') USING count(*) GROUP BY state: "
    "write them out, or use GROUP BY."
)
_UNPIVOTED = "UNPIVOT is not followed: write a UNION ALL of the columns."


def grouped(tree: Node) -> Node:
    """The statement with its PIVOTs written as GROUP BY; it is changed in place. Raises UnsupportedQuery."""
    for one in list(tree.find_all(exp.Pivot)):
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
    bare = source.copy()
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
    keys = [one.copy() for one in group.expressions] if group is not None else _others(source, [*axes, *aggregates])
    query = exp.Select(expressions=[*keys, *_columns(axes, aggregates)])
    query.set(_KEY, exp.From(this=source.copy()))
    query.set("group", exp.Group(all=True))
    return query


def _is_listed(axis: Node) -> bool:
    values = axis.expressions if isinstance(axis, exp.In) and isinstance(axis.this, exp.Column) else []
    return bool(values) and all(isinstance(one, exp.Literal | exp.Boolean) for one in values)


def _columns(axes: Sequence[Node], aggregates: Sequence[Node]) -> list[Node]:
    """An aggregate of each combination of values, under DuckDB's name for it."""
    found = []
    for values in product(*(one.expressions for one in axes)):
        pairs = zip(axes, values, strict=True)
        where = exp.and_(*(exp.EQ(this=axis.this.copy(), expression=value.copy()) for axis, value in pairs), copy=False)
        label = "_".join(str(one.this).lower() if isinstance(one, exp.Boolean) else str(one.this) for one in values)
        for one in aggregates:
            name = one.alias or (unnamed(one) if len(aggregates) > 1 else "")
            told = exp.Filter(this=one.unalias().copy(), expression=exp.Where(this=where.copy()))
            found.append(exp.alias_(told, f"{label}_{name}" if name else label, quoted=True))
    return found


def _others(source: Node, used: Sequence[Node]) -> list[Node]:
    """The columns of the source that a PIVOT without GROUP BY groups by: all that are not used otherwise."""
    names = {column.name.lower() for one in used for column in one.find_all(exp.Column)}
    query = source.this if isinstance(source, exp.Subquery) else None
    if isinstance(query, exp.Select) and not query.is_star and all(one.alias_or_name for one in query.expressions):
        shown = [one.alias_or_name for one in query.expressions]
        return [exp.column(exp.to_identifier(one, quoted=True)) for one in shown if one.lower() not in names]
    key = "except_" if "except_" in exp.Star.arg_types else "except"
    return [exp.Star(**{key: [exp.to_identifier(one, quoted=True) for one in sorted(names)]})]
