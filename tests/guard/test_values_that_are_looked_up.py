"""A subquery that stands for one value and has several rows for some key is refused before the charge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import duckanon
from duckanon.errors import UnsupportedQuery

_MADE = """
  CREATE TABLE visits AS SELECT i AS person, ['a', 'b'][1 + i % 2] AS state, DATE '2020-01-01' + (i % 500)::INT AS day,
    i // 3 AS home FROM range(900) r(i);
  CREATE TABLE names AS FROM (VALUES ('a', 'A1'), ('a', 'A2'), ('b', 'B1'), ('z', 'Z1'), ('z', 'Z2')) v(code, name);
  SELECT open_table('names');
  SELECT protect('visits', privacy_unit := 'person', rows_per_unit := 1, epsilon := 100, per_query := 1,
    unit := 'home', hierarchy := ['state'], max_size := 4, public := ['day'],
    domains := {'state': ['a', 'b'], 'day': {'from': DATE '2020-01-01', 'to': DATE '2039-12-31'}})
"""
_LOOKED_UP = "(SELECT name FROM names WHERE code = state)"
_COUNTED = "(SELECT state, count(*) AS n FROM visits GROUP BY state)"


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path: Path = tmp_path_factory.mktemp("looked_up") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        for one in _MADE.split(";"):
            steward.execute(one).fetchall()
    with duckanon.connect(path, role="analyst") as analyst:
        yield analyst


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT state, {_LOOKED_UP} AS name, count(*) FROM visits GROUP BY state",
        # A condition on a number, which leaves no row of the key for some numbers.
        f"SELECT {_LOOKED_UP} FROM {_COUNTED} WHERE n > 100",
        f"SELECT {_LOOKED_UP} FROM {_COUNTED} WHERE n < 0",
        f"WITH m AS (FROM names) SELECT (SELECT name FROM m WHERE code = state) FROM {_COUNTED} WHERE n > 9",
        # More than ten thousand cells.
        f"SELECT day, state, {_LOOKED_UP} AS name, count(*) FROM visits GROUP BY ALL",
        f"SELECT n, {_LOOKED_UP} FROM (SELECT state, n, count(*) AS homes FROM "
        "(SELECT home, state, count(*) AS n FROM visits GROUP BY ALL) GROUP BY ALL) WHERE homes > 3",
    ],
)
def test_what_has_several_rows_is_not_charged(con: duckanon.Analyst, sql: str) -> None:
    before = con.execute("FROM privacy_budget()").fetchall()
    with pytest.raises(UnsupportedQuery, match="A subquery that stands for one value has several rows"):
        con.execute(sql)
    assert con.execute("FROM privacy_budget()").fetchall() == before


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT (SELECT name FROM names WHERE code = state AND name <> 'A2') FROM {_COUNTED} WHERE n > 100",
        f"SELECT {_LOOKED_UP} FROM {_COUNTED} WHERE state <> 'a'",
        # Noise decides which row it is: that there may be two is no reason to refuse it.
        f"SELECT count(*) FROM {_COUNTED} WHERE state = (SELECT state FROM {_COUNTED} ORDER BY n DESC, state LIMIT 1)",
        f"WITH q AS {_COUNTED} SELECT state FROM q WHERE state = (SELECT state FROM q WHERE n > 100 AND state < 'b')",
    ],
)
def test_what_has_one_row_is_answered(con: duckanon.Analyst, sql: str) -> None:
    con.execute(sql).fetchall()
