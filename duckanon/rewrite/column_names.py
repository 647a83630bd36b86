"""The names of columns: DuckDB's own for those without one, and those that are written with their table's schema."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import Node, arg, nodes_of, sql
from duckanon.rewrite.dialect import DIALECT


def default_name(node: Node) -> str:
    """The name that DuckDB gives to a column without an alias: its text of the expression."""
    rows = isinstance(node, exp.Count) and (node.this is None or isinstance(node.this, exp.Star))
    return "count_star()" if rows else sql(node).lower().replace("(distinct ", "(DISTINCT ")


def without_names(query: Node) -> list[Node]:
    """The items without a name in the SELECT by which a query's columns are named."""
    while isinstance(query, exp.Subquery | exp.Union | exp.Except | exp.Intersect):
        query = query.this
    items = query.expressions if isinstance(query, exp.Select) else []
    return [item for item in items if not isinstance(item, _NAMED) and item.find(exp.Columns, exp.Aliases) is None]


_NAMED = (exp.Alias, exp.Aliases, exp.Column, exp.Star, exp.PropertyEQ)


def text(item: Node) -> str:
    """A query of an item alone, with the windows that it may name."""
    windows = item.parent.args.get("windows") if isinstance(item.parent, exp.Select) else None
    alone = exp.Select(expressions=[item.copy()], windows=[window.copy() for window in windows or []])
    return str(alone.sql(DIALECT, comments=False, normalize_functions=False))


def name(items: Sequence[Node], texts: Sequence[str]) -> None:
    """Give items their names. texts: DuckDB's own texts of the queries of each alone."""
    for item, written in zip(items, texts, strict=True):
        alias = exp.Alias(alias=exp.to_identifier(written.removeprefix("SELECT "), quoted=True))
        item.replace(alias)
        alias.set("this", item)


def without_schemas(query: Node) -> None:
    """Leave the schema out of columns that are written with it, as in `SELECT main.visits.shop FROM main.visits`.

    Binding gives each table its own name as an alias, and by an alias no schema is found. So the schema is left out
    where the column's table is one that the query, or one around it, reads by that schema and without an alias.
    """
    for column in nodes_of(query, exp.Column):
        if column.db and _reads(column):
            column.set("db", None)
            column.set("catalog", None)


def _reads(column: Node) -> bool:
    """Whether a SELECT around a column reads the table that it names, without an alias."""
    named_by_column = fold(column.catalog), fold(column.db), fold(column.table)
    select = column.find_ancestor(exp.Select)
    while select is not None:
        for table in _tables(select):
            named = fold(table.catalog), fold(table.db), fold(table.name)
            if not table.alias and named[1:] == named_by_column[1:] and named_by_column[0] in ("", named[0]):
                return True
        select = select.find_ancestor(exp.Select)
    return False


def _tables(select: Node) -> list[Node]:
    joined = [arg(select, "from"), *(select.args.get("joins") or [])]
    return [clause.this for clause in joined if clause is not None and isinstance(clause.this, exp.Table)]
