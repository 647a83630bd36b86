"""Several FILTERs where a sample of each unit's records counts: it is made of those that some FILTER asks for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import duckanon
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import AggregatesQuestion
from tests.guard.truthful import truth

# Each person has ten records, of which two count: one of each kind, two of them without a value.
TABLE = """
  CREATE TABLE events AS SELECT i // 10 AS person, chr((97 + i % 10)::INT) AS kind, i % 2 AS half,
    CASE WHEN i % 10 > 1 THEN i % 10 END AS v, i AS id
  FROM range(40) r(i)
"""
POLICY = """
  SELECT protect('events', population := 'people', privacy_unit := 'person', rows_per_unit := 2, epsilon := 1000,
    per_query := 1, public := ['half'], domains := {'half': [0, 1]}, bounds := {'v': [0, 9]})
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("samples") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(TABLE).fetchall()
        con.execute(POLICY).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        yield con


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FILTER (kind = 'c'), count(*) FILTER (kind = 'd') FROM events",
        "SELECT half, count(*) FILTER (kind = 'c' AND v > 1) AS c, coalesce(sum(v) FILTER (kind IN ('d', 'x')), 0) "
        "FROM events GROUP BY half HAVING count(*) FILTER (kind = 'c') >= 0 ORDER BY half",
        "SELECT sum(CASE WHEN kind = 'c' THEN 1 ELSE 0 END), sum(CASE WHEN kind = 'd' THEN v ELSE 0 END), "
        "count(CASE WHEN kind = 'c' THEN v END) FROM events",
        "SELECT avg((kind = 'c')::INT) FILTER (kind > 'b'), count(v) FROM events WHERE kind IN ('a', 'b', 'c', 'd')",
        "SELECT count(DISTINCT person) FILTER (kind = 'c'), count(*) FILTER (kind = 'd') FROM events",
        "SELECT half, count(*) FILTER (v = 3), count(*) FILTER (v = 2) FROM events GROUP BY ROLLUP (half) ORDER BY ALL",
    ],
)
def test_what_meets_no_filter_takes_no_place_of_what_does(
    con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    """No person has more than two records that are asked for, so all of these count."""
    monkeypatch.setattr(mechanisms, "draw", truth)
    with con._con.cursor() as plain:
        wanted = plain.execute(sql).fetchall()
    assert con.execute(sql).fetchall() == wanted


WHERES = ("true", "kind = 'c' OR kind = 'd'", "kind IN ('c', 'd')", "half = 1", "NOT (v > 6)")


@pytest.mark.parametrize(
    "filters",
    [
        ["kind = 'c'", "kind = 'd'"],
        ["v > 3", "v <= 3"],
        ["v > 3 AND half = 1", "v IS NULL"],
        ["kind = 'c'", "kind IN ('c', 'e')", "v IS NULL AND half = 1"],
        ["half = 1 AND v > 3", "half = 1 AND kind = 'e'"],
        ["1 = 1", "v > 3"],
    ],
)
@pytest.mark.parametrize("where", WHERES)
def test_the_sample_is_of_all_records_that_are_counted(con: duckanon.Analyst, filters: list[str], where: str) -> None:
    asked = ", ".join(f"count(*) FILTER (WHERE {one})" for one in filters)
    (question,) = con.explain(f"SELECT {asked} FROM events WHERE {where}").answers
    assert isinstance(question, AggregatesQuestion)
    records = "SELECT id FROM events WHERE ({}) ORDER BY id"
    with con._con.cursor() as plain:
        sampled = plain.execute(records.format(" AND ".join(question.filter) or "true")).fetchall()
        counted = plain.execute(records.format(f"({where}) AND (({') OR ('.join(filters)}))")).fetchall()
    assert sampled == counted


def test_records_without_a_condition_are_all_asked_for(con: duckanon.Analyst) -> None:
    (question,) = con.explain("SELECT count(*) FILTER (kind = 'c'), count(*) FROM events").answers
    assert isinstance(question, AggregatesQuestion)
    assert question.filter == ()


def test_a_condition_that_says_no_more_than_where_is_no_other_question(con: duckanon.Analyst) -> None:
    sql = "SELECT count(*) FILTER (kind = 'c'), count(*) FILTER (kind = 'd') FROM events WHERE {}"
    (question,) = con.explain(sql.format("kind IN ('c', 'd')")).answers
    assert isinstance(question, AggregatesQuestion)
    assert len(question.filter) == 1
