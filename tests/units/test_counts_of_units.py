"""How many different units there are, by each of the columns that are the unit: a unit adds one to a cell."""

from __future__ import annotations

import random
from typing import Any

import pytest

from duckanon.releases.paid_questions import AggregatesQuestion
from tests.amounts import many, sampled
from tests.units.checks import Asked, Equal, Neighbours, ask, world
from tests.units.world import records

# With the columns that are the unit, and in how many cells a unit may lie where few records count, and where all do.
JOINS = [
    ("SELECT count(DISTINCT {}) FROM orders a JOIN orders b ON a.c = b.c WHERE a.day < b.day", ("a.c", "b.c"), 1, 1),
    ("SELECT count(DISTINCT {}) FROM orders a JOIN calls b USING (c)", ("a.c", "b.c", "c"), 1, 1),
    ("SELECT count(DISTINCT {}) FROM lineitem l JOIN orders o ON l.o = o.o JOIN customer c ON c.c = o.c",
     ("o.c", "c.c"), 1, 1),
    ("SELECT count(DISTINCT {}) FROM calls k JOIN items i ON i.item = k.c", ("k.c", "i.item"), 1, 1),
    ("SELECT c.nation, count(DISTINCT {}) FROM customer c JOIN orders o ON c.c = o.c GROUP BY c.nation",
     ("c.c", "o.c"), 2, 7),
    ("SELECT a.topic, count(DISTINCT {}) FROM calls a JOIN orders b ON a.c = b.c GROUP BY a.topic",
     ("a.c", "b.c"), 3, 3),
]  # fmt: skip
# Where the unit is a customer's person, whom several customers and records without one have.
OF_PERSONS = [
    ("SELECT count(DISTINCT {}) FROM customer a JOIN calls b ON a.person = b.person", ("a.person", "b.person"), 1, 1),
    ("SELECT a.topic, count(DISTINCT {}) FROM calls a JOIN customer b ON a.person = b.person GROUP BY a.topic",
     ("a.person", "b.person"), 3, 3),
]  # fmt: skip
CASES = [
    (sql.format(column), by_person, few, many_)
    for by_person, cases in ((False, JOINS), (True, OF_PERSONS))
    for sql, columns, few, many_ in cases
    for column in columns
]


def _distance(one: Asked) -> int:
    ((measure, _),) = one.last.measures
    return one.last.moved(measure).distance


@pytest.mark.parametrize("wide", sampled([False, True]))
@pytest.mark.parametrize("by_person", [False, True])
def test_each_name_of_the_unit_has_the_noise_of_units(by_person: bool, wide: bool) -> None:
    with world(by_person=by_person, wide=wide) as (con, about):
        cases = [(sql, few, all_) for sql, of_persons, few, all_ in CASES if of_persons == by_person]
        asked = [ask(con, sql) for sql, *_ in cases]
        met = [one for one in asked if one is not None]
        assert len(met) == len(cases)
        assert [(one.sql, _distance(one)) for one in met] == [(sql, all_ if wide else few) for sql, few, all_ in cases]
        rng = random.Random(17)
        checks: list[Any] = [Neighbours(con, about, rng), *([Equal(con, about, rng)] if wide else [])]
        for _ in range(many(10)):
            for check in checks:
                rows = records(rng, customers=rng.choice([2, 4, 8]), tame=isinstance(check, Equal))
                assert list(map(str, check.check(met, rows))) == []


@pytest.mark.parametrize(
    ("sql", "kind", "distance"),
    [
        ("SELECT count(DISTINCT c) FROM orders", "units", 1),
        ("SELECT prio, count(DISTINCT c) FROM orders GROUP BY prio", "units", 4),
        ("SELECT count(DISTINCT day) FROM orders", "different", 60),
        ("SELECT count(DISTINCT o) FROM lineitem", "different", 90),
        ("SELECT count(DISTINCT c) FROM customer", "records", 1),
    ],
)
def test_a_link_to_the_units_column_is_the_unit(sql: str, kind: str, distance: int) -> None:
    with world(by_person=False, wide=True) as (con, _):
        (one,) = con._guard.decide(sql).answers
        assert isinstance(one, AggregatesQuestion)
        ((measure, _share),) = one.measures
        assert (measure.kind, one.moved(measure).distance) == (kind, distance)


def test_where_a_left_join_may_find_nothing_only_the_units_that_it_finds_are_counted() -> None:
    """Its column may be NULL, so its values are fewer than the units, and a unit moves them by one."""
    sql = "SELECT count(DISTINCT o.c), count(DISTINCT c.c) FROM customer c LEFT JOIN orders o ON o.c = c.c"
    with world(by_person=False, wide=True) as (con, about):
        one = ask(con, sql)
        assert one is not None
        assert {measure.kind for measure, _ in one.last.measures} == {"units"}
        assert all(one.last.moved(measure).distance == 1 for measure, _ in one.last.measures)
        rng = random.Random(1)
        assert list(map(str, Equal(con, about, rng).check([one], records(rng, customers=8, tame=True)))) == []
