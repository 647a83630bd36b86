"""What a question reads of open tables is part of it: when these change, another question is asked, and charged."""

from __future__ import annotations

from pathlib import Path

import pytest

import duckanon
from duckanon.analyst import Analyst
from duckanon.governance import answers
from duckanon.releases import mechanisms
from tests.amounts import sampled
from tests.guard.truthful import truth

SIZES = (
    "SELECT size, count(*) FROM (SELECT hid, count(*) AS size FROM persons {} GROUP BY hid) GROUP BY size ORDER BY size"
)
ASKED = (
    SIZES.format("WHERE hid IN (SELECT h FROM listed)"),
    SIZES.format("SEMI JOIN listed ON hid = h"),
    SIZES.format("WHERE name IN (SELECT name FROM listed)"),
    SIZES.format("WHERE hid IN (SELECT h FROM viewed)"),
    "SELECT size, count(*) FROM (SELECT l.h, count(persons.person) AS size FROM listed AS l LEFT JOIN persons "
    "ON l.h = persons.hid GROUP BY l.h) GROUP BY size ORDER BY size",
)
# Each with whether the open table has a content then that was not asked about before.
CHANGES = (
    ("INSERT INTO listed VALUES (9, 'n9')", True),
    ("DELETE FROM listed WHERE h = 9", False),
    ("CREATE OR REPLACE TABLE listed AS FROM listed ORDER BY h DESC", False),
    # Two equal rows do not cancel each other out.
    ("INSERT INTO listed VALUES (8, 'n8'), (8, 'n8')", True),
    ("UPDATE listed SET h = 7, name = 'n7' WHERE h = 8", True),
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mechanisms, "draw", truth)
    monkeypatch.setattr(answers, "STRICT", True)
    made = tmp_path / "x.duckdb"
    with duckanon.connect(made, role="steward") as con:
        con.execute(
            "CREATE TABLE persons AS SELECT i::INT AS person, (i // 3)::INT AS hid, 'n' || i // 3 AS name, "
            "['GA', 'NY'][1 + i % 2] AS state FROM range(60) r(i)"
        )
        con.execute("CREATE TABLE listed AS SELECT i::INT AS h, 'n' || i AS name FROM range(4) r(i)")
        con.execute("CREATE TABLE zones AS FROM (VALUES ('GA', 'south'), ('NY', 'north')) v(state, zone)")
        con.execute("CREATE TABLE states AS FROM (VALUES ('GA'), ('NY')) v(state)")
        con.execute("CREATE TABLE closed AS SELECT i::INT AS h, i AS why FROM range(8) r(i)")
        con.execute("CREATE VIEW viewed AS SELECT h FROM closed WHERE why <> 3")
        for name in ("listed", "zones", "states", "viewed"):
            con.execute("SELECT open_table(?)", [name]).fetchall()
        con.execute(
            "SELECT protect('persons', privacy_unit := 'person', unit := 'hid', rows_per_unit := 1, epsilon := 1000, "
            "per_query := 1, max_size := 5, public := ['state'], domains := {'state': 'states'})"
        ).fetchall()
    return made


@pytest.mark.parametrize("sql", sampled(ASKED))
def test_another_content_is_another_question(path: Path, sql: str) -> None:
    changes = CHANGES if "viewed" not in sql else (("UPDATE closed SET h = 9 WHERE h = 2", True), ("SELECT 1", False))
    asked = 1
    _is_true(path, sql, asked)
    for change, is_other in changes:
        with duckanon.connect(path, role="steward") as con:
            con.execute(change).fetchall()
        asked += is_other
        _is_true(path, sql, asked)


def test_it_is_seen_that_an_open_table_changes_while_analysts_are_connected(path: Path) -> None:
    """No line of the ledger says so, and decisions that are kept would be of the content before."""
    with duckanon.connect(path, role="analyst") as con:
        before = con.execute(ASKED[0]).fetchall()
        con._con.cursor().execute("DELETE FROM listed WHERE h > 1").fetchall()
        after = con.execute(ASKED[0]).fetchall()
    assert _without_zeros(before, after) == ([(3, 4)], [(3, 2)])


