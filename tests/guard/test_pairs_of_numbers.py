"""corr, covar and regr: DuckDB's own without the noise, and never an error with it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import duckanon
from duckanon.engines.noise import Laplace
from duckanon.errors import PolicyRefusal
from duckanon.releases import mechanisms
from tests.guard.truthful import truth

FUNCTIONS = (
    "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_count", "regr_avgx",
    "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy",
)  # fmt: skip
_MADE = """
  CREATE TABLE t AS SELECT i AS u, CASE WHEN i % 11 > 0 THEN (i * 7 % 50)::INT END AS x,
    CASE WHEN i % 13 > 0 THEN ((i * 13 % 40) + i * 7 % 50)::INT END AS y, (i * 7 % 50) / 4 AS free, i % 2 AS k
  FROM range(600) r(i);
  SELECT protect('t', privacy_unit := 'u', rows_per_unit := 1, epsilon := {budget}, per_query := {price},
    public := ['k'], domains := {{'k': [0, 1, 2]}}, bounds := {{'x': [0, 50], 'y': [0, 100]}})
"""


def made(path: Path, price: str) -> Path:
    with duckanon.connect(path, role="steward") as con:
        for one in _MADE.format(price=price, budget=1000 * float(price)).split(";"):
            con.execute(one).fetchall()
    return path


@pytest.fixture(scope="module")
def analyst(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = made(tmp_path_factory.mktemp("pairs") / "x.duckdb", "100")
    with duckanon.connect(path, role="analyst") as con:
        assert isinstance(con, duckanon.Analyst)
        yield con


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_to_duckdb(analyst: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(mechanisms, "draw", truth)
    for sql in (
        f"SELECT {name}(y, x), k FROM t WHERE k < 2 GROUP BY k ORDER BY k",
        f"SELECT round({name}(y * 2, x + 1) FILTER (WHERE x > 20), 3) AS s, count(*) FROM t",
        f"SELECT {name}(least(greatest(y, 30), 60), coalesce(x, 7)) AS s, {name}(least(y, x), greatest(x, y)) FROM t",
    ):
        mine = analyst.execute(sql)
        named, found = mine.description, mine.fetchall()
        with analyst._con.cursor() as plain:
            theirs = plain.execute(sql)
            assert [one for one, *_ in named] == [one for one, *_ in theirs.description]
            for row, other in zip(found, theirs.fetchall(), strict=True):
                assert [float(one) for one in row] == pytest.approx([float(one) for one in other])


def test_one_question_has_all(analyst: duckanon.Analyst) -> None:
    decision = analyst._guard.decide("SELECT corr(y, x), covar_samp(y, x), regr_slope(y, x), regr_count(y, x) FROM t")
    (question,) = decision.answers
    assert len(question.measures) == 3
    assert question.loss == 100


_FAR = """
  CREATE TABLE far AS SELECT i AS u, a, a + 2023 AS b, x, x - 7000 AS y
  FROM (SELECT i, (i % 2)::INT AS a, (i % 2 * 300 + i * 7 % 300)::INT AS x FROM range(3000) r(i));
  SELECT protect('far', privacy_unit := 'u', rows_per_unit := 1, epsilon := 1000, per_query := 1,
    bounds := {'a': [0, 1], 'b': [2023, 2024], 'x': [0, 600], 'y': [-7000, -6400]})
"""


def test_noise_does_not_depend_on_a_shift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same draws, numbers far from zero have the same statistics as those near it, and shifted means."""

    draws = [np.random.default_rng(7)]

    def drawn(noise: Laplace, shape: tuple[int, ...], _: object, *, is_wide: bool) -> Any:
        return (draws[-1].normal(0, 2**0.5, shape) * float(noise.scale)).astype(object if is_wide else np.int64)

    monkeypatch.setattr(Laplace, "draw", drawn)
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        for one in _FAR.split(";"):
            con.execute(one).fetchall()
    names = ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_r2", "regr_sxy", "regr_count", "regr_intercept")
    told: list[Any] = []
    exactly: list[Any] = []
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as analyst:
        assert isinstance(analyst, duckanon.Analyst)
        for a, x in (("a", "x"), ("b", "x"), ("b", "y")):
            draws.append(np.random.default_rng(7))
            sql = f"SELECT {', '.join(f'{one}({x}, {a})' for one in names)}, regr_avgy({x}, {a}) FROM far"
            told.append(analyst.execute(sql).fetchone())
            with analyst._con.cursor() as plain:
                exactly.append(plain.execute(sql).fetchone())
    for other in told[1:]:
        assert other[:-2] == pytest.approx(told[0][:-2], rel=1e-6)
    slope = told[0][3]
    assert [one[-2] for one in told[1:]] == pytest.approx(
        [told[0][-2] - 2023 * slope, told[0][-2] - 2023 * slope - 7000]
    )
    assert [one[-1] for one in told[1:]] == pytest.approx([told[0][-1], told[0][-1] - 7000])
    assert told[0][0] == pytest.approx(exactly[0][0], abs=0.02)
    assert told[0][0] != exactly[0][0]


def test_no_noise_makes_an_error(tmp_path: Path) -> None:
    """Of few records, or none, with noise far wider than the numbers."""
    path = made(tmp_path / "x.duckdb", "0.05")
    told = ", ".join(f"{name}(y, x)" for name in FUNCTIONS)
    with duckanon.connect(path, role="analyst") as con:
        for least in (590, 597, 599):
            for row in con.execute(f"SELECT {told} FROM t WHERE u > {least} GROUP BY k").fetchall():
                known: list[Any] = [float(one) for one in row if one is not None]
                assert all(map(isfinite, known))
                assert row[0] is None or -1 <= row[0] <= 1
                assert row[5] is None or 0 <= row[5] <= 1


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT corr(free, x) FROM t", "no bounds for free"),
        ("SELECT corr(x, y) OVER () FROM t", "corr\\(x, y\\) OVER"),
        ("SELECT low(corr(x, y)) FROM t", "low and high are the ends"),
    ],
)
def test_what_is_refused(analyst: duckanon.Analyst, sql: str, said: str) -> None:
    with pytest.raises(PolicyRefusal, match=said):
        analyst.execute(sql).fetchall()


def test_a_variance_does_not_drown_far_from_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares of numbers near a billion have no digits left for a spread of one."""
    monkeypatch.setattr(mechanisms, "draw", truth)
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(
            "CREATE TABLE far AS SELECT i AS u, i % 8 / 8 AS near, 1000000000 + i % 8 / 8 AS x FROM range(800) r(i)"
        ).fetchall()
        con.execute(
            "SELECT protect('far', privacy_unit := 'u', rows_per_unit := 1, epsilon := 1000, per_query := 1, "
            "bounds := {'near': [0, 1, 0.125], 'x': [1000000000, 1000000001, 0.125]})"
        ).fetchall()
    names = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as analyst:
        told = [
            analyst.execute(f"SELECT {', '.join(f'{f}({c})' for f in names)} FROM far").fetchone()
            for c in ("near", "x")
        ]
        assert told[0] == pytest.approx(told[1], rel=1e-9)
        assert told[0][0] == pytest.approx(21 / 256, rel=1e-9)
