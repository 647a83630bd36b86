"""Columns that are written with their table's schema, as in `SELECT main.visits.shop FROM main.visits`.

Binding gives each table its own name as an alias, and by an alias no schema is found. So the schema is left out where
the column's table is one that the query, or one around it, reads by that schema and without an alias.
"""

from __future__ import annotations

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import Node, nodes_of


def without_schemas(query: Node) -> None:
    """Change the columns of a query in place."""
    for column in nodes_of(query, exp.Column):
        if column.db and _reads(column):
            column.set("db", None)
            column.set("catalog", None)


def _reads(column: Node) -> bool:
    """Whether a SELECT around a column reads the table that it names, without an alias."""
    wanted = fold(column.catalog), fold(column.db), fold(column.table)
    select = column.find_ancestor(exp.Select)
    while select is not None:
        for table in _tables(select):
            named = fold(table.catalog), fold(table.db), fold(table.name)
            if not table.alias and named[1:] == wanted[1:] and wanted[0] in ("", named[0]):
                return True
        select = select.find_ancestor(exp.Select)
    return False


def _tables(select: Node) -> list[Node]:
    first = select.args.get("from_") or select.args.get("from")
    joined = [first, *(select.args.get("joins") or [])]
    return [one.this for one in joined if one is not None and isinstance(one.this, exp.Table)]
