"""DESCRIBE and LIMIT 0 of `low(x)` and `high(x)`: the names and types of the answer, free and without a record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import duckanon

QUERIES = [
    "SELECT sex, count(*) AS n, low(count(*)) AS a, high(n) AS b FROM t GROUP BY sex",
    "SELECT low(count(*)), high(avg(pay)) FROM t",
    "SELECT sum(pay) AS total, low(total) AS a, high(round(avg(pay), 1)) AS b FROM t",
    "WITH x AS (SELECT sex, sum(pay) AS s, high(sum(pay)) AS h FROM t GROUP BY ALL) SELECT * FROM x",
    "SELECT low(count(*)::INTEGER) AS a, high(sum(pay)::BIGINT) AS b, low(count(*) / 10) AS c FROM t",
]


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("ends") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        steward.execute(
            "CREATE TABLE t AS SELECT i AS person, ['f', 'm'][1 + i % 2] AS sex, i AS pay FROM range(50) r(i)"
        )
        steward.execute(
            "SELECT protect('t', privacy_unit := 'person', rows_per_unit := 1, epsilon := 100, per_query := 1, "
            "public := ['sex'], domains := {'sex': ['f', 'm']}, bounds := {'pay': [0, 50]})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as found:
        yield found


@pytest.mark.parametrize("sql", QUERIES)
def test_names_and_types_are_those_of_the_answer(con: duckanon.Analyst, sql: str) -> None:
    without = con.execute(f"SELECT * FROM ({sql}) LIMIT 0")
    assert without.fetchall() == []
    found = [(name, str(kind)) for name, kind, *_ in con.description]
    described = [(name, kind) for name, kind, *_ in con.execute(f"DESCRIBE {sql}").fetchall()]
    con.execute(sql).fetchall()
    assert [(name, str(kind)) for name, kind, *_ in con.description] == found
    assert [name for name, _ in described] == [name for name, _ in found]


def test_they_are_free(con: duckanon.Analyst) -> None:
    asked = "SELECT low(sum(pay)) FROM t WHERE sex = 'f'"
    for one in (f"DESCRIBE {asked}", f"{asked} LIMIT 0"):
        con.execute(one).fetchall()
        assert con.decision is not None
        assert all(step.epsilon is None for step in con.decision.steps)
