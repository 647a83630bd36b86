"""Numbers with noise in a population with a delta: which noise it is, that it is that, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import duckanon
from duckanon.accounting import written
from duckanon.engines.noise import Gaussian, Laplace, Noise
from duckanon.engines.noise_tails import least_width
from duckanon.errors import DuckanonError
from duckanon.releases.mechanisms import contribution
from duckanon.releases.paid_questions import AggregatesQuestion
from duckanon.renyi import renyi
from tests.engines.test_discrete_gaussian import p_value

KNOWN = renyi(Fraction(4), Fraction(1, 10**9))
PRICE, KEYS = Fraction(1, 50), 20_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("gaussian") / "x.duckdb"
    with duckanon.connect(made, role="steward") as con:
        for name, price in (("cheap", PRICE), ("dear", Fraction(2))):
            con.execute(
                f"CREATE TABLE {name} AS SELECT i % 1000 AS person, i % 7 AS place, i % 3 AS sex, i % 11 AS v "
                "FROM range(5000) r(i)"
            ).fetchall()
            con.execute(
                f"SELECT protect('{name}', population := '{name}', privacy_unit := 'person', rows_per_unit := 3, "
                f"epsilon := 4, delta := 1e-9, per_query := '{price}', public := ['place', 'sex'], "
                f"domains := {{'place': {{'from': 0, 'to': {KEYS - 1}, 'step': 1}}, 'sex': [0, 1, 2]}}, "
                "bounds := {'v': [0, 10]})"
            ).fetchall()
    return made


@pytest.fixture
def analyst(path: Path) -> Iterator[duckanon.Analyst]:
    with duckanon.connect(path, role="analyst") as con:
        assert isinstance(con, duckanon.Analyst)
        yield con


def noise_of(con: duckanon.Analyst, sql: str) -> list[Any]:
    (asked,) = con.explain(sql).answers
    assert isinstance(asked, AggregatesQuestion)
    assert asked.epsilon - Fraction(1, 10**9) <= asked.loss <= asked.epsilon
    return [asked.noise(one) for one, _ in asked.measures]


def test_the_noise_is_what_is_paid_for(analyst: duckanon.Analyst) -> None:
    """One draw for each of so many values of a key, of which most have no record; and the test would see another."""
    rows = analyst.execute("SELECT place, count(*) FROM cheap GROUP BY place ORDER BY place").fetchall()
    variance = 9 * KNOWN.order / (2 * PRICE)
    draws = np.array([n for place, n in rows if place >= 7])
    assert len(draws) == KEYS - 7
    assert p_value(draws, variance) > 1e-4
    for wrong in (Fraction(9, 10), Fraction(11, 10)):
        assert p_value(draws, variance * wrong**2) < 1e-4
    told = analyst.execute("SELECT epsilon_exact, noise FROM privacy_ledger() WHERE action = 'charge'").fetchall()
    assert told[-1] == ("0.02", f"gaussian, rho {PRICE / KNOWN.order}")


@pytest.mark.parametrize(
    ("sql", "squares"),
    [
        ("SELECT sex, count(*) FROM cheap GROUP BY sex", 9),
        ("SELECT count(*) FROM cheap", 9),
        ("SELECT count(DISTINCT person) FROM cheap", 1),
        ("SELECT sex, count(DISTINCT person) FROM cheap GROUP BY sex", 3),
        ("SELECT sex, count(DISTINCT person) FROM cheap WHERE sex < 2 GROUP BY sex", 2),
        ("SELECT sex, count(DISTINCT v) FROM cheap GROUP BY sex", 9),
        ("SELECT sex, sum(v) FROM cheap GROUP BY sex", 9),
        ("SELECT sex, avg((v > 3)::INT) FROM cheap GROUP BY sex", 9),
    ],
)
def test_its_variance_is_that_of_the_squares_of_what_a_unit_changes(
    analyst: duckanon.Analyst, sql: str, squares: int
) -> None:
    assert noise_of(analyst, sql) == [Gaussian(squares * KNOWN.order / (2 * PRICE))]


def test_at_a_large_price_it_is_pure(analyst: duckanon.Analyst) -> None:
    assert noise_of(analyst, "SELECT sex, count(*) FROM dear GROUP BY sex") == [Laplace(3 / KNOWN.pure(Fraction(2)))]


def test_what_is_said_of_it(analyst: duckanon.Analyst) -> None:
    width = least_width(Gaussian(9 * KNOWN.order / (2 * PRICE)), 1)
    reason = analyst.explain("SELECT sex, count(*) FROM cheap GROUP BY sex").steps[0].reason
    assert f"95 % are within {width} of the truth." in reason
    assert f"It is gaussian, rho {PRICE / KNOWN.order}." in reason
    assert (
        f"It is pure, epsilon {written(KNOWN.pure(Fraction(2)))}."
        in analyst.explain("SELECT count(*) FROM dear").steps[0].reason
    )
    split = analyst.explain("SELECT count(DISTINCT person), sum(v) FROM cheap").steps[0].reason
    assert "The price is split by how much noise each part needs: units 25%, sums 75%." in split


def test_low_and_high_are_those_of_its_width(analyst: duckanon.Analyst) -> None:
    width = least_width(Gaussian(9 * KNOWN.order / (2 * PRICE)), 1)
    sql = "SELECT count(*) AS n, low(n) AS l, high(n) AS h FROM cheap WHERE sex = 1"
    ((n, low, high),) = analyst.execute(sql).fetchall()
    assert (n - low, high - n) == (width, width)


def test_without_noise_numbers_are_those_of_duckdb(analyst: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noise, "draw", None, raising=False)
    for kind in (Gaussian, Laplace):
        monkeypatch.setattr(kind, "draw", lambda _, shape, source, *, is_wide: np.zeros(shape, dtype=np.int64))
    monkeypatch.setattr(contribution, "bounded", lambda _: "_dk_bounded AS (SELECT * FROM _dk_placed)")
    rows = analyst.execute("SELECT sex, count(*), sum(v), avg(v) FROM cheap WHERE v > 1 GROUP BY sex ORDER BY sex")
    plain = [[(i % 3, i % 11) for i in range(5000) if i % 3 == sex and i % 11 > 1] for sex in range(3)]
    for (sex, n, total, mean), own in zip(rows.fetchall(), plain, strict=True):
        assert (sex, n, total) == (own[0][0], len(own), sum(v for _, v in own))
        assert mean == pytest.approx(sum(v for _, v in own) / len(own))


def with_names(path: Path, *changes: str, prepared: bool = True) -> None:
    """A file with protected records, an open table beside them and, if wanted, counts that are prepared."""
    prepare = "FROM prepare('t', by := [['k', 'sick']], epsilon := 1, buy := true)"
    with duckanon.connect(path, role="steward") as con:
        for statement in (
            "CREATE TABLE t AS SELECT i AS id, i % 3 AS k, i % 2 = 0 AS sick FROM range(100) r(i)",
            "CREATE TABLE names AS SELECT i AS id, 'n' || i AS name FROM range(2) r(i)",
            "ALTER TABLE names ADD PRIMARY KEY (id)",
            "SELECT open_table('names')",
            "SELECT protect('t', population := 'p', epsilon := 9, delta := 1e-9, privacy_unit := 'id', "
            "rows_per_unit := 1, per_query := 1, public := ['k', 'sick'], "
            "domains := {'k': [0, 1, 2], 'sick': [true, false]})",
            *([prepare] if prepared else []),
            *changes,
        ):
            con.execute(statement).fetchall()


@pytest.mark.parametrize("change", ["DROP TABLE t", "ALTER TABLE t DROP COLUMN sick", "ALTER TABLE t RENAME TO u"])
@pytest.mark.parametrize("delta", ["", "delta := 1e-9, "])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, count(*) FROM t GROUP BY k",
        "SELECT * FROM (SELECT k, count(*) AS n FROM t GROUP BY k) WHERE n > 1",
        "SELECT (SELECT count(*) FROM t)",
        "WITH c AS (SELECT count(*) AS n FROM t) SELECT n FROM c",
    ],
)
def test_a_table_that_is_not_as_its_policy_needs_it_is_refused(
    tmp_path: Path, sql: str, delta: str, change: str
) -> None:
    """Also where an answer of it is stored, from which the question would follow."""
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT i AS id, i % 3 AS k, i % 2 = 0 AS sick FROM range(100) r(i)").fetchall()
        con.execute(
            f"SELECT protect('t', population := 'p', epsilon := 9, {delta}privacy_unit := 'id', rows_per_unit := 1, "
            "per_query := 1, public := ['k', 'sick'], domains := {'k': [0, 1, 2], 'sick': [true, false]})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        con.execute("SELECT k, sick, count(*) FROM t GROUP BY ALL").fetchall()
    with duckanon.connect(path, role="steward") as con:
        con.execute(change).fetchall()
    with duckanon.connect(path, role="analyst") as con, pytest.raises(DuckanonError, match="does not stand as its"):
        con.execute(sql).fetchall()


@pytest.mark.parametrize("change", ["DROP TABLE t", "ALTER TABLE t DROP COLUMN sick", "ALTER TABLE t RENAME TO u"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, count(*) FROM t GROUP BY k",
        "SELECT count(*) FROM t WHERE EXISTS (FROM names WHERE names.id = t.k)",
        "SELECT count(*) FROM t WHERE k IN (SELECT id FROM names)",
        "SELECT name, count(*) FROM t JOIN names ON names.id = t.k GROUP BY name",
        "SELECT name, count(*) FROM t LEFT JOIN names ON names.id = t.k GROUP BY name",
        "SELECT count(*) FROM t ANTI JOIN names ON names.id = t.k",
    ],
)
def test_nor_does_what_is_prepared_answer_for_it(tmp_path: Path, sql: str, change: str) -> None:
    path = tmp_path / "x.duckdb"
    with_names(path, change)
    with (
        duckanon.connect(path, role="analyst") as con,
        pytest.raises(DuckanonError, match="until its steward has settled"),
    ):
        con.execute(sql).fetchall()


@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(nothing) FROM t JOIN names ON names.id = t.k",
        "SELECT k, count(nothing) FILTER (sick), sum(names.id) FROM t JOIN names ON names.id = t.k GROUP BY k",
        "SELECT sum(names.nothing) FROM t JOIN names ON names.id = t.k",
        "SELECT nothing, count(*) FROM t JOIN names ON names.id = t.k GROUP BY nothing",
        "SELECT count(*) FROM t JOIN names ON names.id = t.k WHERE nothing = 1",
    ],
)
def test_a_column_that_no_table_of_a_join_has_is_named(tmp_path: Path, sql: str, prepared: bool) -> None:
    with_names(tmp_path / "x.duckdb", prepared=prepared)
    wrong = pytest.raises((duckdb.BinderException, DuckanonError), match="nothing")
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con, wrong as said:
        con.execute(sql)
    assert "_dk_" not in str(said.value)
