"""Floats of an open table that is looked up are numbers of the record, bounded by the values there."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import duckanon
from duckanon.errors import PolicyRefusal
from duckanon.releases import mechanisms
from duckanon.units.scope import _in_decimals
from tests.guard.truthful import truth

_MADE = """
  CREATE TABLE drugs (drug INTEGER PRIMARY KEY, cost DOUBLE, far DOUBLE, fine FLOAT, one DOUBLE);
  INSERT INTO drugs SELECT i, i * 1.37::DOUBLE - 9, CASE WHEN i = 3 THEN 'inf'::DOUBLE ELSE i END, i * 0.1::FLOAT, 2.5
  FROM range(40) r(i);
  CREATE TABLE doses AS SELECT i AS patient, (i % 40)::INTEGER AS drug, 1 + i % 10 AS given FROM range(900) r(i);
  SELECT open_table('drugs');
  SELECT protect('doses', privacy_unit := 'patient', rows_per_unit := 1, epsilon := 100000, per_query := 100,
    bounds := {'given': [1, 10]})
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckanon.Analyst, duckdb.DuckDBPyConnection]]:
    """An analyst, whose answers have no noise, and DuckDB itself."""
    path: Path = tmp_path_factory.mktemp("floats") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        for one in _MADE.split(";"):
            steward.execute(one).fetchall()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanisms, "draw", truth)
        with duckanon.connect(path, role="analyst") as con, con._con.cursor() as plain:
            yield con, plain


@pytest.mark.parametrize(
    "number",
    [
        "sum(cost)",
        "avg(cost)",
        "sum(given * cost)",
        "sum(given + cost)",
        "sum(fine)",
        "avg(one)",
        "sum(round(cost, 1))",
    ],
)
def test_they_are_added_up(both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], number: str) -> None:
    con, plain = both
    sql = f"SELECT {number} FROM doses JOIN drugs USING (drug)"
    ((mine,),), ((theirs,),) = con.execute(sql).fetchall(), plain.execute(sql).fetchall()
    # Each of 900 values is rounded by at most half a step of 10^-4, and some count up to 45 times.
    assert mine == pytest.approx(theirs, abs=900 * 45 * 0.0001)
    assert con.decision is not None
    assert "Values are rounded: " in con.decision.steps[0].reason


def test_without_a_largest_number_there_are_no_bounds(
    both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection],
) -> None:
    with pytest.raises(PolicyRefusal):
        both[0].execute("SELECT sum(far) FROM doses JOIN drugs USING (drug)")


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
@example(1e12, 2.0**-9)
@example(0.0, 5e-324)
def test_bounds_are_around_the_values_with_enough_steps(one: float, other: float) -> None:
    least, largest = sorted((Fraction(one), Fraction(other)))
    low, high, step = _in_decimals(least, largest)
    assert low <= least <= largest <= high
    assert low + 2 * step > least - step
    assert high - step < largest + step
    assert (low / step).denominator == 1
    assert least == largest or 10**5 <= (largest - least) / step < 10**7
