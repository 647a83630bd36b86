"""Sums in linked tables: what the audit lets out, against a list of all records and values that give the same sums.

A world is how many records each combination has, and what these add up to. Nothing of the audit is used to judge it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product

import duckdb
import numpy as np
import pytest

from duckanon.catalog.policy import Policy
from duckanon.catalog.publication import Candidate, Terms
from duckanon.errors import InvalidInput
from duckanon.functions import publication_sums
from duckanon.functions.publication_audit import audit
from tests.amounts import many
from tests.functions.test_publication_masked import refused, said

NAMES = ("a", "b", "c")
CELLS = np.array(list(product((0, 1), repeat=3)))
# Each cell by any of the variables, and which combinations it joins.
EVERY = np.array(
    [((place == CELLS) | (place == -1)).all(axis=1) for place in np.array(list(product((-1, 0, 1), repeat=3)))]
).astype(int)
SMALL = 2
POLICY = Policy(Fraction(1), public=NAMES, small=SMALL, k=2)
TABLES = (
    (("a", "b"), ("b", "c")),
    (("a", "b"), ("b", "c"), ("a", "c")),
    (("a",), ("b", "c")),
    (("a",), ("b",), ("c",)),
)


@dataclass(frozen=True)
class Shown:
    """A release. rows: which combinations each cell joins, its sum, and whether that is suppressed."""

    inside: np.ndarray
    sums: np.ndarray
    hidden: np.ndarray


def spread(total: int) -> np.ndarray:
    """All ways to put that many on the eight combinations."""
    listed = combinations_with_replacement(range(8), total)
    return np.array([np.bincount(one, minlength=8) for one in listed]).reshape(-1, 8)


def made(
    con: duckdb.DuckDBPyConnection, tables: Sequence[tuple[str, ...]], random: np.random.Generator
) -> Shown | None:
    """A release in `made`: as suppress makes it, or with any cells suppressed but zeros and the total."""
    con.execute(
        f"CREATE OR REPLACE TABLE made AS FROM suppress('t', ['a'], ['b'], by := [['c']], "
        f"tables := {[*map(list, tables)]}, value := 'v', rule := ['p%', 'threshold'], n := 2, audit := true)"
    ).fetchall()
    if random.integers(2):
        ((size,),) = con.execute("SELECT count(*) FROM made").fetchall()
        chosen = np.flatnonzero(random.random(size) < 0.3).tolist()
        con.execute(
            f"UPDATE made SET suppressed = true_value > 0 AND row_level + col_level + by_level[1] > 0 "
            f"AND (status = 'primary' OR list_contains({chosen}::BIGINT[], rowid))"
        ).fetchall()
    rows = con.execute("SELECT a, b, c, true_value, suppressed FROM made").fetchall()
    con.execute(
        "CREATE OR REPLACE TABLE made AS SELECT a, b, c, row_level, col_level, by_level, "
        "CASE WHEN NOT suppressed THEN true_value END AS value, suppressed FROM made"
    ).fetchall()
    inside = [
        np.all([CELLS[:, at] == level for at, level in enumerate(row[:3]) if level is not None] or [[True] * 8], axis=0)
        for row in rows
    ]
    hidden = np.array([row[4] for row in rows])
    return Shown(np.array(inside), np.array([int(row[3]) for row in rows]), hidden) if hidden.any() else None


def let_out(con: duckdb.DuckDBPyConnection) -> bool:
    columns, source = (
        {name: kind for name, kind, *_ in con.execute(f"DESCRIBE {table}").fetchall()} for table in ("made", "t")
    )
    terms = Terms(NAMES, (), "value", suppressed="suppressed", sum="v")
    try:
        audit(con, Candidate("made", "t", "made", "main.t", terms, columns, source, POLICY))
    except InvalidInput:
        return False
    return True


def broken(counts: np.ndarray, values: np.ndarray, shown: Shown) -> int:
    """How many cells of one record are known to have it, and how many sensitive sums to be what they are."""
    summed = spread(int(values.sum()))
    agrees = summed @ shown.inside.T.astype(int)
    same = np.where(shown.hidden, agrees > 0, agrees == shown.sums).all(axis=1)
    summed, agrees = summed[same], agrees[same]
    assert len(summed)
    worlds = spread(int(counts.sum()))
    supports = np.unique(summed > 0, axis=0)
    possible = np.zeros(len(worlds), dtype=bool)
    for one in supports:
        possible |= (worlds[:, one] > 0).all(axis=1)
    held, true = worlds[possible] @ EVERY.T, EVERY @ counts
    few = (true > 0) & (true < SMALL)
    found = int(((held[:, few].min(axis=0) > 0) & (held[:, few].max(axis=0) < SMALL)).sum())
    true = shown.inside.astype(int) @ counts
    alone = (true > 0) & (true < SMALL)
    # Of readers who know where records are.
    mine = agrees[(summed[:, counts == 0] == 0).all(axis=1)]
    return found + int((mine[:, alone].min(axis=0) == mine[:, alone].max(axis=0)).sum())


def tried(con: duckdb.DuckDBPyConnection, seeds: range) -> tuple[int, int]:
    """Of random records: how many releases are let out, and what is broken of them."""
    out = found = 0
    for seed in seeds:
        random = np.random.default_rng(seed)
        counts = random.multinomial(int(random.integers(4, 7)), random.dirichlet(np.full(8, 0.7)))
        held = np.repeat(np.arange(8), counts)
        worth = random.integers(1, 3, len(held))
        values = np.bincount(held, worth, 8).astype(int)
        con.execute("CREATE OR REPLACE TABLE t (a INTEGER, b INTEGER, c INTEGER, v INTEGER)").fetchall()
        con.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?)",
            [[*CELLS[at].tolist(), int(v)] for at, v in zip(held, worth, strict=True)],
        )
        try:
            shown = made(con, TABLES[int(random.integers(len(TABLES)))], random)
        except duckdb.Error:  # too few records to protect them
            continue
        if shown is not None and let_out(con):
            out += 1
            found += broken(counts, values, shown)
    return out, found


def test_nothing_of_what_is_let_out_is_broken(own_con: duckdb.DuckDBPyConnection) -> None:
    assert tried(own_con, range(many(20)))[1] == 0


def test_tables_that_are_audited_by_their_own_equations_alone_are_broken(
    own_con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random records number 33: the sums by all variables, which are not negative, tell more."""
    assert tried(own_con, range(33, 34))[0] == 0
    monkeypatch.setattr(publication_sums, "_joint", lambda *_: None)
    assert tried(own_con, range(33, 34)) == (1, 3)


