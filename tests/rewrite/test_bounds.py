"""Bounds of computed numbers: on all extreme values the SQL has the value of a twin in fractions, within its bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import floor, isfinite
from typing import Any

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duckanon.catalog.policy import Policy
from duckanon.catalog.snapshot import Protected, Stored
from duckanon.releases.measures import Computed, Sums
from duckanon.releases.noise import NotOffered
from duckanon.releases.numbers import Columns, quantity, rounding
from duckanon.rewrite.algebra.bounds import Bounded, NotBounded, bounded
from duckanon.rewrite.algebra.expressions import (
    NULL,
    Arithmetic,
    Branch,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Expr,
    Function,
    Is,
    Negative,
    Nullif,
    Operation,
    Round,
    Word,
    walk,
)
from duckanon.rewrite.algebra.filters import NotTotal

TODAY = date(2026, 2, 28)
TYPES = {
    "price": "DECIMAL(12,2)", "off": "DECIMAL(4,2)", "n": "BIGINT", "small": "TINYINT", "score": "DOUBLE",
    "half": "DOUBLE", "sent": "DATE", "came": "DATE", "moment": "TIMESTAMP", "ok": "BOOLEAN", "free": "INTEGER",
    "huge": "HUGEINT", "s": "VARCHAR",
}  # fmt: skip
BOUNDS: dict[str, tuple[str, ...]] = {
    "price": ("0", "1000", "0.01"), "off": ("-0.1", "0.3", "0.01"), "n": ("-7", "50"), "small": ("3", "9", "2"),
    "score": ("-2.5", "7.5", "0.25"), "half": ("0.25", "100.25", "0.5"), "sent": ("1969-11-03", "1971-02-28"),
    "came": ("1969-11-03", "1972-01-01"), "huge": ("0", "5"),
    "moment": ("1969-12-30 22:10:00", "1970-03-01 00:00:00.5"),
}  # fmt: skip
VALUES: dict[str, list[str]] = {
    "price": ["0", "0.01", "3.33", "999.99", "1000", "1000.01", "-0.01", "9999999999.99", "-9999999999.99"],
    "off": ["-0.11", "-0.10", "0", "0.07", "0.30", "0.31", "99.99", "-99.99"],
    "n": ["-8", "-7", "-1", "0", "1", "13", "50", "51", "9223372036854775807", "-9223372036854775808"],
    "small": ["-128", "3", "4", "5", "7", "9", "127"],
    "score": ["'nan'", "'inf'", "'-inf'", "1e308", "-1e308", "-0.0", "0.3", "7.5", "-2.25", "1e-300"],
    "half": ["'nan'", "'-inf'", "0.25", "50.75", "100.25", "0", "63.1"],
    "sent": ["'infinity'", "'-infinity'", "'5881580-07-10'", "'290309-12-22 (BC)'", "'1970-01-01'", "'1969-12-31'",
             "'1970-06-30'"],
    "came": ["'infinity'", "'-infinity'", "'1970-01-01'", "'1971-12-31'", "'1969-11-03'", "'1972-02-29'"],
    "moment": ["'infinity'", "'-infinity'", "'294247-01-10 04:00:54.775806'", "'1969-12-31 23:59:59.999999'",
           "'1970-01-01 00:00:00'", "'1970-01-31 17:30:00.25'"],
    "ok": ["true", "false"], "free": ["2147483647", "-2147483648", "0", "17"],
    "huge": ["170141183460469231731687303715884105727", "-170141183460469231731687303715884105727", "3"],
    "s": ["'a'"],
}  # fmt: skip
Record = Mapping[str, Any]


def columns(bounds: Mapping[str, tuple[str, ...]] = BOUNDS) -> Columns:
    stored = Stored(("memory", "main", "t"), TYPES)
    policy = Policy(Fraction(10), per_query=Fraction(1), bounds=bounds)
    return Columns(Protected(policy, stored, version=1, edition=1, remaining=Fraction(10)), TYPES, TODAY)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """Records of which each has an extreme value of each column; and of each pair of columns some have NULL in both."""
    with duckdb.connect() as found:
        found.execute(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())})")
        for shift in range(12):
            for at in range(11):
                row = [
                    "NULL" if (at + shift * (place + 1)) % 13 == 12 else values[(at + shift * place) % len(values)]
                    for place, (name, values) in enumerate(VALUES.items())
                ]
                found.execute(f"INSERT INTO t VALUES ({', '.join(row)})")
        yield found


@pytest.fixture(scope="module")
def records(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    # Infinite dates have no value in Python.
    moments = {
        name: f"CASE WHEN isinf({name}) THEN CASE WHEN {name} > {kind} '2000-01-01' THEN {kind} '9999-12-31' "
        f"ELSE {kind} '0001-01-01' END WHEN year({name}) > 9999 THEN {kind} '9999-12-31' "
        f"WHEN year({name}) < 1 THEN {kind} '0001-01-01' ELSE {name} END AS {name}"
        for name, kind in TYPES.items()
        if kind in ("DATE", "TIMESTAMP")
    }
    shown = ", ".join(moments.get(name, name) for name in TYPES)
    told = con.execute(f"SELECT {shown} FROM t ORDER BY rowid").fetchall()
    return [dict(zip(TYPES, row, strict=True)) for row in told]


# --- the twin ---------------------------------------------------------------------------------------------------------


def leaf(name: str, value: Any) -> Fraction | None:
    """A column's value, clamped and rounded to its step; a date as its number of days."""
    if value is None:
        return None
    if TYPES[name] == "BOOLEAN":
        return Fraction(value)
    if TYPES[name] in ("DATE", "TIMESTAMP"):
        first, last = map(datetime.fromisoformat, BOUNDS[name])
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        unit = timedelta(days=1) if TYPES[name] == "DATE" else timedelta(microseconds=1)
        return Fraction((min(max(moment, first), last) - datetime(1970, 1, 1)) // unit)
    low, high, *steps = map(Fraction, BOUNDS[name])
    if isinstance(value, float) and not isfinite(value):
        return low if value < 0 else high
    step = steps[0] if steps else Fraction(1)
    return min(low + rounded((min(max(Fraction(value), low), high) - low) / step) * step, high)


def rounded(x: Fraction) -> int:
    """Half away from zero."""
    return floor(x + Fraction(1, 2)) if x >= 0 else -floor(-x + Fraction(1, 2))


def value(expr: Expr, record: Record) -> Fraction | None:
    """The value of an expression for a record."""
    if isinstance(expr, Column):
        return leaf(expr.name, record[expr.name])
    if isinstance(expr, Constant):
        return Fraction(expr.value)
    if isinstance(expr, Case):
        for condition, then in expr.branches:
            if holds(condition, record):
                return value(then, record)
        return value(expr.default, record)
    parts = [value(one, record) for one in expr.parts if not isinstance(one, Word)]
    known = [one for one in parts if one is not None]
    match expr:
        case Coalesce():
            return next(iter(known), None)
        case Operation("Least" | "Greatest"):
            return (min if expr.kind == "Least" else max)(known) if known else None
        case Nullif():
            return None if parts[0] == parts[1] else parts[0]
    if len(known) < len(parts) or expr == NULL:
        return None
    return STRICT[type(expr).__name__](expr, *known)


def holds(condition: Expr, record: Record) -> bool:
    """Conditions are about the records as they are, not clamped."""
    match condition:
        case Is(Column(_, name)):
            return record[name] is None
        case Comparison(">", Column(_, name), Constant(number)):
            return record[name] is not None and record[name] > int(number)
    raise AssertionError(condition)


def _arithmetic(expr: Any, a: Fraction, b: Fraction) -> Fraction:
    if expr.operator == "//":
        return Fraction(int(a / b))
    if expr.operator == "%":
        return a - b * int(a / b)
    return (
        a + b if expr.operator == "+" else a - b if expr.operator == "-" else a * b if expr.operator == "*" else a / b
    )


def _called(expr: Any, a: Fraction, b: Fraction = Fraction(0)) -> Fraction:
    if expr.kind in ("Abs", "Floor", "Ceil"):
        return {"Abs": abs(a), "Floor": Fraction(floor(a)), "Ceil": Fraction(-floor(-a))}[expr.kind]
    last, *first = (
        datetime(1970, 1, 1) + UNIT[TYPES[one.name]] * int(at) for one, at in zip(expr.parts, (a, b), strict=False)
    )
    return Fraction(_between(expr.argument("unit").text, first[0], last) if first else last.year)


UNIT = {"DATE": timedelta(days=1), "TIMESTAMP": timedelta(microseconds=1)}


def _between(unit: str, first: datetime, last: datetime) -> int:
    if unit in ("month", "year"):
        months = (last.year - first.year) * 12 + last.month - first.month
        return months if unit == "month" else last.year - first.year
    per = {"day": timedelta(days=1), "hour": timedelta(hours=1)}[unit]
    return (last - datetime(1960, 1, 1)) // per - (first - datetime(1960, 1, 1)) // per


def _round(expr: Any, a: Fraction, places: Fraction = Fraction(0)) -> Fraction:
    unit = Fraction(10) ** -int(places)
    return rounded(a / unit) * unit


STRICT: dict[str, Callable[..., Fraction]] = {
    "Arithmetic": _arithmetic,
    "Operation": _called,
    "Negative": lambda _, a: -a,
    "Cast": lambda _, a: a,
    "Round": _round,
}

# --- random expressions -----------------------------------------------------------------------------------------------

NUMBERS = [Column(1, name) for name in ("price", "off", "n", "small", "score", "half", "huge")]
CONSTANTS = [Constant(one) for one in ("0", "1", "2", "0.5", "100", "0.25", "7")]
CONDITIONS = [
    Is(Column(1, "s"), NULL),
    Is(Column(1, "price"), NULL),
    Comparison(">", Column(1, "free"), Constant("3")),
    Comparison(">", Column(1, "n"), Constant("10")),
]
DATES = [Column(1, "sent"), Column(1, "came")]


def operation(kind: str, *parts: Expr, unit: str = "") -> Operation:
    names = ("this", "expressions") if kind in ("Least", "Greatest") else ("this", "expression")
    arguments: list[tuple[str, Any]] = [(names[0], parts[0])]
    if len(parts) > 1:
        arguments.append((names[1], parts[1:] if names[1] == "expressions" else parts[1]))
    return Operation(kind, (*arguments, *([("unit", Word(unit))] if unit else [])))


LEAVES = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS),
    st.sampled_from(CONSTANTS),
    st.builds(lambda one, other: Arithmetic("-", one, other), st.sampled_from(DATES), st.sampled_from(DATES)),
    st.builds(
        lambda one, other, unit: operation("DateDiff", one, other, unit=unit),
        *[st.sampled_from([*DATES, Column(1, "moment")])] * 2,
        st.sampled_from(["day", "hour", "month", "year"]),
    ),
    st.builds(lambda one: operation("Year", one), st.sampled_from([*DATES, Column(1, "moment")])),
    st.just(Cast(Column(1, "ok"), "INT")),
)


