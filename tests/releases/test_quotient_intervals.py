"""The ends of the intervals of means and shares: Fieller's, and held as often as they promise."""

from __future__ import annotations

from fractions import Fraction
from math import exp, isclose, sqrt

import duckdb
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duckanon.releases.intervals import half_width, quotient_end, spread

NUMBERS = st.floats(-50, 50).map(lambda one: round(one, 3))


@given(NUMBERS, st.floats(1, 1e6), st.lists(st.tuples(NUMBERS, st.integers(1, 9)), min_size=1, max_size=3))
def test_noise_would_be_as_wide_as_is_allowed_at_both_ends(
    q: float, below: float, parts: list[tuple[float, int]]
) -> None:
    half = 2.5
    assume(below**2 > 1.01 * half**2 * sum(count for _, count in parts))
    told = [(f"({value!r})", str(count)) for value, count in parts]
    for side in ("low", "high"):
        text = quotient_end(f"({q * below!r})", f"({below!r})", told, half, side, "NULL")
        ((end,),) = duckdb.connect().execute(f"SELECT CAST({text} AS DOUBLE)").fetchall()
        noise = half * sqrt(sum(count * (value - end) ** 2 for value, count in parts))
        assert isclose(abs(q * below - end * below), noise, rel_tol=1e-6, abs_tol=1e-6)
        assert end <= q + 1e-9 if side == "low" else end >= q - 1e-9


def test_where_little_is_counted_every_quotient_is_possible() -> None:
    for side, worst in (("low", "0"), ("high", "9")):
        text = quotient_end("4", "2", [("0", "1"), ("9", "1")], 3.0, side, worst)
        assert duckdb.connect().execute(f"SELECT {text}").fetchall() == [(int(worst),)]


def test_they_hold_as_often_as_is_promised_also_for_few_values() -> None:
    """Means of values in [0, 100] of 6 to 60 records, with noise of scale 1 on both totals."""
    rng = np.random.default_rng(5)
    half, rounds = half_width(1), 4_000  # type: ignore[arg-type]
    for count, mean in ((6, 20.0), (20, 50.0), (60, 97.0)):
        ends = np.array([count * (1 - mean / 100), count * mean / 100]) + rng.laplace(size=(rounds, 2))
        con = duckdb.connect()
        noisy = {"n": ends.sum(axis=1), "s": 100 * ends[:, 1]}
        told = {side: quotient_end("s", "n", [("0", "1"), ("100", "1")], half, side, worst)
                for side, worst in (("low", "0.0"), ("high", "100.0"))}  # fmt: skip
        ((held,),) = con.execute(
            f"SELECT avg(({told['low']} <= {mean} AND {told['high']} >= {mean})::INT) FROM noisy"
        ).fetchall()
        assert 0.945 <= held <= 0.98, (count, mean, held)
        assert noisy


@pytest.mark.parametrize(
    "scale", [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40), Fraction(1000)]
)
def test_the_spread_is_the_least_that_holds(scale: Fraction) -> None:
    """The probabilities of discrete Laplace noise, (1 - a) / (1 + a) a^|v|, are added up one by one."""
    a = exp(-1 / scale)
    outside, m = 1 - (1 - a) / (1 + a), 0
    while outside > 0.05:
        m += 1
        outside -= 2 * (1 - a) / (1 + a) * a**m
    assert spread(scale) == m
