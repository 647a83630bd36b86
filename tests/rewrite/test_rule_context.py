"""What rules share: the parts of a statement that are still open, and a part by itself."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp, parse_one

from duckanon.catalog.names import TableName
from duckanon.catalog.snapshot import Catalog, Stored
from duckanon.releases.available import AvailableReleases
from duckanon.rewrite.admit import admit
from duckanon.rewrite.algebra.expressions import Constant, Expr
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.relations import Block
from duckanon.rewrite.bind import BoundTables, bind
from duckanon.rewrite.normalize.resolve import Resolver
from duckanon.rewrite.rule_context import RuleContext
from tests.rewrite.guarded import CATALOG, TODAY


def test_open_parts_read_records_and_are_still_there() -> None:
    sql = (
        "SELECT (SELECT count(*) FROM shops), (SELECT max(n) FROM (SELECT count(*) AS n FROM persons GROUP BY sex)), "
        "(SELECT count(*) FROM persons)"
    )
    bound = bind(admit(sql).query, CATALOG, frozenset())
    context = RuleContext(bound, CATALOG, AvailableReleases(), TODAY, [], list(bound.protected))
    seen = []
    for part in context.parts():
        seen.append(part.sql("duckdb"))
        if part.find(exp.Max):  # cut it off, with the part inside it
            part.replace(exp.select("3"))
    assert len(seen) == 3
    assert "shops" in seen[0]  # the whole statement comes first
    assert sorted(one[:15] for one in seen[1:]) == ["SELECT COUNT(*)", "SELECT MAX(n) F"]


@pytest.mark.parametrize(
    ("around", "part", "meant"),
    [
        (
            "WITH a AS (SELECT 1 AS x FROM one), b AS (SELECT 2 AS y FROM one) SELECT ({})",
            "SELECT x + y FROM a, b",
            "1 + 2",
        ),
        # Its own WITH comes after those above, whose names it may take.
        (
            "WITH a AS (SELECT 1 AS x FROM one), b AS (SELECT 2 AS y FROM one) SELECT ({})",
            "WITH b AS (SELECT x + 5 AS y FROM a) SELECT x + y FROM a, b",
            "1 + (1 + 5)",
        ),
        # A table above that reads one of that name reads the one above.
        (
            "WITH a AS (SELECT 1 AS x FROM one), b AS (SELECT x FROM a) SELECT ({})",
            "WITH a AS (SELECT 9 AS x FROM one) SELECT a.x + b.x FROM a, b",
            "9 + 1",
        ),
        (
            "WITH a AS (SELECT 1 AS x FROM one) SELECT (WITH b AS (SELECT 10 * x AS y FROM a) SELECT ({}))",
            "SELECT x + y FROM a, b",
            "1 + 10 * 1",
        ),
        ("SELECT ({})", "WITH b AS (SELECT 4 AS y FROM one) SELECT y FROM b", "4"),
        ("SELECT ({})", "SELECT 6", "6"),
    ],
)
def test_a_part_by_itself_means_what_it_means_in_its_place(around: str, part: str, meant: str) -> None:
    whole = around.format(part)
    tree = parse_one(whole, read="duckdb")
    written = parse_one(part, read="duckdb")
    place = next(one for one in tree.find_all(exp.Select) if one == written)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE one AS SELECT 0 AS z")
        assert con.execute(whole).fetchall() == con.execute(f"SELECT {meant}").fetchall()
    assert _shown(place, place) == _shown(parse_one(f"SELECT {meant}", read="duckdb"))


def test_a_table_of_a_with_is_by_itself_without_its_own_name() -> None:
    tree = parse_one("WITH a AS (SELECT 1 AS x FROM one), b AS (SELECT x FROM a) SELECT x FROM b", read="duckdb")
    place = next(one.this for one in tree.find_all(exp.CTE) if one.alias == "b")
    assert _shown(place, place) == Constant("1")


def _shown(query: Node, place: Node = None) -> Expr:
    """The one expression that a query shows."""
    resolver = Resolver(BoundTables(Catalog(tables={TableName("", "", "one"): Stored(columns={"z": "INTEGER"})})))
    found = resolver.alone(query, query if place is None else place)
    assert isinstance(found, Block)
    return found.outputs[0].expr
