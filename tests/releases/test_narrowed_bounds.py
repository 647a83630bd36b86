"""Sums and means of records that meet conditions: bounds are narrowed by what the text says, and numbers stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from math import isclose
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.releases import mechanisms, numbers
from duckanon.releases.measures import Number, Quantiles, Sums
from duckanon.releases.paid_questions import AggregatesQuestion, PaidQuestion
from duckanon.rewrite.algebra.expressions import Expr, Or
from duckanon.rewrite.algebra.ranges import Range, ranges
from duckanon.rewrite.algebra.relations import Source
from duckanon.units import values
from duckanon.units.fields import Made
from duckanon.units.joins import Join
from tests.amounts import sampled
from tests.guard.truthful import truth

# Values lie within the bounds, outside of them and at the ends of all conditions; some are NULL, NaN or infinite.
_RECORDS = """
  SELECT setseed(0.5);
  CREATE TABLE goods AS SELECT i AS good, (10 + i)::DECIMAL(6, 2) AS list_price FROM range(20) r(i);
  ALTER TABLE goods ADD PRIMARY KEY (good);
  CREATE TABLE owners AS SELECT i AS owner, 18 + i % 60 AS age FROM range(300) r(i);
  ALTER TABLE owners ADD PRIMARY KEY (owner);
  CREATE TABLE sales AS SELECT i AS sale, i // 4 AS owner, i % 20 AS good,
    CASE WHEN random() < .9 THEN (5 + random() * 100)::INTEGER END AS n,
    CASE WHEN random() < .9 THEN (random() * 110)::DECIMAL(8, 2) END AS price,
    (random() * 40)::INTEGER / 100.0 AS discount,
    (random() * 1100)::INTEGER AS coarse,
    CASE WHEN i % 97 = 0 THEN 'nan' WHEN i % 97 = 1 THEN 'inf' WHEN i % 97 = 2 THEN '-inf'
      WHEN i % 7 = 0 THEN i % 40 ELSE random() * 40 END::DOUBLE AS f,
    ((random() * 500)::INTEGER / 100)::FLOAT AS small,
    DATE '2023-12-01' + (random() * 450)::INTEGER AS day,
    TIMESTAMP '2024-01-01' + to_seconds((random() * 40000000)::BIGINT) AS moment,
    ['a', 'b', 'c'][1 + i % 3] AS kind
  FROM range(1200) r(i)
"""
_CALLS = """
  SELECT open_table('goods');
  SELECT protect('owners', population := 'p', privacy_unit := 'owner', rows_per_unit := 1, epsilon := 9999,
    per_query := 1, bounds := {'age': [20, 70]});
  SELECT protect('sales', population := 'p', privacy_unit := 'owner', rows_per_unit := 4, epsilon := 9999,
    per_query := 1, public := ['kind', 'good'], domains := {'kind': ['a', 'b', 'c'], 'good': 'goods.good'},
    bounds := {'n': [10, 90], 'price': [0, 100, 0.01], 'discount': [0, 0.35, 0.01], 'coarse': [0, 1000, 40],
      'f': [0, 30], 'small': [0, 4.5, 0.25], 'day': ['2024-01-01', '2024-12-31'],
      'moment': ['2024-01-01 00:00:00', '2024-12-31 00:00:00']})
