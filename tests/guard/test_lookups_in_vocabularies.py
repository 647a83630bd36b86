"""Records looked up in open tables of concepts, as hospitals' queries do: answers without noise are DuckDB's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError, PolicyRefusal
from tests.guard.truthful import truthful

__all__ = ["truthful"]
_TABLES = """
  CREATE TABLE concept AS FROM (VALUES (1, 'flu', 'finding'), (2, 'cold', 'finding'), (3, 'asthma', 'finding'),
    (4, 'infection', 'class'), (5, 'lung', 'class'), (8, 'male', 'sex'), (9, 'female', 'sex')) v(id, name, kind);
  CREATE TABLE ancestor AS FROM (VALUES (4, 1), (4, 2), (5, 1), (5, 3), (1, 1)) v(above, below);
  CREATE TABLE person AS SELECT i::INTEGER AS person, 8 + i % 2 AS sex, (1940 + i % 60)::INTEGER AS born
    FROM range(300) r(i);
  CREATE TABLE illness AS SELECT i::INTEGER AS number, (i % 250)::INTEGER AS person, 1 + i % 3 AS code,
    DATE '2020-01-01' + (i % 700)::INTEGER AS day FROM range(600) r(i);
  ALTER TABLE person ADD PRIMARY KEY (person); ALTER TABLE illness ADD PRIMARY KEY (number);
  ALTER TABLE concept ADD PRIMARY KEY (id)
"""
_POLICY = """
  SELECT open_table('concept'); SELECT open_table('ancestor');
  SELECT protect('person', population := 'persons', privacy_unit := 'person', rows_per_unit := 1, epsilon := 100,
    per_query := 1, public := ['sex'], domains := {'sex': [8, 9]}, bounds := {'born': [1940, 1999]});
  SELECT protect('illness', population := 'persons', privacy_unit := 'person', rows_per_unit := 3, epsilon := 100,
    per_query := 1, public := ['code'], domains := {'code': 'concept.id'},
    bounds := {'day': [DATE '2020-01-01', DATE '2021-12-31']})
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        for one in (*_TABLES.split(";"), *_POLICY.split(";")):
            steward.execute(one).fetchall()
    return path


@pytest.fixture
def con(path: Path, truthful: None) -> Iterator[duckanon.Analyst]:
    with duckanon.connect(path, role="analyst") as analyst:
        yield analyst


@pytest.fixture(scope="module")
def exact() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(_TABLES)
        yield con


_ONE_ROW = [
    # Of the rows with a given ancestor each code has one.
    "SELECT count(*) FROM illness JOIN ancestor ON below = code WHERE above = 4",
    "SELECT count(DISTINCT person) FROM illness, ancestor a, concept c "
    "WHERE a.below = code AND c.id = a.above AND c.name = 'lung'",
    "SELECT count(*) FROM illness JOIN (SELECT below FROM ancestor WHERE above IN (4, 5) GROUP BY 1) ON below = code",
    "WITH lung AS (SELECT a.below FROM ancestor a JOIN concept c ON c.id = a.above WHERE c.name LIKE 'lu%') "
    "SELECT count(DISTINCT i.person) FROM lung JOIN illness i ON i.code = below JOIN person p ON p.person = i.person",
    "SELECT count(*), count(a.above) FROM illness LEFT JOIN ancestor a ON a.below = code AND a.above = 5",
    # Rows without a table.
    "SELECT count(*) FROM illness, (SELECT DATE '2020-06-01' AS first, DATE '2020-12-31' AS last) "
    "WHERE day BETWEEN first AND last",
    "WITH named(place, called) AS (SELECT 1, 'a' UNION ALL SELECT 2, 'b' UNION ALL SELECT 2 + 1, 'b') "
    "SELECT called, count(*) FROM illness JOIN named ON place = code GROUP BY called",
    "WITH ages(age, old) AS (SELECT 70, 'old' UNION ALL SELECT 71, 'old' UNION ALL SELECT 30, 'young') SELECT count(*) "
    "FROM illness i JOIN person p ON p.person = i.person JOIN ages ON age = year(day) - born WHERE old = 'old'",
]


@pytest.mark.parametrize("sql", _ONE_ROW)
def test_rows_of_open_tables_that_a_record_meets_once_are_looked_up(
    con: duckanon.Analyst, exact: duckdb.DuckDBPyConnection, sql: str
) -> None:
    answers = sorted(row for row in con.execute(sql).fetchall() if any(row))
    assert answers == sorted(exact.execute(sql).fetchall())


@pytest.mark.parametrize(
    "sql",
    [
        # A code may have both ancestors, or another number of days.
        "SELECT count(DISTINCT person) FROM illness JOIN ancestor ON below = code WHERE above IN (4, 5)",
        "SELECT median(born) FROM illness i JOIN person p ON p.person = i.person, (SELECT 1 AS x UNION ALL SELECT 2)",
        # A LEFT JOIN keeps records that the condition on the row around it leaves out.
        "SELECT count(DISTINCT person) FROM illness LEFT JOIN ancestor a ON a.below = code AND code = 4",
    ],
)
def test_rows_of_open_tables_that_a_record_meets_several_times_are_not(con: duckanon.Analyst, sql: str) -> None:
    with pytest.raises(PolicyRefusal):
        con.execute(sql)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        # Each code with the name of its concept, and no other.
        ("SELECT code, name, count(*) FROM illness JOIN concept ON id = code GROUP BY ALL", 7),
        ("SELECT sex, name, count(*) FROM person JOIN concept ON id = sex GROUP BY ALL", 2),
        ("SELECT name, count(*) FROM illness JOIN concept ON id = code WHERE code IN (1, 3) GROUP BY ALL", 2),
        ("SELECT c.name, s.name, count(*) FROM illness i JOIN person p ON i.person = p.person "
         "JOIN concept c ON c.id = code JOIN concept s ON s.id = sex WHERE code = 1 AND sex = 9 GROUP BY ALL", 1),
    ],
)  # fmt: skip
def test_keys_that_a_join_calls_equal_have_one_row_each(
    con: duckanon.Analyst, exact: duckdb.DuckDBPyConnection, sql: str, rows: int
) -> None:
    answers = con.execute(sql).fetchall()
    assert len(answers) == rows
    assert sorted(row for row in answers if row[-1]) == sorted(exact.execute(sql).fetchall())