def _has_columns(expr: Expr) -> bool:
    """Quotients of constants are rounded as DuckDB rounds them."""
    return any(isinstance(one, Column) for one in walk(expr))


def larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    known = st.sampled_from(CONDITIONS)
    return st.one_of(
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(lambda one, by: Arithmetic("/", one, by), inner.filter(_has_columns), st.sampled_from(CONSTANTS[1:])),
        st.builds(Arithmetic, st.sampled_from(["//", "%"]), st.sampled_from(NUMBERS), st.sampled_from(CONSTANTS[1:])),
        st.builds(Negative, inner),
        st.builds(lambda when, one, other: Case((Branch(when, one),), other), known, inner, inner | st.just(NULL)),
        st.builds(
            lambda when, one, then, other: Case((Branch(when, one), Branch(then, other)), Constant("0")),
            known, inner, known, inner,
        ),
        st.builds(lambda one, other: Coalesce((one, other)), inner, inner),
        st.builds(Nullif, inner, inner),
        st.builds(operation, st.sampled_from(["Least", "Greatest"]), inner, inner),
        st.builds(operation, st.sampled_from(["Abs", "Floor", "Ceil"]), inner),
        st.builds(Round, inner, st.sampled_from([None, Constant("1"), Negative(Constant("1"))])),
        st.builds(Cast, inner, st.just("DOUBLE")),
    )  # fmt: skip


EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=6)


def steps(con: duckdb.DuckDBPyConnection, found: Bounded) -> list[int | None]:
    told = con.sql(f"SELECT {found.sql} FROM t ORDER BY rowid")
    assert [str(one) for one in told.types] == ["BIGINT"], found.sql
    return [row[0] for row in told.fetchall()]


def test_it_is_the_value_of_the_twin_within_its_bounds(
    con: duckdb.DuckDBPyConnection, records: list[dict[str, Any]]
) -> None:
    @given(EXPRESSIONS)
    def check(expr: Expr) -> None:
        try:
            found = bounded(expr, columns())
        except NotBounded:
            assume(False)
        for own, record in zip(steps(con, found), records, strict=True):
            meant = value(expr, record)
            assert (own is None) == (meant is None), record
            if own is None or meant is None:
                assert found.nullable
                continue
            assert own * found.step == meant, record
            assert found.low <= own <= found.high

    check()


def test_quotients_of_two_numbers_of_a_record_are_rounded_towards_zero(
    con: duckdb.DuckDBPyConnection, records: list[dict[str, Any]]
) -> None:
    @given(EXPRESSIONS.filter(_has_columns), EXPRESSIONS.filter(_has_columns))
    def check(one: Expr, other: Expr) -> None:
        try:
            found = bounded(Arithmetic("/", one, other), columns())
            assume(not bounded(other, columns()).constant)
        except NotBounded:
            assume(False)
        for own, record in zip(steps(con, found), records, strict=True):
            a, b = value(one, record), value(other, record)
            assert (own is None) == (a is None or not b), record
            if own is not None and a is not None and b:
                assert own == int(a / b / found.step), record
                assert found.low <= own <= found.high
                assert abs(own * found.step - a / b) <= found.error

    check()


