"""A population for tests: two protected tables of the same persons, open and closed tables around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.analyst import Analyst
from duckanon.errors import DuckanonError

# State A has one county, and 5 of its 60 persons are not insured: enough to be told, but not by disease.
PERSONS = """
  CREATE TABLE persons AS
  SELECT i AS person, i // 3 AS household, CASE WHEN i < 60 THEN 'a1' WHEN i < 160 THEN 'b1' ELSE 'b2' END AS county,
    CASE WHEN i < 60 THEN 'A' ELSE 'B' END AS state, i NOT IN (1, 2, 3, 5, 6) AND (i < 60 OR i % 2 = 0) AS insured,
    20 + i % 40 AS age, CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex,
    CASE WHEN i % 4 = 0 THEN 'flu' WHEN i % 4 = 1 THEN 'hiv' ELSE 'none' END AS dx, 1000 + 7 * i AS income,
    'n' || i AS name
  FROM range(240) r(i)
"""
AROUND = """
  CREATE TABLE visits AS SELECT i % 240 AS person, i % 5 AS clinic, ['flu', 'hiv', 'none'][1 + i % 3] AS dx
    FROM range(600) r(i);
  CREATE TABLE counties AS SELECT * FROM (VALUES ('A', 'a1'), ('B', 'b1'), ('B', 'b2'), ('C', 'c1')) v(state, county);
  CREATE TABLE salaries AS SELECT 1 AS x;
  CREATE VIEW people AS SELECT state, age FROM persons;
  CREATE MACRO aged(n) AS TABLE SELECT count(*) AS n FROM persons WHERE age = n
"""
POLICY = """
  SELECT protect('persons', population := 'residents', privacy_unit := 'person', rows_per_unit := 1,
    epsilon := {epsilon}, per_query := 1, {more} unit := 'household', hierarchy := ['state', 'county'], max_size := 5,
    public := ['state', 'county', 'insured', 'dx', 'sex'],
    domains := {{'state': ['A', 'B', 'C'], 'county': 'counties', 'dx': ['flu', 'hiv', 'none'], 'sex': ['f', 'm'],
      'insured': [true, false]}},
    quasi_identifiers := ['age', 'sex'], sensitive := ['dx'], k := 5, small := 5, drop := ['name'])
"""
VISITS = """
  SELECT protect('visits', population := 'residents', privacy_unit := 'person', rows_per_unit := 3, per_query := 1,
    public := ['clinic', 'dx'], domains := {'clinic': [0, 1, 2, 3, 4], 'dx': ['flu', 'hiv', 'none']})
"""


def make(path: Path, *changes: str, epsilon: str = "100", more: str = "") -> Path:
    """The database. changes: statements before the tables are protected. more: further arguments of protect."""
    with duckanon.connect(path, role="steward") as con:
        populate(con, *changes, epsilon=epsilon, more=more)
    return path


def populate(con: Any, *changes: str, epsilon: str = "100", more: str = "") -> None:
    """The same on a steward's connection."""
    run(con, PERSONS, AROUND, *changes, "SELECT open_table('counties')")
    run(con, POLICY.format(epsilon=epsilon, more=more), VISITS)


def run(con: Any, *statements: str) -> None:
    for sql in statements:
        con.execute(sql).fetchall()


def decide(path: Path, *statements: str) -> None:
    """What a steward does between two statements of an analyst."""
    with duckanon.connect(path, role="steward") as con:
        run(con, *statements)


@contextmanager
def analyst(path: Path) -> Iterator[Analyst]:
    con = duckanon.connect(path, role="analyst")
    assert isinstance(con, Analyst)
    with con:
        yield con


def spent(con: Any) -> Fraction:
    """What was charged to the population, exactly."""
    ((found,),) = con.execute("SELECT spent_exact FROM privacy_budget() WHERE population = 'residents'").fetchall()
    return Fraction(found)


def seen(con: Analyst, sql: str) -> tuple[Any, ...]:
    """All that comes back of a statement: rows and types, or the error with what hangs on it."""
    try:
        con.execute(sql)
        return "rows", [column[:2] for column in con.description], con.fetchall()
    except (DuckanonError, duckdb.Error) as error:
        return "error", type(error).__name__, str(error), str(error.__cause__)


def refused(con: Analyst, sql: str, why: str = ".") -> str:
    """The sentence of a refusal, which must charge nothing and be the one that explain gives."""
    before = con.execute("FROM privacy_ledger()").fetchall()
    with pytest.raises(DuckanonError, match=why) as raised:
        con.execute(sql)
    assert con.execute("FROM privacy_ledger()").fetchall() == before
    steps = con.explain(sql).steps
    assert [str(step.verdict) for step in steps if step.reason == str(raised.value)] == ["refused"]
    return str(raised.value)
