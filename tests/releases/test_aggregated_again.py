"""A query over the groups of another one also has the rows of zeros, and its decision says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import duckanon
from tests.answers.checking import made, without_noise

_CALLS = """
  CREATE TABLE visits AS SELECT i AS person, i % 3 AS clinic FROM range(30) r(i);
  SELECT protect('visits', population := 'persons', privacy_unit := 'person', rows_per_unit := 1,
    epsilon := 1000, per_query := 1, public := ['clinic'], domains := {'clinic': {'from': 0, 'to': 9}})
"""
_GROUPS = "SELECT clinic, count(*) AS n FROM visits GROUP BY clinic"
_SAID = "a row for every value of the keys' domains"


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    with without_noise(made(tmp_path_factory.mktemp("again") / "x.duckdb", _CALLS)) as found:
        yield found


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (f"SELECT count(*) FROM ({_GROUPS})", True),
        (f"SELECT avg(n), max(n) FROM ({_GROUPS})", True),
        (f"SELECT clinic, rank() OVER (ORDER BY n) FROM ({_GROUPS})", True),
        (f"WITH g AS ({_GROUPS}) SELECT count(*) FROM g", True),
        (f"SELECT max(m) FROM (SELECT n + 1 AS m FROM ({_GROUPS}))", True),
        (f"SELECT count(*) FROM ({_GROUPS}) WHERE clinic > 1", True),
        (f"SELECT count(*) FROM ({_GROUPS}) AS g WHERE g.n > 5", False),
        (f"SELECT count(*) FROM ({_GROUPS} HAVING count(*) > 5)", False),
        (f"SELECT sum(n) FROM ({_GROUPS})", False),
        (f"SELECT clinic, n + 1 FROM ({_GROUPS})", False),
        (_GROUPS, False),
    ],
)
def test_what_counts_rows_of_zeros_says_so(con: duckanon.Analyst, sql: str, said: bool) -> None:
    con.execute(sql).fetchall()
    assert con.decision is not None
    assert any(_SAID in one.reason for one in con.decision.steps) is said
