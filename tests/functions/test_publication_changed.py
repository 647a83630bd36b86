"""Perturbed sums as publications: true ones only, and none that tells a contribution too well."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.functions.publication_changed import possible
from tests.amounts import many
from tests.functions.test_publication_masked import refused, said
from tests.shared_connection import Begun

FIRMS = (
    "CREATE TABLE firms AS SELECT i % 4 AS town, i // 4 % 3 AS branch, 100 + i * 37 % 401 AS turnover, "
    "(i % 7)::INTEGER AS small, md5_number_lower(i::VARCHAR)::DOUBLE / 18446744073709551616 AS record_key "
    "FROM range(120) r(i)"
)
PROTECT = "SELECT protect('firms', epsilon := 1, public := ['town', 'branch'], small := 3, k := 3{})"
PUBLISH = "publish('made', variables := ['town', 'branch'], value := 'n', key := 'record_key', sum := '{}'{})"


def make(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(FIRMS).fetchall()
    con.execute(PROTECT.format("")).fetchall()
    con.execute("CREATE TABLE made AS FROM cell_key('firms', ['town', 'branch'], value := 'turnover')").fetchall()


@pytest.fixture
def firms(begun: Begun) -> duckdb.DuckDBPyConnection:
    return begun(make)


def test_they_are_published_listed_hashed_and_audited(firms: duckdb.DuckDBPyConnection) -> None:
    assert said(firms, PUBLISH.format("turnover", "")) == (
        "made, perturbed counts and sums of turnover of main.firms by town, branch, is published: analysts read it as "
        "made."
    )
    ((kind, column, by, content),) = firms.execute(
        "SELECT kind, sum, perturbation, content_hash FROM publications()"
    ).fetchall()
    assert (kind, column, by) == ("perturbed", "turnover", "max_deviation 5, variance 2, threshold 0, magnitude 0.2")
    assert content
    assert firms.execute("SELECT value FROM duckanon.made ORDER BY ALL").fetchall() == (
        firms.execute("SELECT value FROM made ORDER BY ALL").fetchall()
    )
    firms.execute("CREATE TABLE s AS SELECT town, count(*) AS n FROM firms GROUP BY ALL").fetchall()
    assert "is published" in said(firms, "publish('s', variables := ['town'], value := 'n')")
    assert firms.execute("SELECT bool_and(safe) IS NOT false FROM release_audit('firms')").fetchall() == [(True,)]


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE again AS FROM cell_key('firms', ['town'], value := 'turnover')",
        "CREATE TABLE again AS FROM suppress('firms', ['town'], [], value := 'turnover', rule := ['p%', 'threshold'])",
    ],
)
def test_a_second_table_of_sums_of_the_column_is_refused(firms: duckdb.DuckDBPyConnection, made: str) -> None:
    said(firms, PUBLISH.format("turnover", ""))
    firms.execute(made).fetchall()
    how = "value := 'n', key := 'record_key'" if "cell_key" in made else "value := 'value', suppressed := 'suppressed'"
    call = f"publish('again', variables := ['town'], {how}, sum := 'turnover')"
    assert 'sums of "turnover" are published already (made)' in refused(firms, call)
    # Counts of the same cells are audited as always.
    firms.execute("CREATE TABLE counts AS FROM cell_key('firms', ['town'])").fetchall()
    assert "is published" in said(firms, "publish('counts', variables := ['town'], value := 'n', key := 'record_key')")


@pytest.mark.parametrize(
    ("change", "more", "says"),
    [
        (
            "UPDATE made SET value = value + 1 WHERE town = 1 AND branch = 1",
            "",
            "1 of the 12 sums are not what cell_key",
        ),
        ("UPDATE made SET value = NULL WHERE town = 1", "", "holds the sums as cell_key gives them, and no NULL"),
        ("UPDATE made SET n = n + 1 WHERE town = 1 AND branch = 1", "", "1 of the 12 cells do not hold what cell_key"),
        ("", ", magnitude := 0.3", "of the 12 sums are not what cell_key makes of main.firms with magnitude 0.3"),
        ("ALTER TABLE made DROP COLUMN value", "", "must have the columns town, branch, n, value and no others"),
    ],
)
def test_others_than_true_ones_are_refused(firms: duckdb.DuckDBPyConnection, change: str, more: str, says: str) -> None:
    if change:
        firms.execute(change).fetchall()
    assert says in refused(firms, PUBLISH.format("turnover", more))


def test_sums_that_tell_a_contribution_are_refused(firms: duckdb.DuckDBPyConnection) -> None:
    """A magnitude of 5 % does, and so does any where rounding takes the changes away."""
    for column, magnitude, says in [
        ("turnover", 0.05, "can estimate one to within 10 %. Choose a larger magnitude"),
        ("small", 0.05, "of 12 of its 12 sums"),
    ]:
        call = f"cell_key('firms', ['town', 'branch'], value := '{column}', magnitude := {magnitude})"
        firms.execute(f"CREATE OR REPLACE TABLE made AS FROM {call}").fetchall()
        assert says in refused(firms, PUBLISH.format(column, f", magnitude := {magnitude}"))
    call = "cell_key('firms', ['town', 'branch'], value := 'small', digits := 2)"
    firms.execute(f"CREATE OR REPLACE TABLE made AS FROM {call}").fetchall()
    assert "is published" in said(firms, PUBLISH.format("small", ""))


@pytest.mark.parametrize("digits", [0, 2])
@pytest.mark.parametrize("magnitude", [0.05, 0.11, 0.2])
@pytest.mark.parametrize("column", ["turnover", "small"])
def test_candidates_are_what_publish_then_takes(
    firms: duckdb.DuckDBPyConnection, column: str, magnitude: float, digits: int
) -> None:
    """One combination holds so few firms that its perturbed count is 0: it is not shown."""
    firms.execute("DELETE FROM firms WHERE town = 1 AND branch = 1 AND record_key > 0.2").fetchall()
    own = f"magnitude := {magnitude}, max_deviation := 4, variance := 3, threshold := 3"
    call = f"cell_key('firms', ['town', 'branch'], value := '{column}', digits := {digits}, {own})"
    firms.execute(f"CREATE OR REPLACE TABLE made AS FROM {call}").fetchall()
    assert firms.execute("SELECT count(*) FROM made").fetchall() == [(11,)]
    fields = f"vars: ['town', 'branch'], key: 'record_key', sum: '{column}', digits: {digits}, "
    candidate = f"{{{fields} {own.replace(' :=', ':')}}}"
    asked = f"SELECT publishable, key, sum, reason FROM next_tables('firms', candidates := [{candidate}])"
    ((publishable, *how, reason),) = firms.execute(asked).fetchall()
    assert how == ["record_key", column]
    if publishable:
        firms.execute(f"FROM release_audit('firms', candidate := {candidate})").fetchall()
        assert "is published" in said(firms, PUBLISH.format(column, f", {own}"))
        ((again, says),) = firms.execute(asked.replace("key, sum, ", "")).fetchall()
        assert not again
        assert f'sums of "{column}" are published already (made)' in says
    else:
        refusal = refused(firms, PUBLISH.format(column, f", {own}"))
        assert refusal.endswith(reason.removeprefix("The table"))
        with pytest.raises(duckdb.InvalidInputException, match="can estimate one to within 10 %"):
            firms.execute(f"FROM release_audit('firms', candidate := {candidate})").fetchall()


@pytest.mark.parametrize(
    ("candidate", "says"),
    [
        ("{vars: ['town'], key: 'record_key', magnitude: 0.2}", "magnitude is of sums that cell_key perturbs"),
        ("{vars: ['town'], key: 'record_key', sum: 'turnover', magnitude: 2}", "magnitude must be a number above 0"),
        ("{vars: ['town'], key: 'record_key', digits: 2}", "digits are for shares and perturbed sums"),
        ("{vars: ['town'], sum: 'turnover'}", "A candidate with sums has suppressed cells, or is perturbed"),
        ("{vars: ['town'], key: 'record_key', weight: 'small'}", "A candidate with sums has suppressed cells"),
        ("{vars: ['town'], key: 'record_key', sum: 'nothing'}", 'has no column "nothing" of numbers'),
        ("{vars: ['town'], key: 'record_key', count: 'small'}", "have one key for all of them"),
    ],
)
def test_candidates_that_make_no_sense(firms: duckdb.DuckDBPyConnection, candidate: str, says: str) -> None:
    with pytest.raises(duckdb.InvalidInputException, match=says):
        firms.execute(f"FROM release_audit('firms', candidate := {candidate})").fetchall()


def test_units_and_weights_and_magnitudes_without_sums_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(FIRMS).fetchall()
    con.execute(PROTECT.format(", privacy_unit := 'small'")).fetchall()
    con.execute("CREATE TABLE made AS FROM cell_key('firms', ['town', 'branch'], value := 'turnover')").fetchall()
    assert "cell_key changes sums by the largest record" in refused(con, PUBLISH.format("turnover", ""))
    assert "weighted numbers with suppressed cells only" in refused(con, PUBLISH.format("turnover", ", weight := 'w'"))
    counts = "publish('made', variables := ['town', 'branch'], value := 'n', key := 'record_key', magnitude := 0.2)"
    assert "magnitude is of sums that cell_key perturbed" in refused(con, counts)


@settings(max_examples=many(200), deadline=None)
@given(
    st.integers(0, 60),
    st.integers(0, 60),
    st.lists(st.integers(-3, 3), min_size=1, max_size=5),
    st.sampled_from([0.1, 0.2, 0.37, 0.5, 1.0]),
    st.integers(0, 4),
)
def test_what_is_possible_is_what_a_list_of_all_contributions_has(
    own: int, other: int, shares: list[int], magnitude: float, which: int
) -> None:
    """left: what readers see when they take all other contributions from the sum."""
    changes = np.array(sorted({0, *shares})) / 3 * magnitude
    left = own + int(np.rint(changes[which % len(changes)] * max(own, other)))
    every = [
        x
        for x in range(2000)
        for change in changes.tolist()
        # What may be rounded to both sides is no witness.
        if abs(x + change * max(x, other) - left) < 0.5 - 1e-6
    ]
    low, high = possible(np.array([left]), np.array([other]), changes)
    if every and max(every) < 1900:
        assert (int(low[0]), int(high[0])) == (min(every), max(every))
