"""What a steward is told of a linked table: what is told of the same table with a column of the owners."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import duckanon
from tests.shared_connection import Begun

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


def make(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(SHOP).fetchall()
    con.execute("SELECT protect('orders', privacy_unit := 'customer', population := 'p', epsilon := 9)").fetchall()
    con.execute(f"SELECT {LINKED}").fetchall()
    con.execute(f"SELECT protect('twin', privacy_unit := 'customer', {POLICY})").fetchall()


@pytest.fixture(scope="module")
def read() -> duckdb.DuckDBPyConnection:
    """For tests that only read."""
    con = duckanon.register(duckdb.connect())
    make(con)
    return con


@pytest.fixture
def shop(begun: Begun) -> duckdb.DuckDBPyConnection:
    return begun(make)


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
    "k_subsets('{table}', ['age', 'zip', 'paid'])",
    "k_subsets('{table}', ['zip', 'paid'], unit := '')",
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


def test_suppression_counts_owners(shop: duckdb.DuckDBPyConnection) -> None:
    call = "FROM suppress('{}', ['zip'], ['paid'], n := 4, audit := true{}) ORDER BY ALL"
    assert refused(shop, call.format("lines", "")).startswith("Some records have no owner: say whose each record is")
    for table in ("lines", "twin"):
        shop.execute(f"DELETE FROM {table} WHERE ordered NOT IN (FROM (SELECT number FROM orders WHERE customer > ''))")
        shop.fetchall()
    linked = rows(shop, call.format("lines", ""))
    assert linked == rows(shop, call.format("twin", "")) == rows(shop, call.format("twin", ", unit := 'customer'"))
    assert linked != rows(shop, call.format("lines", ", unit := ''"))
    said = refused(shop, "FROM suppress('twin', ['customer'], [])")
    assert said == (
        'Column "customer" names the privacy unit in the policy of twin: leave it out of rows, or count records with '
        "unit := ''."
    )


def test_the_risk_of_a_record_counts_owners(shop: duckdb.DuckDBPyConnection) -> None:
    call = "SELECT * EXCLUDE ({}) FROM record_risk('{}', ['zip', 'paid']{}) ORDER BY ALL"
    assert refused(shop, call.format("ordered", "lines", "")).startswith("Some records have no owner: say whose each")
    for table in ("lines", "twin"):
        shop.execute(f"DELETE FROM {table} WHERE ordered NOT IN (FROM (SELECT number FROM orders WHERE customer > ''))")
        shop.fetchall()
    linked = rows(shop, call.format("ordered", "lines", ""))
    assert linked == rows(shop, call.format("ordered, customer", "twin", ""))
    assert linked != rows(shop, call.format("ordered", "lines", ", unit := ''"))
    described = [name for name, *_ in rows(shop, "DESCRIBE FROM record_risk('lines', ['zip'])")]
    assert described[:6] == ["ordered", "age", "zip", "paid", "illness", "class_size"]


def test_domains_are_proposed_of_values_that_several_owners_have(shop: duckdb.DuckDBPyConnection) -> None:
    """Each owner has a value of their own here, in many records."""
    shop.execute("ALTER TABLE lines ADD COLUMN street VARCHAR; ALTER TABLE twin ADD COLUMN street VARCHAR").fetchall()
    shop.execute("UPDATE lines SET street = (SELECT customer FROM orders WHERE number = ordered)").fetchall()
    shop.execute("UPDATE twin SET street = customer").fetchall()
    call = "SELECT column_name, domain, hint FROM propose_domains('{}'{}) WHERE column_name <> 'customer'"
    linked = rows(shop, call.format("lines", ""))
    assert linked == rows(shop, call.format("twin", "")) == rows(shop, call.format("twin", ", unit := 'customer'"))
    assert linked[-1] == ("street", None, "hardly a value is of two units: it may tell one from all others")
    by_record = rows(shop, call.format("lines", ", unit := ''"))
    assert by_record[-1][1:] == (
        "['A', 'a', 'b', 'c', NULL]",
        "NULL is a key too: leave it out, and its records are not counted",
    )


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
        "FROM k_subsets('lines', ['age'])",
        "FROM truncation('lines')",
        "FROM propose_domains('lines')",
        "FROM record_risk('lines', ['age'])",
        "SELECT publish('counted', of := 'lines', variables := ['zip'], value := 'n')",
        "FROM next_tables('lines')",
    )
    for call in calls:
        assert refused(shop, call).startswith("The owners of the records of main.lines cannot be looked up"), call
    shop.execute("ALTER TABLE orders ADD PRIMARY KEY (number)").fetchall()
    for call in calls[:6]:
        assert rows(shop, call)
