"""Constants as values of a column's type: without loss, or not at all."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction

import pytest

from duckanon.rewrite.algebra.constants import NUMBER, TEXT, Value, of_type

TENTH, THREE = Fraction(1, 10), Fraction(3)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        # A number is compared as the column's type has it; a DOUBLE would make a FLOAT column wider.
        (Value(TENTH, NUMBER), "DOUBLE", TENTH),
        (Value(TENTH, NUMBER), "FLOAT", TENTH),
        (Value(TENTH, "DECIMAL(2,1)"), "FLOAT", TENTH),
        (Value(TENTH, "DOUBLE"), "DOUBLE", TENTH),
        (Value(TENTH, "FLOAT"), "DOUBLE", TENTH),
        (Value(TENTH, "DOUBLE"), "FLOAT", None),
        (Value(Fraction(10**39), NUMBER), "FLOAT", None),
        (Value(Fraction(10**39), NUMBER), "DOUBLE", Fraction(10**39)),
        (Value(Fraction(-(10**309)), NUMBER), "DOUBLE", None),
        # An exact type takes what it can hold, and nothing that was rounded on the way.
        (Value(THREE, NUMBER), "INTEGER", THREE),
        (Value(TENTH, NUMBER), "INTEGER", None),
        (Value(TENTH, NUMBER), "DECIMAL(4,1)", TENTH),
        (Value(TENTH / 10, NUMBER), "DECIMAL(4,1)", None),
        (Value(Fraction(127), NUMBER), "TINYINT", Fraction(127)),
        (Value(Fraction(128), NUMBER), "TINYINT", None),
        (Value(THREE, "DOUBLE"), "INTEGER", None),
        (Value(THREE, NUMBER), "VARCHAR", None),
        # Quoted text is read as the column's type; text of a written type is text.
        (Value("3", TEXT), "INTEGER", THREE),
        (Value("3", "VARCHAR"), "INTEGER", None),
        (Value("3", "VARCHAR"), "VARCHAR", "3"),
        (Value(True, "BOOLEAN"), "BOOLEAN", True),
        (Value(True, "BOOLEAN"), "INTEGER", None),
        (Value(date(2026, 2, 28), "DATE"), "TIMESTAMP", datetime(2026, 2, 28)),
        (Value(datetime(2026, 2, 28), "TIMESTAMP"), "DATE", date(2026, 2, 28)),
        (Value(datetime(2026, 2, 28, 1), "TIMESTAMP"), "DATE", None),
    ],
)
def test_a_constant_as_a_value_of_a_type(value: Value, kind: str, expected: object) -> None:
    assert of_type(value, kind) == expected
