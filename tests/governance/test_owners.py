"""A link as a steward declares it: what is refused, in one sentence with the way out, and what the ledger keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.catalog.names import TableName
from duckanon.governance.instance import Governance
from tests.governance.without_sql import governance, seen

SHOP = """
CREATE TABLE customers (number INTEGER PRIMARY KEY, person VARCHAR);
CREATE TABLE orders (number BIGINT, place VARCHAR, customer INTEGER, rate DOUBLE UNIQUE);
CREATE TABLE lines (ordered INTEGER, place VARCHAR, rate DOUBLE, customer INTEGER);
CREATE TABLE other (number INTEGER PRIMARY KEY, person VARCHAR);
CREATE VIEW seen_orders AS FROM orders;
"""
CUSTOMERS = "protect('customers', epsilon := 4, population := 'p', privacy_unit := 'person', rows_per_unit := 1)"
ORDERS = "protect('orders', population := 'p', link := {'customer': 'customers.number'}, rows_per_unit := 2)"
LINES = "protect('lines', population := 'p', link := {'ordered': 'orders.number'}, rows_per_unit := 3)"


@pytest.fixture
def shop(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(SHOP).fetchall()
    return con


def said(con: Any, call: str) -> str:
    ((sentence,),) = con.execute(f"SELECT {call}").fetchall()
    return str(sentence)


def refused(con: Any, call: str) -> str:
    with pytest.raises(duckdb.InvalidInputException) as raised:
        con.execute(f"SELECT {call}").fetchall()
    sentence = str(raised.value).removeprefix("Invalid Input Error: ")
    assert "\n" not in sentence
    return sentence


def linked(pairs: str, more: str = "population := 'p'", table: str = "lines") -> str:
    return f"protect('{table}', link := {pairs}, {more})"


def test_the_parents_column_must_be_a_key_and_the_sentence_says_how_to_make_it_one(
    shop: duckdb.DuckDBPyConnection,
) -> None:
    said(shop, CUSTOMERS)
    said(shop, ORDERS)
    assert refused(shop, LINES) == (
        "main.orders.number is no key, so a record could have several owners: ALTER TABLE main.orders ADD PRIMARY KEY "
        "(number), or, if it has another one, CREATE UNIQUE INDEX orders_by_number ON main.orders (number)."
    )
    shop.execute("CREATE UNIQUE INDEX orders_by_number ON main.orders (number)").fetchall()
    assert said(shop, LINES).endswith(
        "A charge protects all records of one main.customers.person by ordered, customer (a sample of 3 counts)."
    )


@pytest.mark.parametrize(
    "key", ["ALTER TABLE orders ADD PRIMARY KEY (number, place)", "CREATE UNIQUE INDEX i ON orders (place, number)"]
)
def test_a_key_may_have_several_columns(shop: duckdb.DuckDBPyConnection, key: str) -> None:
    said(shop, CUSTOMERS)
    said(shop, ORDERS)
    shop.execute(key).fetchall()
    assert "orders.number is no key" in refused(shop, LINES)
    both = linked("{'ordered': 'orders.number', 'place': 'main.orders.place'}")
    assert "is protected" in said(shop, both)
    # The same again changes nothing.
    lines = shop.execute("SELECT count(*) FROM privacy_ledger()").fetchall()
    assert "is protected" in said(shop, both)
    assert shop.execute("SELECT count(*) FROM privacy_ledger()").fetchall() == lines


REFUSED = {
    linked("{'ordered': 'orders.number'}, privacy_unit := 'customer'"): "privacy_unit and link both say",
    linked("{'ordered': 'number'}"): "must be a table and its column, in quotes",
    linked("{'ordered': 3}"): "must be a table and its column, in quotes",
    linked("'orders'"): "link must say something for each column",
    linked("{'nobody': 'orders.number'}"): "nobody",
    linked("{'customer': 'customers.nobody'}"): "main.customers.nobody, and there is no such column",
    linked("{'customer': 'nobody.number'}"): "nobody, which is no table of the database",
    linked("{'customer': 'seen_orders.number'}"): "seen_orders, which is no table of the database",
    linked("{'customer': 'other.number'}"): "main.other, which is not protected in the population p",
    linked("{'customer': 'lines.customer'}"): "link leads from main.lines to itself",
    linked("{'customer': 'customers.number', 'place': 'orders.place'}"): "link names several tables",
    linked("{'place': 'customers.number'}"): "place is of type VARCHAR and main.customers.number of type INTEGER",
    linked("{'rate': 'orders.rate'}"): "a link is by columns of the same type that is no float",
    linked("{'customer': 'customers.number'}", "population := 'q', epsilon := 1"): "not protected in the population q",
    linked("{'customer': 'customers.number'}", "population := 'p', per_query := 1"): "How many records of one",
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_a_link_that_gives_no_owner_is_refused(shop: duckdb.DuckDBPyConnection, call: str) -> None:
    said(shop, CUSTOMERS)
    said(shop, ORDERS)
    assert REFUSED[call] in refused(shop, call)
    assert shop.execute("SELECT count(*) FROM privacy_ledger()").fetchall() == [(2,)]


def test_the_parent_has_units_of_its_own(shop: duckdb.DuckDBPyConnection) -> None:
    said(shop, "protect('other', epsilon := 1, population := 'alone')")
    sentence = refused(shop, linked("{'customer': 'other.number'}", "population := 'alone'"))
    assert "each record is a privacy unit, so no other table's records have one" in sentence


def test_a_table_of_another_database_is_no_parent(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute(
        "ATTACH ':memory:' AS elsewhere; CREATE TABLE elsewhere.orders (number INTEGER PRIMARY KEY)"
    ).fetchall()
    said(shop, CUSTOMERS)
    assert "another database" in refused(shop, linked("{'ordered': 'elsewhere.main.orders.number'}"))
    shop.execute("DETACH elsewhere").fetchall()


def test_the_link_of_a_table_never_changes(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("CREATE UNIQUE INDEX i ON orders (number); CREATE UNIQUE INDEX j ON orders (customer)").fetchall()
    for call in (CUSTOMERS, ORDERS, LINES, "unprotect('lines')"):
        said(shop, call)
    kept = "The privacy unit of main.lines never changes: it is the owner by the link ordered = orders.number."
    assert refused(shop, linked("{'ordered': 'orders.customer'}")) == kept
    assert refused(shop, linked("{'customer': 'customers.number'}")) == kept
    assert refused(shop, "protect('lines', population := 'p', privacy_unit := 'customer')") == kept
    assert "is protected" in said(shop, linked("{'ORDERED': 'Orders.NUMBER'}"))
    said(shop, "unprotect('customers')")
    shop.execute("CREATE UNIQUE INDEX k ON lines (ordered)").fetchall()
    assert "never changes: it is person" in refused(
        shop, "protect('customers', population := 'p', link := {'number': 'lines.ordered'})"
    )


def test_a_link_to_a_table_whose_own_parent_is_gone_is_refused(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("CREATE UNIQUE INDEX i ON orders (number)").fetchall()
    for call in (CUSTOMERS, ORDERS):
        said(shop, call)
    assert said(shop, "unprotect('customers')").endswith(
        "No question about main.orders is answered until it is protected again, since owners of records are looked up "
        "in it."
    )
    assert "lead in a circle, or to a table that is not protected any more" in refused(shop, LINES)
    said(shop, CUSTOMERS)
    assert "is protected" in said(shop, LINES)


def test_units_of_a_population_are_of_one_kind(shop: duckdb.DuckDBPyConnection) -> None:
    said(shop, CUSTOMERS)
    sentence = refused(shop, "protect('orders', population := 'p', privacy_unit := 'customer')")
    assert "must identify the unit by the same kind of values, whole numbers, UUIDs or text" in sentence
    assert "is protected" in said(shop, "protect('other', population := 'p', privacy_unit := 'person')")
    shop.execute("CREATE TABLE measured (person DOUBLE UNIQUE)").fetchall()
    said(shop, "protect('measured', population := 'm', privacy_unit := 'person', epsilon := 1)")
    sentence = refused(shop, linked("{'rate': 'measured.person'}", "population := 'm'"))
    assert "is by columns of the same type that is no float" in sentence
    shop.execute("CREATE TABLE dated (number INTEGER PRIMARY KEY, person DATE)").fetchall()
    said(shop, "protect('dated', population := 'd', privacy_unit := 'person', epsilon := 1)")
    sentence = refused(shop, linked("{'customer': 'dated.number'}", "population := 'd'"))
    assert "is neither a whole number nor a UUID nor a text" in sentence


def test_the_ledger_keeps_the_link_and_the_newest_version_of_the_way(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb") as con:
        con.execute(SHOP).fetchall()
        con.execute("CREATE UNIQUE INDEX i ON orders (number)").fetchall()
        for call in (CUSTOMERS, ORDERS, LINES):
            said(con, call)
    with duckdb.connect(str(tmp_path / "x.duckdb")) as plain:
        made = governance(plain)
        assert versions(made) == {"customers": 1, "orders": 2, "lines": 3}
        (link,) = made.ledger.state("x").tables["main", "lines"].policy.links
        assert (link.columns, link.parent, link.parent_columns) == (
            ("ordered",),
            TableName("", "main", "orders"),
            ("number",),
        )
        sees = seen("customers", database="x")
        made.decisions.unprotect("customers", sees)
        assert versions(made) == {"orders": None, "lines": None}
        terms = {"population": "p", "privacy_unit": "person", "rows_per_unit": 2}
        made.decisions.protect("customers", sees, terms, {"number": "INTEGER", "person": "VARCHAR"})
        assert versions(made) == {"customers": 5, "orders": 5, "lines": 5}


def versions(made: Governance) -> dict[str, int | None]:
    state = made.ledger.state("x")
    return {name: state.version((schema, name)) for schema, name in state.tables}


def test_what_is_shown_says_the_unit_in_words(shop: duckdb.DuckDBPyConnection) -> None:
    shop.execute("CREATE UNIQUE INDEX i ON orders (number)").fetchall()
    for call in (CUSTOMERS, ORDERS, LINES):
        said(shop, call)
    assert shop.execute("SELECT tbl, privacy_unit FROM policies() ORDER BY ALL").fetchall() == [
        ("main.customers", "person"),
        ("main.lines", "main.customers.person by ordered, customer"),
        ("main.orders", "main.customers.person by customer"),
    ]
    (shown,) = shop.execute("SELECT neighbours FROM privacy_budget()").fetchall()
    assert shown == ("all records of one person, added or removed",)
    said(shop, "unprotect('customers')")
    (shown,) = shop.execute("SELECT neighbours FROM privacy_budget()").fetchall()
    assert "main.customers.person by" in shown[0]
