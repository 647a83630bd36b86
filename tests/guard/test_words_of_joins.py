"""What is said of answers over joins and groups within units: in the ledger, beside the answer, and in errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import duckanon
from duckanon.errors import PolicyRefusal, UnsupportedQuery

_MADE = """
  CREATE TABLE customers AS SELECT i AS customer, ['north', 'south'][1 + i % 2] AS region FROM range(40) r(i);
  CREATE TABLE orders AS SELECT i AS order_id, i // 2 AS customer, i % 5 AS size, i % 3 AS shop FROM range(80) r(i);
  CREATE TABLE shops AS SELECT i AS shop FROM range(3) r(i);
  ALTER TABLE customers ADD PRIMARY KEY (customer);
  SELECT open_table('shops');
  SELECT protect('customers', population := 'p', privacy_unit := 'customer', rows_per_unit := 1, epsilon := 100,
    per_query := 1, public := ['region'], domains := {'region': ['north', 'south']});
  SELECT protect('orders', population := 'p', privacy_unit := 'customer', rows_per_unit := 2, per_query := 1,
    bounds := {'size': [0, 5]})
"""


@pytest.fixture(scope="module")
def analyst(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path: Path = tmp_path_factory.mktemp("words") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        for one in _MADE.split(";"):
            con.execute(one).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        assert isinstance(con, duckanon.Analyst)
        yield con


def test_the_ledger_names_columns_of_tables_alone(analyst: duckanon.Analyst) -> None:
    (question,) = analyst._guard.decide(
        "SELECT count(*) FROM customers c JOIN orders a USING (customer) JOIN orders b USING (customer) "
        "WHERE a.size > 1 AND b.size > 2 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.customer "
        "AND o.size <> a.size) AND c.region = 'north; \"x#2\"'"
    ).answers
    said = question.words
    assert "#" not in said.replace('north; "x#2"', "")
    assert "found" not in said
    assert "a condition on what is computed within each unit" in said
    assert "'north; \"x#2\"'" in said


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "SELECT a.found, count(*) FROM (SELECT customer, max(size) AS found FROM orders GROUP BY ALL) a "
            "JOIN (SELECT customer, min(size) AS found FROM orders GROUP BY ALL) b USING (customer) GROUP BY a.found",
            "by steps of found",
        ),
        (
            "SELECT avg(b.total) FROM (SELECT customer, sum(size) AS total FROM orders GROUP BY customer) a "
            "JOIN (SELECT customer, sum(size) AS total FROM orders GROUP BY customer) b USING (customer)",
            "count, sum of total of main.orders by nothing",
        ),
        (
            "SELECT n, count(*) FROM (SELECT c.customer, least(count(o.order_id), 5) AS n FROM customers c "
            "LEFT JOIN orders o ON c.customer = o.customer GROUP BY c.customer) GROUP BY n",
            "by steps of n",
        ),
    ],
)
def test_the_ledger_has_the_statements_own_names(analyst: duckanon.Analyst, sql: str, said: str) -> None:
    (question,) = analyst._guard.decide(sql).answers
    assert said in question.words
    (other,) = analyst._guard.decide(sql.replace("found", "seen").replace("total", "whole")).answers
    assert other.key == question.key, "It is the same question, whatever its columns are called."


@pytest.mark.parametrize(
    ("sql", "is_whole"),
    [
        ("SELECT avg(n) FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer)", True),
        (
            "SELECT avg(n) FROM (SELECT count(*) AS n FROM customers JOIN orders USING (customer) GROUP BY customer)",
            True,
        ),
        ("SELECT avg(n) FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer, size)", False),
        ("SELECT count(*) FROM customers JOIN orders USING (customer)", False),
    ],
)
def test_of_groups_of_units_nothing_is_left_out(analyst: duckanon.Analyst, sql: str, is_whole: bool) -> None:
    decision = analyst._guard.decide(sql)
    (question,) = decision.answers
    assert question.is_cut is not is_whole
    assert (question.protects == "all records of one customer") is is_whole
    assert ("rows_per_unit" in decision.steps[0].reason) is not is_whole


def test_several_groups_of_a_unit_in_a_join_are_cut_before(analyst: duckanon.Analyst) -> None:
    """What a join of several with several left out is left out of its groups, too."""
    decision = analyst._guard.decide(
        "SELECT avg(n) FROM (SELECT a.customer, count(*) AS n FROM orders a JOIN orders b USING (customer) "
        "GROUP BY ALL)"
    )
    assert "rows_per_unit" in decision.steps[0].reason


def test_a_noisy_zero_divides_nothing(analyst: duckanon.Analyst) -> None:
    found = analyst.execute(
        "SELECT 10 // (count(*) - count(*)), 10 % (n - n) FROM (SELECT 1 AS n), customers GROUP BY n"
    )
    assert found.fetchall() == [(None, None)]


def test_errors_are_one_sentence(analyst: duckanon.Analyst) -> None:
    spent = analyst.execute("SELECT count(*) FROM privacy_ledger()").fetchall()
    with pytest.raises(UnsupportedQuery, match="A subquery that stands for one value has several rows"):
        analyst.execute("SELECT region, count(*) + (SELECT shop FROM shops) FROM customers GROUP BY region")
    assert analyst.execute("SELECT count(*) FROM privacy_ledger()").fetchall() == spent
    with pytest.raises(PolicyRefusal, match="orders is joined with itself, and nothing in the join"):
        analyst.execute("SELECT count(*) FROM orders a JOIN orders b ON a.size = b.size")