def test_a_large_value_says_in_which_cell_it_is(con: duckdb.DuckDBPyConnection) -> None:
    """By their counts nobody of a = 0 need have c = 1. But a = 0 adds up to more than c = 0, and so does a = 1: so of
    the three with a = 0 one or two have c = 1.
    """
    con.execute(
        "CREATE TABLE t AS FROM (VALUES (0, 0, 1), (0, 0, 1), (0, 1, 9), (1, 0, 1), (1, 1, 5), (1, 1, 5)) v(a, c, v)"
    ).fetchall()
    con.execute("SELECT protect('t', epsilon := 1, public := ['a', 'c', 'v'], small := 3, k := 3)").fetchall()
    call = "suppress('t', ['a'], ['c'], tables := [['a'], ['c']]"
    con.execute(f"CREATE TABLE sums AS FROM {call}, value := 'v', rule := ['p%', 'threshold'])").fetchall()
    con.execute(f"CREATE TABLE counts AS FROM {call})").fetchall()
    publish = "publish('{}', variables := ['a', 'c'], value := 'value', suppressed := 'suppressed'{})"
    says = "it is not proven safe: of 4 cells by a, c that hold 1 to 2 records, 4 are known"
    assert says in refused(con, publish.format("sums", ", sum := 'v'"))
    assert "is published" in said(con, publish.format("counts", ""))
