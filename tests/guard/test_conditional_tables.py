"""Conditional tables through an analyst's connection: safe ones run as written, others are refused with a way out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import pytest

import duckanon
from duckanon.errors import PolicyRefusal

POLICY = """
SELECT protect('persons', unit := 'id', epsilon := 4, hierarchy := ['state'], public := ['edu', 'vote', 'team', 'size'],
  quasi_identifiers := ['age'], k := 5, sensitive := ['sick'], small := 5, drop := ['name'])
"""
COPY = """
FROM k_anonymize('persons', ['age'], k := 5, drop := ['id', 'state', 'edu', 'vote', 'name', 'team', 'size', 'income'])
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
                i % 300 AS age, i % 9 = 2 AS sick, 'name ' || i AS name,
                CASE WHEN i = 17 THEN 'rare' ELSE 'x' END AS team, i // 250 AS size, i * 10 AS income
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


def refused(con: duckanon.Analyst, sql: str, why: str) -> str:
    before = con.sql("FROM privacy_ledger()").fetchall()
    with pytest.raises(PolicyRefusal, match=why) as raised:
        con.execute(sql)
    assert con.sql("FROM privacy_ledger()").fetchall() == before
    (step,) = con.explain(sql).steps
    assert (str(step.verdict), step.reason) == ("refused", str(raised.value))
    return str(raised.value)


def exact(con: duckanon.Analyst, sql: str) -> list[tuple[object, ...]]:
    """What the query would give without a guard."""
    raw = con._con.cursor()
    return raw.execute(sql).fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        SHARES,
        SHARES.replace("AS share", "AS share, state AS place") + " ORDER BY share DESC, edu, state LIMIT 4",
        "SELECT state, avg(vote::INT) AS v, round(100 * avg(CASE WHEN edu = 'a' THEN 1 ELSE 0 END), 1) AS a "
        "FROM persons GROUP BY state",
        "SELECT state, (count(*) FILTER (WHERE vote) / count(*))::DECIMAL(5, 2) AS v FROM persons GROUP BY state",
        "SELECT state, round(100 * count(*) / sum(count(*)) OVER (PARTITION BY state))::INTEGER || '%' AS p, edu "
        "FROM persons GROUP BY state, edu",
        "SELECT DISTINCT state, count(*) OVER (PARTITION BY state, edu) / count(*) OVER (PARTITION BY state) AS share, "
        "edu FROM persons",
        "WITH c AS (SELECT state, edu, count(*) AS n FROM persons GROUP BY ALL), "
        "t AS (SELECT state, sum(n) AS n FROM c GROUP BY 1) SELECT state, edu, c.n / t.n AS s "
        "FROM c JOIN t USING (state)",
        "SELECT state, avg(vote::INT) AS v FROM persons WHERE state IN ('S0', 'S2') GROUP BY state",
        "SELECT state, avg(vote::INT) AS v FROM persons GROUP BY state HAVING state <> 'S0'",
        f"SELECT state, max(share) AS most FROM ({SHARES}) WHERE share > 0.3 GROUP BY state",
        "SELECT edu, count(*) / sum(count(*)) OVER () AS share FROM persons GROUP BY edu",
        "SELECT state, sick, count(*) / sum(count(*)) OVER (PARTITION BY state) AS share FROM persons GROUP BY 1, 2",
    ],
)
def test_safe_shares_run_as_written(con: duckanon.Analyst, sql: str) -> None:
    relation = con.sql(sql)
    assert con.decision is not None
    assert [(step.kind, str(step.verdict)) for step in con.decision.steps] == [("conditional table", "released")]
    assert not re.search(r"persons", con.decision.query or "", re.IGNORECASE)
    rows = relation.fetchall()
    plain = con._con.cursor().sql(sql)
    assert (relation.columns, list(map(str, relation.types))) == (plain.columns, list(map(str, plain.types)))
    key = [[str(value)[:12] for value in row] for row in rows]
    same = [[str(value)[:12] for value in row] for row in exact(con, sql)]
    assert sorted(key) == sorted(same)
    ledger = con.sql("SELECT what FROM privacy_ledger() WHERE action = 'release'").fetchall()
    assert len(ledger) == 1
    con.sql(sql).fetchall()
    assert con.sql("SELECT what FROM privacy_ledger() WHERE action = 'release'").fetchall() == ledger


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (SHARES.replace("edu", "team"), "would disclose 1 cell of few"),
        ("SELECT state, round(avg((team = 'rare')::INT), 3) FROM persons GROUP BY state", "would disclose 1 cell"),
        (SHARES.replace("edu", "income"), "columns that the policy calls"),
        (SHARES.replace("edu", "name"), "columns that the policy calls"),
        (SHARES.replace("edu", "id"), "columns that the policy calls"),
        (SHARES.replace("edu", "age"), "of few records"),
        ("SELECT age, avg(sick::INT) FROM persons GROUP BY age", "would disclose"),
        ("SELECT state, avg(vote::INT) FROM persons WHERE edu = 'a' GROUP BY state", "subtracted"),
        ("SELECT state, avg(vote::INT) FROM persons WHERE id <> 5 GROUP BY state", "subtracted"),
        ("SELECT state, avg(vote::INT) FROM persons GROUP BY state HAVING count(*) > 3", "subtracted"),
        (SHARES + " QUALIFY count(*) > 3", "subtracted"),
        (SHARES + " ORDER BY count(*)", "orders or limits"),
        ("SELECT state, avg((name::INT = 3)::INT) FROM persons GROUP BY state", "columns that the policy calls"),
        ("SELECT state, avg((edu::INT = 3)::INT) FROM persons GROUP BY state", "without casts"),
        ("SELECT upper(state) AS s, avg(vote::INT) FROM persons GROUP BY 1", "as they stand"),
        ("SELECT state, avg(vote::INT), count(*) FROM persons GROUP BY state", "more than keys"),
        ("SELECT state, avg(vote::INT), max(income) FROM persons GROUP BY state", "protected"),
        ("SELECT state, sum(income) FILTER (vote) / sum(income) FROM persons GROUP BY state", "not of sums"),
        (SHARES.replace("count(*) /", "count(*)::FLOAT /"), "cast"),
        ("SELECT p.state, avg(vote::INT) FROM persons p JOIN range(3) r(i) ON true GROUP BY 1", "one table"),
        (
            "SELECT state, count(*) FILTER (vote) / count(*) AS a, count(*) / sum(count(*)) OVER () AS b "
            "FROM persons GROUP BY state",
            "same rows",
        ),
        ("SELECT state, avg((id IN (SELECT max(id) FROM persons))::INT) FROM persons GROUP BY state", "protected"),
    ],
)  # fmt: skip
def test_what_is_not_safe_or_not_proven(untouched: duckanon.Analyst, sql: str, why: str) -> None:
    refused(untouched, sql, why)


