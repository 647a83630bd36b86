"""Counts through an analyst's connection: the noise has the scale that the guarantee needs, and is drawn once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import duckanon
from tests.engines.test_randomness import p_value

GROUPS = 6_000


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """The noise of many counts, each of three records. A unit has up to four records, and epsilon is a third."""
    path = tmp_path_factory.mktemp("counts") / "x.duckdb"
    with duckanon.connect(path) as con:
        con.execute(
            f"CREATE TABLE visits AS SELECT i % {GROUPS} AS place, i AS person FROM range(3 * {GROUPS}) r(i)"
        ).fetchall()
        con.execute(
            "SELECT protect('visits', unit := 'person', epsilon := 1, per_query := '1/3', max_size := 4, "
            "public := ['place'])"
        ).fetchall()
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
        assert con.sql("SELECT spent FROM privacy_budget()").fetchall() == [(1 / 3,)]
    assert len(first) == GROUPS
    return np.array([n - 3 for _, n in first])


def test_the_noise_has_the_right_scale(noise: np.ndarray) -> None:
    """Sensitivity 4, the records of a unit, over epsilon 1/3."""
    assert p_value(noise, Fraction(12)) > 1e-6


@pytest.mark.parametrize("wrong", [Fraction(3), Fraction(4), Fraction(6), Fraction(10), Fraction(15), Fraction(24)])
def test_a_wrong_scale_is_rejected(noise: np.ndarray, wrong: Fraction) -> None:
    assert p_value(noise, wrong) < 1e-6