def test_one_record_changes_the_totals_by_no_more_than_is_charged(con: duckdb.DuckDBPyConnection) -> None:
    @given(EXPRESSIONS, st.booleans(), st.booleans())
    def check(expr: Expr, squares: bool, missing: bool) -> None:
        try:
            number = quantity(columns(), expr, "x").number(squares=squares)
        except (NotBounded, NotOffered, NotTotal):
            assume(False)
        assume(isinstance(number, Computed))
        measure = Sums(number, squares=squares, missing=missing)
        totals = ", ".join(f"CAST({one} AS HUGEINT)" for one in measure.totals("v"))
        told = con.execute(f"SELECT {totals} FROM (SELECT rowid AS r, {number.sql} AS v FROM t) GROUP BY r").fetchall()
        # Each record alone: its parts are not negative, and add up to what the noise is for.
        assert {sum(row) for row in told} <= {0, measure.whole}
        assert min(min(row) for row in told) >= 0

    check()


def test_without_the_clamp_one_record_changes_them_by_more(con: duckdb.DuckDBPyConnection) -> None:
    """The twin that takes columns as they are is found by the test above."""
    number = quantity(columns(), Arithmetic("*", Column(1, "n"), Constant("3")), "x").number()
    assert isinstance(number, Computed)
    careless = replace(number, value="CAST(CAST(n AS HUGEINT) + 7 AS HUGEINT)")
    measure = Sums(careless)
    told = con.execute(
        f"SELECT {', '.join(measure.totals('v'))} FROM (SELECT rowid AS r, {careless.sql} AS v FROM t) GROUP BY r"
    ).fetchall()
    assert any(min(row) < 0 for row in told)


