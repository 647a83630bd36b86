"""What a statement computes may fail for a value of a key or for a noisy number: that is one sentence, not DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import duckanon
from duckanon.analyst import Analyst

FAILS = (
    "SELECT DISTINCT tiny FROM persons WHERE tiny * 100 * 100 > 1",
    "SELECT DISTINCT state::INT FROM persons",
    "SELECT label FROM persons JOIN lookup ON state::INT = code GROUP BY label",
    "SELECT label, count(*) FROM persons JOIN lookup ON state::INT = code GROUP BY label",
    "SELECT state::INT, count(*) FROM persons GROUP BY 1",
)


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    path = tmp_path_factory.mktemp("values") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        steward.execute("CREATE TABLE lookup AS SELECT 1 AS code, 'one' AS label")
        steward.execute(
            "CREATE TABLE persons AS SELECT i AS person, (i % 9)::TINYINT AS tiny, ['GA', 'NY'][1 + i % 2] AS state "
            "FROM range(90) r(i)"
        )
        steward.execute(
            "SELECT open_table('lookup'), protect('persons', privacy_unit := 'person', rows_per_unit := 1, "
            "epsilon := 100, per_query := 1, public := ['tiny', 'state'], "
            "domains := {'tiny': {'from': 0, 'to': 8}, 'state': ['GA', 'NY']})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as found:
        assert isinstance(found, Analyst)
        yield found


@pytest.mark.parametrize("sql", FAILS)
def test_it_is_one_sentence(con: Analyst, sql: str) -> None:
    for run in (lambda: con.execute(sql).fetchall(), lambda: con.sql(sql).fetchall(), lambda: str(con.sql(sql))):
        with pytest.raises(duckanon.errors.DuckanonError) as raised:
            run()
        assert "_dk_" not in str(raised.value)
        assert "INT8" not in str(raised.value)


@pytest.mark.parametrize("epsilon", ["-100", "0", "'nan'", "'1/0'", "'x'"])
def test_an_epsilon_that_is_none_is_told_so(tmp_path: Path, epsilon: str) -> None:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT i AS person, i // 2 AS home FROM range(9) r(i)")
        con.execute(
            "SELECT protect('t', privacy_unit := 'person', unit := 'home', rows_per_unit := 1, epsilon := 9, "
            "per_query := 1, max_size := 3)"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        with pytest.raises(duckanon.errors.DuckanonError, match="must be a number above zero"):
            con.execute(f"FROM dp_group_sizes('t', 'home', epsilon := {epsilon}, max_size := 3)")
        with pytest.raises(duckanon.errors.DuckanonError, match="does not run CHECKPOINT statements"):
            con.execute("CHECKPOINT")


def test_an_analysts_own_table_has_duckdbs_errors(con: Analyst) -> None:
    con.execute("CREATE OR REPLACE TEMP TABLE mine AS SELECT 'own' AS word")
    with pytest.raises(duckdb.ConversionException, match="own"):
        con.execute("SELECT word::INT FROM mine").fetchall()


_TOTAL = "(SELECT count(*) AS n FROM persons) AS c"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT range(n / 2) FROM {_TOTAL}",
        f"SELECT i FROM {_TOTAL}, range(n, n + 3, 0) AS r(i)",
        "FROM range((SELECT count(*) / 2 FROM persons))",
        f"SELECT generate_series(1, n * 100000000000) FROM {_TOTAL}",
        f"SELECT range(DATE '2024-01-01', DATE '2024-02-01', INTERVAL '1 month -1 day') FROM {_TOTAL}",
    ],
)
def test_series_of_noisy_numbers_have_a_sentence(con: Analyst, sql: str) -> None:
    with pytest.raises(duckanon.errors.UnsupportedQuery, match=r"^range and generate_series take whole numbers"):
        con.execute(sql).fetchall()


def test_an_error_of_names_does_not_quote_the_text_that_runs(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute("CREATE TABLE persons AS SELECT i // 2 AS household, 'GA' AS state FROM range(20) r(i)").fetchall()
        con.execute(
            "SELECT protect('persons', unit := 'household', hierarchy := ['state'], domains := {'state': ['GA']}, "
            "max_size := 5, epsilon := 2, per_query := 1)"
        ).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        with pytest.raises(duckdb.BinderException, match='Referenced column "nothing" not found') as raised:
            con.execute(
                "SELECT nothing FROM dp_group_sizes('persons', 'household', ['state'], epsilon := 1, max_size := 5)"
            )
        assert "LINE" not in str(raised.value)
        assert "CAST(NULL" not in str(raised.value)
        assert con.execute("SELECT charges FROM privacy_budget()").fetchall() == [(0,)]
