"""Windows within a unit: what they compute, how few rows they leave, and what is refused."""

from __future__ import annotations

import random

import pytest

from duckanon.errors import DuckanonError
from tests.amounts import many, sampled
from tests.units.checks import Equal, ask, world
from tests.units.world import records

# By columns that no two records of a unit share, so that DuckDB's own answer is one.
_TOTAL = "PARTITION BY c ORDER BY day {} NULLS {}, o"
_NUMBER = "row_number() OVER (PARTITION BY c ORDER BY day)"
QUESTIONS = [
    f"SELECT prio, count(*), sum(total) FROM (SELECT *, row_number() OVER ({_TOTAL}) AS n FROM orders) q WHERE n = 1 "
    "GROUP BY prio",
    f"SELECT prio, count(*) FROM (SELECT c, prio FROM orders QUALIFY row_number() OVER ({_TOTAL}) = 2) q GROUP BY prio",
    f"SELECT prio, count(*) FROM (SELECT c, prio FROM orders WHERE total > 1 QUALIFY row_number() OVER ({_TOTAL}) <= 2)"
    " q GROUP BY prio",
    "SELECT prio, count(*) FROM (SELECT DISTINCT ON (c) c, prio FROM orders ORDER BY c, day {} NULLS {}, o) q "
    "GROUP BY prio",
    f"SELECT k.nation, count(*) FROM customer k JOIN (SELECT c, prio, row_number() OVER ({_TOTAL}) AS n FROM orders) q "
    "ON q.c = k.c WHERE q.n = 3 GROUP BY k.nation",
    f"SELECT count(*) FROM customer k WHERE EXISTS (SELECT 1 FROM (SELECT c, prio, row_number() OVER ({_TOTAL}) AS n "
    "FROM orders) q WHERE q.c = k.c AND q.n = 1 AND q.prio = 'hi')",
    f"SELECT sum(d) FROM (SELECT total - lag(total) OVER ({_TOTAL}) AS d FROM orders) q",
    f"SELECT sum(d) FROM (SELECT lead(total, 2, 0) OVER ({_TOTAL}) AS d FROM orders) q",
    f"SELECT p, count(*) FROM (SELECT lag(prio) OVER ({_TOTAL}) AS p FROM orders) q GROUP BY p",
    f"SELECT count(*) FROM (SELECT prio, lag(prio IGNORE NULLS) OVER ({_TOTAL}) AS p FROM orders) q WHERE p <> prio",
    f"SELECT count(*) FROM (SELECT prio, last_value(prio) OVER ({_TOTAL}) AS p FROM orders) q WHERE p = prio",
    f"SELECT sum(s) FROM (SELECT sum(total) OVER ({_TOTAL} ROWS 1 PRECEDING) AS s FROM orders) q",
    f"SELECT sum(n) FROM (SELECT ntile(3) OVER ({_TOTAL}) AS n FROM orders) q",
    # Equal days tie, and whichever comes first, the day is the same.
    "SELECT count(v), sum(1) FROM (SELECT nth_value(day, 2) OVER (PARTITION BY c ORDER BY day {} NULLS {}) AS v "
    "FROM orders) q",
    "SELECT count(*) FROM (SELECT day, nth_value(day, 3) OVER (PARTITION BY c ORDER BY day {} NULLS {} GROUPS "
    "UNBOUNDED PRECEDING) AS v FROM orders) q WHERE v = day",
    "SELECT count(*) FROM (SELECT nth_value(day, 2 IGNORE NULLS) OVER (PARTITION BY c ORDER BY day {} NULLS {} RANGE "
    "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS v FROM orders) q WHERE v = DATE '2024-01-02'",
    "SELECT count(v) FROM (SELECT first_value(day IGNORE NULLS) OVER (PARTITION BY c ORDER BY day {} NULLS {}) AS v "
    "FROM orders) q",
    f"SELECT count(v) FROM (SELECT first_value(prio IGNORE NULLS) OVER ({_TOTAL}) AS v FROM orders) q",
    f"SELECT count(v) FROM (SELECT nth_value(prio, 2) OVER ({_TOTAL}) AS v FROM orders) q WHERE v = 'hi'",
    # Rounded to a step where they leave the unit.
    f"SELECT sum(v), avg(v), count(v) FROM (SELECT avg(total) OVER ({_TOTAL} ROWS 1 PRECEDING) AS v FROM orders) q",
    "SELECT sum(v), sum(w) FROM (SELECT percent_rank() OVER w AS v, 1 - cume_dist() OVER w AS w FROM orders "
    "WINDOW w AS (PARTITION BY c ORDER BY day {} NULLS {})) q",
    "SELECT sum(r), sum(s), count(*) FROM (SELECT rank() OVER w AS r, sum(total) OVER w AS s FROM orders "
    "WINDOW w AS (PARTITION BY c ORDER BY day {} NULLS {})) q",
    "SELECT sum(n), sum(s), count(d) FROM (SELECT row_number() OVER w AS n, sum(total) OVER w AS s, lag(day) OVER w "
    f"AS d FROM orders WINDOW w AS ({_TOTAL} ROWS 1 PRECEDING)) q",
    "SELECT sum(r) FROM (SELECT dense_rank() OVER (PARTITION BY c ORDER BY count(*) {} NULLS {}) AS r FROM orders "
    "GROUP BY c, day) q",
]


