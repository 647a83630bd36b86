"""cell_key through SQL: against the engine, the same cell in two tables, the caller's ptable, and what it refuses."""

import duckdb
import numpy as np
import pytest

from duckanon.engines.suppression.cell_key import KEYS, cell_keys, maximum_entropy


@pytest.fixture
def people(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        "CREATE TABLE people AS SELECT i % 7 AS a, nullif(i // 7 % 3, 2) AS b, "
        "md5_number_lower(i::VARCHAR)::DOUBLE / 18446744073709551616 AS record_key FROM range(150) r(i)"
    ).fetchall()
    return con


def test_counts_are_those_of_the_engine(people: duckdb.DuckDBPyConnection) -> None:
    a, key = people.execute("SELECT a, record_key FROM people").fetchnumpy().values()
    keys = cell_keys(np.floor(np.asarray(key) * KEYS).astype(np.int64), np.asarray(a), 7)
    expected = maximum_entropy(4, 3.0, 1).perturbed(np.bincount(a), keys)
    found = people.execute(
        "FROM cell_key('people', ['a'], max_deviation := 4, variance := 3, threshold := 1)"
    ).fetchall()
    assert found == list(enumerate(expected.tolist()))
    assert (expected != np.bincount(a)).any()


def test_the_same_cell_has_the_same_count_in_every_table(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE part AS FROM people WHERE b IS NULL ORDER BY hash(record_key)").fetchall()
    both = people.execute("SELECT a, n FROM cell_key('people', ['a', 'b']) WHERE b IS NULL").fetchall()
    assert people.execute("FROM cell_key('part', ['a'])").fetchall() == both
    assert people.execute("SELECT n FROM cell_key('people', [])").fetchall()


def test_a_ptable_of_the_caller(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE p AS FROM cell_key_table(max_deviation := 3, variance := 2)").fetchall()
    people.execute("CREATE TABLE results AS SELECT i, j, p FROM p ORDER BY hash(i + j)").fetchall()
    own = people.execute("FROM cell_key('people', ['a'], max_deviation := 3, variance := 2)").fetchall()
    for name in ("p", "results"):
        assert people.execute(f"FROM cell_key('people', ['a'], ptable := '{name}')").fetchall() == own


def test_counts_that_become_zero_are_not_listed(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE p AS FROM (VALUES (0, 0, 1.0), (1, -1, 0.5), (1, 1, 0.5)) v(i, v, p)").fetchall()
    people.execute("CREATE TABLE few AS SELECT i AS a, i / 10 AS record_key FROM range(10) r(i)").fetchall()
    found = people.execute("FROM cell_key('few', ['a'], ptable := 'p')").fetchall()
    assert found == [(a, 2) for a in range(5, 10)]


def test_an_empty_table(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t (a INTEGER, record_key DOUBLE)").fetchall()
    assert con.execute("FROM cell_key('t', ['a'])").fetchall() == []
    assert con.execute("FROM cell_key('t', [])").fetchall() == []


REFUSED = [
    ("FROM (VALUES (0, 0, 1.0), (1, 1, 1.0)) v(i, v, p)", "A ptable is unbiased: the mean change of each row is 0."),
    ("FROM (VALUES (0, 0, 1.0), (0, 0, 1.0)) v(i, v, p)", "A ptable has each count and change once: leave out what"),
    ("FROM (VALUES (0, 0, NULL)) v(i, v, p)", "A ptable has whole numbers i, and v or j, and probabilities p: fill it"),
    ("FROM (VALUES (0, 0, 1.0)) v(i, v, p) WHERE i > 0", "A ptable has whole numbers i, and v or j, and probabilities"),
    ("FROM (VALUES (0, 10 ** 12, 1.0)) v(i, v, p)", "A ptable has a row for each count from 0 on and each change: its"),
    ("FROM (VALUES (0, 1.0)) v(i, p)", 'There is no column "v" in p; its columns are i, p.'),
]


@pytest.mark.parametrize(("ptable", "says"), REFUSED)
def test_tables_that_are_no_ptables(people: duckdb.DuckDBPyConnection, ptable: str, says: str) -> None:
    people.execute(f"CREATE TABLE p AS {ptable}").fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        people.execute("FROM cell_key('people', ['a'], ptable := 'p')").fetchall()
    assert str(raised.value).startswith(f"Invalid Input Error: {says}")
