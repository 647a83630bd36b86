"""Constants as values of a column's type: without loss, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.catalog.names import TableName
from duckanon.catalog.snapshot import Stored
from duckanon.rewrite.algebra.constants import CALLS, NUMBER, TEXT, NotTotal, Value, folded, of_type
from duckanon.rewrite.algebra.relations import Block
from duckanon.rewrite.recognize import Schema, relation

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


TABLE = TableName("d", "main", "t")
SCHEMA = Schema(tables={TABLE: Stored(("d", "main", "t"), {"x": "INTEGER"})})
# Of a day {d} and whole numbers {a} and {b}, which are not negative.
COMPUTED = [
    *(f"{part}({{d}})" for part in ("year", "quarter", "month", "day", "dayofmonth", "week", "dayofweek", "weekday")),
    *(f"{part}({{d}})" for part in ("isodow", "dayofyear", "last_day")),
    *(f"date_part('{part}', {{d}})" for part in ("year", "month", "dow", "doy", "isodow", "week")),
    "extract(QUARTER FROM {d})", "extract(year FROM TIMESTAMP '2024-02-29 13:00:00')",
    *(f"date_trunc('{unit}', {{d}})" for unit in ("day", "week", "month", "quarter", "year")),
    "date_trunc('MONTH', {d})", "datetrunc('week', {d})", "date_trunc('day', TIMESTAMP '2024-02-29 13:00:00')",
    "make_date(2024, {a} % 12 + 1, {b} % 28 + 1)", "{d} - DATE '2024-02-29'", "last_day(make_date(2024, 2, 1)) + 1",
    "make_timestamp(2024, {a} % 12 + 1, {b} % 28 + 1, {a} % 24, {b} % 60, 0.25)", "hour({d})", "minute({d})",
    "hour(TIMESTAMP '2024-02-29 13:45:10.25')", "extract(minute FROM TIMESTAMP '2024-02-29 13:45:10.25')",
    "date_trunc('hour', TIMESTAMP '2024-02-29 13:45:10.25')",
    "date_trunc('second', TIMESTAMP '2024-02-29 13:45:10.25')",
    "{d} + INTERVAL '1 year 2 mons 3 days' * ({a} % 6)", "{d} - INTERVAL '1 day 02:03:04.5'",
    "{d} + (-{a} || ' day')::INTERVAL", "timestamp 'epoch' + {a} * interval '1 second'", "{d} + - INTERVAL '3 weeks'",
    "{d} - 2 * INTERVAL '30' minute", "{d}::timestamp + INTERVAL '-700 day'", "CAST({d} AS TIMESTAMP)::DATE",
    "({b} % 8) ** 2", "{a} // ({b} + 1)", "floor(-2.5)",
    "sqrt({a})", "sqrt({a} / 3)", "sqrt(2.25)", "power({a} % 20, 3)", "pow(0.5, 2)",
    "{a} % ({b} + 1)", "mod({a}, 7)", "abs(-{a})", "abs(-2.5)", "abs(-1e3)", "floor({a} / 4)", "ceil({a} / 4)",
    "ceiling(2.1)", "round({a} / 8)", "round(2.5)", "round(-2.5)", "round(2.345, 2)", "round(-0.5)", "round({a})",
    "least({a}, {b}, 50)", "greatest({a}, {b})", "least({d}, DATE '2000-01-01')", "greatest(1.5, 1.25)",
    "lower('GA')", "upper('ga_7')",
]  # fmt: skip


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


def computed(form: str, today: date | None = date(2026, 2, 28)) -> Value | None:
    block = relation(f"SELECT {form} AS y FROM d.main.t", SCHEMA)
    assert isinstance(block, Block)
    return folded(block.outputs[0].expr, today)


@pytest.mark.parametrize("form", COMPUTED)
@given(
    day=st.dates(date(1620, 1, 1), date(9960, 12, 31)) | st.sampled_from([date(2024, 2, 29), date(2021, 1, 1)]),
    a=st.integers(0, 10_000),
    b=st.integers(0, 10_000),
)
def test_functions_of_constants_are_what_duckdb_computes(
    duck: duckdb.DuckDBPyConnection, form: str, day: date, a: int, b: int
) -> None:
    sql = form.format(d=f"DATE '{day}'", a=a, b=b)
    value = computed(sql)
    assert value is not None
    ((own,),) = duck.execute(f"SELECT {sql}").fetchall()
    if isinstance(value.value, date):
        # DuckDB's versions differ in whether that is a date or its midnight.
        assert duck.execute(f"SELECT ({sql}) = TIMESTAMP '{value.value}'").fetchall() == [(True,)]
    elif isinstance(value.value, Fraction):
        assert Fraction(own) == value.value
    else:
        assert own == value.value


def test_all_functions_are_tried() -> None:
    tried = " ".join(COMPUTED)
    others = {"dow", "doy", "dpipe"}  # parts of date_part, and ||
    assert all(f"{name}(" in tried for name in CALLS.keys() - others)


@pytest.mark.parametrize(
    "form",
    ["random()", "sqrt(x)", "least(1, NULL)",
     "date_trunc('month', 'x')", "-7 // 2", "-7 % 2", "round(0.15::DOUBLE, 1)", "pow(2, 0.5)", "exp(1)", "upper('ß')"],
)  # fmt: skip
def test_others_are_not_computed(form: str) -> None:
    """Their last digit, or their value, is not the same on each machine, or at each time of the day."""
    assert computed(form) is None


@pytest.mark.parametrize("form", ["sqrt(-1)", "make_date(2023, 2, 29)", "7 // 0", "7 % 0"])
def test_constants_without_a_value_are_refused(form: str) -> None:
    with pytest.raises(NotTotal):
        computed(form)


def test_without_a_day_nothing_depends_on_it() -> None:
    assert computed("year(current_date)", None) is computed("year(now())", None) is None
    assert computed("year(current_date)") == Value(Fraction(2026), "BIGINT")
