"""The last gate, on DuckDB's own tree: what is not allowed does not run, whatever came before."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest

from duckanon.catalog.names import TableName
from duckanon.errors import DuckanonError
from duckanon.rewrite.verify import Allowed, call, verify

CALL = "temp.main.dp_group_sizes('x.persons', 'hid', epsilon := 0.5, max_size := 6)"


def serialized(sql: str) -> Any:
    with duckdb.connect() as con:
        return json.loads(con.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0][0])


ALLOWED = Allowed(
    frozenset({TableName("x", "main", "shops"), TableName("x", "duckanon", "counts_1")}),
    (call(serialized(f"SELECT * FROM {CALL}")),),
    frozenset({"twice"}),
    frozenset({"shops", "persons"}),
)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT * FROM x.main.shops TABLESAMPLE 10%",
        "SELECT a FROM x.main.shops AS persons",
        'SELECT n FROM "X"."Main"."Shops"',
        f"SELECT size, sum(groups) FROM {CALL} AS r WHERE level = 0 GROUP BY size",
        "WITH a AS (SELECT 1 AS n) SELECT n FROM a, generate_series(3)",
        "SELECT a::JSON, ['{}']::JSON[], TRY_CAST({'b': '1'} AS STRUCT(b JSON)) FROM x.main.shops",
        "SELECT n::BIGINT, TRY_CAST(n AS DECIMAL(5, 2)), [1]::INTEGER[] FROM x.duckanon.counts_1",
        "SELECT count(*) FILTER (WHERE a > 1), row_number() OVER (ORDER BY a) FROM x.main.shops GROUP BY ALL",
    ],
)
def test_what_may_run(sql: str) -> None:
    verify(serialized(sql), ALLOWED)


def test_a_tree_of_an_older_duckdb_may_run() -> None:
    """DuckDB 1.4 names a table by its parts alone."""
    tree = serialized("SELECT a FROM x.main.shops")
    tree["statements"][0]["node"]["from_table"].pop("qualified_name", None)
    verify(tree, ALLOWED)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ['a']::mood[]", "SELECT {'a': 'b'}::STRUCT(a mood)", "SELECT '1'::main.json",
        "SELECT * FROM persons", "SELECT * FROM x.main.persons", "SELECT * FROM main.shops", "SELECT * FROM shops",
        "SELECT * FROM y.main.shops", "SELECT * FROM x.duckanon.ledger", "SELECT 1; SELECT 2", "SELECT twice(1)",
        "SELECT * FROM x.main.persons TABLESAMPLE 10%", "SELECT * FROM read_csv('x')", "SELECT * FROM 'x.csv'",
        "SELECT getenv('HOME')", "SELECT current_setting('threads')", "SELECT error('x')", "SELECT x.main.length('a')",
        "SELECT 1::mood", "SELECT 1::main.mood", "PIVOT x.main.shops ON a", "SELECT nextval('s')",
        "WITH persons AS (SELECT 1) FROM persons", "SELECT (SELECT max(name) FROM x.main.persons)",
        "SELECT * FROM query('FROM persons')", "SELECT * FROM query_table('persons')",
        "SELECT * FROM duckdb_columns()", "SELECT system.main.getvariable('x')",
        f"SELECT * FROM {CALL.replace('0.5', '0.6')}", f"SELECT * FROM {CALL.replace('x.persons', 'x.other')}",
        f"SELECT * FROM {CALL.replace('temp.main.', '')}",
        f"SELECT * FROM {CALL.replace('max_size := 6', 'max_size := 7')}",
        "SELECT * FROM x.main.shops WHERE EXISTS (SELECT 1 FROM x.main.persons)",
        "SELECT 1 LIMIT (SELECT count(*) FROM x.main.persons)",
    ],
)  # fmt: skip
def test_what_may_not(sql: str) -> None:
    with pytest.raises(DuckanonError):
        verify(serialized(sql), ALLOWED)


def test_a_node_of_an_unknown_kind_is_refused() -> None:
    for change in ({"class": "MAGIC"}, {"type": "MAGIC_REF"}):
        tree = serialized("SELECT a FROM x.main.shops WHERE a > 1")
        node = tree["statements"][0]["node"]
        node["where_clause" if "class" in change else "from_table"].update(change)
        with pytest.raises(DuckanonError):
            verify(tree, ALLOWED)
    with pytest.raises(DuckanonError):
        verify({"error": True}, ALLOWED)
