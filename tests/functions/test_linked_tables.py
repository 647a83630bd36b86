"""What a steward is told of a linked table: what is told of the same table with a column of the owners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import duckanon

# Some orders have no customer, and some lines no order. Customers' names differ in case only.
SHOP = """
CREATE TABLE orders AS SELECT i AS number, CASE WHEN i % 7 > 0 THEN ['a', 'A', 'b', 'c'][1 + i % 4] END AS customer
  FROM range(30) r(i);
CREATE TABLE lines AS SELECT i * 5 % 33 AS ordered, i AS age, 'z' || i * i % 7 AS zip, i % 2 AS paid,
  ['flu', 'asthma', 'ulcer'][1 + i * i % 11 % 3] AS illness FROM range(200) r(i);
CREATE TABLE twin AS SELECT l.*, customer FROM lines AS l LEFT JOIN orders ON ordered = number;
ALTER TABLE orders ADD PRIMARY KEY (number);
"""
POLICY = (
    "rows_per_unit := 3, per_query := 1, epsilon := 9, k := 2, small := 3, public := ['paid', 'zip'], "
    "quasi_identifiers := ['age'], domains := {'paid': [0, 1]}"
)
LINKED = f"protect('lines', link := {{'ordered': 'orders.number'}}, population := 'p', {POLICY})"


def made() -> duckdb.DuckDBPyConnection:
    con = duckanon.register(duckdb.connect())
    con.execute(SHOP).fetchall()
    con.execute("SELECT protect('orders', privacy_unit := 'customer', population := 'p', epsilon := 9)").fetchall()
    con.execute(f"SELECT {LINKED}").fetchall()
    con.execute(f"SELECT protect('twin', privacy_unit := 'customer', {POLICY})").fetchall()
    return con


@pytest.fixture(scope="module")
def read() -> duckdb.DuckDBPyConnection:
    """For tests that only read."""
    return made()


@pytest.fixture
def shop() -> Iterator[duckdb.DuckDBPyConnection]:
    with made() as con:
        yield con


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return con.execute(query).fetchall()


def refused(con: duckdb.DuckDBPyConnection, query: str) -> str:
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(con, query)
    return str(raised.value).removeprefix("Invalid Input Error: ")


LEFT_OUT = "drop := ['ordered', 'zip', 'paid'{customer}]"
CALLS = (
    "k_report('{table}', ['zip'])",
    "k_report('{table}', ['zip'], sensitive := ['illness'])",
    "k_report('{table}', ['zip'], unit := '')",
    f"k_anonymize('{{table}}', ['age'], k := 2, {LEFT_OUT})",
    f"k_anonymize('{{table}}', ['age'], k := 3, sensitive := ['illness'], l := 2, {LEFT_OUT})",
    "truncation('{table}')",
    "truncation('{table}', rows_per_unit := 1)",
)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("collation", ["", "nocase"])
def test_owners_count_as_a_column_of_them_does(read: duckdb.DuckDBPyConnection, call: str, collation: str) -> None:
    read.execute(f"SET GLOBAL default_collation = '{collation}'").fetchall()
    linked = rows(read, f"FROM {call.format(table='lines', customer='')} ORDER BY ALL")
    assert linked == rows(read, f"FROM {call.format(table='twin', customer=', ' + repr('customer'))} ORDER BY ALL")
    read.execute("SET GLOBAL default_collation = ''").fetchall()


def test_records_are_not_counted_in_place_of_owners(read: duckdb.DuckDBPyConnection) -> None:
    by_owner, by_record = (
        rows(read, f"SELECT k FROM k_report('lines', ['zip']{unit})") for unit in ("", ", unit := ''")
    )
    assert by_owner != by_record
    assert rows(read, "SELECT sum(records_left_out) FROM truncation('lines')") != [(0,)]


def test_no_owner_is_released(read: duckdb.DuckDBPyConnection) -> None:
    described = rows(read, "DESCRIBE FROM k_anonymize('lines', ['age'], k := 2)")
    assert [name for name, *_ in described] == ["class_id", "age_lo", "age_hi", "ordered", "zip", "paid", "illness"]
    compared = rows(read, "SELECT classes, min_class FROM k_compare('lines', ['age'], k := 2)")
    assert compared == rows(read, "SELECT classes, min_class FROM k_compare('twin', ['age'], k := 2)")


def test_a_table_in_another_schema_and_a_name_in_quotes_are_looked_up(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute('CREATE SCHEMA "Own s"; CREATE TABLE "Own s"."L s" AS FROM lines').fetchall()
    shop.execute("""SELECT protect('"Own s"."L s"', link := {'ORDERED': 'main.orders.number'}, population := 'p')""")
    shop.fetchall()
    expected = rows(shop, "FROM k_report('lines', ['zip'])")
    assert rows(shop, """FROM k_report('"Own s"."L s"', ['zip'])""") == expected
    shop.execute("""USE "Own s" """).fetchall()
    assert rows(shop, """FROM k_report('"L s"', ['zip'])""") == expected


def test_a_charge_of_the_stewards_own_protects_no_owner(shop: duckdb.DuckDBPyConnection) -> None:
    assert refused(shop, "FROM dp_group_sizes('lines', 'zip', epsilon := 1, max_size := 9)") == (
        "A charge on main.lines protects all records of one main.orders.customer by ordered (a sample of 3 counts), "
        "and this call only one row: ask as an analyst, for whom records are bounded."
    )
    assert rows(shop, "SELECT sum(charges) FROM privacy_budget()") == [(0,)]


@pytest.mark.parametrize(
    ("release", "more", "is_published"),
    [
        ("SELECT zip, count(*) AS n FROM {} GROUP BY zip", "variables := ['zip'], value := 'n'", True),
        ("SELECT zip, paid, count(*) AS n FROM {} GROUP BY ALL", "variables := ['zip', 'paid'], value := 'n'", True),
        ("FROM k_anonymize('{}', ['age'], k := 4, drop := ['ordered', 'zip', 'paid', 'illness'{}])", "", True),
        (
            "FROM k_anonymize('{}', ['age'], k := 2, unit := '', drop := ['ordered', 'zip', 'paid', 'illness'{}])",
            "",
            False,
        ),
    ],
)
def test_publish_counts_owners(shop: duckdb.DuckDBPyConnection, release: str, more: str, is_published: bool) -> None:
    answers = []
    for table, dropped in (("lines", ""), ("twin", ", 'customer'")):
        shop.execute(f"CREATE TABLE of_{table} AS {release.format(table, dropped)}").fetchall()
        call = f"SELECT publish('of_{table}', of := '{table}'{', ' + more if more else ''})"
        try:
            ((answer,),) = rows(shop, call)
        except duckdb.InvalidInputException as problem:
            answer = str(problem)
        answers.append(answer.replace(table, "T").replace("main.orders.customer by ordered", "customer"))
    assert answers[0] == answers[1]
    assert ("is published" in answers[0]) == is_published


def test_small_numbers_of_owners_are_small(shop: duckdb.DuckDBPyConnection) -> None:
    """Many lines of one customer are one unit."""
    shop.execute("UPDATE lines SET zip = 'only' WHERE ordered IN (1, 5, 9)").fetchall()
    shop.execute("CREATE TABLE counted AS SELECT zip, count(*) AS n FROM lines GROUP BY zip").fetchall()
    call = "SELECT publish('counted', of := 'lines', variables := ['zip'], value := 'n')"
    assert "1 to 2 values of main.orders.customer by ordered" in refused(shop, call)
    shop.execute("UPDATE lines SET zip = 'z0'").fetchall()
    shop.execute("CREATE OR REPLACE TABLE counted AS SELECT zip, count(*) AS n FROM lines GROUP BY zip").fetchall()
    assert "is published" in str(rows(shop, call))


def test_where_owners_cannot_be_looked_up_nothing_is_counted(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("CREATE TABLE counted AS SELECT zip, count(*) AS n FROM lines GROUP BY zip").fetchall()
    shop.execute("CREATE OR REPLACE TABLE orders AS FROM orders").fetchall()
    calls = (
        "FROM k_report('lines', ['zip'])",
        "FROM k_anonymize('lines', ['age'], k := 2)",
        "FROM k_compare('lines', ['age'], k := 2)",
        "FROM truncation('lines')",
        "SELECT publish('counted', of := 'lines', variables := ['zip'], value := 'n')",
        "FROM next_tables('lines')",
    )
    for call in calls:
        assert refused(shop, call).startswith("The owners of the records of main.lines cannot be looked up"), call
    shop.execute("ALTER TABLE orders ADD PRIMARY KEY (number)").fetchall()
    for call in calls[:4]:
        assert rows(shop, call)
