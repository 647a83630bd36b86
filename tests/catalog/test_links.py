"""Whose the records of a linked table are: one owner each, and another unit's records have no say in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.catalog.links import canonical, is_key, is_severed, met, owned, owner_column, owner_path, with_owners
from duckanon.catalog.names import TableName
from duckanon.catalog.policy import OWNER, Link, Policy
from duckanon.catalog.snapshot import Catalog, Protected, Stored

LINES, ORDERS, CUSTOMERS = (TableName("memory", "main", one) for one in ("lines", "orders", "customers"))
TO_ORDERS = Link(("ordered", "place"), ORDERS, ("number", "place"))
TO_CUSTOMERS = Link(("customer",), CUSTOMERS, ("name",))
LINKED = Policy(Fraction(1), population="p", link={"ordered": "orders.number", "place": "orders.place"})


def tables(*, unit: str = "VARCHAR", keys: bool = True) -> dict[TableName, Protected]:
    """Lines of orders of customers: by two columns of different widths, then by a text; customers have a person."""
    unique = (frozenset({"number", "place"}),) if keys else ()
    lines = {"ordered": "INTEGER", "place": "VARCHAR", "quantity": "INTEGER"}
    orders = {"number": "BIGINT", "place": "VARCHAR", "customer": "VARCHAR"}
    customers = {"name": "VARCHAR", "person": unit}
    linked = replace(LINKED, links=(TO_ORDERS,))
    between = Policy(Fraction(1), population="p", link={"customer": "customers.name"}, links=(TO_CUSTOMERS,))
    root = Policy(Fraction(1), population="p", privacy_unit="Person")
    return {
        LINES: Protected(linked, Stored(("memory", "main", "lines"), lines)),
        ORDERS: Protected(between, Stored(("memory", "main", "orders"), orders, unique=unique)),
        CUSTOMERS: Protected(root, Stored(("memory", "main", "customers"), customers, unique=(frozenset({"name"}),))),
    }


NUMBERS, PLACES, NAMES = [1, 2, 3, None], ["a", "A", None], ["x", "X", "ä", None]
PERSONS = ["ann", "Ann", "bob", None]
ROWS = st.fixed_dictionaries(
    {
        "customers": st.dictionaries(st.sampled_from(NAMES[:3]), st.sampled_from(PERSONS)).map(
            lambda one: [*one.items()]
        ),
        "orders": st.dictionaries(
            st.tuples(st.sampled_from(NUMBERS[:3]), st.sampled_from(PLACES[:2])), st.sampled_from(NAMES)
        ).map(lambda one: [(*key, name) for key, name in one.items()]),
        "lines": st.lists(st.tuples(st.sampled_from(NUMBERS), st.sampled_from(PLACES), st.integers(0, 2)), max_size=8),
    }
)


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def filled(con: duckdb.DuckDBPyConnection, rows: dict[str, list[Any]], collation: str = "") -> None:
    con.execute(f"SET default_collation = '{collation}'").fetchall()
    for name, stored in ((one.object, each.stored) for one, each in tables().items()):
        assert stored is not None
        columns = ", ".join(f"{column} {kind}" for column, kind in stored.columns.items())
        con.execute(f"CREATE OR REPLACE TABLE {name} ({columns})").fetchall()
        for row in rows[name]:
            con.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row)).fetchall()


def looked_up(con: duckdb.DuckDBPyConnection, *, orphans: bool = False) -> Counter[tuple[Any, ...]]:
    """Each record with its owner, and how often it comes."""
    return Counter(con.execute(owned(tables(), LINES).records(orphans=orphans)).fetchall())


def by_hand(rows: dict[str, list[Any]]) -> Counter[tuple[Any, ...]]:
    person, customer = dict(rows["customers"]), {(number, place): name for number, place, name in rows["orders"]}
    return Counter((*one, person.get(customer.get(one[:2]))) for one in rows["lines"])


@given(ROWS, st.sampled_from(["", "nocase", "noaccent.nocase"]))
def test_each_record_comes_once_with_its_owner(
    con: duckdb.DuckDBPyConnection, rows: dict[str, list[Any]], collation: str
) -> None:
    filled(con, rows, collation)
    expected = by_hand(rows)
    assert looked_up(con, orphans=True) == expected
    assert looked_up(con) == Counter({one: many for one, many in expected.items() if one[-1] is not None})


@given(ROWS, st.sampled_from(PERSONS[:3]), st.sampled_from(["", "nocase"]))
def test_without_a_unit_the_records_of_all_others_are_as_before(
    con: duckdb.DuckDBPyConnection, rows: dict[str, list[Any]], gone: str, collation: str
) -> None:
    """A unit takes its records and all that link to them."""
    filled(con, rows, collation)
    before = looked_up(con)
    names = {name for name, person in rows["customers"] if person == gone}
    keys = {(number, place) for number, place, name in rows["orders"] if name in names}
    rest = {
        "customers": [one for one in rows["customers"] if one[0] not in names],
        "orders": [one for one in rows["orders"] if one[2] not in names],
        "lines": [one for one in rows["lines"] if one[:2] not in keys],
    }
    filled(con, rest, collation)
    assert looked_up(con) == Counter({one: many for one, many in before.items() if one[-1] != gone})


def test_the_path_leads_to_the_table_with_the_column() -> None:
    catalog = Catalog(protected=tables())
    assert owner_path(catalog, LINES) == (TO_ORDERS, TO_CUSTOMERS)
    assert owner_path(catalog, CUSTOMERS) == ()
    assert [owner_column(catalog, one) for one in tables()] == ["Person"] * 3
    assert not any(is_severed(tables(), one) for one in tables())


def changed(name: TableName, **what: Any) -> dict[TableName, Protected]:
    """The tables, of which one has other columns, keys or another policy."""
    found = tables()
    one, stored = found[name], found[name].stored
    assert stored is not None
    of_table = {key: value for key, value in what.items() if key in ("columns", "unique")}
    of_policy = {key: value for key, value in what.items() if key not in ("columns", "unique", "gone")}
    policy, stored = replace(one.policy, **of_policy), replace(stored, **of_table)
    return {**found, name: replace(one, policy=policy, stored=None if what.get("gone") else stored)}


BROKEN = {
    "gone": changed(ORDERS, gone=True),
    "not protected": {name: one for name, one in tables().items() if name != CUSTOMERS},
    "no key": tables(keys=False),
    "a wider key": changed(ORDERS, unique=(frozenset({"number", "place", "customer"}),)),
    "no column": changed(ORDERS, columns={"number": "BIGINT", "place": "VARCHAR"}),
    "another type": changed(ORDERS, columns={"number": "DOUBLE", "place": "VARCHAR", "customer": "VARCHAR"}),
    "another population": changed(CUSTOMERS, population="q"),
    "a circle": changed(
        CUSTOMERS, privacy_unit=OWNER, link={"name": "lines.place"}, links=(Link(("name",), LINES, ("place",)),)
    ),
    "records as units": changed(CUSTOMERS, privacy_unit=None),
    "units by floats": tables(unit="DOUBLE"),
    "a column of our name": changed(LINES, columns={"ordered": "INTEGER", "place": "VARCHAR", OWNER: "INTEGER"}),
}


@pytest.mark.parametrize("why", BROKEN)
def test_a_link_that_gives_no_owner_is_severed(why: str) -> None:
    assert is_severed(BROKEN[why], LINES)
    severed = with_owners(BROKEN[why], LINES)
    assert severed.severed
    assert not severed.owned
    assert not severed.stands


@pytest.mark.parametrize(
    ("own", "theirs", "are_linked"),
    [
        ("INTEGER", "BIGINT", True), ("UBIGINT", "TINYINT", True), ("UHUGEINT", "UHUGEINT", True),
        ("UHUGEINT", "BIGINT", False), ("DOUBLE", "DOUBLE", False), ("FLOAT", "DOUBLE", False),
        ("VARCHAR", "ENUM('a', 'b')", True), ("VARCHAR", "INTEGER", False), ("UUID", "UUID", True),
        ("UUID", "VARCHAR", False), ("DATE", "DATE", True), ("DATE", "TIMESTAMP", False),
        ("INTERVAL", "INTERVAL", False),
        ("DECIMAL(10,2)", "DECIMAL(10,2)", True), ("DECIMAL(10,2)", "DECIMAL(12,2)", False),
        ("INTEGER[]", "INTEGER[]", False), ("TIME WITH TIME ZONE", "TIME WITH TIME ZONE", False),
    ],
)  # fmt: skip
def test_columns_of_one_type_are_linked_and_whole_numbers_of_any_width(own: str, theirs: str, are_linked: bool) -> None:
    assert (met("a", own, "b", theirs) is not None) == are_linked
    assert (met("a", theirs, "b", own) is not None) == are_linked


@pytest.mark.parametrize(("wide", "narrow"), [("UBIGINT", "TINYINT"), ("HUGEINT", "UBIGINT"), ("BIGINT", "UBIGINT")])
def test_no_value_of_a_wider_type_makes_a_comparison_fail(
    con: duckdb.DuckDBPyConnection, wide: str, narrow: str
) -> None:
    ends = {
        "TINYINT": (-128, 127),
        "BIGINT": (-(2**63), 2**63 - 1),
        "UBIGINT": (0, 2**64 - 1),
        "HUGEINT": (-(2**127) + 1, 2**127 - 1),
    }
    for one in ends[wide]:
        for other in ends[narrow]:
            test = met(f"CAST('{one}' AS {wide})", wide, f"CAST('{other}' AS {narrow})", narrow)
            assert con.execute(f"SELECT {test}").fetchall() == [(one == other,)]


def test_a_key_is_one_with_more_columns_too() -> None:
    stored = Stored(unique=(frozenset({"a", "b"}),))
    assert is_key(stored, ("A", "b"))
    assert is_key(stored, ("a", "c", "b"))
    assert not is_key(stored, ("a",))
    assert not is_key(Stored(keys=(frozenset({"a"}),)), ("a",))


def test_units_are_identified_in_three_ways() -> None:
    assert {canonical(one) for one in ("BIGINT", "UTINYINT", "HUGEINT", "INTEGER")} == {"whole numbers"}
    assert {canonical(one) for one in ("VARCHAR", "ENUM('a')")} == {"text"}
    assert canonical("UUID") == "UUIDs"
    assert {canonical(one) for one in ("DOUBLE", "DATE", "DECIMAL(4,0)", "VARCHAR[]", "")} == {None}
