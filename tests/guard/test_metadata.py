"""What an analyst may know of the catalog: names and types of what is to be seen, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError, PolicyRefusal, UnsupportedQuery


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("metadata") / "x.duckdb"
    with duckanon.connect(path) as steward:
        steward.execute(
            "CREATE TYPE mood AS ENUM ('secret one', 'two'); CREATE SCHEMA raw; "
            "CREATE TABLE raw.visits(pid INTEGER, m mood, s STRUCT(a mood, b INTEGER[])); "
            "CREATE TABLE payroll AS SELECT 1 AS household; CREATE TABLE lookup AS SELECT 1 AS a; "
            "CREATE TABLE shut AS SELECT 1 AS a; CREATE VIEW seen AS SELECT a + 1 AS b FROM lookup JOIN shut USING (a)"
        ).fetchall()
        for decided in (
            "protect('raw.visits', epsilon := 1)",
            "open_table('lookup')",
            "open_table('seen')",
            "open_table('shut')",
            "close_table('shut')",
        ):
            steward.execute(f"SELECT {decided}").fetchall()
        steward.execute("FROM dp_group_sizes('payroll', 'household', epsilon := 0.1, max_size := 3)").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        yield con


def test_the_ledger_tells_of_tables_that_may_be_seen(con: duckanon.Analyst) -> None:
    for sql in ("FROM privacy_ledger()", "SELECT l.tbl, l.what FROM privacy_ledger() AS l JOIN lookup ON true"):
        told = str(con.execute(sql).fetchall())
        assert "raw.visits" in told
        assert "main.lookup" in told
        assert not any(word in told for word in ("payroll", "household", "shut"))


def test_names_are_told_as_one_writes_them(con: duckanon.Analyst) -> None:
    assert con.execute("SHOW TABLES").fetchall() == [("lookup",), ("raw.visits",), ("seen",)]


def test_types_tell_no_value_of_an_enum(con: duckanon.Analyst) -> None:
    told = con.execute("SELECT column_name, ordinal_position, data_type FROM information_schema.columns "
                       "WHERE table_name = 'visits'").fetchall()  # fmt: skip
    assert told == [("m", 2, "VARCHAR"), ("pid", 1, "INTEGER"), ("s", 3, "STRUCT(a VARCHAR, b INTEGER[])")]


VISITS = [("pid", "INTEGER"), ("m", "VARCHAR"), ("s", "STRUCT(a VARCHAR, b INTEGER[])")]


@pytest.mark.parametrize("sql", ["DESCRIBE raw.visits", "desc raw.visits", "SHOW raw.visits;",
                                 "DESCRIBE SELECT * FROM raw.visits", "DESCRIBE FROM raw.visits LIMIT 3"])  # fmt: skip
def test_describe_tells_names_and_types(con: duckanon.Analyst, sql: str) -> None:
    assert con.execute(sql).fetchall() == [(*one, "YES", None, None, None) for one in VISITS]
    assert [one[0] for one in con.description] == ["column_name", "column_type", "null", "key", "default", "extra"]


def test_describe_of_a_query_charges_nothing(con: duckanon.Analyst) -> None:
    sql = "SELECT count(*) AS n, 'x' AS t FROM raw.visits"
    found = con.execute(f"DESCRIBE {sql}").fetchall()
    assert [one[:2] for one in found] == [("n", "BIGINT"), ("t", "VARCHAR")]
    assert con.execute("SELECT spent FROM privacy_budget()").fetchall() == [(0.0,)]


def test_tools_find_what_they_look_for(con: duckanon.Analyst) -> None:
    """The relations of DuckDB's catalog, with its columns; what is not told is NULL."""
    assert con.execute("SELECT table_name, table_type FROM information_schema.tables").fetchall() == [
        ("lookup", "BASE TABLE"), ("seen", "VIEW"), ("visits", "PROTECTED")]  # fmt: skip
    assert con.execute("SHOW ALL TABLES").fetchall() == [
        ("x", "main", "lookup", ["a"], ["INTEGER"], False),
        ("x", "main", "seen", ["b"], ["INTEGER"], False),
        ("x", "raw", "visits", [one for one, _ in VISITS], [kind for _, kind in VISITS], False),
    ]
    assert con.execute("SELECT table_name, estimated_size, sql, comment FROM duckdb_tables()").fetchall() == [
        ("lookup", None, None, None), ("visits", None, None, None)]  # fmt: skip
    assert con.execute("SELECT view_name, sql FROM duckdb_views()").fetchall() == [("seen", None)]
    assert con.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'visits' "
                       "ORDER BY column_index").fetchall() == VISITS  # fmt: skip
    assert con.execute("SELECT schema_name FROM information_schema.schemata").fetchall() == [("main",), ("raw",)]
    assert con.execute("SELECT schema_name FROM duckdb_schemas()").fetchall() == [("main",), ("raw",)]
    assert con.execute("SELECT database_name, path FROM duckdb_databases()").fetchall() == [("x", None)]
    assert con.execute("SHOW DATABASES").fetchall() == [("x",)]
    assert con.execute("SELECT table_name FROM duckdb_tables").fetchall() == [("lookup",), ("visits",)]


