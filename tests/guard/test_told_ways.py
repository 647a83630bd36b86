"""Refusals that name a way out in words of their own: the part that is quoted, and that the way out works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import duckanon
from duckanon.errors import DuckanonError

# A statement, the beginning of its refusal, what else is said, and what it is told to ask instead.
TOLD = [
    ("SELECT count(*) FROM (SELECT DISTINCT cost FROM t)", "`SELECT DISTINCT cost FROM t`",
     "count(DISTINCT cost)", "SELECT count(DISTINCT clinic) FROM t"),
    ("SELECT avg(s) FROM (SELECT who, sum(price) AS s FROM t GROUP BY who)", "`sum(price)`",
     "in steps of a whole number", "SELECT sum(price), avg(price) FROM t"),
    ("PIVOT t ON e USING count(*) GROUP BY clinic HAVING clinic > 'c1'", "This PIVOT", "in FROM (PIVOT ...)",
     "FROM (PIVOT t ON e USING count(*) GROUP BY clinic) WHERE clinic > 'c1'"),
    ("SELECT min(day) FROM t", "`min(day)`", "ask for quantile_cont(day, 0.01).",
     "SELECT quantile_cont(day, 0.01) FROM t"),
    ("SELECT coutn(*) FROM t", "`coutn(*)`", "write count(...)", "SELECT count(*) FROM t"),
    ("SELECT clinic, coutn(*) FROM t GROUP BY clinic", "`coutn(*)`", "write count(...)",
     "SELECT clinic, count(*) FROM t GROUP BY clinic"),
    ("SELECT low(median(age)) FROM t", "`low(median(age))`", "ask for it without", "SELECT median(age) FROM t"),
    ("SELECT width_bucket(age, 0, 100, 10) AS b, count(*) FROM t GROUP BY b", "`width_bucket(age, 0, 100, 10)`",
     "as age // 10 + 1", "SELECT age // 10 + 1 AS b, count(*) FROM t GROUP BY b"),
]  # fmt: skip


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("told") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE t AS SELECT i AS pid, i % 50 AS who, 'c' || i % 4 AS clinic, (i % 90)::INTEGER AS age, "
            "i % 3 = 0 AS e, DATE '2024-01-01' + (i % 30)::INTEGER AS day, "
            "DATE '2024-01-01' + (i % 70)::INTEGER AS shipped, "
            "(i % 200 / 8)::DECIMAL(9, 2) AS price, i::DOUBLE AS cost FROM range(200) r(i); "
            "SELECT protect('t', privacy_unit := 'pid', rows_per_unit := 1, unit := 'who', max_size := 300, "
            "epsilon := 900, per_query := 1, public := ['clinic', 'age', 'e', 'cost'], "
            "bounds := {'price': [0, 300, 0.01], 'age': [0, 100], 'day': [DATE '2024-01-01', DATE '2024-03-31'], "
            "'shipped': [DATE '2024-01-01', DATE '2024-03-31']}, domains := {'clinic': ['c0', 'c1', 'c2', 'c3'], "
            "'age': {'from': 0, 'to': 89, 'step': 1}, 'e': ['true', 'false']})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        yield con


@pytest.mark.parametrize(("sql", "part", "way", "instead"), TOLD)
def test_what_is_told_is_quoted_and_works(con: duckanon.Analyst, sql: str, part: str, way: str, instead: str) -> None:
    with pytest.raises(DuckanonError) as refused:
        con.execute(sql)
    said = str(refused.value)
    assert said.startswith(part)
    assert way in said
    con.execute(instead).fetchall()


@pytest.mark.parametrize("end", ["ORDER BY clinic DESC", "order by clinic limit 2 offset 1;", "LIMIT 2 -- two"])
def test_a_pivot_is_sorted_and_cut_where_it_ends_or_around_it(con: duckanon.Analyst, end: str) -> None:
    pivot = "PIVOT t ON e USING count(*) GROUP BY clinic"
    ended = con.execute(f"-- a table\n{pivot} {end}").fetchall()
    assert ended == con.execute(f"FROM ({pivot}) {end}").fetchall()
    assert [row[0] for row in ended] == {"O": ["c3", "c2", "c1", "c0"], "o": ["c1", "c2"], "L": ["c0", "c1"]}[end[0]]


def test_what_a_pivot_will_cost_is_explained(con: duckanon.Analyst) -> None:
    """Its values are read first, where the policy lists them; explaining buys none."""
    pivot = "PIVOT t ON clinic USING count(*) FILTER (age > 31) GROUP BY e"
    spent = con.execute("SELECT spent FROM privacy_budget()").fetchall()
    asked = f"SELECT decision, epsilon FROM explain_privacy('{pivot}')"
    assert con.execute(asked).fetchall() == [("rewritten", 1.0)]
    assert [float(one.epsilon or 0) for one in con.explain(pivot).steps] == [1.0]
    bought = "PIVOT (SELECT clinic, count(*) AS n FROM t WHERE age > 32 GROUP BY clinic) ON n USING count(*)"
    assert con.execute(f"SELECT decision FROM explain_privacy('{bought}')").fetchall() == [("refused",)]
    assert con.explain(bought).refusal is not None
    assert con.execute("SELECT spent FROM privacy_budget()").fetchall() == spent


def test_values_that_are_not_listed_are_written_out(con: duckanon.Analyst) -> None:
    pivot = "PIVOT (SELECT price, e, year(day) AS y FROM t) ON price{} USING count(*) GROUP BY e"
    with pytest.raises(DuckanonError, match=r"write them out, as in ON price IN \('a', 'b'\)\.$"):
        con.execute(pivot.format(""))
    assert len(con.execute(pivot.format(" IN (1.5, 2)")).fetchall()[0]) == 3
