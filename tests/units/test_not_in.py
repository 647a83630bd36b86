"""NOT IN with NULLs as SQL has it, values of all units in WHERE, and constants as keys: DuckDB's own answers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import duckanon
from duckanon.analyst import Analyst
from duckanon.errors import DuckanonError
from tests.amounts import many
from tests.units.checks import Equal, ask, world
from tests.units.world import records

QUESTIONS = [
    "SELECT count(*) FROM orders o WHERE place NOT IN (SELECT p.place FROM orders p WHERE p.c = o.c AND p.day = o.day)",
    "SELECT count(*) FROM orders o WHERE total NOT IN (SELECT p.total FROM orders p WHERE p.c = o.c AND p.prio = 'hi')",
    "SELECT count(*) FROM orders o WHERE NOT (o.place IN (SELECT c.nation FROM customer c WHERE c.c = o.c))",
    "SELECT count(*) FROM customer c WHERE c.bal NOT IN (SELECT a.length FROM calls a WHERE a.c = c.c)",
    "SELECT count(*) FROM orders o WHERE (place IN (SELECT p.place FROM orders p WHERE p.c = o.c AND p.day = o.day)) "
    "IS NULL",
    # As a key, NULL is a row of its own.
    "SELECT place IN (SELECT p.place FROM orders p WHERE p.c = o.c AND p.day = o.day) AS known, count(*) FROM orders o "
    "GROUP BY known",
    "SELECT length IN (SELECT weight FROM items WHERE item < 4) AS known, count(*) FROM calls GROUP BY known",
    "SELECT count(*) FROM calls WHERE length NOT IN (SELECT weight FROM items WHERE item < 4)",
    "SELECT count(*) FROM calls WHERE length NOT IN (SELECT weight FROM items WHERE weight > 99)",
    "SELECT count(*) FROM customer c WHERE c.bal > (SELECT count(*) FROM customer d)",
    "SELECT count(*) FROM (SELECT c, count(*) AS n FROM calls GROUP BY c) q WHERE n < (SELECT count(*) FROM orders)",
    "SELECT day, count(*) FROM calls WHERE day = DATE '2024-01-02' GROUP BY day",
    # Lines without an order are nobody's: their NULL made the answer 0.
    "SELECT count(*) FROM orders o WHERE o.o NOT IN (SELECT l.o FROM lineitem l)",
    "SELECT count(*) FROM customer c WHERE c.c NOT IN (SELECT o.c FROM orders o WHERE o.prio = 'hi')",
    "SELECT k, count(*) FROM (SELECT 1 AS k FROM orders o JOIN customer c ON o.c = c.c) q GROUP BY k",
    "SELECT sum(k) FROM (SELECT c, 1 AS k FROM calls UNION ALL SELECT c, 1 AS k FROM orders) q",
]  # fmt: skip


@pytest.mark.parametrize("sql", QUESTIONS)
def test_without_noise_the_answer_is_duckdbs_own(sql: str) -> None:
    with world(by_person=False, wide=True) as (con, about):
        rng = random.Random(23)
        one = ask(con, sql)
        if one is None:
            # One table alone is counted as it stands.
            assert con._guard.decide(sql).answers
            return
        equal = Equal(con, about, rng)
        for _ in range(many(4)):
            assert list(map(str, equal.check([one], records(rng, customers=8, tame=True)))) == []


# A unique column may be NULL, unlike a primary key.
_NULLABLE = """
  CREATE TABLE orders (o INTEGER UNIQUE, c INTEGER);
  CREATE TABLE lines (o INTEGER, line INTEGER);
  SELECT protect('orders', population := 'p', privacy_unit := 'c', rows_per_unit := 5, epsilon := 10, per_query := 1);
  SELECT protect('lines', population := 'p', link := {'o': 'orders.o'}, rows_per_unit := 5, per_query := 1)
"""


def test_not_in_does_not_ask_whether_another_unit_has_records(tmp_path: Path) -> None:
    """`NULL NOT IN (...)` is true if nobody has a record, and else NULL: one unit's record moved all others' rows."""
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as steward:
        for one in _NULLABLE.split(";"):
            steward.execute(one).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        assert isinstance(con, Analyst)
        for text in ("o NOT IN (SELECT l.o FROM lines l)", "(o IN (SELECT l.o FROM lines l)) IS NULL"):
            with pytest.raises(DuckanonError, match="all units"):
                con._guard.decide(f"SELECT count(*) FROM orders WHERE {text}")
        for text in (
            "o IN (SELECT l.o FROM lines l)",
            "NOT EXISTS (SELECT 1 FROM lines l WHERE l.o = orders.o)",
            "o NOT IN (SELECT l.line FROM lines l WHERE l.o = orders.o)",
            "o NOT IN (SELECT p.o FROM orders p WHERE p.c = orders.c)",
        ):
            assert con._guard.decide(f"SELECT count(*) FROM orders WHERE {text}").answers