def test_the_way_out_is_safe(tmp_path: Path) -> None:
    path = tmp_path / "y.duckdb"
    with duckanon.connect(path) as steward:
        steward.execute(
            "CREATE TABLE t AS SELECT s, a FROM (VALUES (0, 0, 3), (0, 1, 4), (1, 0, 70), (1, 1, 71)) v(s, a, n), "
            "range(71) r(i) WHERE i < n; SELECT protect('t', epsilon := 1, public := ['s', 'a'], small := 4)"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        said = refused(
            con, "SELECT s, a, count(*) / sum(count(*)) OVER (PARTITION BY s) FROM t GROUP BY s, a", "nearest"
        )
        (way, *_) = said.partition("nearest: ")[2].rstrip(".").split("; ")
        assert con.execute(way).fetchall()


def test_explain_privacy_decides_on_the_records(con: duckanon.Analyst) -> None:
    unsafe = SHARES.replace("edu", "team")
    before = con.sql("FROM privacy_ledger()").fetchall()
    for sql, decision in ((SHARES, "released"), (unsafe, "refused")):
        (row,) = con.sql(f"SELECT kind, decision, epsilon FROM explain_privacy('{sql}')").fetchall()
        assert row == ("conditional table", decision, None)
    assert con.sql("FROM privacy_ledger()").fetchall() == before
    assert con._con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'shares%'").fetchall() == [(0,)]


def test_shares_that_could_be_put_together(con: duckanon.Analyst) -> None:
    con.execute(SHARES).fetchall()
    # The same shares the other way round would give every count.
    turned = "SELECT edu, state, count(*) / sum(count(*)) OVER (PARTITION BY edu) AS share FROM persons GROUP BY 1, 2"
    refused(con, turned, "could be put together")
    refused(con, "SELECT edu, avg(vote::INT) FROM persons GROUP BY edu", "could be put together")
    # Other rows and other columns do not touch it; the same rows are one larger table.
    con.execute(
        "SELECT vote, sick, count(*) / sum(count(*)) OVER (PARTITION BY vote) FROM persons GROUP BY 1, 2"
    ).fetchall()
    con.execute("SELECT state, avg((edu = 'a')::INT) FROM persons GROUP BY state").fetchall()
    con.execute(SHARES).fetchall()

    with pytest.raises(PolicyRefusal, match="Shares of these records were released before"):
        con.execute(COPY)


def test_together_they_may_be_unsafe(tmp_path: Path) -> None:
    """Each of two tables is safe; the table with the columns of both is not."""
    path = tmp_path / "y.duckdb"
    with duckanon.connect(path) as steward:
        steward.execute(
            "CREATE TABLE t AS SELECT s, a, b FROM (VALUES (0, 0, 0, 6), (0, 1, 0, 6), (0, 0, 1, 6), (0, 1, 1, 6), "
            "(1, 0, 0, 9), (1, 1, 1, 3), (1, 0, 1, 9), (1, 1, 0, 9)) v(s, a, b, n), range(9) r(i) WHERE i < n"
        ).fetchall()
        steward.execute("SELECT protect('t', epsilon := 1, public := ['s', 'a', 'b'])").fetchall()
    first, second = (
        f"SELECT s, {one}, count(*) / sum(count(*)) OVER (PARTITION BY s) AS p FROM t GROUP BY 1, 2" for one in "ab"
    )
    with duckanon.connect(path, role="analyst") as con:
        assert con.explain(first).refusal is None
        assert con.explain(second).refusal is None
        both = con.explain(f"SELECT * FROM ({first}) JOIN ({second}) USING (s)")
        con.execute(first).fetchall()
        assert (con.explain(second).refusal is None) == (both.refusal is None)
        assert con.execute(first).fetchall()


def test_a_copy_first(con: duckanon.Analyst) -> None:

    con.execute(COPY).fetchall()
    refused(con, SHARES.replace("edu", "sick"), "copy of these records was released before")
    con.execute(SHARES).fetchall()
