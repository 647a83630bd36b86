"""Before a charge a query is tried with invented numbers, as far as its first rows and no farther."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

import duckanon
from duckanon import analyst


class Endless:
    """A connection whose result never ends, and is never fetched whole."""

    def __init__(self) -> None:
        self.rows = 0

    def execute(self, _: str) -> Endless:
        return self

    def fetchmany(self, many: int) -> list[Any]:
        self.rows += many
        return [None] * many


def test_few_rows_are_looked_at() -> None:
    con = Endless()
    analyst._tried(con, "SELECT 1")  # type: ignore[arg-type]
    assert con.rows < 110_000


def test_rows_of_a_product_with_an_open_table_are_not_made_before_the_charge(tmp_path: Path) -> None:
    """In DuckDB a million times a million rows would take days."""
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE t AS SELECT i AS u, 'a' AS k FROM range(40) r(i); SELECT protect('t', epsilon := 9, "
            "per_query := 1, privacy_unit := 'u', rows_per_unit := 1, public := ['k'], domains := {'k': ['a', 'b']})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        found = con.execute(
            "SELECT k, n, i.range + j.range FROM (SELECT k, count(*) AS n FROM t GROUP BY k), range(1000000) i, "
            "range(1000000) j"
        )
        assert len(found.fetchmany(3)) == 3


def test_duckdb_hands_out_rows_as_they_come() -> None:
    with duckdb.connect() as con:
        assert con.execute("SELECT i FROM range(1000000000000) r(i)").fetchmany(2) == [(0,), (1,)]