"""
# Statements, and the bounds of what is added up: None where they are the declared ones.
STATEMENTS: dict[str, tuple[float, float]] = {
    "SELECT sum(n) FROM sales WHERE n BETWEEN 20 AND 30": (20, 30),
    "SELECT avg(n), count(*) FROM sales WHERE n > 20 AND n < 30.5": (21, 30),
    "SELECT sum(n) FROM sales WHERE n > 40": (41, 90),
    "SELECT sum(n) FROM sales WHERE n < 12": (10, 11),
    "SELECT sum(n) FROM sales WHERE 60 <= n": (60, 90),
    "SELECT sum(n) FROM sales WHERE n IN (31, 40, 33, NULL)": (31, 40),
    "SELECT sum(n) FROM sales WHERE n IN (3, 95)": (10, 90),
    "SELECT sum(n) FROM sales WHERE n = 50": (49, 50),
    "SELECT sum(n) FROM sales WHERE n = 90": (89, 90),
    "SELECT sum(n) FROM sales WHERE n < 5": (10, 11),
    "SELECT sum(n) FROM sales WHERE n > 95": (89, 90),
    "SELECT sum(n) FROM sales WHERE n < 30 AND n > 40": (40, 41),
    "SELECT sum(n) FROM sales WHERE n < 30 OR kind = 'a'": (10, 90),
    "SELECT sum(n) FROM sales WHERE NOT (n < 30) OR n IS NULL": (10, 90),
    "SELECT sum(n) FROM sales WHERE n + 1 < 30": (10, 90),
    "SELECT sum(n) FROM sales WHERE coarse < 30": (10, 90),
    "SELECT kind, sum(n) FROM sales WHERE n < 30 GROUP BY kind": (10, 29),
    "SELECT kind, sum(n) FROM sales GROUP BY kind HAVING sum(n) < 900": (10, 90),
    "SELECT sum(n) FILTER (WHERE n < 30), count(*) FROM sales": (10, 29),
    "SELECT sum(n) FILTER (WHERE n < 30), sum(n) FILTER (WHERE n > 60) FROM sales": (10, 90),
    "SELECT sum(n) FILTER (WHERE n < 30), avg(n) FILTER (WHERE n < 40) FROM sales": (10, 90),
    "SELECT sum(n) FILTER (WHERE n < 30), avg(n) FILTER (WHERE n < 30 AND kind = 'a') FROM sales": (10, 29),
    "SELECT sum(n) FILTER (WHERE n < 30) FROM sales WHERE n > 20": (21, 29),
    "SELECT sum(CASE WHEN n < 30 THEN n END) FROM sales": (10, 29),
    "SELECT avg(CASE WHEN n < 30 THEN n ELSE 0 END) FROM sales": (0, 29),
    "SELECT avg(CASE WHEN n < 30 THEN n WHEN n > 50 AND n <= 60 THEN n + 100 END) FROM sales": (10, 160),
    "SELECT avg(CASE WHEN n < 30 OR kind = 'b' THEN n END) FROM sales": (10, 90),
    "SELECT count(DISTINCT owner), sum(n) FILTER (WHERE n < 30) FROM sales": (10, 29),
    "SELECT median(n) FROM sales WHERE n BETWEEN 20 AND 30": (20, 30),
    "SELECT var_pop(n) FROM sales WHERE n BETWEEN 20 AND 30": (20, 30),
    "SELECT sum(price) FROM sales WHERE price < 10": (0, 9.99),
    "SELECT sum(price) FROM sales WHERE price <= 10.005 AND price > 2": (2.01, 10),
    "SELECT sum(price * (1 - discount)) FROM sales WHERE discount < 0.05 AND price >= 50": (47.5, 100),
    "SELECT sum(coarse) FROM sales WHERE coarse BETWEEN 90 AND 510": (80, 520),
    "SELECT sum(coarse) FROM sales WHERE coarse BETWEEN 100 AND 500": (80, 520),
    "SELECT sum(f) FROM sales WHERE f <= 10": (0, 10),
    "SELECT sum(f) FROM sales WHERE f > 10 AND f < 20.25": (10, 20.25),
    "SELECT sum(f) FROM sales WHERE f >= 1e1": (10, 30),
    "SELECT sum(f) FROM sales WHERE f IN (7, 14)": (7, 14),
    "SELECT sum(small) FROM sales WHERE small < 1.1": (0, 1),
    "SELECT sum(small) FROM sales WHERE small <= 1.125 AND small > 0.4": (0.5, 1.25),
    "SELECT avg(date_diff('day', DATE '2024-01-01', day)) FROM sales WHERE day < '2024-02-01'": (0, 30),
    "SELECT avg(date_diff('day', day, DATE '2024-12-31')) FROM sales WHERE day >= '2024-12-01'": (0, 30),
    "SELECT avg(date_diff('hour', TIMESTAMP '2024-01-01', moment)) FROM sales WHERE moment < '2024-01-02'": (0, 23),
    "SELECT avg(n) FROM sales JOIN owners USING (owner) WHERE n < 30 AND age BETWEEN 30 AND 40": (10, 29),
    "SELECT avg(age) FROM sales JOIN owners USING (owner) WHERE n < 30 AND age BETWEEN 30 AND 40": (30, 40),
    "SELECT sum(list_price) FROM sales JOIN goods USING (good) WHERE list_price < 15": (10, 14.99),
    "SELECT avg(n) FROM (SELECT n FROM sales WHERE n < 31)": (10, 30),
    "SELECT avg(m) FROM (SELECT n + 1 AS m FROM sales WHERE n < 30)": (11, 30),
    "SELECT avg(m) FROM (SELECT owner, max(n) AS m FROM sales WHERE n < 30 GROUP BY owner)": (10, 29),
    "SELECT avg(m) FROM (SELECT owner, sum(n) AS m FROM sales WHERE n < 30 GROUP BY owner)": (10, 116),
    "SELECT avg(m) FROM (SELECT owner, sum(n) FILTER (WHERE n < 30) AS m FROM sales GROUP BY owner)": (10, 116),
    "SELECT avg(m) FROM (SELECT owner, count(*) AS m FROM sales GROUP BY owner HAVING count(*) > 2)": (3, 4),
    "SELECT avg(m) FROM (SELECT owner, sum(CASE WHEN n < 30 THEN n ELSE 0 END) AS m FROM sales GROUP BY 1)": (0, 116),
    "SELECT avg(b.n) FROM owners a LEFT JOIN sales b ON a.owner = b.owner AND b.n < 30": (10, 29),
    "SELECT avg(a.age) FROM owners a LEFT JOIN sales b ON a.owner = b.owner AND b.n < 30 AND a.age > 30": (20, 70),
    "SELECT avg(b.n) FROM owners a LEFT JOIN sales b ON a.owner = b.owner AND a.age > 30": (10, 90),
    "SELECT avg(a.n) FROM sales a JOIN sales b ON a.owner = b.owner AND a.sale < b.sale WHERE a.n < 30": (10, 29),
    "SELECT avg(d) FROM (SELECT owner, date_diff('day', min(day), max(day)) AS d FROM sales "
    "WHERE day BETWEEN '2024-03-01' AND '2024-03-31' GROUP BY owner)": (-30, 30),
    "SELECT avg(m) FROM (SELECT owner, n AS m FROM sales WHERE n < 30 UNION ALL SELECT owner, n FROM sales "
    "WHERE n BETWEEN 40 AND 50)": (10, 50),
    "SELECT avg(p) FROM (SELECT lag(n) OVER (PARTITION BY owner ORDER BY sale) AS p FROM sales WHERE n < 30)": (10, 29),
}  # fmt: skip
Answer = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("narrowed") / "x.duckdb"
    with duckanon.connect(found, role="steward") as con:
        for sql in (*_RECORDS.split(";"), *_CALLS.split(";\n")):
            con.execute(sql).fetchall()
    return found


@pytest.fixture(scope="module")
def ask(path: Path) -> Iterator[Callable[[str], tuple[Answer, list[AggregatesQuestion]]]]:
    """Asks a statement without noise: the answer, and the questions that were drawn for it."""
    drawn: list[AggregatesQuestion] = []

    def draw(con: duckdb.DuckDBPyConnection, asked: PaidQuestion, _: Any = None) -> Any:
        assert isinstance(asked, AggregatesQuestion)
        if asked.relation is None:
            check_clamped(con, asked)
        drawn.append(asked)
        return truth(con, asked)

    def asks(sql: str) -> tuple[Answer, list[AggregatesQuestion]]:
        drawn.clear()
        return con.execute(sql).fetchall(), [*drawn]

    with pytest.MonkeyPatch.context() as patch, duckanon.connect(path, role="analyst") as con:
        patch.setattr(mechanisms, "draw", draw)
        yield asks


def check_clamped(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion) -> None:
    """Of every record, also those that are not asked for, what is added up lies within its bounds.

    So the most that a unit can change follows from the text alone.
    """
    number = added_up(question)
    ((low, high),) = con.execute(f"SELECT min(n), max(n) FROM (SELECT {number.sql} AS n FROM sales)").fetchall()
    assert 0 <= low <= high <= number.steps


def added_up(question: AggregatesQuestion) -> Number:
    """What is added up, or ranked."""
    (number,) = (one.number for one, _ in question.measures if isinstance(one, Sums | Quantiles))
    return number


def is_same(answer: Answer, other: Answer) -> bool:
    pairs = zip(answer, other, strict=True)
    values = [(a, b) for row, same in pairs for a, b in zip(row, same, strict=True)]
    return all(a == b or (isinstance(a, float) and isclose(a, b, rel_tol=1e-9)) for a, b in values)


def without(patch: pytest.MonkeyPatch) -> None:
    """Conditions narrow nothing."""
    patch.setattr(numbers, "ranges", lambda *_: {})
    patch.setattr(values, "ranges", lambda *_: {})


@pytest.mark.parametrize("sql", sampled(list(STATEMENTS), every=4))
def test_bounds_are_those_of_the_records_that_are_asked_for(ask: Any, sql: str) -> None:
    """And the answer is the same as without."""
    answer, (question,) = ask(sql)
    number = added_up(question)
    assert (float(Fraction(number.low)), float(number.high)) == pytest.approx(STATEMENTS[sql], abs=1e-4)
    with pytest.MonkeyPatch.context() as patch:
        without(patch)
        plain, questions = ask(sql)
    wider = added_up(questions[0]) if questions else number
    assert Fraction(wider.low) <= Fraction(number.low)
    assert is_same(answer, plain)


def by_one_branch(patch: pytest.MonkeyPatch) -> None:
    """One branch of OR narrows bounds, though records of the other are asked for, too."""

    def narrowed(conditions: Iterable[Expr], types: Mapping[str, str], today: date) -> dict[str, Range[Any]]:
        branches = (condition.left if isinstance(condition, Or) else condition for condition in conditions)
        return ranges(branches, types, today)

    patch.setattr(numbers, "ranges", narrowed)


def by_what_a_left_join_finds(patch: pytest.MonkeyPatch) -> None:
    """The condition of a LEFT JOIN narrows the bounds of rows that stay without meeting it."""
    real = Join._with_left

    def joined(self: Join, made: Made, source: Source, same: Sequence[Source]) -> Made:
        found = real(self, made, source, same)
        return replace(found, fields=self._meeting(source.on, found.fields))

    patch.setattr(Join, "_with_left", joined)


@pytest.mark.parametrize(
    ("twin", "sql"),
    [
        (by_one_branch, "SELECT sum(n) FROM sales WHERE n < 33 OR kind = 'a'"),
        (
            by_what_a_left_join_finds,
            "SELECT avg(a.age) FROM owners a LEFT JOIN sales b ON a.owner = b.owner AND b.n < 33 AND a.age > 30",
        ),
    ],
)
def test_wrong_twins_are_seen(ask: Any, twin: Callable[[pytest.MonkeyPatch], None], sql: str) -> None:
    plain, _ = ask(sql)
    with pytest.MonkeyPatch.context() as patch:
        twin(patch)
        narrowed, questions = ask(sql)
    assert questions
    assert not is_same(narrowed, plain)