@pytest.mark.parametrize("sql", sampled(QUESTIONS, every=3))
@pytest.mark.parametrize(("way", "nulls"), [("ASC", "LAST"), ("DESC", "FIRST")])
def test_without_noise_a_window_has_duckdbs_own_values(sql: str, way: str, nulls: str) -> None:
    with world(by_person=False, wide=True) as (con, about):
        rng = random.Random(11)
        one = ask(con, sql.format(way, nulls))
        assert one is not None
        equal = Equal(con, about, rng)
        for _ in range(many(6)):
            assert list(map(str, equal.check([one], records(rng, customers=8, tame=True)))) == []


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (f"SELECT count(*) FROM (SELECT {_NUMBER} AS n FROM orders) WHERE n = 4", 1),
        (f"SELECT count(*) FROM (SELECT {_NUMBER} AS n FROM orders) WHERE n <= 3", 3),
        (f"SELECT count(*) FROM (SELECT {_NUMBER} AS n FROM orders) WHERE n < 3", 2),
        ("SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY c, prio) AS n FROM orders) WHERE n = 1", 60),
        ("SELECT count(*) FROM (SELECT rank() OVER (PARTITION BY c ORDER BY day) AS n FROM orders) WHERE n = 1", 60),
        ("SELECT count(*) FROM (SELECT DISTINCT ON (c) prio FROM orders ORDER BY c, day) WHERE prio = 'hi'", 1),
        ("SELECT count(*) FROM orders a JOIN (SELECT c, row_number() OVER (PARTITION BY c) AS n FROM orders) b "
         "ON a.c = b.c WHERE b.n = 1", 60),
    ],
)  # fmt: skip
def test_the_noise_hides_the_rows_that_a_row_number_leaves_of_a_unit(sql: str, rows: int) -> None:
    with world(by_person=False, wide=True) as (con, _):
        one = ask(con, sql)
        assert one is not None
        ((measure, _),) = one.last.measures
        assert one.last.moved(measure).distance == rows


REFUSED = {
    "row_number() OVER (ORDER BY day)": "PARTITION BY",
    "row_number() OVER (PARTITION BY prio ORDER BY day)": "PARTITION BY",
    "lag(day, o) OVER (PARTITION BY c ORDER BY day)": "whole number",
    "ntile(0) OVER (PARTITION BY c ORDER BY day)": "at least 1",
    "nth_value(day, 0) OVER (PARTITION BY c ORDER BY day ROWS 1 PRECEDING)": "at least 1",
    "sum(total) OVER (PARTITION BY c ORDER BY o RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)": "frame",
    "sum(total) OVER (PARTITION BY c ORDER BY o ROWS BETWEEN o PRECEDING AND CURRENT ROW)": "frame",
    "sum(total) OVER (PARTITION BY c ORDER BY o ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES)": "frame",
    "nth_value(day, 2) OVER (PARTITION BY c ORDER BY day RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)": "frame",
    "nth_value(day, 2) OVER (PARTITION BY c GROUPS UNBOUNDED PRECEDING)": "ORDER BY",
    "last_value(day IGNORE NULLS) OVER (PARTITION BY c ORDER BY day)": "ROWS",
    "first(day ORDER BY o) OVER (PARTITION BY c)": "first_value",
    "string_agg(prio) OVER (PARTITION BY c ORDER BY day)": "not computed within a unit",
}


@pytest.mark.parametrize("window", REFUSED)
def test_what_could_fail_or_depend_on_others_is_refused(window: str) -> None:
    with world(by_person=False, wide=True) as (con, _), pytest.raises(DuckanonError, match=REFUSED[window]):
        con._guard.decide(f"SELECT count(*) FROM (SELECT c, prio, {window} AS v FROM orders) q WHERE v IS NOT NULL")
