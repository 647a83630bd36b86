"""Columns with their table's schema, as drizzle and Metabase write them."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot

import duckanon
from duckanon.rewrite.column_names import without_schemas
from duckanon.rewrite.dialect import DIALECT

MAKE = """
  CREATE SCHEMA other;
  CREATE TABLE shops AS SELECT range AS id, 'shop ' || range AS name FROM range(4);
  CREATE TABLE other.shops AS SELECT 10 + range AS id FROM range(2);
  CREATE TABLE visits AS SELECT range % 4 AS shop FROM range(10)
"""
QUERIES = [
    "SELECT main.shops.name FROM main.shops ORDER BY main.shops.id LIMIT 2",
    "SELECT count(*) FROM main.shops WHERE main.shops.id IN (1, 2)",
    "SELECT main.shops.name, count(*) FROM main.visits JOIN main.shops ON main.shops.id = main.visits.shop "
    "GROUP BY 1 ORDER BY 1",
    "SELECT main.shops.id FROM main.shops WHERE EXISTS (SELECT 1 FROM main.visits WHERE main.visits.shop = "
    "main.shops.id) ORDER BY 1",
    "SELECT other.shops.id FROM other.shops ORDER BY other.shops.id",
]


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_duckdbs(tmp_path: Path, query: str) -> None:
    path = tmp_path / "shops.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(MAKE)
        for table in ("shops", "other.shops", "visits"):
            con.execute(f"SELECT open_table('{table}')").fetchall()
        wanted = con.execute(query).fetchall()
    with duckanon.connect(path) as con:
        assert con.execute(query).fetchall() == wanted


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT main.a.x FROM main.a", "SELECT a.x FROM main.a"),
        # Not where the table has an alias, or is another, or is read without its schema: DuckDB says what is wrong.
        ("SELECT main.a.x FROM main.a AS b", "SELECT main.a.x FROM main.a AS b"),
        ("SELECT s.a.x FROM main.a", "SELECT s.a.x FROM main.a"),
        ("SELECT main.a.x FROM a", "SELECT main.a.x FROM a"),
    ],
)
def test_which_columns_are_changed(query: str, wanted: str) -> None:
    tree = sqlglot.parse_one(query, read=DIALECT)
    without_schemas(tree)
    assert tree.sql(DIALECT) == wanted
