"""Parameters of statements about protected tables are constants, so the question is the same however it is written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import duckanon
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.rewrite.admit import numbered
from tests.amounts import sampled
from tests.guard.residents import analyst, decide

KEY = UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckanon.Analyst]:
    path = tmp_path / "x.duckdb"
    decide(
        path,
        "CREATE TABLE persons AS SELECT i AS pid, i % 90 AS age, 'S' || i % 3 AS state, i % 2 = 0 AS vote, "
        "(i / 10)::DECIMAL(8,2) AS d, DATE '2000-01-01' + i::INT AS born, TIMESTAMP '2000-01-01' AS at, "
        f"TIME '01:02:03' AS t, UUID '{KEY}' AS u, i / 7 AS f FROM range(100) r(i); "
        "CREATE TABLE lookup AS SELECT 1 AS a; SELECT open_table('lookup'), protect('persons', epsilon := 1000, "
        "per_query := 1, bounds := {'age': [0, 100]}, "
        "public := ['age', 'state', 'vote', 'd', 'born', 'at', 't', 'u', 'f'])",
    )
    with analyst(path) as con:
        yield con


SAME = [
    ("age > {}", 30, "30"),
    ("age > {}", -3, "-3"),
    ("age > {}", 10**30, "1000000000000000000000000000000"),
    ("age > {}", 30.0, "30"),
    ("f > {}", 0.5, "0.5::DOUBLE"),
    ("age = {}", None, "NULL"),
    ("vote = {}", True, "true"),
    ("d > {}", Decimal("3.50"), "3.5"),
    ("state = {}", "S1", "'S1'"),
    ("state = {}", "it's", "'it''s'"),
    ("born > {}", date(2000, 2, 1), "DATE '2000-02-01'"),
    ('"at" > {}', datetime(2000, 1, 1, 4, 5, 6, 7), "TIMESTAMP '2000-01-01 04:05:06.000007'"),
    ("t > {}", time(1, 2), "TIME '01:02:00'"),
    ("u = {}", KEY, f"'{KEY}'"),
    ("\"at\" > DATE '2000-01-01' + {}", timedelta(days=1, seconds=5), "INTERVAL '1 day 5 seconds'"),
]


@pytest.mark.parametrize(("condition", "value", "text"), sampled(SAME))
def test_a_value_is_as_good_as_a_constant(con: duckanon.Analyst, condition: str, value: Any, text: str) -> None:
    sql = f"SELECT count(*) FROM persons WHERE {condition}"
    first = con.execute(sql.format(text)).fetchall()
    assert con.execute(sql.format("?"), [value]).fetchall() == first
    assert con.execute(sql.format("$1"), (value,)).fetchall() == first
    assert con.sql(sql.format("$x"), params={"x": value}).fetchall() == first
    assert con.execute("SELECT spent FROM privacy_budget()").fetchall() == [(1.0,)]


@pytest.mark.parametrize(
    ("place", "given"),
    [("?", [0.25]), ("$1", [0.25]), ("$p", {"p": 0.25}), ("?", [Decimal("0.25")]), ("1/4", None), ("0.5 * ?", [0.5])],
)
def test_the_place_of_a_quantile_may_be_one(con: duckanon.Analyst, place: str, given: Any) -> None:
    """It is the same question as with the number written out."""
    written = con.execute("SELECT quantile_cont(age, 0.25) FROM persons").fetchall()
    assert con.execute(f"SELECT quantile_cont(age, {place}) FROM persons", given).fetchall() == written
    assert con.execute("SELECT charges FROM privacy_budget()").fetchall() == [(1,)]


@pytest.mark.parametrize("value", [0.1, 0.3, 0.9, 0.999, 1 / 3])
def test_a_float_is_the_place_that_is_nearest_to_it(con: duckanon.Analyst, value: float) -> None:
    con.execute("SELECT quantile_cont(age, ?) FROM persons", [value]).fetchall()


@pytest.mark.parametrize("value", ["0.5", 1.5, 0.12345, None, date(2024, 1, 1)])
def test_other_places_are_refused(con: duckanon.Analyst, value: Any) -> None:
    with pytest.raises(PolicyRefusal, match="The place of a quantile"):
        con.execute("SELECT quantile_cont(age, ?) FROM persons", [value])


def test_question_marks_are_numbered_as_they_stand(con: duckanon.Analyst) -> None:
    sql = "WITH q AS (SELECT count(*) AS n FROM persons WHERE age > ?) SELECT '?', ?, n FROM q WHERE true = ? LIMIT ?"
    ((mark, one, n),) = con.execute(sql, [30, "one", True, 1]).fetchall()
    assert (mark, one) == ("?", "one")
    assert con.execute("SELECT count(*) FROM persons WHERE age > 30").fetchall() == [(n,)]


@pytest.mark.parametrize(
    "value", sampled([[b"x"], {"a": 1}, b"x", time(1, tzinfo=UTC), "x" * 10_001, "a\0b", object(), 1j])
)
def test_other_values_are_refused(con: duckanon.Analyst, value: Any) -> None:
    with pytest.raises(UnsupportedQuery, match="A parameter of a statement about a protected table is"):
        con.execute("SELECT count(*) FROM persons WHERE state = ?", [value])
    assert con.execute("SELECT spent FROM privacy_budget()").fetchall() == [(0.0,)]


def test_lists_are_values(con: duckanon.Analyst) -> None:
    """And the same question as with their items written out."""
    written = con.execute("SELECT count(*) FROM persons WHERE age IN (30, 31)").fetchall()
    spent = con.execute("SELECT spent FROM privacy_budget()").fetchall()
    for condition, value in (("age = ANY (?)", [30, 31]), ("age = SOME ($1)", (30, 31))):
        assert con.execute(f"SELECT count(*) FROM persons WHERE {condition}", [value]).fetchall() == written
    assert con.execute("SELECT spent FROM privacy_budget()").fetchall() == spent


@pytest.mark.parametrize("given", sampled([None, [], {}, {"y": 1}, [1, 2], {"1": 1, "y": 2}, 5, "5"]))
def test_each_parameter_has_a_value(con: duckanon.Analyst, given: Any) -> None:
    with pytest.raises(UnsupportedQuery, match="parameter"):
        con.execute("SELECT count(*) FROM persons WHERE age > ?", given)


def test_values_are_checked_like_constants(con: duckanon.Analyst) -> None:
    for value in ("x", float("nan"), date(2000, 1, 1)):
        with pytest.raises(duckanon.errors.DuckanonError):
            con.execute("SELECT count(*) FROM persons WHERE age = ?", [value])


def test_many_sets(con: duckanon.Analyst) -> None:
    con.executemany("SELECT count(*) FROM persons WHERE age > ?", [[1], [2], [1]])
    assert con.execute("SELECT spent FROM privacy_budget()").fetchall() == [(2.0,)]


def test_open_tables_take_them_as_they_are(con: duckanon.Analyst) -> None:
    assert con.execute("SELECT a + ?, ? FROM lookup", [1, [1, 2]]).fetchall() == [(2, [1, 2])]
    con.execute("CREATE TEMP TABLE t AS SELECT 1 AS a")
    con.executemany("INSERT INTO t SELECT ?", [[2], [3]])
    assert con.execute("FROM t").fetchall() == [(1,), (2,), (3,)]


def test_numbered() -> None:
    assert numbered("SELECT ?, '?', \"?\", /* ? */ ? -- ?") == "SELECT $1, '?', \"?\", /* ? */ $2 -- ?"
    assert numbered("SELECT 'x") == "SELECT 'x"
    assert numbered("SELECT '? ?") == "SELECT '? ?"
