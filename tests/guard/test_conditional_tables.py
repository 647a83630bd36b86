"""Conditional tables through an analyst's connection: paid quotients of noisy counts, or refused with a way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import pytest

import duckanon
from duckanon.errors import PolicyRefusal
from duckanon.releases import mechanisms
from tests.amounts import sampled
from tests.guard.truthful import truth

POLICY = """
SELECT protect('persons', privacy_unit := 'id', rows_per_unit := 1, epsilon := 4, per_query := 0.25,
  public := ['state', 'edu', 'vote', 'team'],
  domains := {'state': ['S0', 'S1', 'S2', 'S9'], 'edu': ['a', 'b', 'c'], 'vote': ['true', 'false']}, drop := ['name'])
"""
SHARES = (
    "SELECT state, edu, count(*) / sum(count(*)) OVER (PARTITION BY state) AS share FROM persons GROUP BY state, edu"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shares") / "x.duckdb"
    with duckanon.connect(path) as steward:
        steward.execute(
            """
            CREATE TABLE persons AS
              SELECT i AS id, 'S' || i % 3 AS state, ['a', 'b', 'c'][1 + i * i % 7 % 3] AS edu, i % 4 = 1 AS vote,
                (i % 300)::INTEGER AS age, i % 9 = 2 AS sick, 'name ' || i AS name,
                CASE WHEN i = 17 THEN 'rare' ELSE 'x' END AS team, i * 10 AS income
              FROM range(900) r(i)
            """
        ).fetchall()
        steward.execute(POLICY).fetchall()
    return path


@pytest.fixture(scope="module")
def untouched(made: Path) -> Iterator[duckanon.Analyst]:
    """For what is refused, and so changes nothing."""
    with duckanon.connect(made, role="analyst") as con:
        yield con


@pytest.fixture
def con(made: Path, tmp_path: Path) -> Iterator[duckanon.Analyst]:
    path = tmp_path / "x.duckdb"
    copyfile(made, path)
    with duckanon.connect(path, role="analyst") as con:
        yield con


@pytest.mark.parametrize(
    "sql",
    sampled(
        [
            SHARES,
            SHARES.replace("AS share", "AS share, state AS place")
            + " ORDER BY share DESC NULLS LAST, edu, state LIMIT 4",
            "SELECT state, avg(vote::INT) AS v, round(100 * avg(CASE WHEN edu = 'a' THEN 1 ELSE 0 END), 1) AS a "
            "FROM persons GROUP BY state",
            "SELECT state, (count(*) FILTER (WHERE vote) / count(*))::DECIMAL(5, 2) AS v FROM persons GROUP BY state",
            "SELECT DISTINCT state, count(*) OVER (PARTITION BY state, edu) / count(*) OVER (PARTITION BY state) "
            "AS share, edu FROM persons",
            "WITH c AS (SELECT state, edu, count(*) AS n FROM persons GROUP BY ALL), "
            "t AS (SELECT state, sum(n) AS n FROM c GROUP BY 1) SELECT state, edu, c.n / t.n AS s "
            "FROM c JOIN t USING (state)",
            "SELECT state, avg(vote::INT) AS v FROM persons WHERE state IN ('S0', 'S2') GROUP BY state",
            "SELECT state, avg(vote::INT) AS v FROM persons GROUP BY state HAVING state <> 'S0'",
            f"SELECT state, max(share) AS most FROM ({SHARES}) WHERE share > 0.3 GROUP BY state",
            "SELECT edu, count(*) / sum(count(*)) OVER () AS share FROM persons GROUP BY edu",
            "SELECT state, avg(vote::INT) AS v FROM persons WHERE age > 30 AND sick GROUP BY state",
            "SELECT state, avg(sick::INT) AS v FROM persons WHERE NOT (edu = 'a' OR age BETWEEN 3 AND 9) "
            "GROUP BY state",
        ]
    ),
)
def test_shares_are_paid_for_once_and_tell_the_truth_but_for_noise(
    con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setattr(mechanisms, "draw", truth)
    relation = con.sql(sql)
    assert con.decision is not None
    assert {str(step.verdict) for step in con.decision.steps} == {"rewritten"}
    assert '"persons"' not in (con.decision.query or "").lower()
    rows = relation.fetchall()
    raw = con._con.cursor()  # DuckDB 1.4 closes a cursor that nobody holds
    plain = raw.sql(sql)
    assert (relation.columns, list(map(str, relation.types))) == (plain.columns, list(map(str, plain.types)))
    known = [row for row in rows if "S9" not in row and None not in row]
    close = [[str(value)[:12] for value in row] for row in plain.fetchall()]
    assert sorted([str(value)[:12] for value in row] for row in known) == sorted(close)
    assert con.sql("SELECT charges FROM privacy_budget()").fetchall() == [(1,)]
    con.sql(sql).fetchall()
    assert con.sql("SELECT charges FROM privacy_budget()").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (SHARES.replace("edu", "team"), "no domain for team"),
        (SHARES.replace("edu", "income"), "columns that the policy calls"),
        (SHARES.replace("edu", "name"), "columns that the policy calls"),
        (SHARES.replace("edu", "id"), "columns that the policy calls"),
        ("SELECT state, avg((name = 'x')::INT) FROM persons GROUP BY state", "nothing out that depends on name"),
        ("SELECT state, avg((edu::INT = 3)::INT) FROM persons GROUP BY state", "could fail on a record"),
        ("SELECT state, avg((age = 'x')::INT) FROM persons GROUP BY state", "value of its column's type"),
        ("SELECT state, avg(vote::INT), max(income) FROM persons GROUP BY state", "value of a single record"),
        ("SELECT state, sum(income) FILTER (vote) / sum(income) FROM persons GROUP BY state", "no bounds for income"),
        ("SELECT p.state, avg(vote::INT) FROM persons p RIGHT JOIN range(3) r(i) ON true GROUP BY 1", "as SELECTs"),
        ("SELECT state, avg((id IN (SELECT max(id) FROM persons))::INT) FROM persons GROUP BY state",
         "aggregates the records of its row"),
    ],
)  # fmt: skip
def test_what_is_not_answered_is_refused(untouched: duckanon.Analyst, sql: str, why: str) -> None:
    before = untouched.sql("FROM privacy_ledger()").fetchall()
    with pytest.raises(PolicyRefusal, match=why) as raised:
        untouched.execute(sql)
    assert untouched.sql("FROM privacy_ledger()").fetchall() == before
    (step,) = untouched.explain(sql).steps
    assert (str(step.verdict), step.reason) == ("refused", str(raised.value))


def test_no_decision_reads_a_record(made: Path, tmp_path: Path) -> None:
    """Shares that are safe and ones that are not are decided about alike, and so are those of an empty table."""
    asked = [SHARES, SHARES.replace("edu", "vote"), "SELECT state, avg((age = 17)::INT) FROM persons GROUP BY state"]
    told = []
    for name in ("full", "empty"):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "x.duckdb"
        copyfile(made, path)
        if name == "empty":
            with duckanon.connect(path, role="steward") as con:
                con.execute("DELETE FROM persons").fetchall()
        with duckanon.connect(path, role="analyst") as con:
            told.append(
                [con.sql(f"FROM explain_privacy('{one.replace(chr(39), chr(39) * 2)}')").fetchall() for one in asked]
            )
            assert con.execute("SELECT charges FROM privacy_budget()").fetchall() == [(0,)]
    assert told[0] == told[1]
    assert [rows[0][1:4] for rows in told[0]] == [("persons", "rewritten", 0.25)] * 3


def test_without_a_price_there_are_no_shares(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    copyfile(made, path)
    with duckanon.connect(path, role="steward") as con:
        con.execute("SELECT unprotect('persons');" + POLICY.replace("per_query := 0.25,", "")).fetchall()
    with (
        duckanon.connect(path, role="analyst") as con,
        pytest.raises(PolicyRefusal, match="offers no counts with noise"),
    ):
        con.execute(SHARES)
