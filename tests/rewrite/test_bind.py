"""Names: nothing is left for DuckDB to look up."""

import pytest

from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.admit import admit
from duckanon.rewrite.bind import Bound, bind
from tests.rewrite.guarded import CATALOG, PERSONS


def bound(sql: str) -> Bound:
    query = admit(sql).query
    assert query is not None
    return bind(query, CATALOG, frozenset({"dp_group_sizes", "k_anonymize"}))


@pytest.mark.parametrize("name", ["persons", "PERSONS", '"Persons"', "main.persons", "x.persons", "x.main.persons"])
def test_all_names_of_a_protected_table(name: str) -> None:
    found = bound(f"SELECT p.name FROM {name} AS p")
    assert [table for table, _ in found.protected] == [PERSONS]
    assert '"x"."main"."Persons"' in found.query.sql("duckdb")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM shops WHERE EXISTS (FROM persons)",
        "SELECT (SELECT max(name) FROM persons)",
        "SELECT * FROM shops, LATERAL (SELECT * FROM persons WHERE hid = shop)",
        "WITH a AS (FROM persons), b AS (FROM a) FROM b",
        "FROM shops JOIN persons USING (state)",
        "SELECT 1 ORDER BY (SELECT max(age) FROM persons)",
        "SELECT 1 LIMIT (SELECT count(*) FROM persons)",
        "VALUES ((SELECT max(name) FROM persons))",
        "FROM adults",
        "SELECT [x FOR x IN (SELECT list(name) FROM persons)]",
        "SELECT 1 INTERSECT SELECT hid FROM persons",
        "SELECT list_transform([1], y -> (SELECT max(hid) + y FROM persons))",
    ],
)
def test_wherever_it_is_read(sql: str) -> None:
    assert {table for table, _ in bound(sql).protected} == {PERSONS}


def test_a_view_is_written_out() -> None:
    text = bound("SELECT household FROM sizes AS s WHERE size > 2").query.sql("duckdb")
    assert "sizes" not in text.replace('"size"', "")
    assert '"household"' in text
    assert '"x"."main"."Persons"' in text


def test_a_cte_does_not_stand_in_for_a_table() -> None:
    found = bound("WITH persons AS (SELECT 1 AS a) SELECT a FROM persons")
    assert found.protected == []
    assert "_dk_with_1" in found.query.sql("duckdb")
    # Inside itself the name still means the table.
    assert [name for name, _ in bound("WITH persons AS (FROM persons) FROM persons").protected] == [PERSONS]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM nothing", "FROM 'file.csv'", "FROM y.main.persons", "FROM duckdb_tables()", "FROM read_csv('x')",
        "FROM query('SELECT 1')", "FROM query_table('persons')", "FROM pg_catalog.pg_tables", "FROM duckanon.ledger",
        "FROM information_schema.columns", "FROM x.dp_group_sizes('persons', 'hid', epsilon := 1)",
        "FROM glob('*')", "FROM sqlite_master",
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedQuery):
        bound(sql)


def test_parameters_and_calls_are_told() -> None:
    assert bound("SELECT $a").has_parameters
    assert bound("SELECT ?").has_parameters
    assert not bound("SELECT 1").has_parameters
    assert [name for name, _ in bound("FROM dp_group_sizes('persons', 'hid', epsilon := 1)").calls] == [
        "dp_group_sizes"
    ]
