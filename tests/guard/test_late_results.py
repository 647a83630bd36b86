"""A result is lazy: what was dropped before it runs must not make DuckDB name a closed table in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from duckanon.analyst import Analyst
from duckanon.errors import UnsupportedQuery
from tests.guard.residents import analyst, decide


@pytest.fixture
def con(tmp_path: Path) -> Iterator[Analyst]:
    path = tmp_path / "x.duckdb"
    decide(
        path,
        "CREATE TABLE salaries_of_the_board AS SELECT 1 AS x",
        "CREATE TABLE persons AS SELECT 1 AS x; SELECT protect('persons', epsilon := 1)",
    )
    with analyst(path) as con:
        yield con


@pytest.mark.parametrize("name", ["salaries_of_the_board", "salaries", "persons", "nothing"])
@pytest.mark.parametrize("rolled_back", [False, True])
def test_no_closed_table_is_suggested(con: Analyst, name: str, rolled_back: bool) -> None:
    if rolled_back:
        con.begin()
    con.execute(f"CREATE TEMP TABLE {name} AS SELECT 2 AS x").fetchall()
    late = con.sql(f"FROM {name}")
    if rolled_back:
        con.rollback()
    else:
        con.execute(f"DROP TABLE {name}").fetchall()
    for run in (late.fetchall, late.df, late.__repr__, late.__str__):
        with pytest.raises(UnsupportedQuery) as raised:
            run()
        assert str(raised.value) == (
            "The statement reads or calls what is not there, or was dropped since it was sent: send it again."
        )
        assert (raised.value.__cause__, raised.value.__context__) == (None, None)


def test_what_the_analyst_made_is_still_named(con: Analyst) -> None:
    con.execute("CREATE TEMP TABLE mine AS SELECT 1 AS x").fetchall()
    with pytest.raises(duckdb.CatalogException, match="mine"):
        con.execute("CREATE TEMP TABLE mine AS SELECT 1 AS x").fetchall()