@pytest.mark.parametrize("sql", ["FROM pragma_table_info('raw.visits')", "PRAGMA table_info('raw.visits')"])
def test_pragma_table_info(con: duckanon.Analyst, sql: str) -> None:
    wanted = [(at, name, kind, False, None, False) for at, (name, kind) in enumerate(VISITS)]
    assert con.execute(sql).fetchall() == wanted


def test_the_columns_are_duckdbs(con: duckanon.Analyst) -> None:
    """Those that DuckDB has in this version; further ones are of a later one."""
    with duckdb.connect() as plain:
        for name in ("information_schema.tables", "information_schema.columns", "information_schema.schemata",
                     "duckdb_tables()", "duckdb_columns()", "duckdb_views()", "duckdb_schemas()",
                     "duckdb_databases()"):  # fmt: skip
            wanted = plain.execute(f"DESCRIBE FROM {name}").fetchall()
            found = con.execute(f"DESCRIBE FROM {name}").fetchall()
            assert [one[:2] for one in found][: len(wanted)] == [one[:2] for one in wanted], name


@pytest.mark.parametrize("name", ["raw.visits v", "raw.visits WHERE pid = 3", "(FROM raw.visits)", "lookup, lookup",
                                  "raw.visits; FROM lookup", "range(3)", ""])  # fmt: skip
def test_pragma_table_info_takes_a_name_alone(con: duckanon.Analyst, name: str) -> None:
    with pytest.raises(UnsupportedQuery):
        con.execute(f"FROM pragma_table_info('{name}')")


@pytest.mark.parametrize("sql", ["DESCRIBE {}", "SHOW {}", "SUMMARIZE {}", "PRAGMA table_info('{}')", "EXPLAIN FROM {}",
                                 "FROM pragma_table_info('{}')", "DESCRIBE FROM {}", "FROM {} LIMIT 0"])  # fmt: skip
def test_what_is_closed_is_as_what_is_not_there(con: duckanon.Analyst, sql: str) -> None:
    said = []
    for name in ("shut", "nowhere", "payroll", "duckanon.ledger"):
        with pytest.raises(UnsupportedQuery) as raised:
            con.execute(sql.format(name)).fetchall()
        said.append(str(raised.value).replace(f"`{name}`", "`NAME`"))
    assert len(set(said)) == 1


def test_summarize_is_for_what_may_be_read(con: duckanon.Analyst) -> None:
    assert con.execute("SUMMARIZE lookup").fetchall()[0][:4] == ("a", "INTEGER", "1", "1")
    with pytest.raises(PolicyRefusal, match=r"Records of raw\.visits are protected"):
        con.execute("SUMMARIZE raw.visits")


