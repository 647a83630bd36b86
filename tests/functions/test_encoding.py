"""Columns from Arrow to codes and levels: exact where floats would not be."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.errors import InvalidInput
from duckanon.functions.encoding import encode

KINDS = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(2**63 - 20, 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1) | st.integers(2**64 - 20, 2**64 - 1),
    pa.decimal128(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)
    | st.integers(10**37, 10**37 + 9).map(Decimal),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
    pa.float32(): st.floats(allow_nan=False, allow_infinity=False, width=32),
    pa.bool_(): st.booleans(),
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_ordered(kind: pa.DataType, data: st.DataObject) -> None:
    values: list[Any] = data.draw(st.lists(st.none() | KINDS[kind], max_size=20))
    found = encode("x", pa.array(values, kind), categorical=False)
    present = sorted({v for v in values if v is not None})
    assert found.distinct == len(present)
    assert [None if c == found.distinct else present[c] for c in found.codes] == values
    assert found.levels is not None
    if len(present) > 1 and found.span > 0:
        from fractions import Fraction

        width = Fraction(present[-1]) - Fraction(present[0])
        exact = [float((Fraction(v) - Fraction(present[0])) / width) for v in present]
        assert found.levels == pytest.approx(exact, abs=1e-15)
        assert found.span == pytest.approx(float(width)) if width < 2**1023 else True
        assert found.levels[0] == 0.0
        assert found.levels[-1] == 1.0


@given(st.lists(st.none() | st.text(max_size=3), max_size=20))
def test_categorical(values: list[str | None]) -> None:
    found = encode("x", pa.array(values, pa.string()), categorical=True)
    present = sorted({v for v in values if v is not None}, key=lambda v: v.encode("utf-8", "surrogatepass"))
    assert [None if c == found.distinct else present[c] for c in found.codes] == values
    assert found.levels is None
    assert found.span == max(len(present) - 1, 0)


@given(st.lists(st.none() | st.sampled_from(["c", "a", "b", "z"]), max_size=20))
def test_enum(values: list[str | None]) -> None:
    declared = ["z", "c", "unused", "a", "b"]
    indices = pa.array([None if v is None else declared.index(v) for v in values], pa.uint8())
    found = encode("x", pa.DictionaryArray.from_arrays(indices, pa.array(declared)), categorical=False)
    present = sorted({v for v in values if v is not None}, key=declared.index)
    assert [None if c == found.distinct else present[c] for c in found.codes] == values
    places = np.array([declared.index(v) for v in present], dtype=float)
    if len(present) > 1:
        assert found.levels == pytest.approx((places - places[0]) / (places[-1] - places[0]))


def test_zero_has_no_sign() -> None:
    found = encode("x", pa.array([0.0, -0.0, 1.0]), categorical=False)
    assert found.codes.tolist() == [0, 0, 1]


def test_a_column_without_a_type() -> None:
    found = encode("x", pa.nulls(3), categorical=True)
    assert (found.codes.tolist(), found.distinct) == ([0, 0, 0], 0)


def test_slices_of_a_column() -> None:
    for values in (pa.array([9, 5, None, 7, 5]), pa.array([Decimal(9), Decimal(5), None, Decimal(7), Decimal(5)])):
        found = encode("x", values.slice(1, 3), categorical=False)
        assert found.codes.tolist() == [0, 2, 1]


def test_a_type_without_an_order() -> None:
    with pytest.raises(InvalidInput, match='Column "x" has a type without an order'):
        encode("x", pa.array(["a"]), categorical=False)
