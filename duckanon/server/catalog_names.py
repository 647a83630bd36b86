"""The names of a query's columns, as PostgreSQL gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.dialect import DIALECT, written_name
from duckanon.server.catalog_facts import type_name
from duckanon.server.catalog_query import cast_to
from duckanon.server.catalog_text import OWN
from duckanon.server.lexer import SHORT


def fold_names(tree: Node) -> None:
    """Names are in lower case unless they are quoted, as PostgreSQL folds them."""
    for node in tree.find_all(exp.Identifier):
        if not node.args.get("quoted"):
            node.set("this", str(node.this).lower())


def branches(tree: Node) -> Iterator[Node]:
    """The SELECTs whose columns are the query's."""
    if isinstance(tree, exp.Select):
        yield tree
    elif isinstance(tree, exp.Subquery):
        yield from branches(tree.this)
    elif isinstance(tree, exp.Union | exp.Except | exp.Intersect):
        yield from branches(tree.this)
        yield from branches(tree.expression)


def unaliased(node: Node) -> Node:
    return node.this if isinstance(node, exp.Alias) else node


def name_columns(tree: Node) -> None:
    """Give each column without a name the one that PostgreSQL gives it (FigureColname in its parser)."""
    for select in list(tree.find_all(exp.Select)):
        expressions: list[Node] = []
        for expression in select.expressions:
            if isinstance(expression, exp.Alias | exp.Star | exp.Aliases) or (
                isinstance(expression, exp.Column) and isinstance(expression.this, exp.Identifier | exp.Star)
            ):
                expressions.append(expression)
            else:
                expressions.append(
                    exp.alias_(expression.copy(), column_name(expression) or "?column?", quoted=True, copy=False)
                )
        select.set("expressions", expressions)


def as_postgresql(text: str, names: Sequence[str]) -> list[str]:
    """The names of a result's columns. Those without an alias have DuckDB's text of the expression until then.

    names: DuckDB's, of the query in the text.
    """
    if all(_PLAIN.fullmatch(name) for name in names):
        return list(names)
    # Programs send the same short texts again and again.
    return list((_kept if len(text) <= SHORT else _named)(text, tuple(names)))


def _named(text: str, names: tuple[str, ...]) -> Sequence[str]:
    try:
        tree = sqlglot.parse_one(text, read=DIALECT)
    except SqlglotError:
        return names
    first = next(branches(tree), None)
    if first is None or len(first.expressions) != len(names):
        # Of SELECT * the names are those of the columns.
        return names
    return [
        name if isinstance(expression, exp.Alias | exp.Column | exp.Star) else column_name(expression) or "?column?"
        for expression, name in zip(first.expressions, names, strict=True)
    ]


# What DuckDB calls the column of a number is that number.
_kept = lru_cache(maxsize=200)(_named)
_PLAIN = re.compile(r"[^\W\d]\w*")


def column_name(node: Node) -> str:
    """The name of an expression's column, or nothing."""
    for kind, name in _NAMED:
        if isinstance(node, kind):
            return name(node)
    if written := written_name(node):
        return written.lower()
    operator = isinstance(node, exp.Binary | exp.Unary | exp.RegexpLike | exp.RegexpILike)
    if not isinstance(node, exp.Func) or operator:
        return ""
    return "date_trunc" if isinstance(node, exp.TimestampTrunc | exp.DateTrunc) else node.sql_name().lower()


def _cast_name(node: Node) -> str:
    inner = node.this
    while isinstance(inner, exp.Cast | exp.Paren):
        inner = inner.this
    return column_name(inner) or type_name(cast_to(node).rstrip("[]"))


def _case_name(node: Node) -> str:
    default = node.args.get("default")
    return (column_name(default) if default is not None else "") or "case"


def _subquery_name(node: Node) -> str:
    inner = next(branches(node), None)
    if inner is None or not inner.selects:
        return ""
    first = inner.selects[0]
    return str(first.alias) if isinstance(first, exp.Alias) else column_name(first)


_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}


_NAMED: Sequence[tuple[Any, Callable[[Any], str]]] = (
    (exp.Paren | exp.Bracket, lambda node: column_name(node.this)),
    (
        exp.Window | exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls,
        lambda node: column_name(node.this),
    ),
    (exp.AtTimeZone, lambda _: "timezone"),
    (exp.Interval, lambda _: "interval"),
    (exp.Column, lambda node: str(node.name)),
    (exp.Dot, lambda node: str(node.expression.name)),
    (exp.Cast, _cast_name),
    (exp.Case, _case_name),
    (exp.Subquery, _subquery_name),
    (exp.Anonymous, lambda node: str(node.name).lower().removeprefix(OWN)),
    (exp.Exists | exp.Array | exp.Coalesce, lambda node: type(node).__name__.lower()),
    (exp.GroupConcat, lambda _: "string_agg"),
    (exp.StrPosition, lambda node: written_name(node) or "position"),
    (exp.Trim, lambda node: _TRIMS.get(str(node.args.get("position")), "btrim")),
)