def test_explain_is_for_open_tables_and_else_the_decision(con: duckanon.Analyst) -> None:
    assert con.execute("EXPLAIN SELECT a FROM lookup").fetchall()[0][0] == "physical_plan"
    told = con.execute("EXPLAIN SELECT count(*) FROM raw.visits").fetchall()
    assert [one[1:3] for one in told] == [("raw.visits", "refused")]
    assert [one[2] for one in con.execute("EXPLAIN FROM raw.visits").fetchall()] == ["refused"]
    # What is refused before it is known which table it is about has no table.
    (step,) = con.explain("COPY raw.visits TO 'out.csv'").steps
    assert (step.kind, step.object, str(step.verdict)) == ("statement", None, "refused")
    con.execute("CREATE TEMP VIEW mine AS FROM raw.visits")
    assert [one[:3] for one in con.execute("EXPLAIN SELECT count(*) FROM mine").fetchall()] == [one[:3] for one in told]
    con.execute("DROP VIEW mine")
    # The plan of a view would have numbers of a closed table behind it.
    for sql in ("EXPLAIN FROM seen", "EXPLAIN ANALYZE FROM lookup", "EXPLAIN DROP TABLE lookup",
                "EXPLAIN FROM privacy_budget()"):  # fmt: skip
        with pytest.raises(UnsupportedQuery):
            con.execute(sql)
    assert con.execute("SELECT spent FROM privacy_budget()").fetchall() == [(0.0,)]


EMPTY = [
    ("SELECT * FROM raw.visits LIMIT 0", ["pid", "m", "s"]),
    ("SELECT * FROM (SELECT count(*) AS n FROM raw.visits) AS q LIMIT 0", ["n"]),
    ("SELECT q.* FROM (SELECT count(*) AS n FROM raw.visits) AS q WHERE 1 = 0", ["n"]),
    ("SELECT pid FROM raw.visits WHERE false AND pid > 3", ["pid"]),
    ("(SELECT pid FROM raw.visits) LIMIT 0", ["pid"]),
    ("SELECT one.pid, other.m AS n FROM raw.visits AS one JOIN raw.visits AS other USING (pid) LIMIT 0", ["pid", "n"]),
]


@pytest.mark.parametrize(("sql", "columns"), EMPTY)
def test_columns_of_a_query_without_rows(con: duckanon.Analyst, sql: str, columns: list[str]) -> None:
    """Its text says that no row comes out, so nothing is charged."""
    assert con.execute(sql).fetchall() == []
    assert [one[0] for one in con.description] == columns
    assert con.execute("SELECT spent FROM privacy_budget()").fetchall() == [(0.0,)]


@pytest.mark.parametrize("sql", ["SELECT pid FROM raw.visits LIMIT 0 + 1", "SELECT pid FROM raw.visits WHERE 1 = 1",
                                 "SELECT max(pid) FROM raw.visits WHERE false", "SELECT pid FROM raw.visits LIMIT 1",
                                 "SELECT list(pid) FROM raw.visits WHERE 1 = 0", "SELECT pid FROM raw.visits OFFSET 0",
                                 "SELECT pid FROM raw.visits WHERE false OR true"])  # fmt: skip
def test_what_could_have_rows_is_decided_about(con: duckanon.Analyst, sql: str) -> None:
    with pytest.raises(DuckanonError):
        con.execute(sql).fetchall()


def test_samples_of_what_is_open(con: duckanon.Analyst) -> None:
    assert con.execute("SELECT count(*) FROM (SELECT * FROM lookup USING SAMPLE 1 ROWS)").fetchall() == [(1,)]
    assert con.execute("SELECT count(*) FROM seen TABLESAMPLE reservoir(0 ROWS)").fetchall() == [(0,)]
    for sql in ("SELECT * FROM raw.visits USING SAMPLE 1 ROWS", "SELECT count(*) FROM raw.visits TABLESAMPLE 10%"):
        with pytest.raises(UnsupportedQuery, match="Samples are of open tables"):
            con.execute(sql)