def test_decimals_are_duckdbs_own_where_no_value_is_clamped() -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (price DECIMAL(12,2), off DECIMAL(4,2), n BIGINT, small TINYINT)")
        con.execute("INSERT INTO t SELECT i * 0.37, i % 40 / 100 - 0.1, i % 50, 3 + 2 * (i % 4) FROM range(2000) r(i)")
        price, off, n, small = (Column(1, one) for one in ("price", "off", "n", "small"))
        times = Arithmetic("*", price, Arithmetic("-", Constant("1"), off))
        times = Arithmetic("*", times, Arithmetic("+", n, Constant("2")))
        total = Arithmetic("+", Arithmetic("-", times, Arithmetic("/", price, Constant("4"))), small)
        found = bounded(total, columns())
        exact = "price * (1 - off) * (n + 2)::DECIMAL(6, 0) - price * 0.25 + small"
        told = con.execute(f"SELECT {found.sql}, {exact} FROM t").fetchall()
        assert all(own * found.step == Fraction(Decimal(theirs)) for own, theirs in told)


# --- one number, however it is written --------------------------------------------------------------------------------

PRICE, OFF, N = Column(1, "price"), Column(1, "off"), Column(1, "n")
LESS = Arithmetic("-", Constant("1"), OFF)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Arithmetic("*", PRICE, LESS), Arithmetic("*", LESS, PRICE)),
        (Arithmetic("*", Arithmetic("*", PRICE, LESS), N), Arithmetic("*", PRICE, Arithmetic("*", N, LESS))),
        (Arithmetic("+", Arithmetic("+", PRICE, N), OFF), Arithmetic("+", OFF, Arithmetic("+", N, PRICE))),
        (Arithmetic("-", PRICE, Arithmetic("-", N, OFF)), Arithmetic("+", Arithmetic("-", PRICE, N), OFF)),
        (Arithmetic("*", Cast(PRICE, "DOUBLE"), N), Arithmetic("*", N, PRICE)),
        (operation("Least", PRICE, N), operation("Least", N, PRICE)),
    ],
)
def test_the_order_in_which_it_is_written_makes_no_difference(one: Expr, other: Expr) -> None:
    assert bounded(one, columns()).sql == bounded(other, columns()).sql


# --- what is said -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        (Arithmetic("*", PRICE, Column(1, "free")), "no bounds for free, .* bounds := {'free': \\[least, largest\\]}"),
        (Arithmetic("/", PRICE, Constant("0")), "divided by others than zero|divided by zero"),
        (Function("length", (Column(1, "s"),)), "bounds for the length of s"),
        (Function("ln", (PRICE,)), "may be computed by"),
        (Arithmetic("-", Column(1, "moment"), Column(1, "moment")), "date_diff"),
        (Arithmetic("+", Column(1, "sent"), Column(1, "came")), "Dates are subtracted"),
        (Column(1, "s"), "columns of numbers"),
        (Column(1, "nowhere"), "no column nowhere"),
        (Arithmetic("*", PRICE, Column(1, "nowhere")), "no column nowhere"),
        (Cast(PRICE, "INTEGER"), "cast to INTEGER"),
        (Cast(Arithmetic("*", N, N), "TINYINT"), "cast to TINYINT"),
        (Arithmetic("%", OFF, Constant("3")), "% is for whole numbers"),
    ],
)
def test_what_has_no_bounds_is_told_why(expr: Expr, said: str) -> None:
    with pytest.raises((NotBounded, NotOffered), match=said):
        quantity(columns(), Arithmetic("+", expr, N) if not isinstance(expr, Column) else operation("Abs", expr), "x")


def test_a_column_that_the_table_does_not_have_is_no_number() -> None:
    with pytest.raises(NotOffered, match="no column nowhere"):
        quantity(columns(), Column(1, "nowhere"), "x")


def test_more_than_ten_to_the_thirteenth_steps_are_rounded_to_fewer() -> None:
    fine = columns({"price": ("0", "100000", "0.01")})
    assert quantity(fine, Arithmetic("*", PRICE, Constant("0.000001")), "x").computed is not None
    square = quantity(fine, Arithmetic("*", PRICE, PRICE), "x").number()
    assert (square.steps, square.step, rounding(square, "")) == (10**13, "1/1000", Fraction(1, 2000))
    assert square.high == 10**10
    cube = Arithmetic("*", PRICE, Arithmetic("*", PRICE, PRICE))
    with pytest.raises(NotBounded, match="10\\^18"):
        quantity(fine, cube, "x")
