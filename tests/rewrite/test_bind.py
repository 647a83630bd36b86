"""Names: nothing is left for DuckDB to look up."""

from dataclasses import replace

import pytest

from duckanon.catalog.names import TableName
from duckanon.catalog.snapshot import Macro, View
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.admit import admit
from duckanon.rewrite.bind import Bound, bind
from tests.rewrite.guarded import CATALOG, PERSONS

VIEW_OF_ONE = View(("x", "main", "v19"), "CREATE VIEW v19 AS SELECT 1")
ADULTS = TableName("x", "main", "adults")


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
        "SELECT n FROM sizes()",
        "SELECT [x FOR x IN (SELECT list(name) FROM persons)]",
        "SELECT 1 INTERSECT SELECT hid FROM persons",
        "SELECT list_transform([1], y -> (SELECT max(hid) + y FROM persons))",
    ],
)
def test_wherever_it_is_read(sql: str) -> None:
    assert {table for table, _ in bound(sql).protected} == {PERSONS}


def test_a_view_is_written_out() -> None:
    found = bound("SELECT side FROM sides AS s WHERE side > 'a'")
    text = found.query.sql("duckdb")
    assert text == """SELECT side FROM (SELECT * FROM "x"."main"."hidden" AS "hidden") AS s WHERE side > 'a'"""
    # What an open view reads is not open by itself.
    assert found.tables == {TableName("x", "main", "hidden")}
    with pytest.raises(UnsupportedQuery, match="cannot see"):
        bound("FROM hidden")


def test_a_view_over_a_protected_table_opens_nothing() -> None:
    adults = {ADULTS: CATALOG.behind[ADULTS]}
    opened = replace(CATALOG, views=adults)  # type: ignore[arg-type]
    query = admit("FROM adults").query
    assert query is not None
    with pytest.raises(UnsupportedQuery, match="a view over a protected table: ask the table itself"):
        bind(query, opened, frozenset())
    with pytest.raises(UnsupportedQuery, match="cannot see"):
        bound("FROM adults")


def test_a_cte_does_not_stand_in_for_a_table() -> None:
    found = bound("WITH persons AS (SELECT 1 AS a) SELECT a FROM persons")
    assert found.protected == []
    assert "_dk_with_1" in found.query.sql("duckdb")
    # Inside itself the name still means the table.
    assert [name for name, _ in bound("WITH persons AS (FROM persons) FROM persons").protected] == [PERSONS]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM nothing", "FROM 'file.csv'", "FROM y.main.persons", "FROM read_csv('x')",
        "FROM query('SELECT 1')", "FROM query_table('persons')", "FROM pg_catalog.pg_tables", "FROM duckanon.ledger",
        "FROM x.dp_group_sizes('persons', 'hid', epsilon := 1)",
        "FROM glob('*')", "FROM sqlite_master",
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedQuery):
        bound(sql)


def test_the_columns_of_one_table_are_listed() -> None:
    shown = bound("FROM pragma_table_info('shops')").query.sql("duckdb")
    assert all(name in shown for name in ("shop", "INTEGER", "state", "VARCHAR"))
    assert "pragma_table_info(" not in shown
    for text in ("hidden", "shops; FROM shops", "shops, shops", "SELECT 1", "("):
        with pytest.raises(UnsupportedQuery):
            bound(f"FROM pragma_table_info('{text}')")


def test_parameters_and_calls_are_told() -> None:
    assert bound("SELECT $a").has_parameters
    assert bound("SELECT ?").has_parameters
    assert not bound("SELECT 1").has_parameters
    assert [name for name, *_ in bound("FROM dp_group_sizes('persons', 'hid', epsilon := 1)").calls] == [
        "dp_group_sizes"
    ]


def test_views_and_macros_may_be_nested_twenty_deep() -> None:
    """Of a tower of 25 views the one of 20 levels is still looked through; so it is with macros."""
    views = {TableName("x", "main", "v0"): View(("x", "main", "v0"), "CREATE VIEW v0 AS SELECT 1 AS a")}
    macros = {"m0": Macro("m0", ("x", "main"), ("n",), "n")}
    for at in range(1, 25):
        sql = f"CREATE VIEW v{at} AS SELECT a FROM v{at - 1}"
        views[TableName("x", "main", f"v{at}")] = View(("x", "main", f"v{at}"), sql)
        macros[f"m{at}"] = Macro(f"m{at}", ("x", "main"), ("n",), f"m{at - 1}(n)")
    tower = replace(CATALOG, views=views, definitions=macros)
    for sql, why in (("FROM v{}", "views of views"), ("SELECT m{}(1)", "macros of macros")):
        deepest, deeper = admit(sql.format(19)).query, admit(sql.format(20)).query
        assert deepest is not None
        assert deeper is not None
        bind(deepest, tower, frozenset())
        with pytest.raises(UnsupportedQuery, match=f"{why} that are nested too deeply"):
            bind(deeper, tower, frozenset())


def test_views_that_read_each_other_twice_have_an_end() -> None:
    """Twenty levels of them would be a million views."""
    views = {
        TableName("x", "main", f"v{at}"): View(
            ("x", "main", f"v{at}"), f"CREATE VIEW v{at} AS FROM v{at + 1} a, v{at + 1} b"
        )
        for at in range(19)
    }
    query = admit("FROM v0").query
    assert query is not None
    with pytest.raises(UnsupportedQuery, match="nested too deeply"):
        bind(query, replace(CATALOG, views={**views, TableName("x", "main", "v19"): VIEW_OF_ONE}), frozenset())


def test_a_name_for_the_first_column_of_a_view_leaves_the_others_theirs() -> None:
    both = View(("x", "main", "both"), "CREATE VIEW both (a, b) AS SELECT shop, state FROM shops")
    query = admit("SELECT c, b FROM both AS v(c)").query
    assert query is not None
    text = bind(query, replace(CATALOG, views={TableName("x", "main", "both"): both}), frozenset()).query.sql("duckdb")
    assert text.endswith('AS v(c, "b")')
