"""What rules share: the parts of a statement that are still open, and a part by itself."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp, parse_one

from duckanon.releases.available import AvailableReleases
from duckanon.rewrite.admit import admit
from duckanon.rewrite.bind import bind
from duckanon.rewrite.rule_context import RuleContext, with_above
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
    ("around", "part", "rows"),
    [
        ("WITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y) SELECT ({})", "SELECT x + y FROM a, b", [(3,)]),
        # Its own WITH comes after those above, whose names it may take.
        (
            "WITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y) SELECT ({})",
            "WITH b AS (SELECT x + 5 AS y FROM a) SELECT x + y FROM a, b",
            [(7,)],
        ),
        (
            "WITH a AS (SELECT 1 AS x) SELECT (WITH b AS (SELECT 10 * x AS y FROM a) SELECT ({}))",
            "SELECT x + y FROM a, b",
            [(11,)],
        ),
        ("SELECT ({})", "WITH b AS (SELECT 4 AS y) SELECT y FROM b", [(4,)]),
        ("SELECT ({})", "SELECT 6", [(6,)]),
    ],
)
def test_a_part_by_itself_gives_what_it_gives_in_its_place(around: str, part: str, rows: list[tuple[int]]) -> None:
    whole = around.format(part)
    tree = parse_one(whole, read="duckdb")
    written = parse_one(part, read="duckdb")
    place = next(one for one in tree.find_all(exp.Select) if one == written)
    alone = with_above(place, place).sql("duckdb")
    assert duckdb.execute(alone).fetchall() == duckdb.execute(whole).fetchall() == rows


def test_a_table_of_a_with_is_by_itself_without_its_own_name() -> None:
    tree = parse_one("WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a) SELECT x FROM b", read="duckdb")
    place = next(one.this for one in tree.find_all(exp.CTE) if one.alias == "b")
    assert duckdb.execute(with_above(place, place).sql("duckdb")).fetchall() == [(1,)]
