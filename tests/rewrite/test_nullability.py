"""Whether an expression can be NULL, compared with DuckDB on all small records."""

from __future__ import annotations

from itertools import product

import duckdb
import pytest

from duckanon.catalog.names import TableName
from duckanon.catalog.snapshot import Stored
from duckanon.rewrite.algebra.expressions import Column, Expr, conjuncts, rebuilt
from duckanon.rewrite.algebra.nullability import never_null, present_columns
from duckanon.rewrite.algebra.relations import Block
from duckanon.rewrite.recognize import Schema, relation

RECORDS = list(product([None, 1, 5], [None, 2, 5], [None, True, False], [None, "x", "y"]))
EXPRESSIONS = [
    "a", "c", "a = 1", "a IS NULL", "a IS NOT NULL", "NOT c", "c IS TRUE", "a = b", "a + b > 3", "a BETWEEN b AND 5",
    "a NOT BETWEEN b AND 3", "a IN (1, 2)", "a NOT IN (1, 2)", "a IN (1, NULL)", "s LIKE 'x%'", "lower(s) = 'x'",
    "coalesce(s, 'z') = 'z'", "coalesce(a, b) = 1", "a IS DISTINCT FROM b", "c AND a = 1", "c OR a = 1",
    "a = 1 OR a = 5", "CASE WHEN a = 1 THEN true ELSE false END", "CASE WHEN a = 1 THEN true END", "NOT (a IS NULL)",
    "NOT (c AND b = 2)", "NOT (a = 1 OR b = 2)", "nullif(a, 1) = 5", "abs(a) > 0", "-a < b", "a > 1 IS NULL", "true",
    "(a = 1) IS NOT DISTINCT FROM c", "a NOT BETWEEN NULL AND 3", "NULL = a",
]  # fmt: skip


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute("CREATE TABLE t (a INTEGER, b INTEGER, c BOOLEAN, s VARCHAR)")
    found.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", RECORDS)
    return found


SCHEMA = Schema(
    tables={
        TableName("d", "main", "t"): Stored(
            ("d", "main", "t"), {"a": "INTEGER", "b": "INTEGER", "c": "BOOLEAN", "s": "VARCHAR"}
        )
    }
)


def translated(text: str) -> Expr:
    block = relation(f"SELECT {text} AS y FROM d.main.t", SCHEMA)
    assert isinstance(block, Block)
    return rebuilt(block.outputs[0].expr, lambda one: Column(0, one.name) if isinstance(one, Column) else None)


@pytest.mark.parametrize("condition", ["true", *EXPRESSIONS])
def test_what_is_never_null_is_never_null_in_duckdb(con: duckdb.DuckDBPyConnection, condition: str) -> None:
    if con.execute(f"DESCRIBE SELECT {condition} FROM t").fetchall()[0][1] != "BOOLEAN":
        return
    present = present_columns(conjuncts(translated(condition)))
    for column in present:
        assert isinstance(column, Column)
        assert con.execute(f"SELECT count(*) FROM t WHERE ({condition}) AND {column.name} IS NULL").fetchall() == [(0,)]
    for expression in EXPRESSIONS:
        if never_null(translated(expression), present):
            query = f"SELECT count(*) FROM t WHERE ({condition}) AND ({expression}) IS NULL"
            assert con.execute(query).fetchall() == [(0,)], expression


def test_the_common_forms_are_known() -> None:
    for text in ("a IS NULL", "a IS NOT NULL", "coalesce(s, 'z') = 'z'", "a IS DISTINCT FROM b", "c IS TRUE"):
        assert never_null(translated(text))
    for text in ("a = 1", "c", "coalesce(a, b) = 1", "a IN (1, NULL)", "CASE WHEN a = 1 THEN true END"):
        assert not never_null(translated(text))
    assert never_null(translated("a >= 3"), present_columns(conjuncts(translated("a + 1 > 2 AND c"))))
