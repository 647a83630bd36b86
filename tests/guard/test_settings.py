"""Settings of a session change no meaning: an analyst's are pinned, orders are written out, and calls refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon import analyst
from tests.amounts import sampled

# Each with a value that is not DuckDB's own.
OTHER: dict[str, Any] = {
    "default_collation": "nocase",
    "default_order": "DESC",
    "default_null_order": "NULLS_FIRST",
    "integer_division": True,
    "ieee_floating_point_ops": False,
    "scalar_subquery_error_on_multiple_rows": False,
    "order_by_non_integer_literal": True,
}


def made(path: Path) -> None:
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT i AS u, ['a', 'b', 'c', 'c'][1 + i % 4] AS k FROM range(4000) r(i)")
        for per_query in (1, 2, 3):
            con.execute(
                f"SELECT protect('t', epsilon := 1000, per_query := {per_query}, public := ['k'], "
                "domains := {'k': ['a', 'b', 'c']})"
            ).fetchall()
            if per_query < 3:
                con.execute("SELECT unprotect('t')").fetchall()


def settings(con: Any) -> list[Any]:
    return [con.execute(f"SELECT current_setting('{one}')").fetchall() for one in OTHER]


@pytest.mark.parametrize("name", sampled(OTHER))
def test_an_analysts_are_duckdbs_own(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.duckdb"
    made(path)
    seen = []
    for config in (None, {name: OTHER[name]}):
        with duckanon.connect(path, role="analyst", config=config) as con:
            answer = con.execute("SELECT k, count(*) FROM t GROUP BY k ORDER BY k").fetchall()
            seen.append((settings(con._con), answer))
    assert seen[0] == seen[1]
    assert [round(number, -2) for _, number in seen[0][1]] == [1000, 1000, 2000]


@pytest.mark.parametrize("name", sampled(OTHER))
def test_decisions_and_answers_need_no_pins(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ledger's lines in the opposite order, the first policy would hold; keys would have others' counts."""
    path = tmp_path / "x.duckdb"
    made(path)
    pinned = {one: value for one, value in analyst.LOCKED.items() if one not in OTHER}
    monkeypatch.setattr(analyst, "LOCKED", pinned)
    with duckanon.connect(path, role="analyst", config={name: OTHER[name]}) as con:
        (step,) = con.explain("SELECT count(*) FROM t").steps
        assert step.epsilon == 3
        answer = dict(con.execute("SELECT k, count(*) FROM t GROUP BY k").fetchall())
        assert {k: round(number, -2) for k, number in answer.items()} == {"a": 1000, "b": 1000, "c": 2000}


@pytest.mark.parametrize("name", ["default_order", "integer_division"])
def test_a_call_under_another_meaning_is_refused(name: str) -> None:
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("CREATE TABLE t AS SELECT i % 9 AS a, i % 7 AS b FROM range(90) r(i)")
        con.execute(f"SET {name} = '{OTHER[name]}'")
        with pytest.raises(duckdb.Error, match=f"would mean something else under this {name}: RESET {name}"):
            con.execute("FROM k_anonymize('t', ['a', 'b'], k := 5)").fetchall()
        con.execute(f"RESET {name}")
        assert len(con.execute("FROM k_anonymize('t', ['a', 'b'], k := 5)").fetchall()) == 90
