"""The tables from which columns of subqueries and WITH come, and the conditions on them alone."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.column_sources import named_around, shown_by, values_at_source


def _asked(pivot: str) -> list[str]:
    tree = sqlglot.parse_one(pivot, read=DIALECT)
    node = next(one for one in tree.find_all(exp.Pivot))
    axis = node.expressions[0]
    texts = [str(one.sql(DIALECT)) for one in values_at_source(axis, node.this, named_around(node))]
    return [text.removesuffix(" ORDER BY 1 NULLS FIRST") for text in texts]


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("t", []),
        ("(SELECT a FROM t)", ["SELECT DISTINCT a FROM t WHERE (a) IS NOT NULL"]),
        ("(SELECT a FROM d.s.t AS u)", ["SELECT DISTINCT a FROM d.s.t AS u WHERE (a) IS NOT NULL"]),
        (
            "(SELECT b AS a FROM t WHERE b > 1 AND c < 2 AND (b < 5 OR b = 7))",
            ["SELECT DISTINCT b FROM t WHERE (b > 1 AND (b < 5 OR b = 7)) AND (b) IS NOT NULL"],
        ),
        ("(SELECT b AS a FROM t WHERE b > c)", ["SELECT DISTINCT b FROM t WHERE (b) IS NOT NULL"]),
        ("(SELECT b AS a FROM t WHERE b IN (SELECT 1))", ["SELECT DISTINCT b FROM t WHERE (b) IS NOT NULL"]),
        (
            "(SELECT u.a FROM t JOIN u USING (k) WHERE t.a = 1)",
            ["SELECT DISTINCT u.a FROM u WHERE (u.a) IS NOT NULL"],
        ),
        (
            "(SELECT a FROM t JOIN u USING (k))",
            [f"SELECT DISTINCT a FROM {table} WHERE (a) IS NOT NULL" for table in "tu"],
        ),
        (
            "(SELECT b AS a FROM (SELECT c AS b FROM t WHERE c <> 4) WHERE b > 3)",
            ["SELECT DISTINCT c FROM t WHERE (((c) > 3) AND c <> 4) AND (c) IS NOT NULL"],
        ),
        (
            "(SELECT year(b) AS a FROM t WHERE b > 1)",
            ["SELECT DISTINCT year(b) FROM t WHERE (year(b)) IS NOT NULL"],
        ),
        ("(SELECT count(*) AS a FROM t)", []),
        ("(SELECT row_number() OVER () AS a FROM t)", []),
        ("(SELECT (SELECT 1) AS a FROM t)", []),
        ("(SELECT * FROM t)", []),
        ("(SELECT a FROM t UNION ALL SELECT a FROM u)", []),
    ],
)
def test_columns_come_from_tables(source: str, asked: list[str]) -> None:
    assert _asked(f"PIVOT {source} ON a USING count(*)") == asked


def test_names_of_with_stand_for_queries() -> None:
    named = "WITH t AS (SELECT b AS c FROM x), u(a) AS (SELECT c FROM t) PIVOT u ON a USING count(*)"
    assert _asked(named) == ["SELECT DISTINCT b FROM x WHERE (b) IS NOT NULL"]
    # A table of the same name is meant by its schema.
    assert _asked(named.replace("PIVOT u", "PIVOT main.u")) == []


def test_a_name_that_stands_for_itself_ends() -> None:
    named = "WITH RECURSIVE u AS (SELECT a FROM u) PIVOT u ON a USING count(*)"
    assert _asked(named) == ["SELECT DISTINCT a FROM u WHERE (a) IS NOT NULL"]


def test_columns_are_shown_by_their_names() -> None:
    tree = sqlglot.parse_one("FROM (SELECT a, b + 1 AS c FROM t) AS q(x)", read=DIALECT)
    (source,) = tree.find_all(exp.Subquery)
    shown = shown_by(source, {})
    assert shown is not None
    assert [*shown] == ["x", "c"]
