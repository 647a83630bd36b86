"""Freeform baselines: each cell covers k records, each record lies in k cells."""

from itertools import permutations

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon.methods.freeform import FREEFORM, covered, measure
from duckanon.engines.kanon.records import Records, attribute, records
from tests.engines.kanon import plain
from tests.engines.kanon.strategies import tables


@pytest.mark.parametrize("name", FREEFORM)
@settings(max_examples=settings().max_examples // 3)
@given(found=tables(min_size=2, max_size=9), data=st.data())
def test_k_disjoint_matchings(name: str, found: Records, data: st.DataObject) -> None:
    n = len(found)
    k = data.draw(st.integers(1, n))
    members = covered(found, k, name)
    assert (members[:, 0] == np.arange(n)).all()
    assert all(len(set(row)) == k for row in members.tolist())
    assert (np.bincount(members.ravel(), minlength=n) == k).all()
    loss = sum(plain.class_loss(found, row) for row in members.tolist())
    assert (measure(found, k, name).information_loss - found.floor) * n == pytest.approx(loss, abs=1e-9)


@settings(max_examples=settings().max_examples // 3)
@given(tables(min_size=3, max_size=6))
def test_one_round_of_the_hungarian_is_the_cheapest_matching(found: Records) -> None:
    n = len(found)
    best = min(
        sum(plain.class_loss(found, [i, j]) for i, j in enumerate(way))
        for way in permutations(range(n))
        if all(i != j for i, j in enumerate(way))
    )
    losses = {name: (measure(found, 2, name).information_loss - found.floor) * n for name in FREEFORM}
    assert losses["doka_hungarian"] == pytest.approx(best, abs=1e-9)
    assert min(losses.values()) >= best - 1e-9


def test_greedy_and_sorted_choices() -> None:
    # Sorted: 0 and 1 take each other, 10 and 13 too, and 3 is left: it takes 0 from 1, which takes 3.
    found = records([attribute("x", [0, 1, 3, 10, 13])])
    assert covered(found, 2, "doka_sortgreedy")[:, 1].tolist() == [1, 2, 0, 4, 3]
    # In order: 0 and 1 take each other, 3 takes 10, 10 takes 13, and 3 is what is left for 13.
    assert covered(found, 2, "doka_greedy")[:, 1].tolist() == [1, 0, 3, 4, 2]


def test_only_k_compare_runs_them(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT (hash(i) % 60)::INT AS a, (hash(i + 1) % 60)::INT AS b FROM range(300) r(i)"
    ).fetchall()
    rows = con.execute(
        "SELECT method, min_class, information_loss, lower_bound FROM k_compare('t', ['a', 'b'], k := 4, methods := ?)",
        [[*FREEFORM, "greedy"]],
    ).fetchall()
    losses = {row[0]: row[2] for row in rows}
    assert [row[1] < 4 for row in rows] == [True, True, True, False]
    assert losses["doka_hungarian"] < losses["greedy"]
    assert all(row[3] <= row[2] for row in rows)
    for name in FREEFORM:
        with pytest.raises(duckdb.InvalidInputException, match=f"Method '{name}' is freeform"):
            con.execute(f"FROM k_anonymize('t', ['a', 'b'], method := '{name}')").fetchall()
    with pytest.raises(
        duckdb.InvalidInputException, match="make no classes, which l, t, unit and max_suppression are about"
    ):
        con.execute("FROM k_compare('t', ['a'], methods := ['doka_greedy'], sensitive := ['b'], l := 2)").fetchall()
    con.execute("CREATE TABLE large AS SELECT i AS a FROM range(5001) r(i)").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="takes up to 5,000 rows"):
        con.execute("FROM k_compare('large', ['a'], methods := ['doka_greedy'])").fetchall()
