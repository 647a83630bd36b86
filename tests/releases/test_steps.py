"""Steps of whole numbers and decimals: as computed with fractions, for all values of a type."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.catalog.types import own_step, reach
from duckanon.releases.measures import Number, Quantiles, Sums
from duckanon.releases.steps import in_steps
from duckanon.rewrite.algebra.constants import in_sql

TYPES = (
    "TINYINT", "UTINYINT", "SMALLINT", "INTEGER", "UINTEGER", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT",
    "DECIMAL(3,1)", "DECIMAL(4,4)", "DECIMAL(9,2)", "DECIMAL(15,2)", "DECIMAL(18,0)", "DECIMAL(18,6)", "DECIMAL(38,2)",
    "DECIMAL(38,10)",
)  # fmt: skip


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, Fraction, Fraction, int]:
    """A type, the least value, the step and the number of steps."""
    kind = draw(st.sampled_from(TYPES))
    own = own_step(kind)
    assert own is not None
    per = draw(st.sampled_from([Fraction(1), Fraction(1, 4), Fraction(2), Fraction(5), Fraction(7), Fraction(1000)]))
    low = own * draw(st.sampled_from([0, 0, 1, -1, 3, -50, 120, -10_000, 99_999]))
    steps = draw(st.sampled_from([1, 2, 4, 8, 100, 100_000]))
    return kind, low, own * per, steps


def steps_of(value: Fraction, low: Fraction, step: Fraction, steps: int) -> int:
    clamped = min(max(value, low), low + steps * step)
    return floor((clamped - low) / step + Fraction(1, 2))


def values(kind: str, low: Fraction, step: Fraction, steps: int) -> list[Fraction]:
    """Those at the ends of the type and of the bounds, and between them."""
    own, (least, largest) = own_step(kind), reach(kind)
    assert own is not None
    near = [
        at + moved * own for at in (low, low + steps * step, low + step / 2, low + step) for moved in (-2, -1, 0, 1)
    ]
    found = [least, largest, Fraction(0), *(one for one in near if (one / own).denominator == 1)]
    return [one for one in found if least <= one <= largest]


@given(cases())
def test_equal_to_fractions(con: duckdb.DuckDBPyConnection, case: tuple[str, Fraction, Fraction, int]) -> None:
    kind, low, step, steps = case
    sql = in_steps('"x"', kind, low, step, steps)
    if sql is None:
        least, largest = reach(kind)
        beyond = low + steps * step < least or largest < low
        assert beyond or kind.startswith(("DECIMAL(38", "DECIMAL(18")) or step < (own_step(kind) or 0)
        return
    tried = values(kind, low, step, steps)
    listed = ", ".join(f"({in_sql(one, kind)})" for one in tried)
    found = con.execute(f"SELECT {sql} FROM (VALUES {listed}, (NULL)) AS t(x)").fetchall()
    assert [one for (one,) in found] == [*(steps_of(one, low, step, steps) for one in tried), None]


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT", "VARCHAR", ""])
def test_others_are_not_exact(kind: str) -> None:
    assert in_steps("x", kind, Fraction(0), Fraction(1), 10) is None


@pytest.mark.parametrize("kind", ["INTEGER", "DECIMAL(9,2)"])
def test_bounds_between_two_values_are_left_to_floats(kind: str) -> None:
    assert in_steps("x", kind, Fraction(1, 1000), Fraction(1), 10) is None
    assert in_steps("x", kind, Fraction(0), Fraction(2, 3), 10) is None


@pytest.mark.parametrize(("kind", "value"), [("DECIMAL(15,2)", "1234.56"), ("INTEGER", "1234")])
def test_a_number_of_a_known_type_is_the_one_of_floats(con: duckdb.DuckDBPyConnection, kind: str, value: str) -> None:
    plain, typed = Number("x", "0", "1/100", 200_000), Number("x", "0", "1/100", 200_000, kind)
    assert "DOUBLE" not in typed.sql
    found: Any = con.execute(f"SELECT {plain.sql}, {typed.sql} FROM (SELECT CAST({value} AS {kind}) AS x)").fetchone()
    assert found[0] == found[1] == int(Fraction(value) * 100)


@given(
    st.fractions(-1000, 1000, max_denominator=100),
    st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(3, 10**6), Fraction(7)]),
    st.lists(st.lists(st.integers(-(10**12), 10**12), min_size=3, max_size=3), min_size=1, max_size=4),
    st.booleans(),
)
def test_what_is_told_is_the_nearest_float(
    low: Fraction, step: Fraction, drawn: list[list[int]], squares: bool
) -> None:
    number = Number("x", str(low), str(step), 1000, "DOUBLE")
    sums = Sums(number, squares=squares)
    middle = [(low + number.high) / 2] if squares else []
    weights = [low, *middle, number.high]
    told = sums.decoded(np.array(drawn, dtype=object)[:, : len(weights)])[1]
    assert told.tolist() == [
        float(sum(one * weight for one, weight in zip(row, weights, strict=False)) / sums.whole) for row in drawn
    ]
    chosen = np.array(drawn, dtype=np.int64)
    medians = Quantiles(number, ("1/2",)).decoded(chosen)[0]
    assert medians.tolist() == [float(low + row[0] * step) for row in drawn]


def test_beyond_the_largest_float_is_infinite() -> None:
    number = Number("x", "0", str(Fraction(10) ** 308), 10, "DOUBLE")
    told = Sums(number).decoded(np.array([[0, 1], [0, 10**6], [0, -(10**6)]], dtype=object))[1]
    assert told.tolist() == [1e308, float("inf"), float("-inf")]
