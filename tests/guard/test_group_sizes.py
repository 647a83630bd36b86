"""Group sizes of two protected tables, of filtered records and of other quantities: what is answered, and what for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError
from duckanon.governance import answers
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import GroupSizesQuestion, PaidQuestion
from tests.amounts import sampled
from tests.guard.truthful import truth
from tests.rewrite.fixtures import FIXTURES, entries

(QUERY_13,) = [one.sql for one in entries("tpch/queries") if one.title == "query 13"]
# 40 customers, of whom every fifth has no orders, and orders of 30 customers that are not in the table.
RECORDS = """
INSERT INTO customer SELECT i, 'c' || i, NULL, i % 4, NULL, i * 1.5, ['BUILDING', 'HOUSEHOLD'][1 + i % 2], NULL
FROM range(40) r(i);
INSERT INTO orders SELECT i, k, 'O', i, DATE '1995-01-01' + (i % 700)::INTEGER, '1', 'clerk ' || i % 5, 0,
  ['a special pack of requests', 'quickly', 'special', NULL][1 + i % 4]
FROM (SELECT i, (i * i + i // 7) % 70 AS k FROM range(400) r(i)) WHERE k % 5 <> 0;
INSERT INTO orders SELECT 1000, NULL, 'O', 1, NULL, '1', 'x', 0, 'quickly'
"""
COMMON = "population := 'buyers', epsilon := 1000, rows_per_unit := 30, per_query := {}"
PROTECTED = (
    f"protect('customer', privacy_unit := 'c_custkey', drop := ['c_name'], {COMMON.format(1)})",
    f"protect('orders', privacy_unit := 'o_custkey', unit := 'o_custkey', max_size := 30, {COMMON.format(2)}, "
    "bounds := {'o_shippriority': [0, 5]})",
)


def made(path: Path, *protected: str) -> Path:
    with duckanon.connect(path, role="steward") as con:
        con.execute((FIXTURES / "tpch" / "schema.sql").read_text(encoding="utf-8")).fetchall()
        con.execute(RECORDS).fetchall()
        con.execute("CREATE TABLE lookup AS SELECT i AS c_custkey FROM range(40) r(i)").fetchall()
        for call in (*protected, "open_table('lookup')"):
            con.execute(f"SELECT {call}").fetchall()
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sizes") / "x.duckdb", *PROTECTED)


@pytest.fixture
def con(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[duckanon.Analyst]:
    monkeypatch.setattr(mechanisms, "draw", truth)
    monkeypatch.setattr(answers, "STRICT", True)
    with duckanon.connect(path, role="analyst") as con:
        yield con


def told(con: duckanon.Analyst | duckdb.DuckDBPyConnection, sql: str) -> list[tuple[object, ...]]:
    """The rows without those of sizes that no group has."""
    return [row for row in con.execute(sql).fetchall() if row[-1] != 0]


JOINED = (
    "SELECT n, count(*) AS units FROM (SELECT c_custkey, count(o_orderkey) AS n FROM customer LEFT JOIN orders "
    "ON c_custkey = o_custkey {} GROUP BY c_custkey) GROUP BY n ORDER BY n"
)


@pytest.mark.parametrize(
    "sql",
    [
        QUERY_13,
        f"{QUERY_13.rstrip(';')} LIMIT 3",
        JOINED.format(""),
        JOINED.format("AND o_totalprice > 100 AND o_orderdate < DATE '1996-01-01'"),
        JOINED.format("WHERE c_mktsegment = 'BUILDING'"),
        JOINED.format("AND o_comment NOT LIKE '%special%' WHERE c_nationkey IN (1, 2) AND c_acctbal > 10"),
        "SELECT n, count(*) FROM (SELECT c.c_custkey, count(o.o_custkey) AS n FROM customer AS c LEFT JOIN "
        "(SELECT * FROM orders WHERE o_comment = 'quickly') AS o ON o.o_custkey = c.c_custkey GROUP BY 1) "
        "GROUP BY n ORDER BY 1",
        "WITH sizes AS (SELECT c_custkey AS k, count(o_orderkey) AS n FROM orders RIGHT JOIN customer "
        "ON c_custkey = o_custkey GROUP BY ALL) SELECT n, count(*) AS units FROM sizes WHERE n < 9 GROUP BY n "
        "ORDER BY n",
    ],
)
def test_all_units_with_the_records_they_have(con: duckanon.Analyst, sql: str) -> None:
    """As DuckDB counts them, units without records too; what stands around it is kept."""
    assert told(con, sql) == told(con._con.cursor(), sql)


LISTED = (
    "SELECT n, count(*) FROM (SELECT t.k, count(o_orderkey) AS n FROM {} AS t LEFT JOIN orders ON t.k = o_custkey "
    "GROUP BY t.k) GROUP BY n ORDER BY n"
)


def test_groups_are_those_of_the_open_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of units that it does not list count in no group; units without records have size 0."""
    path = made(tmp_path / "x.duckdb", *PROTECTED)
    with duckanon.connect(path, role="steward") as con:
        for name, rows in (("few", "range(3)"), ("many", "range(200)"), ("none", "range(900, 905)")):
            con.execute(f"CREATE TABLE {name} AS SELECT i::INTEGER AS k FROM {rows} t(i)")
            con.execute("SELECT open_table(?)", [name]).fetchall()
    monkeypatch.setattr(mechanisms, "draw", truth)
    monkeypatch.setattr(answers, "STRICT", True)
    with duckanon.connect(path, role="analyst") as con:
        for name in ("few", "many", "none"):
            for sql in (LISTED.format(name), LISTED.format(name).replace("count(o_orderkey)", "count(o_custkey)")):
                assert told(con, sql) == told(con._con.cursor(), sql)
            assert "each once" in con.explain(LISTED.format(name)).steps[0].reason


def test_statistics_of_all_units(con: duckanon.Analyst) -> None:
    sizes = (
        "(SELECT c_custkey, count(o_orderkey) AS n FROM customer LEFT JOIN orders ON c_custkey = o_custkey GROUP BY 1)"
    )
    sql = f"SELECT avg(n), sum(n), min(n), max(n), median(n), count(*) FILTER (WHERE n = 0) / count(*) FROM {sizes}"
    assert con.execute(sql).fetchall() == con._con.cursor().execute(sql).fetchall()


def test_it_is_charged_once_for_both_tables(tmp_path: Path) -> None:
    with duckanon.connect(made(tmp_path / "x.duckdb", *PROTECTED), role="analyst") as con:

        def spent() -> Fraction:
            ((found,),) = con.execute("SELECT spent_exact FROM privacy_budget() WHERE population = 'buyers'").fetchall()
            return Fraction(found)

        before = spent()
        first = con.execute(QUERY_13).fetchall()
        assert spent() - before == 1  # the less that both policies allow
        assert con.execute(QUERY_13.replace("customer LEFT OUTER JOIN", "main.customer LEFT JOIN")).fetchall() == first
        assert spent() - before == 1
        # All sizes are there, whatever the records are.
        assert sorted(size for size, _ in first) == list(range(31))
        (step,) = con.explain(QUERY_13).steps
        assert "a release of its own" in step.reason


def asked(con: duckanon.Analyst, sql: str) -> GroupSizesQuestion:
    (found,) = con._guard.decide(sql).answers
    assert isinstance(found, GroupSizesQuestion)
    return found


def test_what_makes_another_question(path: Path, tmp_path: Path) -> None:
    with duckanon.connect(path, role="analyst") as con:
        mine = asked(con, QUERY_13)
        assert mine.units is not None
        assert (mine.least, mine.sizes, mine.engine.unit) == (0, 31, "group")
        others: list[PaidQuestion] = [
            asked(con, JOINED.format("")),
            asked(con, JOINED.format("WHERE c_nationkey = 1")),
            asked(con, JOINED.format("AND o_comment LIKE '%special%requests%'")),
            asked(con, "SELECT n, count(*) FROM (SELECT o_custkey, count(*) n FROM orders GROUP BY 1) GROUP BY n"),
        ]
        assert len({one.key for one in [mine, *others]}) == 5
    # The policy of the table of units is part of it, and its version stands when it is charged.
    other = made(tmp_path / "y.duckdb", *PROTECTED, "unprotect('customer')", PROTECTED[0])
    with duckanon.connect(other, role="analyst") as con:
        changed = asked(con, QUERY_13)
        assert changed.units is not None
        assert changed.units.version != mine.units.version
        assert changed.key != mine.key
        assert changed.purchase.beside == ((changed.units.location, changed.units.version),)


def test_the_policies_of_both_tables_stand_when_it_is_charged(tmp_path: Path) -> None:
    with duckanon.connect(made(tmp_path / "x.duckdb", *PROTECTED), role="analyst") as con:
        mine = asked(con, QUERY_13)
        assert mine.units is not None
        before = con.execute("FROM privacy_ledger()").fetchall()
        for units in (
            replace(mine.units, version=mine.units.version + 1),
            replace(mine.units, location=replace(mine.units.location, name="lookup")),
        ):
            with pytest.raises(answers.Stale):
                con._guard._stand(replace(mine, units=units))
        assert con.execute("FROM privacy_ledger()").fetchall() == before


REFUSED = {
    "not protected in one population": [
        (PROTECTED[0].replace("'buyers'", "'others'"), PROTECTED[1], QUERY_13),
        (PROTECTED[0], PROTECTED[1].replace("population := 'buyers', ", ""), QUERY_13),
    ],
    "only by the privacy unit of both": [
        (PROTECTED[0].replace("privacy_unit := 'c_custkey'", "privacy_unit := 'c_nationkey'"), PROTECTED[1], QUERY_13),
        (
            PROTECTED[0],
            PROTECTED[1].replace("privacy_unit := 'o_custkey'", "privacy_unit := 'o_shippriority'"),
            QUERY_13,
        ),
    ],
    "offers no releases": [(PROTECTED[0].replace(", per_query := 1", ""), PROTECTED[1], QUERY_13)],
    "depends on c_name": [(*PROTECTED, JOINED.format("WHERE c_name = 'c1'"))],
}  # fmt: skip


# They are no group sizes, but computed within each unit.
WITHIN = [
    JOINED.format("AND c_nationkey = 1"),
    JOINED.format("AND o_totalprice > c_acctbal"),
    JOINED.format("WHERE o_totalprice > 100"),
    JOINED.format("WHERE o_totalprice > c_acctbal"),
    JOINED.format("").replace("LEFT JOIN", "JOIN"),
    JOINED.format("").replace("c_custkey, count", "c_custkey, c_nationkey, count").replace(
        "GROUP BY c_custkey", "GROUP BY ALL"),
]  # fmt: skip


@pytest.mark.parametrize("sql", WITHIN)
def test_what_is_computed_within_a_unit_is_duckdbs_own(
    sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mechanisms, "draw", truth)
    with duckanon.connect(made(tmp_path / "x.duckdb", *PROTECTED), role="analyst") as con:
        mine = [row for row in con.execute(sql).fetchall() if row[-1]]
        with con._con.cursor() as raw:
            assert sorted(mine) == sorted(raw.execute(sql).fetchall())


@pytest.mark.parametrize(("why", "calls"), sampled((why, one) for why, some in REFUSED.items() for one in some))
def test_what_is_refused(why: str, calls: tuple[str, ...], tmp_path: Path) -> None:
    """In a sentence that says the way out, and without a charge."""
    *protected, sql = calls
    with duckanon.connect(made(tmp_path / "x.duckdb", *protected), role="analyst") as con:
        before = con.execute("FROM privacy_ledger()").fetchall()
        with pytest.raises(DuckanonError, match=why):
            con.execute(sql)
        assert con.execute("FROM privacy_ledger()").fetchall() == before


def test_units_that_nobody_knows_and_records_of_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are counted once; records of other units, and those without a unit, do not count; sizes are capped."""
    monkeypatch.setattr(mechanisms, "draw", truth)
    here = made(tmp_path / "x.duckdb", *(one.replace("rows_per_unit := 30", "rows_per_unit := 3") for one in PROTECTED))
    with duckanon.connect(here, role="analyst") as con:
        raw = con._con.cursor()
        raw.execute("DELETE FROM orders; DELETE FROM customer").fetchall()
        raw.execute("INSERT INTO customer (c_custkey) VALUES (1), (2), (3)").fetchall()
        raw.execute(
            "INSERT INTO orders (o_orderkey, o_custkey) SELECT i, [1, 1, 1, 1, 1, 2, 9, NULL][1 + i] FROM range(8) r(i)"
        ).fetchall()
        assert told(con, JOINED.format("")) == [(0, 1), (1, 1), (3, 1)]


@pytest.mark.parametrize(
    "units",
    [
        "(SELECT DISTINCT c_custkey FROM lookup)",
        "(SELECT c_custkey FROM lookup ORDER BY ALL LIMIT 5)",
        "(VALUES (1), (2)) units(c_custkey)",
        "(SELECT i AS c_custkey FROM range(5) r(i))",
    ],
)
def test_units_from_a_query_are_refused_in_one_sentence(con: duckanon.Analyst, units: str) -> None:
    with pytest.raises(DuckanonError, match="The groups are joined with another table, which the release does not"):
        con.execute(JOINED.format("").replace("FROM customer", f"FROM {units}"))


def test_what_is_said_of_intervals_can_be_done(con: duckanon.Analyst) -> None:
    """The call that is named has them, and is free then; where there are none, none are named."""
    sizes = "SELECT n, count(*) FROM (SELECT o_custkey, count(*) AS n FROM orders{} GROUP BY o_custkey) GROUP BY n"
    con.execute(sizes.format("")).fetchall()
    assert con.decision is not None
    said = con.decision.steps[0].reason
    call = re.search(r"FROM dp_group_sizes\(.*?\)(?=, for free)", said)
    assert call is not None
    assert not re.search("low and high", said)
    con.execute(call[0]).fetchall()
    assert {"groups", "low", "high"} <= {one[0] for one in con.description}
    assert con.decision.steps[0].drawn is not None
    con.execute(sizes.format(" WHERE o_orderpriority = '1'")).fetchall()
    assert "have no intervals" in con.decision.steps[0].reason
    assert not re.search("low and high|dp_group_sizes", con.decision.steps[0].reason)
