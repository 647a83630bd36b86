"""ORDER BY and LIMIT, and queries in two: what comes out is compared whole, and gives the same rows in DuckDB."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

from duckanon.errors import DuckanonError
from duckanon.releases import group_size_queries, noisy_aggregates
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.normalize.split import split
from tests.rewrite.fixtures import Entry, database, entries
from tests.rewrite.guarded import decided, numbered, same

ORDERS = entries("rewrite/order_limit")
SPLITS = entries("rewrite/split")


def after(sql: str) -> str:
    try:
        return numbered(decided(sql).sql or "")
    except DuckanonError as error:
        return "refused: " + str(error).partition(" What may be asked")[0]


@pytest.mark.parametrize("entry", ORDERS, ids=lambda one: one.title)
def test_orders_and_limits(entry: Entry) -> None:
    assert same(after(entry.sql), entry.found[0])


@pytest.mark.parametrize("lost", ["nulls_first", "desc"])
def test_the_fixtures_notice_what_an_order_loses(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants: an order without its NULLS FIRST, or without its DESC."""

    def loses(old: Node, new: Node) -> bool:
        done = order_limit(old, new)
        order = new.args.get("order")
        for one in order.expressions if done and order is not None else ():
            one.set(lost, None)
        return done

    for module in (group_size_queries, noisy_aggregates):
        monkeypatch.setattr(module, "order_limit", loses)
    changed = [one.title for one in ORDERS if not same(after(one.sql), one.found[0])]
    assert {"group sizes", "shares by windows over records"} <= set(changed)


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return database()


@pytest.mark.parametrize("entry", SPLITS, ids=lambda one: one.title)
def test_a_query_in_two(con: duckdb.DuckDBPyConnection, entry: Entry) -> None:
    parts = split(sqlglot.parse_one(entry.sql, read="duckdb"))
    if parts is None:
        assert entry.found == ()
        return
    around, core = parts
    text = around.sql("duckdb", normalize_functions=False)
    assert same(text, entry.found[0])
    assert core in list(around.find_all(type(core)))
    mine, plain = con.execute(text).fetchall(), con.execute(entry.sql).fetchall()
    ordered = sqlglot.parse_one(entry.sql, read="duckdb").args.get("order") is not None
    assert mine == plain if ordered else sorted(map(str, mine)) == sorted(map(str, plain))
    assert plain
    names = [one[0].lower() for one in con.execute(text).description or []]
    assert names == [one[0].lower() for one in con.execute(entry.sql).description or []]