def test_a_condition_that_another_type_does_not_hold_stays_on_its_own_column(con: duckanon.Analyst) -> None:
    sql = "SELECT name, count(*) FROM illness JOIN concept ON id = code WHERE code < 3000000000 GROUP BY ALL"
    assert len(con.execute(sql).fetchall()) == 7


_FIRST = "(SELECT *, rank() OVER (PARTITION BY person ORDER BY day) AS place FROM illness)"
_OF_UNITS = [
    # A record may meet several rows of an open table where it is asked whether there are any.
    "SELECT sex, count(*) FROM person p WHERE EXISTS (SELECT 1 FROM illness i, ancestor a WHERE i.person = p.person "
    "AND a.below = i.code AND a.above <= 5 AND i.day > DATE '2020-06-01' AND year(i.day) - p.born < 60) GROUP BY sex",
    "SELECT sex, count(*) FROM person p WHERE NOT EXISTS (SELECT 1 FROM illness i JOIN ancestor a ON a.below = i.code "
    "WHERE i.person = p.person) GROUP BY sex",
    "SELECT sex, count(*) FROM person p WHERE p.person IN (SELECT i.person FROM illness i JOIN ancestor a "
    "ON a.below = i.code AND a.above = 5) GROUP BY sex",
    # Several rows of a unit on both sides, and a constant beside what differs.
    "SELECT ill, count(*) FROM (SELECT p.person, coalesce(ill, 0) AS ill FROM person p LEFT JOIN "
    "(SELECT DISTINCT person, 1 AS ill FROM illness WHERE code = 2) i ON i.person = p.person) GROUP BY ill",
    "SELECT other, count(*) FROM (SELECT a.person, a.day, max(CASE WHEN b.code = 2 THEN 1 ELSE 0 END) AS other "
    "FROM illness a LEFT JOIN illness b ON b.person = a.person AND b.day > a.day AND b.code > 1 "
    "GROUP BY a.person, a.day) GROUP BY other",
    "SELECT count(*), count(b.code), count(c.code) FROM illness a LEFT JOIN illness b ON b.person = a.person "
    "AND b.day > a.day LEFT JOIN illness c ON c.person = a.person AND c.day < a.day",
    # The same expression, where names are written in another way.
    "SELECT date_diff('day', day, DATE '2022-01-01') // 30 AS months, count(*) FROM illness i "
    "GROUP BY Date_Diff('day', i.DAY, DATE '2022-01-01') // 30",
    f"SELECT count(*) FROM (SELECT DISTINCT person, day FROM {_FIRST} WHERE place = 1)",
    f"SELECT count(*), count(DISTINCT person) FROM (SELECT DISTINCT person, place FROM {_FIRST})",
    # The unit's column in one table is that in the other.
    "SELECT y, count(*) FROM (SELECT DISTINCT person, year(day) AS y FROM illness) a JOIN (SELECT p.person, born, "
    "min(day) AS first FROM illness i JOIN person p ON p.person = i.person GROUP BY p.person, born) b "
    "ON a.person = b.person GROUP BY y",
    # Several values of a look-up in a join of several rows with several others.
    "SELECT name, count(*) FROM (SELECT DISTINCT a.person, c.name FROM illness a JOIN illness b ON a.person = b.person "
    "JOIN concept c ON c.id = a.code WHERE b.day >= a.day) GROUP BY name",
    "SELECT count(*) FROM (SELECT p.person, count(*) AS n FROM illness i JOIN person p ON p.person = i.person "
    "GROUP BY p.person) WHERE n > 2",
]


@pytest.mark.parametrize("sql", _OF_UNITS)
def test_what_is_computed_within_units_is_followed(
    con: duckanon.Analyst, exact: duckdb.DuckDBPyConnection, sql: str
) -> None:
    answers = sorted(row for row in con.execute(sql).fetchall() if row[-1])
    assert answers == sorted(exact.execute(sql).fetchall())


def test_a_lookup_that_no_longer_has_one_row_is_another_question(path: Path, truthful: None) -> None:
    sql = "SELECT count(*) FROM illness JOIN ancestor ON below = code WHERE above = 1"
    with duckanon.connect(path, role="analyst") as analyst:
        analyst.execute(sql).fetchall()
    with duckanon.connect(path, role="steward") as steward:
        steward.execute("INSERT INTO ancestor VALUES (1, 1)").fetchall()
    try:
        with duckanon.connect(path, role="analyst") as analyst, pytest.raises(DuckanonError):
            analyst.execute(sql.replace("count(*)", "count(DISTINCT person)"))
    finally:
        with duckanon.connect(path, role="steward") as steward:
            steward.execute("DELETE FROM ancestor WHERE above = 1").fetchall()
            steward.execute("INSERT INTO ancestor VALUES (1, 1)").fetchall()
