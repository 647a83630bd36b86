"""FILTER with conditions on keys: all rows stay, with exact zeros where it does not hold, and no more noise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import duckanon
from duckanon.errors import PolicyRefusal
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import AggregatesQuestion
from tests.amounts import sampled
from tests.guard.truthful import truth

KEYS = ("k", "n", "k, n", "upper(k), n", "n // 2", "k, n // 2", "ROLLUP (k, n)")
CONDITIONS = (
    "k = 'b'",
    "k <> 'b'",
    "k IS NULL OR n > 1",
    "n BETWEEN 1 AND 2",
    "k IN ('a', 'c') AND n <> 0",
    "coalesce(k, 'a') = 'a'",
    "NOT (k = 'a')",
    "k = 'b' AND ill",
    "n < 2 AND x > 5",
    "1 = 0",
)


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("filters") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE t AS SELECT i AS id, ['a', 'b', 'c', NULL][1 + i % 4] AS k, (i // 4) % 4 AS n, i % 3 = 0 "
            "AS ill, i % 11 AS x FROM range(2000) r(i)"
        ).fetchall()
        con.execute(
            "SELECT protect('t', epsilon := 10000, per_query := 1, public := ['k', 'n'], bounds := {'x': [0, 10]}, "
            "domains := {'k': ['a', 'b', 'c', NULL], 'n': {'from': 0, 'to': 3, 'step': 1}})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        yield con


def shown(keys: str) -> str:
    return keys.replace("ROLLUP (", "").replace(")", "") if keys.startswith("ROLLUP") else keys


@pytest.mark.parametrize(("keys", "condition"), sampled(product(KEYS, CONDITIONS), every=3))
def test_without_noise_they_are_duckdbs(
    con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch, keys: str, condition: str
) -> None:
    monkeypatch.setattr(mechanisms, "draw", truth)
    # (A further condition, so that no answer with noise is stored for the question.)
    sql = (
        f"SELECT {shown(keys)}, count(*) FILTER (WHERE {condition}), sum(x) FILTER (WHERE {condition}), count(*) "
        f"FROM t WHERE id >= 0 GROUP BY {keys}"
    )
    mine = con.execute(sql).fetchall()
    with con._con.cursor() as plain:
        theirs = plain.execute(sql).fetchall()

    def rows(found: list[tuple[object, ...]]) -> list[str]:
        """(A sum over no cells is NULL in both; one of no records, with noise, is a number.)"""
        return sorted(str((*row[:-2], row[-2] or 0, row[-1])) for row in found)

    assert rows(mine) == rows(theirs)


@pytest.mark.parametrize("condition", [one for one in CONDITIONS if "ill" not in one and "x" not in one])
def test_they_are_read_from_the_counts_by_the_keys(con: duckanon.Analyst, condition: str) -> None:
    """With noise: the same question as all counts, so they add up, are free after these, and no interval is wider."""
    counts = con.execute("SELECT k, n, count(*), low(count(*)), high(count(*)) FROM t GROUP BY k, n").fetchall()
    asked = f"count(*) FILTER (WHERE {condition})"
    sql = f"SELECT k, n, {asked}, low({asked}), high({asked}) FROM t GROUP BY k, n"
    (question,) = con.explain(sql).answers
    assert isinstance(question, AggregatesQuestion)
    assert question.events == ()
    found = con.execute(sql).fetchall()
    assert con.decision is not None
    assert con.decision.steps[0].drawn is not None
    with con._con.cursor() as plain:
        held = {
            (k, n): holds
            for k, n, holds in plain.execute(f"SELECT DISTINCT k, n, coalesce({condition}, false) FROM t").fetchall()
        }
    assert {row[:2]: row[2:] for row in found} == {row[:2]: row[2:] if held[row[:2]] else (0, 0, 0) for row in counts}


def test_counts_beside_them_have_no_more_noise(con: duckanon.Analyst) -> None:
    """As events of records they doubled the cells that a count adds up."""
    width = "SELECT k, high(count(*)) - low(count(*)) AS w{} FROM t GROUP BY k HAVING count(*) > 50"
    alone = {one for _, one in con.execute(width.format("")).fetchall()}
    beside = {row[1] for row in con.execute(width.format(", count(*) FILTER (WHERE k = 'b')")).fetchall()}
    assert alone == beside


def test_statistics_that_do_not_add_up_keep_their_cells(con: duckanon.Analyst) -> None:
    rows = con.execute(
        "SELECT k, count(DISTINCT x) FILTER (WHERE k = 'b') AS n, median(x) FILTER (WHERE k <> 'b') FROM t GROUP BY k"
    ).fetchall()
    assert [(k, n) for k, n, _ in rows if k != "b"] == [(None, 0), ("a", 0), ("c", 0)]
    assert [k for k, _, middle in rows if middle is None] == [None, "b"]
    with pytest.raises(PolicyRefusal, match="do not add up"):
        con.execute("SELECT n // 2, count(DISTINCT x) FILTER (WHERE n = 1) FROM t GROUP BY 1")


def test_a_condition_on_a_column_without_null_has_no_row_for_null(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute("CREATE TABLE t (k VARCHAR NOT NULL, free VARCHAR)").fetchall()
        con.execute("INSERT INTO t SELECT ['a', 'b'][1 + i % 2], 'a' FROM range(20) r(i)").fetchall()
        con.execute("SELECT protect('t', epsilon := 1000, per_query := 100, public := ['k'])").fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        for condition, rows in (("k = 'a'", [False, True]), ("k LIKE 'a%'", [False, True]), ("free = 'a'", 3)):
            found = con.execute(f"SELECT {condition} AS is_met, count(*) FROM t GROUP BY 1 ORDER BY 1").fetchall()
            assert len(found) == rows if isinstance(rows, int) else [row[0] for row in found] == rows
