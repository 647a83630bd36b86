"""TPC-H's queries: 13 asks for sizes of groups, 15 for the largest, 8 and 14 for shares, and no other for either."""

import pytest

from duckanon.rewrite.recognize import Schema, findings_in, summary
from tests.rewrite.fixtures import Entry, database, entries, schema

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
QUERIES = entries("tpch/queries")
EXPECTED = {
    "query 8": "conditional mkt_share of memory.main.lineitem | rows EXTRACT(YEAR FROM s4.o_orderdate)",
    "query 13": "group-size of memory.main.orders | unit s1.c_custkey | size COUNT(s2.o_orderkey) | zeros",
    "query 15": "group-size of memory.main.lineitem | unit l_suppkey | size SUM(l_extendedprice * (1 - l_discount))",
    "query 14": "conditional promo_revenue of memory.main.lineitem | event s2.p_type LIKE 'PROMO%'",
}


def watched() -> Schema:
    return schema(*TABLES, script="tpch/schema")


def test_they_are_all_there_and_valid() -> None:
    assert [entry.title for entry in QUERIES] == [f"query {number}" for number in range(1, 23)]
    with database("tpch/schema") as con:
        for entry in QUERIES:
            assert con.execute(entry.sql).fetchall() is not None


@pytest.mark.parametrize("entry", QUERIES, ids=lambda entry: entry.title)
def test_what_is_found(entry: Entry) -> None:
    found = findings_in(entry.sql, watched())
    assert found
    special = [summary(one) for one in found if one.kind in ("group-size", "conditional")]
    assert len(special) == (entry.title in EXPECTED)
    if special:
        assert special[0].startswith(EXPECTED[entry.title])


@pytest.mark.parametrize("entry", QUERIES, ids=lambda entry: entry.title)
def test_one_watched_table_is_enough(entry: Entry) -> None:
    """With only orders protected, 13 is still the only group-size query, and no query reads around the watch."""
    found = findings_in(entry.sql, schema("orders", script="tpch/schema"))
    assert bool(found) == ("orders" in entry.sql.replace("_orders", ""))
    assert any(one.kind == "group-size" for one in found) == (entry.title == "query 13")
