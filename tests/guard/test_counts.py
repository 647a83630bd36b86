"""Counts through an analyst's connection: the noise has the scale that the guarantee needs, and is drawn once."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import duckanon
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from tests.amounts import sampled
from tests.engines.test_randomness import p_value
from tests.guard.truthful import truthful

PLACES = 6_000
__all__ = ["truthful"]  # a fixture


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three records in each place. Four records of a person count, and epsilon is a third."""
    path = tmp_path_factory.mktemp("counts") / "x.duckdb"
    with duckanon.connect(path) as con:
        con.execute(
            f"CREATE TABLE visits AS SELECT i % {PLACES} AS place, i AS person FROM range(3 * {PLACES}) r(i); "
            f"CREATE TABLE places AS SELECT i AS place FROM range({PLACES}) r(i); SELECT open_table('places'); "
            "SELECT protect('visits', privacy_unit := 'person', rows_per_unit := 4, epsilon := 3, per_query := '1/3', "
            "public := ['place'], domains := {'place': 'places'})"
        ).fetchall()
    return path


@pytest.fixture(scope="module")
def noise(path: Path) -> np.ndarray:
    """The noise of many counts."""
    with duckanon.connect(path, role="analyst") as con:
        sql = "SELECT place, count(*) AS n FROM visits GROUP BY place ORDER BY place"
        first = con.execute(sql).fetchall()
        # Asked again, in other words, it is the same release.
        for same in (
            sql,
            "SELECT place, n FROM (SELECT place, count(*) AS n FROM visits GROUP BY ALL) ORDER BY 1",
            "WITH v AS (FROM visits) SELECT v.place, count(1) AS n FROM v GROUP BY v.place ORDER BY v.place",
            "SELECT place, count(*) AS n FROM visits GROUP BY place HAVING count(*) > -10000 ORDER BY place",
        ):
            assert con.execute(same).fetchall() == first
        assert con.sql("SELECT spent_exact FROM privacy_budget()").fetchall() == [("1/3",)]
    assert [place for place, _ in first] == list(range(PLACES))
    return np.array([n - 3 for _, n in first])


def test_the_noise_has_the_right_scale(noise: np.ndarray) -> None:
    """Sensitivity 4, the records of a unit that count, over epsilon 1/3."""
    assert p_value(noise, Fraction(12)) > 1e-6


@pytest.mark.parametrize("wrong", [Fraction(3), Fraction(4), Fraction(6), Fraction(10), Fraction(15), Fraction(24)])
def test_a_wrong_scale_is_rejected(noise: np.ndarray, wrong: Fraction) -> None:
    assert p_value(noise, wrong) < 1e-6


def test_shares_have_the_same_noise(path: Path) -> None:
    """A share comes from noisy counts, so the counts behind it are not sold again."""
    with duckanon.connect(path, role="analyst") as con:
        before = con.execute("SELECT charges FROM privacy_budget()").fetchall()
        con.execute("SELECT place, count(*) AS n FROM visits GROUP BY place").fetchall()
        con.execute("SELECT place, count(*) / sum(count(*)) OVER () AS p FROM visits GROUP BY place").fetchall()
        assert con.execute("SELECT charges FROM privacy_budget()").fetchall()[0][0] - before[0][0] <= 1


KEYS = [
    "sick", "NOT sick", "coalesce(sick, true)", "coalesce(sick, NULL)", "sick IS NULL", "age > 3", "age % 2",
    "CASE WHEN sick THEN 'yes' WHEN age > 3 THEN 'old' END", "CASE WHEN sick THEN 1 ELSE 2 END", "if(sick, 'a', 'b')",
]  # fmt: skip


@pytest.mark.parametrize("key", sampled(KEYS))
def test_a_computed_key_has_its_own_values(key: str, tmp_path: Path, truthful: None) -> None:
    path, sql = tmp_path / "x.duckdb", f"SELECT {key} AS k, count(*) AS n FROM people GROUP BY ALL ORDER BY ALL"
    with duckanon.connect(path) as con:
        con.execute("CREATE TABLE people AS SELECT i % 7 AS age, [true, false, NULL][i % 3 + 1] AS sick FROM range(90) "
                    "r(i)").fetchall()  # fmt: skip
        expected = con.execute(sql).fetchall()
        con.execute(
            "SELECT protect('people', epsilon := 1, per_query := 1, public := ['sick', 'age'], "
            "domains := {'sick': ['true', 'false', NULL], 'age': [0, 1, 2, 3, 4, 5, 6]})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        # Keys that are there by the domains alone have zeros.
        assert [row for row in con.execute(sql).fetchall() if row[1]] == expected


def test_a_key_must_depend_on_a_column(path: Path) -> None:
    with (
        duckanon.connect(path, role="analyst") as con,
        pytest.raises(PolicyRefusal, match="computed from columns of the table"),
    ):
        con.execute("SELECT upper('a') AS k, count(*) AS n FROM visits GROUP BY ALL")


@pytest.mark.parametrize(
    "condition",
    sampled(
        [
            "person::VARCHAR::INTEGER = 3",
            "sqrt(person - 3) > 0",
            "person = 'x'",
            "person = '3.5'",
            "sqrt(person) > 3",
            "TRY(person = 3)",
            "CASE WHEN place = 1 THEN person ELSE 'x' END = 1",
            "person = 7 AND place = 'x'",
        ]
    ),
)
def test_a_filter_must_not_fail(path: Path, condition: str) -> None:
    """Refused before a record is read or a charge is made."""
    with duckanon.connect(path, role="analyst") as con:
        before = con.sql("FROM privacy_budget()").fetchall()
        why = r"could fail|must be a value of its column's type|protected|calls public|TRY is not run"
        with pytest.raises((PolicyRefusal, UnsupportedQuery), match=why):
            con.execute(f"SELECT count(*) FROM visits WHERE {condition}")
        assert con.sql("FROM privacy_budget()").fetchall() == before
