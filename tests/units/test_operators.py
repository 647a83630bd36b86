"""Each operator by itself: totals of all neighbours of small tables, and draws that no record makes fail or swell."""

from __future__ import annotations

import random

import pytest

from duckanon.errors import DuckanonError
from tests.amounts import many, sampled
from tests.units.checks import Equal, Neighbours, ask, world
from tests.units.world import COLUMNS, Copy, records

OPERATORS = {
    "records with an owner": "SELECT count(*), sum(o.total) FROM orders o JOIN customer c ON o.c = c.c",
    "N:1": "SELECT o.prio, count(*), sum(l.qty) FROM lineitem l JOIN orders o ON l.o = o.o GROUP BY o.prio",
    "several with several": "SELECT count(*) FROM orders a JOIN orders b ON a.c = b.c WHERE a.day < b.day",
    "with itself": "SELECT a.topic, count(*) FROM calls a JOIN calls b ON a.c = b.c GROUP BY a.topic",
    "LEFT": "SELECT c.nation, count(*), count(o.o) FROM customer c LEFT JOIN orders o ON o.c = c.c GROUP BY c.nation",
    "a lookup": "SELECT i.kind, count(*), sum(weight) FROM lineitem l JOIN items i ON i.item = l.item GROUP BY i.kind",
    "EXISTS": "SELECT count(*) FROM orders o WHERE EXISTS (SELECT 1 FROM lineitem l WHERE l.o = o.o AND l.qty > 1)",
    "NOT EXISTS": "SELECT count(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lineitem l WHERE l.o = o.o AND l.ok)",
    "<> in EXISTS": "SELECT count(*) FROM orders o WHERE EXISTS "
    "(SELECT 1 FROM orders p WHERE p.c = o.c AND p.place <> o.place)",
    "between two values": "SELECT count(*) FROM orders o WHERE NOT EXISTS "
    "(SELECT 1 FROM orders p WHERE p.c = o.c AND p.day > o.day AND p.day < o.day + INTERVAL 2 DAY)",
    "IN": "SELECT count(*) FROM customer c WHERE c.c IN (SELECT o.c FROM orders o WHERE o.prio = 'hi')",
    "a value": "SELECT count(*) FROM orders o WHERE o.total > (SELECT avg(p.total) FROM orders p WHERE p.c = o.c)",
    "a value of nothing": "SELECT count(*) FROM customer c WHERE 1 = (SELECT count(*) + 1 FROM calls a WHERE a.c = c.c)",  # noqa: E501
    "a value of all units": "SELECT count(*) FROM customer c WHERE c.bal > (SELECT avg(d.bal) FROM customer d)",
    "groups": "SELECT count(*), sum(q.n) FROM (SELECT c, day, count(*) AS n FROM calls GROUP BY c, day) q WHERE q.n > 1",  # noqa: E501
    "groups, joined": "SELECT c.nation, sum(q.n) FROM customer c JOIN "
    "(SELECT c, count(*) AS n FROM orders GROUP BY c) q ON q.c = c.c GROUP BY c.nation",
    "row numbers": "SELECT prio, count(*) FROM (SELECT c, prio, row_number() OVER (PARTITION BY c ORDER BY day) AS n "
    "FROM orders) q WHERE q.n <= 2 GROUP BY prio",
    "the row before": "SELECT count(*), sum(q.d) FROM (SELECT length - lag(length) OVER (PARTITION BY c ORDER BY day) "
    "AS d FROM calls) q",
    "the first row": "SELECT p, count(*) FROM (SELECT c, first(prio ORDER BY day DESC, total) AS p FROM orders "
    "GROUP BY c) q GROUP BY p",
    "the last row met": "SELECT sum(t), count(t) FROM (SELECT c, last(total ORDER BY day) FILTER (WHERE prio = 'hi') "
    "AS t FROM orders GROUP BY c) q",
    "by several columns": "SELECT p, count(*) FROM (SELECT c, arg_min(prio, (day, total)) AS p FROM orders GROUP BY c) "
    "q GROUP BY p",
    "products of decimals": "SELECT sum(t), count(*) FROM (SELECT c, sum(total * total) AS t FROM orders GROUP BY c) q "
    "WHERE t * 2 > 3.5",
    "medians": "SELECT sum(t), count(*) FROM (SELECT c, median(total) AS t FROM orders GROUP BY c) q WHERE t > 1",
    "quotients": "SELECT avg(t), count(t) FROM (SELECT c, sum(total) / count(prio) AS t FROM orders GROUP BY c) q",
    "units that a LEFT JOIN finds": "SELECT c.nation, count(DISTINCT o.c), count(DISTINCT c.c) FROM customer c "
    "LEFT JOIN orders o ON o.c = c.c AND o.prio = 'hi' GROUP BY c.nation",
    "constants that a LEFT JOIN may miss": "SELECT q.k, count(*) FROM customer c LEFT JOIN (SELECT c, CASE WHEN "
    "sum(total) > 3 THEN 'much' ELSE 'little' END AS k FROM orders GROUP BY c) q ON q.c = c.c GROUP BY q.k",
    "DISTINCT ON": "SELECT prio, sum(t) FROM (SELECT DISTINCT ON (c) prio, total AS t FROM orders ORDER BY c, day) "
    "q GROUP BY prio",
    "running totals": "SELECT count(*) FROM (SELECT sum(total) OVER (PARTITION BY c ORDER BY day ROWS BETWEEN 1 "
    "PRECEDING AND CURRENT ROW) AS s FROM orders) q WHERE q.s > 3",
    "ranks of groups": "SELECT count(*), sum(q.r) FROM (SELECT rank() OVER (PARTITION BY c ORDER BY count(*)) AS r "
    "FROM calls GROUP BY c, day) q WHERE q.r < 3",
    **{
        kind: f"SELECT count(*) FROM (SELECT c AS u, day AS d FROM calls WHERE topic = 'bill' {kind} "
        "SELECT c, day FROM calls WHERE length > 0) q WHERE q.d > DATE '2024-01-01'"
        for kind in ("UNION ALL", "UNION", "EXCEPT", "INTERSECT")
    },
}


