"""The suites' comparison finds what is wrong with an answer, and nothing wrong with an answer of the same meaning."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.suites.compare import Column, Difference, Rounding, columns, difference, step, unlimited

KEY, MEAN, NUMBER, PLACE = Column.KEY, Column.MEAN, Column.NUMBER, Column.PLACE
SCHEMA = {
    "sales": {"shop": "VARCHAR", "item": "INTEGER", "price": "DECIMAL(8, 2)"},
    "shops": {"shop": "VARCHAR", "state": "VARCHAR"},
}
EXACT = [("a", 3, Decimal("1.50")), ("b", 5, Decimal("2.25"))]


@pytest.mark.parametrize(
    "mine",
    [
        EXACT[::-1],
        [("a", 3, 1.5), ("b", 5.0, 2.25)],
        [*EXACT, ("c", 0, None), ("d", 0, 0.0), ("e", None, float("nan"))],
    ],
    ids=["another order", "other types of numbers", "rows of zeros"],
)
def test_what_means_the_same_is_equal(mine: list[Any]) -> None:
    assert difference(mine, EXACT, [KEY, NUMBER, NUMBER]) is None


@pytest.mark.parametrize(
    ("mine", "wrong"),
    [
        ([("a", 3, 1.5), ("b", 6, 2.25)], Difference("missing", ("b", 5, 2.25))),
        ([("a", 3, 1.5), ("b", 5, 2.2500001)], Difference("missing", ("b", 5, 2.25))),
        (EXACT[:1], Difference("missing", ("b", 5, 2.25))),
        ([*EXACT, ("c", 1, 0)], Difference("too many", ("c", 1, 0))),
        ([*EXACT, EXACT[0]], Difference("too many", ("a", 3, 1.5))),
    ],
    ids=["a count", "a sum", "no row", "a row of nobody", "a row twice"],
)
def test_an_unequal_answer_is_found(mine: list[Any], wrong: Difference) -> None:
    assert difference(mine, EXACT, [KEY, NUMBER, NUMBER]) == wrong


def test_rounding_moves_sums_and_means_and_no_counts() -> None:
    rounding = Rounding(step=0.5, records=12)
    assert difference([("a", 10, 21.5, 2.2)], [("a", 10, 20.0, 2.0)], [KEY, NUMBER, NUMBER, MEAN], rounding) is None
    for wrong in (("a", 11, 20.0, 2.0), ("a", 10, 23.0, 2.0), ("a", 10, 20.0, 2.3)):
        assert difference([wrong], [("a", 10, 20.0, 2.0)], [KEY, NUMBER, NUMBER, MEAN], rounding)
    assert step(["Values are rounded: price to steps of 0.01, cost to steps of 1e-05.", "Nothing."]) == 0.01


def test_a_rank_tells_nothing_of_a_row_of_zeros() -> None:
    assert difference([("a", 3, 1), ("b", 0, 2)], [("a", 3, 1)], [KEY, NUMBER, PLACE]) is None
    assert difference([("a", 3, 2)], [("a", 3, 1)], [KEY, NUMBER, PLACE]) == Difference("missing", ("a", 3, 1))


def test_midnight_is_the_day() -> None:
    assert difference([(date(2024, 1, 1), 1)], [(datetime(2024, 1, 1), 1)], [KEY, NUMBER]) is None


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("SELECT shop, count(*), avg(price) FROM sales GROUP BY shop", [KEY, NUMBER, MEAN]),
        ("SELECT n, count(*) FROM (SELECT shop, count(*) AS n FROM sales GROUP BY shop) GROUP BY n", [KEY, NUMBER]),
        (
            "WITH s AS (SELECT shop, sum(price) AS paid FROM sales GROUP BY shop) "
            "SELECT state, paid FROM s JOIN shops USING (shop)",
            [KEY, NUMBER],
        ),
        ("SELECT shop, sum(price), rank() OVER (ORDER BY sum(price)) FROM sales GROUP BY shop", [KEY, NUMBER, PLACE]),
        ("SELECT 'a', count(*) FROM sales UNION ALL SELECT shop, item FROM sales", [KEY, NUMBER]),
        ("SELECT (SELECT avg(price) FROM sales), shop FROM shops", [NUMBER, KEY]),
    ],
)
def test_what_columns_hold(sql: str, kinds: list[Column]) -> None:
    assert columns(sql, SCHEMA) == kinds


def test_only_the_limit_at_the_end_is_left_off() -> None:
    inner = "SELECT * FROM (SELECT shop FROM sales LIMIT 3) AS s"
    assert unlimited(f"{inner} ORDER BY shop LIMIT 5 OFFSET 2") == f"{inner} ORDER BY shop"
    assert unlimited(inner) == inner
