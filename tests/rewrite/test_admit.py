"""The first gate: which statements an analyst may run at all."""

import subprocess
import sys

import pytest

from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.admit import Kind, admit


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1", Kind.QUERY),
        ("SELECT 1;;", Kind.QUERY),
        ("FROM t SELECT a", Kind.QUERY),
        ("VALUES (1), (2)", Kind.QUERY),
        ("(SELECT 1) UNION ALL BY NAME SELECT 2", Kind.QUERY),
        ("WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a) FROM a", Kind.QUERY),
        ("SELECT list_transform([1], x -> x + 1), {'a': 1}.a, [1, 2][1], MAP {'a': 1}", Kind.QUERY),
        ("SELECT sum(a) FILTER (WHERE a > 1) OVER (PARTITION BY b ORDER BY c ROWS 2 PRECEDING) FROM t", Kind.QUERY),
        ("CREATE TEMP TABLE a AS SELECT 1", Kind.CREATE),
        ("CREATE OR REPLACE TEMPORARY TABLE a AS SELECT 1", Kind.CREATE),
        ("INSERT INTO a (b) SELECT 1", Kind.INSERT),
        ("DROP TABLE IF EXISTS a", Kind.DROP),
        ("BEGIN", Kind.TRANSACTION),
        ("ROLLBACK", Kind.TRANSACTION),
        (" show   TABLES ; ", Kind.TABLES),
        ("SELECT * FROM t TABLESAMPLE 5%", Kind.QUERY),
        ("SELECT * FROM t USING SAMPLE 3", Kind.QUERY),
    ],
)
def test_what_is_admitted(sql: str, kind: Kind) -> None:
    found = admit(sql)
    assert found.kind is kind
    assert (found.query is not None) == (kind in (Kind.QUERY, Kind.CREATE, Kind.INSERT))


@pytest.mark.parametrize(
    "sql",
    [
        "", ";", "SELECT 1; SELECT 2", "SELEC 1", "COPY t TO 'x.csv'", "ATTACH 'x'", "DETACH x", "USE x",
        "PREPARE p AS SELECT 1", "EXECUTE p", "EXPLAIN ANALYZE SELECT 1",
        "SET threads = 1", "RESET threads", "PRAGMA version", "CALL duckdb_tables()", "CHECKPOINT", "VACUUM",
        "INSTALL httpfs", "LOAD httpfs", "CREATE TABLE t AS SELECT 1", "CREATE TEMP TABLE t (a INT)",
        "CREATE VIEW v AS SELECT 1", "CREATE MACRO f() AS 1", "CREATE SCHEMA s",
        "CREATE SEQUENCE s", "CREATE TYPE t AS ENUM ('a')", "CREATE INDEX i ON t (a)", "ALTER TABLE t ADD COLUMN a INT",
        "INSERT INTO t VALUES (1) RETURNING a", "INSERT OR REPLACE INTO t SELECT 1", "UPDATE t SET a = 1",
        "DELETE FROM t", "TRUNCATE t", "DROP TABLE a, b", "DROP SCHEMA s", "PIVOT t ON a",
        "SELECT * FROM (PIVOT t ON a)", "UNPIVOT t ON a",
        "SELECT * FROM t AT (VERSION => 1)", "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "SELECT 1 \0", "SELECT '\ud800'", "SELECT " + "(" * 300 + "1" + ")" * 300, "SELECT '" + "x" * 100_001 + "'",
        "SELECT TRY(1 / 0)", "SELECT try (CAST(a AS INT)) FROM t",
        "BEGIN READ ONLY", "EXPORT DATABASE 'x'", "COMMENT ON TABLE t IS 'x'",
    ],
)  # fmt: skip
def test_what_is_not(sql: str) -> None:
    with pytest.raises(UnsupportedQuery) as raised:
        admit(sql)
    assert str(raised.value).endswith(".")


def test_a_refusal_quotes_nothing_of_the_statement() -> None:
    for sql in ("SELECT 'secret' FROM (", "COPY secret TO 'x'", "SELECT 1; SELECT 'secret'"):
        with pytest.raises(UnsupportedQuery) as raised:
            admit(sql)
        assert "secret" not in str(raised.value)


def test_the_compiled_build_of_sqlglot_is_told() -> None:
    """Its parser cannot be extended: every statement would be refused as one that cannot be understood."""
    code = "import sqlglot.parser as parser; parser.__file__ = 'parser.so'; import duckanon.rewrite.dialect"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stderr.strip().endswith("in which duckanon cannot read statements: pip uninstall sqlglotc.")
