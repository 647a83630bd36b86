"""What an analyst may see of a database: everything that stands in it, and what stewards decided, give a catalog."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest

from duckanon.catalog.names import TableName
from duckanon.catalog.policy import Domain, Policy
from duckanon.catalog.reader import Governed, read, stored_tables, temporary, visible
from duckanon.catalog.snapshot import Catalog, Protected

HELD = Protected(Policy(Fraction(1), population="t"), version=1, domains={"k": Domain("domain_1_0", ("k",))})


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute(
        """
        CREATE SCHEMA duckanon;
        CREATE SCHEMA pub;
        CREATE TABLE duckanon.ledger (a INTEGER);
        CREATE TABLE duckanon.domain_1_0 AS SELECT 'a' AS k;
        CREATE TABLE duckanon.released AS SELECT 1 AS n;
        CREATE TABLE t (id INTEGER, k VARCHAR);
        CREATE TABLE "Look" AS SELECT 1 AS "A", 2 AS b;
        CREATE TABLE closed AS SELECT 1 AS a;
        CREATE TABLE pub.p AS SELECT 1 AS a;
        CREATE TABLE pub.ever AS SELECT 1 AS a;
        CREATE VIEW v AS FROM closed;
        CREATE VIEW w AS FROM t;
        CREATE MACRO once(x) AS x;
        CREATE MACRO twice(x) AS x, (x, y) AS x + y;
        CREATE MACRO pub.once(x) AS 2 * x
        """
    ).fetchall()
    return made


def seen(con: duckdb.DuckDBPyConnection, **changed: object) -> Catalog:
    decided = {
        "number": 7,
        "protected": {("main", "t"): HELD},
        "opened": {("main", "look"): ("a", "B"), ("main", "v"): ("a",), ("pub", "*"): ("p",)},
        "published": frozenset({"released"}),
        "ever": frozenset({("pub", "ever")}),
        **changed,
    }
    return visible(read(con), {"memory": Governed(**decided)}, temporary(con))  # type: ignore[arg-type]


def names(found: object) -> set[str]:
    return {f"{one.schema}.{one.object}" for one in found}  # type: ignore[attr-defined]


def test_what_is_seen(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TEMP TABLE own AS SELECT 1 AS x; CREATE TEMP TABLE t AS SELECT 2 AS x").fetchall()
    found = seen(con)
    assert names(found.tables) == {"main.look", "pub.p", "duckanon.released", "main.own", "main.t"}
    assert names(found.views) == {"main.v"}
    assert names(found.protected) == {"main.t"}
    assert {one.catalog for one in found.tables if found.tables[one].temporary} == {"temp"}
    # What an open view may read besides; the ledger and the domains never.
    assert names(found.behind) == {"main.look", "main.closed", "main.v", "main.w", "pub.p", "pub.ever"}
    assert found.macros == {"once", "twice"}
    assert found.definitions == {}
    assert found.tables[TableName("memory", "main", "look")].types == {"a": "INTEGER", "b": "INTEGER"}


def test_nothing_is_seen_where_nothing_was_decided(con: duckdb.DuckDBPyConnection) -> None:
    found = visible(read(con), {}, {})
    assert (dict(found.tables), dict(found.views), dict(found.protected)) == ({}, {}, {})


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ("CREATE OR REPLACE TABLE \"Look\" AS SELECT 7 AS a, 8 AS B", True),
        ("CREATE OR REPLACE TABLE \"Look\" AS SELECT 'x' AS a, NULL AS b", True),
        ("CREATE OR REPLACE TABLE \"Look\" AS SELECT 1 AS a", False),
        ("CREATE OR REPLACE TABLE \"Look\" AS SELECT 1 AS b, 2 AS a", False),
        ("ALTER TABLE \"Look\" ADD COLUMN c INTEGER", False),
        ("DROP TABLE \"Look\"", False),
    ],
)  # fmt: skip
def test_an_open_table_stays_open_with_its_columns(con: duckdb.DuckDBPyConnection, change: str, stays: bool) -> None:
    con.execute(change).fetchall()
    assert ("main.look" in names(seen(con).tables)) == stays


@pytest.mark.parametrize(
    ("change", "stands", "keys"),
    [
        ("SELECT 1", True, True),
        ("CREATE OR REPLACE TABLE t (id INTEGER, k VARCHAR, more INTEGER)", True, True),
        ("CREATE OR REPLACE TABLE t (id INTEGER, k ENUM ('a', 'b'))", True, True),
        # Compared with keys of another type, a record could fail.
        ("CREATE OR REPLACE TABLE t (id INTEGER, k INTEGER)", True, False),
        ("CREATE OR REPLACE TABLE t (id INTEGER)", True, False),
        ("CREATE OR REPLACE TABLE t (id INTEGER, k VARCHAR GENERATED ALWAYS AS (id::VARCHAR) VIRTUAL)", False, False),
        ("DROP TABLE t", False, False),
        ("DROP TABLE duckanon.domain_1_0", True, False),
    ],
)
def test_a_protected_table_that_was_built_again(
    con: duckdb.DuckDBPyConnection, change: str, stands: bool, keys: bool
) -> None:
    con.execute("DROP VIEW w").fetchall()
    con.execute(change).fetchall()
    (held,) = seen(con).protected.values()
    assert (held.stored is not None, bool(held.domains)) == (stands, keys)


def test_a_view_in_the_place_of_a_protected_table_opens_nothing(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DROP VIEW w; DROP TABLE t; CREATE VIEW t AS FROM closed").fetchall()
    found = seen(con, opened={("main", "t"): ("a",)})
    assert names(found.protected) == {"main.t"}
    assert found.find(TableName.of("t")) == TableName("memory", "main", "t")
    assert names(found.views) == set()
    assert found.stored(TableName("memory", "main", "t")) is None


def test_a_macro_with_one_meaning_is_known(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DROP MACRO pub.once").fetchall()
    found = seen(con)
    assert set(found.definitions) == {"once"}
    assert found.definitions["once"].parameters == ("x",)


def test_what_duckdb_keeps_unique_is_read(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        """
        CREATE TABLE keyed (a INTEGER PRIMARY KEY, "B c" VARCHAR UNIQUE, d INTEGER, "e,f" INTEGER, "(g)" INTEGER,
          h INTEGER, UNIQUE (d, a));
        CREATE INDEX by_h ON keyed (h);
        CREATE UNIQUE INDEX by_names ON keyed ("e,f", "(g)");
        CREATE UNIQUE INDEX by_sum ON keyed ((d + 1));
        """
    ).fetchall()
    keys = read(con).tables[TableName("memory", "main", "keyed")].unique
    assert set(keys) == {frozenset(one) for one in (["a"], ["b c"], ["d", "a"], ["e,f", "(g)"])}
    assert stored_tables(con)[TableName("memory", "main", "keyed")].unique == keys
