"""No form of writing a statement loses a read of a protected table, nor turns one number into another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlglot import parse_one

from duckanon.rewrite.normalize import written_out
from duckanon.rewrite.recognize import findings_in, summary
from duckanon.rewrite.statements import statements
from tests.rewrite.fixtures import schema

READS = "EXISTS (SELECT 1 FROM persons WHERE persons.pid = 1)"


def found(sql: str) -> list[str]:
    return [summary(one) for one in findings_in(sql, schema())]


@pytest.mark.parametrize(
    "sql",
    [
        f"UPDATE states SET region = 'x' WHERE {READS}",
        "UPDATE states SET region = (SELECT name FROM persons LIMIT 1)",
        f"DELETE FROM states WHERE {READS}",
        "CREATE TABLE copied AS SELECT * FROM persons",
        "CREATE TABLE copied (a INTEGER DEFAULT (SELECT max(pid) FROM persons))",
        "INSERT INTO states VALUES ((SELECT name FROM persons LIMIT 1), 'x')",
        "INSERT INTO states WITH p AS (FROM persons) SELECT name, 'x' FROM p",
        "INSERT INTO states SELECT name, 'x' FROM persons",
        "SELECT (SELECT 1 FROM persons WHERE sick LIMIT 1)",
        "SELECT (SELECT 1 FROM persons)",
        "SELECT * FROM query_table('per' || 'sons')",
        "SELECT 1 WHERE 1 IN (SELECT 1 FROM persons)",
        "(TABLE persons)",
        "TABLE persons",
    ],
)
def test_each_statement_that_names_the_table_is_found_to_read_it(sql: str) -> None:
    assert any("persons" in one for one in found(sql)), sql


def test_a_call_of_a_macro_reads_what_its_definition_names() -> None:
    macros = {
        "worst": "CREATE MACRO worst(n) AS (SELECT max(pid) + n FROM persons)",
        "twice": "CREATE MACRO twice(n) AS 2 * n",
    }
    known = replace(schema(), macros=macros)
    (read,) = findings_in("SELECT worst(1)", known)
    assert summary(read) == "unknown of memory.main.persons | because a subquery looks at it for each row"
    (_, read) = findings_in("SELECT state, count(*) FROM persons WHERE worst(1) > 2 GROUP BY state", known)
    assert summary(read) == "unknown of memory.main.persons | because a subquery looks at it for each row"
    assert findings_in("SELECT twice(1)", known) == ()


def test_an_operator_is_no_macro_of_its_name() -> None:
    known = replace(schema(), macros={"add": "CREATE MACRO add(n) AS (SELECT max(pid) + n FROM persons)"})
    assert findings_in("SELECT 1 + 1", known) == ()
    assert findings_in("SELECT add(1)", known) != ()


@pytest.mark.parametrize("table", ["(persons)", "((persons))", "(((persons)))"])
def test_a_table_in_brackets_is_the_table(table: str) -> None:
    sql = "SELECT state, count(*) FROM {} GROUP BY state"
    assert found(sql.format(table)) == found(sql.format("persons"))


def test_a_sum_of_different_counts_is_no_count() -> None:
    counts = "(SELECT state, sex, count(*) AS n FROM persons GROUP BY state, sex)"
    plain = found(f"SELECT state, sum(n) FROM {counts} GROUP BY state")
    assert plain == found("SELECT state, count(*) FROM persons GROUP BY state")
    assert found(f"SELECT state, sum(DISTINCT n) FROM {counts} GROUP BY state") != plain


def test_a_script_is_read_statement_by_statement() -> None:
    parts = [(one.text, one.line) for one in statements("SELECT 1;\nSELECT 2 ;\n\n SELECT ';'")]
    assert [text.strip() for text, _ in parts] == ["SELECT 1", "SELECT 2", "SELECT ';'"]
    assert [line for _, line in parts] == [1, 2, 4]


def written(sql: str) -> str:
    query = parse_one(sql, dialect="duckdb")
    written_out.written_out(query)
    return query.sql("duckdb")


@pytest.mark.parametrize("items", [1, 2, 3])
def test_lists_of_values_are_followed_up_to_one_length(monkeypatch: pytest.MonkeyPatch, items: int) -> None:
    monkeypatch.setattr(written_out, "_MOST", 2)
    listed = ", ".join(map(str, range(items)))
    plain = f"SELECT * FROM t WHERE a IN ({listed})"
    assert (written(f"SELECT * FROM t WHERE a = ANY([{listed}])") == plain) is (items <= 2)
    rows = ", ".join(f"({one})" for one in range(items))
    assert (written(f"SELECT * FROM t WHERE a IN (VALUES {rows})") == plain) is (items <= 2)


@pytest.mark.parametrize(
    ("subquery", "is_constant"),
    [
        ("SELECT 1", True),
        ("SELECT 1 FROM persons", False),
        ("SELECT 1 FROM persons WHERE sick LIMIT 1", False),
        ("SELECT 1 WHERE false", False),
        ("SELECT 1 LIMIT 0", False),
        ("SELECT 1 UNION ALL SELECT 2", False),
        ("WITH p AS (FROM persons) SELECT 1", False),
        ("SELECT DISTINCT 1 FROM persons", False),
        ("SELECT count(*)", False),
        ("SELECT 1, 2", False),
    ],
)
def test_a_subquery_is_a_constant_if_it_reads_nothing_and_has_one_row(subquery: str, is_constant: bool) -> None:
    sql = f"SELECT ({subquery}) AS x"
    same = parse_one(sql, dialect="duckdb").sql("duckdb")
    assert (written(sql) == "SELECT (1) AS x") is is_constant
    assert (written(sql) == same) is (not is_constant or same == "SELECT (1) AS x")
