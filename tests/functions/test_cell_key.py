"""cell_key through SQL: against the engine, the same cell in two tables, the caller's ptable, and what it refuses."""

import re

import duckdb
import numpy as np
import pytest

from duckanon.engines.suppression.cell_key import KEYS, cell_keys, hashed, maximum_entropy


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
    keys = hashed(np.floor(np.arange(10) / 10 * KEYS).astype(np.int64))
    assert found == [(a, 2) for a, key in enumerate(keys.tolist()) if key >= KEYS // 2]
    assert 0 < len(found) < 10


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


# --- sums, weights, totals --------------------------------------------------------------------------------------------


@pytest.fixture
def firms(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        "CREATE TABLE firms AS SELECT i % 3 AS state, i % 6 AS county, i % 2 AS kind, (i * 37 % 101) / 4 AS turnover, "
        "1 + i % 4 / 2 AS w, md5_number_lower(i::VARCHAR)::DOUBLE / 18446744073709551616 AS record_key "
        "FROM range(200) r(i)"
    ).fetchall()
    return con


def test_totals_are_cells_of_their_own(firms: duckdb.DuckDBPyConnection) -> None:
    """Each margin is what a call by its columns gives: a cell has one change in all tables."""
    firms.execute("CREATE TABLE whole AS FROM cell_key('firms', ['state', 'county'], cols := ['kind'], totals := true)")
    for row, col in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)):
        by = [*["state", "county"][:row], *["kind"][:col]]
        shown = ", ".join([*by, "n"])
        part = f"SELECT {shown} FROM whole WHERE row_level = {row} AND col_level = {col} ORDER BY ALL"
        alone = firms.execute(f"SELECT {shown} FROM cell_key('firms', {by}) ORDER BY ALL").fetchall()
        assert firms.execute(part).fetchall() == alone
        assert alone


def test_a_sum_is_changed_by_a_share_of_its_largest_contribution(firms: duckdb.DuckDBPyConnection) -> None:
    true = dict(firms.execute("SELECT county, (sum(turnover), max(turnover)) FROM firms GROUP BY county").fetchall())
    call = "cell_key('firms', ['county'], value := 'turnover', digits := 2, magnitude := 0.5{more})"
    found = firms.execute(f"SELECT county, n, value FROM {call.format(more='')}").fetchall()
    changes = [(float(value) - true[county][0]) / true[county][1] for county, _, value in found]
    assert len(set(changes)) > 2
    assert all(abs(one) <= 0.5001 for one in changes)
    # Fifths of a half: the default perturbation table changes by at most 5.
    assert all(abs(one * 10 - round(one * 10)) < 0.01 for one in changes)
    assert [n for _, n, _ in found] == [n for _, n in firms.execute("FROM cell_key('firms', ['county'])").fetchall()]
    # A county has one kind.
    by_kind = call.replace("['county']", "['county', 'kind']").format(more="")
    assert firms.execute(f"SELECT value FROM {by_kind}").fetchall() == [(value,) for *_, value in found]


def test_sums_of_other_columns_change_otherwise(firms: duckdb.DuckDBPyConnection) -> None:
    firms.execute("ALTER TABLE firms ADD COLUMN again DOUBLE; UPDATE firms SET again = turnover").fetchall()
    one, other = (
        firms.execute(f"SELECT value FROM cell_key('firms', ['county'], value := '{name}', digits := 2)").fetchall()
        for name in ("turnover", "again")
    )
    assert one != other


def test_weighted_counts(firms: duckdb.DuckDBPyConnection) -> None:
    mean = dict(firms.execute("SELECT county, avg(w) FROM firms GROUP BY county").fetchall())
    plain = firms.execute("FROM cell_key('firms', ['county'])").fetchall()
    found = firms.execute("FROM cell_key('firms', ['county'], weight := 'w')").fetchall()
    assert found == [(county, round(n * mean[county])) for county, n in plain]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (", digits := 2", "digits and magnitude are of a column to sum"),
        (", cols := ['county']", 'Column "county" is in both by and cols'),
        (", value := 'county'", 'Column "county" has another role than value, too'),
        (", value := 'turnover'", 'Column "turnover" holds NULL, a negative number'),
        (", weight := 'turnover', value := 'w', digits := 1, magnitude := 2", "magnitude must be"),
        (", weight := 'minus'", 'Column "minus" holds a weight that is NULL, below 0'),
    ],
)
def test_sums_and_weights_that_are_refused(firms: duckdb.DuckDBPyConnection, more: str, says: str) -> None:
    firms.execute("ALTER TABLE firms ADD COLUMN minus INTEGER; UPDATE firms SET minus = -1").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match=re.escape(says)):
        firms.execute(f"FROM cell_key('firms', ['county']{more})").fetchall()