def test_counts_by_keys_are_joined_with_what_an_open_table_holds_now(path: Path) -> None:
    """It is looked up before counting, so new contents are a new question, which is charged.

    A domain is a copy, made when the table was protected.
    """
    by_zone = "SELECT zone, count(*) FROM persons JOIN zones USING (state) GROUP BY zone ORDER BY zone"
    with duckanon.connect(path, role="analyst") as con:
        assert con.execute(by_zone).fetchall() == [("north", 30), ("south", 30)]
    with duckanon.connect(path, role="steward") as con:
        con.execute("UPDATE zones SET zone = 'all'; INSERT INTO states VALUES ('TX')").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        assert con.execute(by_zone).fetchall() == [("all", 60)]
        assert con.execute("SELECT state, count(*) FROM persons GROUP BY state ORDER BY state").fetchall() == [
            ("GA", 30),
            ("NY", 30),
        ]
        assert _spent(con) == 3


def _is_true(path: Path, sql: str, asked: int) -> None:
    """Whether the answer is what DuckDB itself counts now, after so many charges."""
    with duckanon.connect(path, role="analyst") as con:
        # Each unit in a table of units is one.
        plain = sql.replace("FROM listed AS l", "FROM (SELECT DISTINCT h FROM listed) AS l")
        mine, theirs = _without_zeros(con.execute(sql).fetchall(), con._con.cursor().execute(plain).fetchall())
        assert mine == theirs
        assert _spent(con) == asked


def _without_zeros(*answers: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], ...]:
    return tuple([row for row in one if row[1]] for one in answers)


def _spent(con: Analyst) -> int:
    ((spent,),) = con.execute("SELECT spent_exact FROM privacy_budget()").fetchall()
    return int(spent)


def test_keys_that_an_open_table_lists_are_those_of_the_day(path: Path) -> None:
    sql = "SELECT state, count(*) FROM persons WHERE state IN (SELECT state FROM zones WHERE zone = 'north') GROUP BY 1"
    rows = []
    for change in ("SELECT 1", "UPDATE zones SET zone = 'north'", "UPDATE zones SET zone = 'south' WHERE state = 'NY'"):
        with duckanon.connect(path, role="steward") as con:
            con.execute(change).fetchall()
        with duckanon.connect(path, role="analyst") as con:
            rows.append(sorted(con.execute(sql).fetchall()))
            ((charges,),) = con.execute("SELECT charges FROM privacy_budget()").fetchall()
            assert charges == len(rows)
    assert rows == [[("NY", 30)], [("GA", 30), ("NY", 30)], [("GA", 30)]]


@pytest.mark.parametrize(
    "kept",
    [
        "day IN (SELECT day FROM holidays WHERE kind = 'a')",
        "EXISTS (SELECT 1 FROM holidays WHERE holidays.day = stays.day AND kind = 'a')",
    ],
)
def test_days_that_python_does_not_have_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str) -> None:
    """Infinite ones, which come as its first and last day."""
    monkeypatch.setattr(mechanisms, "draw", truth)
    days = "['2024-01-01', '2024-01-02', 'infinity', '-infinity']"
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        for statement in (
            f"CREATE TABLE stays AS SELECT i AS id, ({days}::DATE[])[1 + i % 4] AS day FROM range(40) r(i)",
            "CREATE TABLE holidays AS SELECT day, if(day = '2024-01-02', 'b', 'a') AS kind FROM stays",
            "SELECT open_table('holidays')",
            "SELECT protect('stays', epsilon := 1000, per_query := 1, privacy_unit := 'id', rows_per_unit := 1, "
            f"public := ['day'], domains := {{'day': {days}}})",
        ):
            con.execute(statement).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        found = con.execute(
            f"SELECT day::VARCHAR, n FROM (SELECT day, count(*) AS n FROM stays WHERE {kept} GROUP BY day) ORDER BY day"
        ).fetchall()
    assert sorted(found) == [("-infinity", 10), ("2024-01-01", 10), ("infinity", 10)]