@pytest.mark.parametrize("wide", sampled([False, True]))
def test_totals_of_neighbours_differ_by_no_more_than_the_noise_is_made_for(wide: bool) -> None:
    """wide: whether all records count; else few of each unit do."""
    with world(by_person=False, wide=wide) as (con, about):
        rng = random.Random(5)
        asked = [ask(con, sql) for sql in OPERATORS.values()]
        assert [name for name, one in zip(OPERATORS, asked, strict=True) if one is None] == []
        neighbours = Neighbours(con, about, rng)
        for _ in range(many(30)):
            rows = records(rng, customers=rng.choice([1, 2, 4]), extreme=rng.random() < 0.5)
            assert list(map(str, neighbours.check([one for one in asked if one], rows))) == []


# Far fewer than the pairs of records of one unit, which are a hundred million.
_MEMORY, _RECORDS = "400MB", 10_000
_OF_ONE = (
    "SELECT count(*) FROM calls a JOIN calls b ON a.c = b.c WHERE a.day < b.day",
    "SELECT count(*) FROM orders a JOIN orders b ON a.c = b.c",
    "SELECT count(*) FROM orders a WHERE EXISTS (SELECT 1 FROM orders b WHERE b.c = a.c AND b.day <> a.day)",
    "SELECT count(*) FROM orders a WHERE NOT EXISTS (SELECT 1 FROM orders b WHERE b.c = a.c AND b.day > a.day "
    "AND b.day < a.day + INTERVAL 9 DAY)",
    "SELECT count(*) FROM orders a WHERE a.total > (SELECT avg(b.total) FROM orders b WHERE b.c = a.c)",
)


def test_a_unit_that_owns_half_of_all_records_costs_no_more_than_its_cap() -> None:
    with world(by_person=False, wide=False) as (con, about):
        copy = Copy.of(con, threads=2, memory=_MEMORY)
        copy.fill({name: [] for name in COLUMNS}, random.Random(1))
        half = f"CASE WHEN i % 2 = 0 THEN 0 ELSE i END FROM range({2 * _RECORDS}) r(i)"
        day = "DATE '2024-01-01' + CAST(i % 30 AS INTEGER)"
        for filled in (
            f"INSERT INTO customer (c, bal) SELECT i, i % 100 FROM range({2 * _RECORDS}) r(i)",
            f"INSERT INTO orders (o, c, day, total) SELECT i, c, d, i % 90 FROM (SELECT i, {day} AS d, {half}) q(i, d, c)",  # noqa: E501
            f"INSERT INTO calls (c, day) SELECT c, d FROM (SELECT {day} AS d, {half}) q(d, c)",
        ):
            copy.con.execute(filled).fetchall()
        # Half of the pairs would take a hundred million rows, and more time than this allows.
        for sql in _OF_ONE:
            one = ask(con, sql)
            assert one is not None, sql
            ((rows,),) = copy.con.execute(f"SELECT count(*) FROM {one.last.records} AS r").fetchall()
            assert rows <= 20 * 2 * _RECORDS, sql
            copy.exact(one.last)
        assert about.most["calls"] == 2


def test_a_name_that_no_table_has_is_no_column_of_what_is_computed() -> None:
    with world(by_person=False, wide=True) as (con, _):
        for sql in (
            "SELECT count(*) FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.c = c.c) AND found > 1",
            'SELECT count(*) FROM orders o JOIN customer c ON c.c = o.c WHERE "customer.c" > 1',
            "SELECT count(*) FROM customer c WHERE c.bal > 1 AND sex IN (SELECT o.prio FROM orders o WHERE o.c = c.c)",
            "SELECT count(*) FROM customer c WHERE 1 < (SELECT sum(sex) FROM orders o WHERE o.c = c.c)",
        ):
            with pytest.raises(DuckanonError, match=r"no column|not followed"):
                con._guard.decide(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*), count(q.f) FROM customer c LEFT JOIN (SELECT c, 1 AS f FROM orders GROUP BY c) q ON q.c = c.c",  # noqa: E501
        "SELECT count(*) FROM orders o ANTI JOIN customer c ON c.c = o.c AND c.score >= 0",
    ],
)
def test_what_is_not_met_counts_all_the_same(sql: str) -> None:
    """Columns that are looked up were taken for the unit's, and a constant of a LEFT JOIN for a condition."""
    with world(by_person=False, wide=True) as (con, about):
        rng = random.Random(3)
        one = ask(con, sql)
        assert one is not None
        for _ in range(5):
            assert list(map(str, Equal(con, about, rng).check([one], records(rng, customers=8, tame=True)))) == []


@pytest.mark.parametrize("operator", ["<>", "<", ">="])
def test_columns_that_differ_do_not_say_that_units_are_the_same(operator: str) -> None:
    """It was answered as if only the row's own unit were asked, though others are."""
    asked = f"SELECT count(*) FROM orders o WHERE EXISTS (SELECT 1 FROM customer c WHERE c.c {operator} o.c)"
    with world(by_person=False, wide=True) as (con, _), pytest.raises(DuckanonError, match="other units"):
        con._guard.decide(asked)
