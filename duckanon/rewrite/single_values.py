"""Subqueries that stand for one value, as in SELECT (SELECT name FROM states s WHERE s.code = k): DuckDB fails where
one has several rows.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import TableName, fold
from duckanon.rewrite.algebra.nodes import Node, nodes_of
from duckanon.rewrite.bind import named
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.grouped import aggregates_itself

# Where a subquery stands for rows, or for whether there are any.
_FOR_ROWS = (exp.From, exp.Join, exp.Lateral, exp.CTE, exp.SetOperation, exp.In, exp.Exists, exp.Any, exp.All)


def looks_up_values(sql: str, answers: Collection[TableName]) -> bool:
    """Whether a query has subqueries for one value that may have several rows, all of them of what may be seen.

    answers: the tables whose numbers nobody knows yet. Of a subquery that reads these, the numbers say how many rows
    it has.
    """
    query = sqlglot.parse_one(sql, read=DIALECT)
    several = [node for node in nodes_of(query, exp.Subquery) if _is_value(node) and not _has_one_row(node.this)]
    unknown = _reading(query, answers)
    return bool(several) and not any(_reads(subquery, answers, unknown) for subquery in several)


def _is_value(subquery: Node) -> bool:
    inside = subquery.parent
    while isinstance(inside, exp.Subquery | exp.Paren):
        inside = inside.parent
    return inside is not None and not isinstance(inside, _FOR_ROWS)


def _has_one_row(query: Node) -> bool:
    """Whether a query aggregates all that it reads, or shows its first row alone."""
    limit = query.args.get("limit")
    if isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Literal) and limit.expression.this == "1":
        return True
    return isinstance(query, exp.Select) and query.args.get("group") is None and aggregates_itself(query)


def _reading(query: Node, answers: Collection[TableName]) -> set[str]:
    """The folded names in WITH of what reads the answers, directly or not."""
    names: set[str] = set()
    ctes = nodes_of(query, exp.CTE)
    while new := {fold(cte.alias) for cte in ctes if _reads(cte.this, answers, names)} - names:
        names |= new
    return names


def _reads(part: Node, answers: Collection[TableName], unknown: Collection[str]) -> bool:
    """Whether a part of a query reads the answers. unknown: the names in WITH of what does."""
    tables = nodes_of(part, exp.Table)
    return any(named(table) in answers or (not table.db and fold(table.name) in unknown) for table in tables)
