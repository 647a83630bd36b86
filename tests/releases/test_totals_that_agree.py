"""Totals of coarser tables and sums of finer ones: the same where no value can lie outside, and told where one can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import duckanon
from duckanon.releases import mechanisms
from duckanon.releases.mechanisms import marginals
from tests.releases.test_preparations import no_noise

TABLE = """
CREATE TYPE size AS ENUM ('s', 'm', 'l');
CREATE TABLE t (sick BOOLEAN NOT NULL, size size, open size, maybe BOOLEAN, state VARCHAR);
INSERT INTO t SELECT i % 3 = 0, ['s', 'm', 'l', NULL][1 + i % 4]::size, ['s', 'm', 'l'][1 + i % 3]::size,
  [true, false, NULL][1 + i % 3], ['GA', 'NY'][1 + i % 2] FROM range(300) r(i)
"""
# size lists all values and NULL; open and maybe leave out NULL, which a record may have.
POLICY = """
SELECT protect('t', epsilon := 4, delta := 1e-9, per_query := 0.01,
  public := ['sick', 'size', 'open', 'maybe', 'state'],
  domains := {'sick': [true, false], 'size': ['s', 'm', 'l', NULL], 'open': ['s', 'm', 'l'], 'maybe': [true, false],
    'state': ['GA', 'NY']})
"""
BY = "by := [['sick', 'size'], ['sick', 'maybe'], ['open', 'state']], epsilon := 0.5"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(TABLE).fetchall()
        con.execute(POLICY).fetchall()
    return tmp_path / "x.duckdb"


def test_which_columns_may_have_values_outside(path: Path) -> None:
    with duckanon.connect(path, role="steward") as con:
        plan = f"SELECT \"columns\", outside FROM prepare('t', {BY})"
        told = {tuple(columns): outside for columns, outside in con.execute(plan).fetchall()}
        assert told == {
            ("sick", "size"): [],
            ("maybe", "sick"): ["maybe"],
            ("open", "state"): ["open", "state"],
        }
        con.execute("ALTER TABLE t ALTER COLUMN sick DROP NOT NULL").fetchall()
        told = {tuple(columns): outside for columns, outside in con.execute(plan).fetchall()}
        assert told["sick", "size"] == ["sick"]


def test_totals_agree_with_noise_or_it_is_told(path: Path) -> None:
    with duckanon.connect(path, role="steward") as con:
        con.execute(f"FROM prepare('t', {BY}, buy := true)").fetchall()
        ((outside,),) = con.execute("SELECT outside FROM prepared() WHERE columns = ['sick', 'size']").fetchall()
        assert outside == []
    with duckanon.connect(path, role="analyst") as analyst:

        def total(by: str) -> float:
            # Conditions are added up before anything is rounded.
            where = f" WHERE {by} IS NOT NULL OR {by} IS NULL" if by else ""
            ((found,),) = analyst.execute(f"SELECT count(*) FROM t{where}").fetchall()
            return float(found)

        def reason(sql: str) -> str:
            return str(analyst.explain(sql).steps[0].reason)

        assert total("sick") == total("size") == total("")
        assert total("maybe") != total("") or total("open") != total("") or total("state") != total("")
        assert "count here, and in no row by it" in reason("SELECT sick, count(*) FROM t GROUP BY sick")
        assert "maybe is outside of its domain" in reason("SELECT sick, count(*) FROM t GROUP BY sick")
        assert "outside" not in reason("SELECT size, count(*) FROM t GROUP BY size")
        assert "outside" not in reason("SELECT count(*) FROM t WHERE sick").replace("maybe is outside", "")
        assert "a condition or a sum are outside" in reason("SELECT count(*) FROM t WHERE state = 'GA'")


def test_records_outside_of_what_was_complete_do_not_count(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The column may change between the plan and the draw. Then the draw neither fails nor tells."""
    monkeypatch.setattr(marginals, "discrete_gaussian", no_noise)
    drawn = mechanisms.draw

    def changed(own: Any, question: Any) -> Any:
        own.execute("ALTER TABLE t ALTER COLUMN sick DROP NOT NULL").fetchall()
        own.execute("INSERT INTO t VALUES (NULL, 's', 's', true, 'GA')").fetchall()
        return drawn(own, question)

    monkeypatch.setattr(mechanisms, "draw", changed)
    with duckanon.connect(path, role="steward") as con:
        con.execute("FROM prepare('t', by := [['sick', 'size']], epsilon := 0.5, buy := true)").fetchall()
    monkeypatch.undo()
    with duckanon.connect(path, role="analyst") as analyst:
        assert analyst.execute("SELECT count(*) FROM t").fetchall() == [(300,)]
