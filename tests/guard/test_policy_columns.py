"""A policy is sure only while the table has every column that it names; and what is offered can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

import duckanon
from duckanon.errors import PolicyRefusal

MADE = "CREATE TABLE t AS SELECT i AS id, i // 3 AS home, i % 2 AS s, 'd' || i % 3 AS dx FROM range(60) r(i)"
POLICY = """
SELECT protect('t', epsilon := 10, per_query := 1, privacy_unit := 'id', rows_per_unit := 1, unit := 'home',
  max_size := 4, public := ['s'], domains := {'s': [0, 1]}, drop := ['dx'])
"""
ASKED = (
    "SELECT count(*) FROM t",
    "SELECT count(*) FROM t WHERE other = 'd1'",
    "SELECT s, avg((id > 3)::INT) FROM t GROUP BY s",
    "SELECT n, count(*) FROM (SELECT home, count(*) AS n FROM t GROUP BY home) GROUP BY n",
    "FROM t",
)


@pytest.mark.parametrize("column", ["dx", "id", "home", "s"])
def test_without_a_column_that_the_policy_names_nothing_is_answered(tmp_path: Path, column: str) -> None:
    with duckanon.connect(tmp_path / "x.duckdb") as con:
        con.execute(MADE).fetchall()
        con.execute(POLICY).fetchall()
        con.execute(f"ALTER TABLE t RENAME {column} TO other").fetchall()
    with duckanon.connect(tmp_path / "x.duckdb") as con:
        for sql in ASKED:
            with pytest.raises(PolicyRefusal) as refused:
                con.execute(sql)
            assert "What may be asked" not in str(refused.value)
        assert con.execute("SELECT sum(charges) FROM privacy_budget()").fetchall() == [(0,)]


def test_no_publication_is_suggested_that_would_be_refused(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb") as con:
        con.execute(MADE).fetchall()
        con.execute(POLICY).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb") as con:
        with pytest.raises(PolicyRefusal) as refused:
            con.execute("SELECT s, avg((dx = 'd1')::INT) FROM t GROUP BY s")
        assert "publish(" not in str(refused.value)
