"""The names of columns without a name of their own: DuckDB names them by its text of the expression."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node, sql
from duckanon.rewrite.dialect import DIALECT


def default_name(node: Node) -> str:
    """The name that DuckDB gives to a column without an alias."""
    rows = isinstance(node, exp.Count) and (node.this is None or isinstance(node.this, exp.Star))
    return "count_star()" if rows else sql(node).lower().replace("(distinct ", "(DISTINCT ")


def without_names(query: Node) -> list[Node]:
    """The items without a name in the SELECT by which a query's columns are named."""
    while isinstance(query, exp.Subquery | exp.Union | exp.Except | exp.Intersect):
        query = query.this
    items = query.expressions if isinstance(query, exp.Select) else []
    return [one for one in items if not isinstance(one, _NAMED) and one.find(exp.Columns, exp.Aliases) is None]


_NAMED = (exp.Alias, exp.Aliases, exp.Column, exp.Star, exp.PropertyEQ)


def text(item: Node) -> str:
    """A query of an item alone, with the windows that it may name."""
    windows = item.parent.args.get("windows") if isinstance(item.parent, exp.Select) else None
    alone = exp.Select(expressions=[item.copy()], windows=[one.copy() for one in windows or []])
    return str(alone.sql(DIALECT, comments=False, normalize_functions=False))


def name(items: Sequence[Node], texts: Sequence[str]) -> None:
    """Give items their names. texts: DuckDB's own texts of the queries of each alone."""
    for item, written in zip(items, texts, strict=True):
        alias = exp.Alias(alias=exp.to_identifier(written.removeprefix("SELECT "), quoted=True))
        item.replace(alias)
        alias.set("this", item)
