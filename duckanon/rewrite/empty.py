"""Queries of which no row is asked: DESCRIBE, and those whose text proves that no row comes out.

They get their columns from empty relations with the public names and types of the protected tables that they read. So
no record is read, and nothing is charged or drawn. Tools ask for the columns of a query in this way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import TableName, fold
from duckanon.catalog.snapshot import Catalog
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import Node, arg, copied, name_of, nodes_of, parsed_type
from duckanon.rewrite.bind import NOT_SEEN, Bound, named
from duckanon.rewrite.column_names import default_name
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.metadata import shown_type

# What a query without rows has, one of them at least.
LEAVES_OUT = (exp.Limit, exp.Where)
_ENDS = ("low", "high")
_MARK = "_dk_relation"


def is_empty(query: Node) -> bool:
    """Whether the text of a query proves that it has no rows: LIMIT 0, or WHERE false around columns alone."""
    while isinstance(query, exp.Subquery) and not query.args.get("limit"):
        query = query.this
    limit = query.args.get("limit")
    if isinstance(limit, exp.Limit) and _number(limit.expression) == "0":
        return True
    if not isinstance(query, exp.Select) or query.args.get("group") or query.args.get("having"):
        return False
    where = query.args.get("where")
    # An aggregate without rows has a row.
    shown = [expression.this if isinstance(expression, exp.Alias) else expression for expression in query.expressions]
    return (
        where is not None
        and _is_false(where.this)
        and all(isinstance(expression, exp.Star | exp.Column) for expression in shown)
    )


def _is_false(condition: Node) -> bool:
    if isinstance(condition, exp.Paren):
        return _is_false(condition.this)
    if isinstance(condition, exp.And):
        return _is_false(condition.this) or _is_false(condition.expression)
    if isinstance(condition, exp.EQ):
        number, other = _number(condition.this), _number(condition.expression)
        return number is not None and other is not None and number != other
    return isinstance(condition, exp.Boolean) and condition.this is False


def _number(node: Node) -> str | None:
    """The digits of a whole number as it is written; None for everything else."""
    plain = isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit()
    return str(int(node.this)) if plain else None


def empty(bound: Bound, catalog: Catalog) -> None:
    """Let the query read empty relations in place of protected tables. Raises UnsupportedQuery."""
    for name, node in bound.protected:
        stored = catalog.protected[name].stored
        if stored is None:
            raise UnsupportedQuery(NOT_SEEN)
        _replace(node, {column: shown_type(kind, catalog, name) for column, kind in stored.columns.items()})
    _without_ends(bound.query)
    bound.protected.clear()


def _without_ends(query: Node) -> None:
    """Let `low(x)` and `high(x)`, which DuckDB does not have, be an x of the type that they have."""
    for node in nodes_of(query, exp.Anonymous):
        if name_of(node) not in _ENDS or len(node.expressions) != 1:
            continue
        end: Node = exp.Paren(this=_as_end(node.expressions[0], node.find_ancestor(exp.Select)))
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
            end = exp.alias_(end, f"{name_of(node)}({default_name(node.expressions[0])})", quoted=True)
        node.replace(end)


def _as_end(of: Node, select: Node | None) -> Node:
    """What an end is of, with sums as DOUBLEs. select: the SELECT that it stands in, whose columns it may name."""
    items = (
        [] if select is None else [expression for expression in select.expressions if isinstance(expression, exp.Alias)]
    )
    named = {fold(item.alias): item.this for item in items}
    if isinstance(of, exp.Column) and not of.table:
        of = named.get(fold(of.name), of)
    # (A copy in parentheses, so that a sum by itself can be replaced.)
    node: Node = exp.Paren(this=copied(of))
    for total in list(node.find_all(exp.Sum)):
        total.replace(exp.Cast(this=copied(total), to=parsed_type("DOUBLE")))
    return node


def without_rows(sql: str, tables: Mapping[TableName, Mapping[str, str]]) -> str:
    """A query with empty relations in place of some tables. tables: their columns with types, by full name."""
    query = sqlglot.parse_one(sql, read=DIALECT)
    for node in nodes_of(query, exp.Table):
        if named(node) in tables:
            _replace(node, tables[named(node)])
    return str(query.sql(DIALECT, comments=False, normalize_functions=False))


def with_relations(sql: str, several: Sequence[Mapping[TableName, str]]) -> list[str]:
    """A query with other queries in place of some tables, in several ways. several: queries by the tables' full names.

    The query is read and written once, with places that the text does not have: all that follow are put into these.
    """
    query, mark = sqlglot.parse_one(sql, read=DIALECT), _MARK
    while mark in sql:
        mark += "_"
    places: list[TableName] = []
    for node in nodes_of(query, exp.Table):
        if any(named(node) in relations for relations in several):
            _hold(node, exp.Var(this=f"{mark}{len(places)}_"))
            places.append(named(node))
    # Texts between the places, and the places' numbers, in turn.
    parts = re.split(f"{mark}([0-9]+)_", query.sql(DIALECT, comments=False, normalize_functions=False))
    return [
        "".join(relations[places[int(part)]] if at % 2 else part for at, part in enumerate(parts))
        for relations in several
    ]


def _replace(node: Node, columns: Mapping[str, str]) -> None:
    """Put an empty relation in the place of a table."""
    shown = [
        exp.alias_(exp.Cast(this=exp.Null(), to=parsed_type(kind)), column, quoted=True)
        for column, kind in columns.items()
    ]
    _hold(node, exp.select(*shown).where(exp.false()))


def _hold(node: Node, query: Node) -> None:
    """Put a query in the place of a table."""
    holder = exp.Subquery(this=query)
    holder.set("alias", node.args.get("alias"))
    holder.set("joins", arg(node, "joins"))
    node.replace(holder)
