"""Scalar expressions over a table's columns that cannot fail on any record, written as SQL with their types.

A closed list: each function on it is total, which means that it has a value for every value of its arguments' types, as
the tests show on all extreme values on the oldest and newest DuckDB. Results depend on the record alone, not on
settings, on other records or on their order. Of numbers the least and the greatest possible value are followed, so that
arithmetic is done in a type that holds every result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from functools import cached_property, partial
from math import ceil, floor

from duckanon.catalog.names import fold, quoted
from duckanon.catalog.types import WHOLE, digits, is_exact, reach
from duckanon.rewrite.algebra import constants, times, zones
from duckanon.rewrite.algebra.constants import (
    NOTHING,
    NOW,
    NUMBER,
    TEXT,
    ZONED,
    NotTotal,
    Value,
    folded,
    is_text,
    is_whole,
)
from duckanon.rewrite.algebra.expressions import (
    CONDITIONS,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Constant,
    Expr,
    Function,
    Negative,
    Operation,
    Operator,
    Round,
    Word,
)
from duckanon.rewrite.algebra.moments import Duration, read_offset, read_timestamp, zone_of
from duckanon.rewrite.algebra.patterns import is_escaped, is_regular
from duckanon.rewrite.algebra.total import EARLIEST, LATEST, LISTED, Scalar, builtin, within_years
from duckanon.rewrite.allowed import FUNCTIONS as ALLOWED
from duckanon.rewrite.instead import not_called

__all__ = ["LISTED", "Scalar", "Scalars", "builtin", "instant", "of_constant", "together", "widened"]

# The digits that hold all whole numbers of a type.
WHOLE_DIGITS = {kind: len(str(max(-low, high))) for kind, (low, high) in WHOLE.items()}
# The most characters that left, right and substring count.
_LONGEST = 1_000_000
# The digits of a DECIMAL that DuckDB keeps in 64 bits.
_WIDEST_OF_64 = 18
# The most characters of a time that is brought into another zone.
_LONGEST_MOVED = 20_000
_BY_CLOCKS = "write date_trunc('minute', x AT TIME ZONE 'Europe/Berlin')."
# Constants by which DOUBLEs are divided or multiplied, so that results are finite.
_LEAST, _MOST = Fraction(1, 10**60), Fraction(10**60)


class Scalars:
    """Writes scalar expressions. condition: writes a condition, for CASE."""

    def __init__(self, types: Mapping[str, str], today: date, condition: Callable[[Expr], str]) -> None:
        self._types, self._today, self._condition = types, today, condition
        # Known kinds of moments, so that deep arithmetic is not walked again at each level.
        self._times: dict[Expr, str] = {}

    def constant(self, expr: Expr) -> Value | None:
        """The value of a constant expression; None for any other expression."""
        return folded(expr, self._today)

    def type_of_column(self, column: Column) -> str:
        kind = self._types.get(fold(column.name))
        if kind is None:
            raise NotTotal(f'The table has no column "{column.name}": look at its names in information_schema.columns.')
        return kind

    def scalar(self, expr: Expr) -> Scalar:
        """An expression over columns. Raises NotTotal."""
        match expr:
            case Column():
                return self._column(expr)
            case Case():
                return self._case(expr)
            case Coalesce(operands):
                return self._coalesced(operands)
            case Cast(operand, kind, tries=False):
                truth = isinstance(operand, CONDITIONS)
                of = Scalar(self._condition(operand), "BOOLEAN") if truth else self.scalar(operand)
                return self._cast(of, constants.type_name(kind))
            case Arithmetic(operator, left, right):
                return self._of_times(operator, left, right) or self._computed(operator, left, right)
        between, unit, moments = times.between(expr)
        if between in _BETWEEN:
            return _BETWEEN[between](unit, *map(self._moment, moments))
        name, arguments = called(expr)
        if name in times.PARTS and len(arguments) == 1 and (span := self.interval(arguments[0])) is not None:
            return times.part(name, span, of_age=times.between(arguments[0])[0] == "age")
        if name == "epoch" and len(arguments) == 1 and (span := self.interval(arguments[0])) is not None:
            return times.seconds(span)
        if name == "timezone":
            return self._at_zone(*arguments)
        if name == "time_bucket" and len(arguments) == 2:
            return self._bucket(*arguments)
        if name in FUNCTIONS:
            first, *rest = arguments
            return self._function(name, self.scalar(first), [self.constant(one) for one in rest])
        raise NotTotal(_not_followed(expr, name))

    def interval(self, expr: Expr) -> str | None:
        """The time between two moments, or a constant one, as SQL of an INTERVAL; None for others. Raises NotTotal.

        It is no value of a column: 1 month and 30 days are equal and not the same.
        """
        value = self.constant(expr)
        if value is not None:
            return times.interval(value.value) if isinstance(value.value, Duration) else None
        name, _, moments = times.between(expr)
        if name == "age":
            return times.age(*map(self._moment, moments))
        if isinstance(expr, Arithmetic) and expr.operator == "-":
            kinds = [self._kind_of_time(one) for one in (expr.left, expr.right)]
            if "" not in kinds and "TIMESTAMP" in kinds:
                return times.elapsed(self._moment(expr.left), self._moment(expr.right))
        return None

    def _computed(self, operator: Operator, left: Expr, right: Expr) -> Scalar:
        if operator == "//" and any(self.constant(part) and not is_whole(part) for part in (left, right)):
            # Of a constant with a point the number alone is known below, and not its type.
            operator = "/"
        return ARITHMETIC[operator](self._number(left), self._number(right))

    def _of_times(self, operator: Operator, left: Expr, right: Expr) -> Scalar | None:
        """The days between two dates, or a date some time later; None where it is of others."""
        kinds = [self._kind_of_time(one) for one in (left, right)]
        if operator not in ("+", "-") or kinds == ["", ""]:
            return None
        if operator == "-" and kinds == ["DATE", "DATE"]:
            return times.difference(self._moment(right), self._moment(left))
        one, other = (left, right) if kinds[0] else (right, left)
        by = self.constant(other)
        if by is None or (operator == "-" and one is right):
            return None
        if isinstance(by.value, Duration):
            at = self._moment(one)
            return replace(times.later(at, by.value, operator), is_moment=at.is_moment)
        if not isinstance(by.value, Fraction):
            return None
        if not constants.is_of_days(by):
            raise NotTotal(constants.MOVED_BY)
        return times.days_later(self._moment(one), by.value, operator)

    def _kind_of_time(self, expr: Expr) -> str:
        """DATE or TIMESTAMP for a moment; empty for other expressions."""
        if expr not in self._times:
            self._times[expr] = self._found_time(expr)
        return self._times[expr]

    def _found_time(self, expr: Expr) -> str:
        value = self.constant(expr)
        kind = value.kind if value is not None else ""
        if value is None and not (isinstance(expr, Arithmetic) and self.interval(expr) is not None):
            try:
                kind = self.scalar(expr).kind
            except NotTotal:
                return ""
        return kind if kind in times.TIMES else ""

    def _moment(self, expr: Expr) -> Scalar:
        """A date or a timestamp, perhaps a constant one."""
        value = self.constant(expr)
        return self.scalar(expr) if value is None else of_constant(value, value.kind)

    def _column(self, column: Column) -> Scalar:
        kind, name = self.type_of_column(column), quoted([column.name])
        if kind.startswith("ENUM("):
            return Scalar(f"CAST({name} AS VARCHAR)", "VARCHAR", enum=kind)
        if kind == ZONED and self._zone is not None:
            return _of_moments(name)
        if kind not in constants.SIMPLE and digits(kind) is None:
            raise NotTotal(f'Column "{column.name}" has a type that filters do not compare: {constants.plain(kind)}.')
        return Scalar(name, kind, reach(kind) if is_exact(kind) else None)

    # --- zones ------------------------------------------------------------------------------------------------------

    @cached_property
    def _zone(self) -> str | None:
        """The session's zone; None if it is not known."""
        return zones.session_zone(self._today)

    @property
    def _own_zone(self) -> str:
        if self._zone is None:
            raise NotTotal(f"The session's time zone is not known here: {zones.UNKNOWN}")
        return self._zone

    def _cast(self, scalar: Scalar, kind: str) -> Scalar:
        if scalar.kind == ZONED and kind in ("TIMESTAMP", "DATE"):
            return _cast(_clock(scalar, self._own_zone), kind)
        if scalar.is_moment and kind in (*times.TIMES, ZONED):
            return replace(_cast(scalar, "TIMESTAMP" if kind == ZONED else kind), kind=kind, is_moment=False)
        if kind == ZONED and scalar.kind in times.TIMES:
            return _moments(_cast(scalar, "TIMESTAMP"), self._own_zone)
        return _cast(scalar, kind)

    def _function(self, name: str, scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
        """A function of one value and constants; of a moment most are of what the session's clocks show."""
        if scalar.kind != ZONED or name == "epoch":
            found = FUNCTIONS[name](scalar, rest)
            return replace(found, is_moment=scalar.is_moment) if name == "date_trunc" else found
        clock = _clock(scalar, self._own_zone)
        found = FUNCTIONS[name](clock, rest)
        if name != "date_trunc" or self._zone == "UTC":
            return replace(found, is_moment=name == "date_trunc")
        unit = str(_given(rest)[0].value).lower()
        if unit in ("minute", "second"):
            raise NotTotal(f"Moments are truncated to hours and longer units here: {_BY_CLOCKS}")
        start = f"CAST({builtin('date_trunc', constants.literal(unit), clock.sql)} AS TIMESTAMP)"
        return _moments(Scalar(start, "TIMESTAMP", is_near=True), self._own_zone)

    def _bucket(self, width: Expr, operand: Expr) -> Scalar:
        """The start of the bucket in which a moment lies. Dates beyond 290,000 years count as infinite."""
        of, by = self.scalar(operand), constants.duration(self.constant(width))
        one = _in_utc(of)
        if one.kind not in times.TIMES or by is None:
            raise NotTotal("time_bucket takes a constant INTERVAL, and a date or a timestamp.")
        micros = by.days * 86_400_000_000 + by.micros
        if (by.months > 0) == (micros > 0) or min(by.months, micros) < 0:
            raise NotTotal("time_bucket takes a time of months alone, or one of days and parts of a day.")
        written = times.interval(by)
        found = _or_infinite(one, one.kind, lambda moved: builtin("time_bucket", written, moved))
        # DuckDB's buckets of moments begin in UTC, whatever the session's zone.
        is_moment = of.kind == ZONED or of.is_moment
        return replace(found, kind=ZONED) if is_moment and self._zone != "UTC" else replace(found, is_moment=is_moment)

    def _at_zone(self, zone: Expr, operand: Expr) -> Scalar:
        """A time of a zone as a moment, or a moment as the time there."""
        scalar, named = self.scalar(operand), self.constant(zone)
        known = zones.zone_by_name(named.value) if named is not None and isinstance(named.value, str) else None
        if known is None:
            raise NotTotal(zones.UNKNOWN)
        is_moment = scalar.is_moment or scalar.kind == ZONED
        if scalar.kind == "DATE":
            scalar = _cast(scalar, "TIMESTAMP")
        if scalar.kind not in ("TIMESTAMP", ZONED):
            raise NotTotal("AT TIME ZONE is for dates and timestamps.")
        return _clock(scalar, known) if is_moment else _moments(scalar, known)

    def _number(self, expr: Expr) -> Scalar:
        """An operand of arithmetic: a scalar, or a constant number."""
        value = self.constant(expr)
        return self.scalar(expr) if value is None else _of_number(value)

    def _case(self, expr: Case) -> Scalar:
        values = self._alike(expr.values)
        *thens, default = values
        written = " ".join(
            f"WHEN {self._condition(branch.condition)} THEN {then.sql}"
            for branch, then in zip(expr.branches, thens, strict=True)
        )
        is_moment = any(value.is_moment for value in values)
        return Scalar(f"CASE {written} ELSE {default.sql} END", default.kind, _around(values), is_moment=is_moment)

    def _coalesced(self, operands: Sequence[Expr]) -> Scalar:
        values = self._alike(operands)
        is_moment = any(value.is_moment for value in values)
        sql = f"coalesce({', '.join(value.sql for value in values)})"
        return Scalar(sql, values[0].kind, _around(values), is_moment=is_moment)

    def _alike(self, exprs: Sequence[Expr]) -> list[Scalar]:
        """Values of one type: that of the columns among them, or the least that holds all constants."""
        found = [(self.constant(expr), expr) for expr in exprs]
        scalars = [self.scalar(one) for value, one in found if value is None]
        kind = together([scalar.kind for scalar in scalars], [value for value, _ in found if value is not None])
        if kind == ZONED:
            raise NotTotal(
                "Moments with a time zone are compared here: in CASE and coalesce take x AT TIME ZONE 'UTC'."
            )
        rest = iter(scalars)
        return [widened(next(rest), kind) if value is None else of_constant(value, kind) for value, _ in found]


def instant(value: Value, today: date) -> Value:
    """A constant to be compared with moments, in UTC as columns are. Raises NotTotal where it is not one moment."""
    at, zone = value.value, zone_of(today)
    moment: datetime | None = None
    try:
        if isinstance(at, str) and value.kind == TEXT:
            written = read_timestamp(at)
            moment = None if written is None else zones.moment_of(written, read_offset(at) or zone)
        elif isinstance(at, date):
            clock = at if isinstance(at, datetime) else datetime(at.year, at.month, at.day)
            moment = zones.moment_of(clock, zone)
        else:
            return value
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise NotTotal(constants.unread(ZONED))
    return Value(moment, ZONED)


_TILDE = (
    "The operator ~ is regexp_full_match(x, pattern) in some versions of DuckDB, and regexp_matches(x, pattern) in "
    "others: write the function that is meant."
)


def _not_followed(expr: Expr, name: str) -> str:
    """Why an expression is not written: of a function its name, and what there is in its place."""
    if isinstance(expr, Operation) and expr.kind == "RegexpLike":
        return _TILDE
    if isinstance(expr, Function) and name not in ALLOWED:
        return not_called(name)
    if name in ALLOWED and name.isidentifier():
        return f"The function {name[:40]} is not followed on records, on which it could fail. {LISTED}"
    return LISTED


def together(kinds: Sequence[str], values: Sequence[Value]) -> str:
    """The type in which scalars of these types and constants are compared or brought together. Raises NotTotal."""
    different = set(kinds)
    if not different:
        return _least_kind([value for value in values if value.kind != NOTHING])
    if len(different) == 1:
        (kind,) = different
    elif all(one in WHOLE for one in different):
        kind = _holding([reach(one) for one in different], sorted(different, key=lambda one: reach(one)[1]))
    elif "DOUBLE" in different and all(is_exact(one) or one == "FLOAT" for one in different - {"DOUBLE"}):
        kind = "DOUBLE"
    elif different == set(times.TIMES):
        kind = "TIMESTAMP"
    elif (decimal := _common_decimal(different)) is not None:
        kind = decimal
    else:
        raise NotTotal(
            "Values of different types are compared: a cast could fail on a record. Compare values of one type."
        )
    numbers = [value.value for value in values if value.kind == NUMBER and isinstance(value.value, Fraction)]
    if kind in WHOLE and all(number.denominator == 1 for number in numbers):
        # A whole number that the column's type does not hold widens it, as in DuckDB.
        return _holding([reach(kind), *((number, number) for number in numbers)], [kind, "INTEGER", "BIGINT"])
    return kind


def _common_decimal(kinds: Iterable[str]) -> str | None:
    """The DECIMAL that holds all values of several exact types; None where none does."""
    known = [digits(kind) or ((WHOLE_DIGITS[kind], 0) if kind in WHOLE else None) for kind in kinds]
    exact = [one for one in known if one is not None]
    if len(exact) < len(known):
        return None
    scale = max(one[1] for one in exact)
    width = scale + max(one[0] - one[1] for one in exact)
    return f"DECIMAL({width},{scale})" if width <= 38 else None


def _least_kind(values: Sequence[Value]) -> str:
    """The type of constants alone, as DuckDB chooses it."""
    kinds = {value.kind for value in values}
    if kinds and kinds <= {TEXT, "VARCHAR"}:
        return "VARCHAR"
    if len(kinds) == 1 and kinds.isdisjoint({NUMBER, NOW}):
        return kinds.pop()
    numbers = [value.value for value in values if value.kind == NUMBER and isinstance(value.value, Fraction)]
    if numbers and len(numbers) == len(values) and all(number.denominator == 1 for number in numbers):
        return _holding([(number, number) for number in numbers], ["INTEGER", "BIGINT"])
    raise NotTotal("The values of CASE and coalesce are of one type: texts, whole numbers, dates or truth values.")


def of_constant(value: Value, kind: str) -> Scalar:
    """A constant as SQL of a type. Raises NotTotal if the type does not have that value."""
    if value.value is None and (value.kind in (NOTHING, kind)):
        return Scalar(f"CAST(NULL AS {kind})", kind, null=True)
    found = constants.of_type(value, kind)
    if found is None:
        raise NotTotal(
            f"A constant must be a value of its column's type ({constants.plain(kind)}), without loss: write it so."
        )
    span = (found, found) if isinstance(found, Fraction) else None
    return Scalar(constants.in_sql(found, kind), kind, span)


def widened(scalar: Scalar, kind: str) -> Scalar:
    """A scalar in a type that holds all its values."""
    if scalar.kind == kind:
        return scalar
    if kind == "TIMESTAMP":
        return times.moment(scalar)
    sql = f"CAST({scalar.sql} AS {kind})" if scalar.number is None else constants.in_sql(scalar.number, kind)
    return replace(scalar, sql=sql, kind=kind)


def _of_number(value: Value) -> Scalar:
    number = value.value
    if not isinstance(number, Fraction) or value.kind not in (NUMBER, "DOUBLE", *WHOLE):
        raise NotTotal(LISTED)
    kind = constants.decimal_type(number) if value.kind == NUMBER else value.kind
    if value.kind == NUMBER and number.denominator == 1:
        kind = _holding([(number, number)], ["INTEGER", "BIGINT"])
    if kind is None:
        raise NotTotal("A number has too many digits: round it.")
    return Scalar(constants.in_sql(number, kind), kind, (number, number), number=number)


def _holding(spans: Sequence[tuple[Fraction, Fraction]], first: Sequence[str]) -> str:
    """The first type that holds all numbers of the spans: one of `first`, or a HUGEINT. Raises NotTotal."""
    low, high = min(one for one, _ in spans), max(one for _, one in spans)
    for kind in (*first, "HUGEINT"):
        if reach(kind)[0] <= low and high <= reach(kind)[1]:
            return kind
    raise NotTotal("A number could leave the range of every type: compute with smaller ones.")


def _around(values: Sequence[Scalar]) -> tuple[Fraction, Fraction] | None:
    """The least and the greatest of several values."""
    spans = [value.span for value in values if not value.null]
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(spans):
        return None
    return min(one for one, _ in known), max(one for _, one in known)


# --- arithmetic -------------------------------------------------------------------------------------------------------

_OF_NUMBERS = "Arithmetic is for whole numbers and decimals, and others could overflow"
_WITH_CONSTANT = "where it is compared with a constant, compute with the constant instead, as in x > 100 for x / 2 > 50"
_OF_DATES = (
    "Dates are compared with each other and with constants, subtracted from each other, and moved by constants, as in "
    "day + INTERVAL 3 DAY: other arithmetic with them could leave their range."
)


def _in_range(
    sign: str, scalar: Scalar, other: Scalar, span: tuple[Fraction, Fraction], *also: tuple[Fraction, Fraction]
) -> Scalar:
    """An operation on whole numbers in a type that holds its operands and results. also: other spans that must fit."""
    assert scalar.span is not None
    assert other.span is not None
    # The constant takes the type of the other operand, where that holds it.
    named = [each for each in (scalar, other) if each.number is None]
    kinds = sorted({each.kind for each in named or (scalar, other)}, key=lambda kind: reach(kind)[1])
    kind = _holding([scalar.span, other.span, span, *also], [kinds[-1], "INTEGER", "BIGINT"])
    a, b = widened(scalar, kind), widened(other, kind)
    return Scalar(builtin(sign, a.sql, b.sql), kind, span)


def _in_double(sign: str, scalar: Scalar, other: Scalar, span: tuple[Fraction, Fraction]) -> Scalar:
    a, b = (widened(each, "DOUBLE") for each in (scalar, other))
    # A result is rounded: by less than this.
    slack = max(abs(span[0]), abs(span[1])) / 10**9
    return Scalar(builtin(sign, a.sql, b.sql), "DOUBLE", (span[0] - slack, span[1] + slack))


def _why_not(scalar: Scalar, other: Scalar) -> str:
    """Why two values are not computed with, and what may be asked instead."""
    if {scalar.kind, other.kind} & {"DATE", "TIMESTAMP"}:
        return _OF_DATES
    is_of_two = scalar.number is None and other.number is None
    return f"{_OF_NUMBERS}." if is_of_two else f"{_OF_NUMBERS}: {_WITH_CONSTANT}."


def _spans(scalar: Scalar, other: Scalar) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """The spans of two numbers. Raises NotTotal if one has no span."""
    fit = [is_exact(each.kind) or each.kind == "DOUBLE" for each in (scalar, other)]
    if scalar.span is None or other.span is None or not all(fit):
        raise NotTotal(_why_not(scalar, other))
    if max(abs(each) for each in (*scalar.span, *other.span)) > _MOST:
        raise NotTotal("A number could leave the range of every type: compute with smaller ones.")
    return (*scalar.span, *other.span)


def _combined(sign: str, scalar: Scalar, other: Scalar, span: tuple[Fraction, Fraction]) -> Scalar:
    if scalar.kind in WHOLE and other.kind in WHOLE:
        return _in_range(sign, scalar, other, span)
    if "DOUBLE" in (scalar.kind, other.kind):
        return _in_double(sign, scalar, other, span)
    return _times_in_decimals(scalar, other, span) if sign == "*" else _in_decimals(sign, scalar, other, span)


def _places(scalar: Scalar) -> tuple[int, int]:
    """The width and the scale of the DECIMAL as which DuckDB computes with a decimal or a whole number."""
    return digits(scalar.kind) or (min(WHOLE_DIGITS[scalar.kind], 38), 0)


def _width(scale: int, *spans: tuple[Fraction, Fraction]) -> int:
    """The digits of all numbers of spans, with so many of them after the point. Raises NotTotal beyond 38."""
    most = max(abs(each) for span in spans for each in span)
    found = max(len(str(int(most * 10**scale))), scale, 1)
    if found > 38:
        raise NotTotal("A number could have more digits than a DECIMAL holds: compute with fewer columns, or round.")
    return found


def _in_decimals(sign: str, scalar: Scalar, other: Scalar, span: tuple[Fraction, Fraction]) -> Scalar:
    """A sum or a difference with decimals, in a type that holds both operands and the result."""
    assert scalar.span is not None
    assert other.span is not None
    (width, scale), (other_width, other_scale) = _places(scalar), _places(other)
    common = max(scale, other_scale)
    needed = _width(common, scalar.span, other.span, span)
    wanted = min(max(width - scale, other_width - other_scale) + common + 1, 38)
    if needed <= wanted and (wanted <= _WIDEST_OF_64 or max(width, other_width) > _WIDEST_OF_64):
        return Scalar(builtin(sign, scalar.sql, other.sql), f"DECIMAL({wanted},{common})", span)
    # Some versions of DuckDB keep a sum of two numbers of 64 bits within 64 bits, where it may overflow.
    wide = max(needed, _WIDEST_OF_64 + 1)
    a, b = (widened(each, f"DECIMAL({wide},{common})") for each in (scalar, other))
    return Scalar(builtin(sign, a.sql, b.sql), f"DECIMAL({min(wide + 1, 38)},{common})", span)


def _times_in_decimals(scalar: Scalar, other: Scalar, span: tuple[Fraction, Fraction]) -> Scalar:
    """A product with decimals, in a type that holds it."""
    (width, scale), (other_width, other_scale) = _places(scalar), _places(other)
    common = scale + other_scale
    needed = _width(common, span)
    # DuckDB keeps a product of two numbers of 64 bits within 64 bits, where it may overflow.
    own = min(width + other_width, _WIDEST_OF_64 if max(width, other_width) <= _WIDEST_OF_64 else 38)
    if needed <= own:
        return Scalar(builtin("*", scalar.sql, other.sql), f"DECIMAL({own},{common})", span)
    wide = max(width, _WIDEST_OF_64 + 1)
    a = widened(scalar, f"DECIMAL({wide},{scale})")
    return Scalar(builtin("*", a.sql, other.sql), f"DECIMAL({min(wide + other_width, 38)},{common})", span)


def _in_floats(sign: str, scalar: Scalar, other: Scalar) -> Scalar | None:
    """An operation on DOUBLEs without known bounds, which is infinite or NaN where it overflows; None for others."""
    kinds = {scalar.kind, other.kind}
    if "DOUBLE" not in kinds or not all(is_exact(kind) or kind == "DOUBLE" for kind in kinds):
        return None
    if scalar.span is not None and other.span is not None:
        return None
    a, b = (widened(each, "DOUBLE").sql for each in (scalar, other))
    # There is one zero, not -0.0 beside it.
    return Scalar(builtin("+", builtin(sign, a, b), "CAST(0 AS DOUBLE)"), "DOUBLE")


def _sum(scalar: Scalar, other: Scalar) -> Scalar:
    if (floats := _in_floats("+", scalar, other)) is not None:
        return floats
    a, b, c, d = _spans(scalar, other)
    return _combined("+", scalar, other, (a + c, b + d))


def _difference(scalar: Scalar, other: Scalar) -> Scalar:
    if (floats := _in_floats("-", scalar, other)) is not None:
        return floats
    a, b, c, d = _spans(scalar, other)
    return _combined("-", scalar, other, (a - d, b - c))


def _product(scalar: Scalar, other: Scalar) -> Scalar:
    if (floats := _in_floats("*", scalar, other)) is not None:
        return floats
    a, b, c, d = _spans(scalar, other)
    ends = [a * c, a * d, b * c, b * d]
    return _combined("*", scalar, other, (min(ends), max(ends)))


def _divisor(other: Scalar) -> Fraction:
    if other.number is None or not _LEAST <= abs(other.number) <= _MOST:
        raise NotTotal("Numbers are divided by constants other than zero only: others could fail on a record.")
    return other.number


def _ratio(a: str, b: str) -> Scalar:
    """A quotient of exact numbers as DOUBLEs. A setting of DuckDB says whether division by zero fails: none is made."""
    zero = "CAST(0 AS DOUBLE)"
    by_zero = " ".join(
        f"WHEN {b} = {zero} AND {a} {sign} {zero} THEN CAST('{value}' AS DOUBLE)"
        for sign, value in ((">", "inf"), ("<", "-inf"), ("=", "nan"))
    )
    # There is one zero, not -0.0 beside it.
    divided = builtin("+", builtin("/", a, f"nullif({b}, {zero})"), zero)
    return Scalar(f"CASE {by_zero} ELSE {divided} END", "DOUBLE")


def _quotient(scalar: Scalar, other: Scalar) -> Scalar:
    if other.number is None and is_exact(scalar.kind) and is_exact(other.kind):
        return _ratio(*(widened(each, "DOUBLE").sql for each in (scalar, other)))
    by = _divisor(other)
    if (floats := _in_floats("/", scalar, other)) is not None:
        return floats
    a, b, *_ = _spans(scalar, other)
    ends = [a / by, b / by]
    return _in_double("/", scalar, other, (min(ends), max(ends)))


def _whole_quotient(scalar: Scalar, other: Scalar) -> Scalar:
    """The quotient of whole numbers without its fraction; of others DuckDB's // is /."""
    if scalar.kind not in WHOLE or other.kind not in WHOLE:
        return _quotient(scalar, other)
    a, b, *_ = _spans(scalar, other)
    by = _divisor(other)
    ends = [a / by, b / by]
    return _in_range("//", scalar, other, (Fraction(int(min(ends))), Fraction(int(max(ends)))))


def _remainder(scalar: Scalar, other: Scalar) -> Scalar:
    a, b, *_ = _spans(scalar, other)
    by = _divisor(other)
    if scalar.kind not in WHOLE or other.kind not in WHOLE:
        raise NotTotal("% is for whole numbers.")
    most = abs(by) - 1
    # The machine computes the quotient too, which overflows for the least number by -1.
    return _in_range(
        "%", scalar, other, (max(-most, min(a, Fraction(0))), min(most, max(b, Fraction(0)))), (a / by, a / by)
    )


ARITHMETIC: Mapping[Operator, Callable[[Scalar, Scalar], Scalar]] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
    "/": _quotient,
    "//": _whole_quotient,
    "%": _remainder,
}


# --- casts ------------------------------------------------------------------------------------------------------------


def _cast(scalar: Scalar, kind: str) -> Scalar:
    """A cast that holds for every value."""
    if scalar.kind == kind:
        return scalar
    if kind in WHOLE and scalar.span is not None:
        # A cast rounds.
        low, high = Fraction(floor(scalar.span[0])), Fraction(ceil(scalar.span[1]))
        if reach(kind)[0] <= low and high <= reach(kind)[1]:
            return Scalar(f"CAST({scalar.sql} AS {kind})", kind, (low, high))
    if kind == "DOUBLE" and is_exact(scalar.kind) and scalar.span is not None:
        return Scalar(f"CAST({scalar.sql} AS {kind})", kind, scalar.span)
    if (scalar.kind, kind) in _CASTS or (kind == "VARCHAR" and scalar.kind in WHOLE):
        return Scalar(f"CAST({scalar.sql} AS {kind})", kind)
    if scalar.is_near and {scalar.kind, kind} == set(times.TIMES):
        return Scalar(f"CAST({scalar.sql} AS {kind})", kind, is_near=True)
    if scalar.kind == "DATE" and kind == "TIMESTAMP":
        return _or_infinite(scalar, "TIMESTAMP", lambda moved: f"CAST({moved} AS TIMESTAMP)")
    if scalar.kind == "BOOLEAN" and kind in WHOLE:
        return Scalar(f"CAST({scalar.sql} AS {kind})", kind, (Fraction(0), Fraction(1)))
    raise NotTotal(LISTED)


_CASTS = {("TIMESTAMP", "DATE"), ("DATE", "VARCHAR"), ("BOOLEAN", "VARCHAR"), ("UUID", "VARCHAR"), ("FLOAT", "DOUBLE")}


# --- functions --------------------------------------------------------------------------------------------------------

# Functions of a unit and two moments, whose value is a number.
_BETWEEN = {"date_diff": times.date_diff, "date_sub": times.date_sub}
_Function = Callable[[Scalar, Sequence[Value | None]], Scalar]


def _no_more(rest: Sequence[Value | None]) -> None:
    if rest:
        raise NotTotal(LISTED)


def _texts(scalar: Scalar, rest: Sequence[Value | None], most: int) -> list[str]:
    """The arguments of a function of a text: the text, and up to `most` constant texts."""
    if not is_text(scalar.kind) or len(rest) > most:
        raise NotTotal(LISTED)
    return [scalar.sql, *(of_constant(each, "VARCHAR").sql for each in _given(rest))]


def _given(rest: Sequence[Value | None]) -> list[Value]:
    known = [one for one in rest if one is not None and one.value is not None]
    if len(known) < len(rest):
        raise NotTotal("The further arguments of a function are constants, and not NULL.")
    return known


def _of_text(name: str, kind: str = "VARCHAR", most: int = 0, least: int = 0) -> _Function:
    """A function of a text and up to `most` constant texts."""

    def written(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
        if len(rest) < least:
            raise NotTotal(LISTED)
        span = (Fraction(0), Fraction(2**40)) if kind == "BIGINT" else None
        return Scalar(builtin(name, *_texts(scalar, rest, most)), kind, span)

    return written


def _part_of_text(name: str, least: int, most: int) -> _Function:
    """left, right and substring, with constant numbers of characters."""

    def written(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
        numbers = [each.value for each in _given(rest) if each.kind in (NUMBER, *WHOLE)]
        plain = [int(number) for number in numbers if isinstance(number, Fraction) and number.denominator == 1]
        fits = least <= len(plain) <= most and len(plain) == len(rest) and all(abs(each) <= _LONGEST for each in plain)
        if not fits or (len(plain) == 2 and plain[1] < 0):
            raise NotTotal(f"{name} takes constant whole numbers of characters, up to {_LONGEST:,}.")
        return Scalar(builtin(name, *_texts(scalar, (), 0), *map(str, plain)), "VARCHAR")

    return written


def _split_part(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
    """The part of a text with a number, between constant separators."""
    separator, number = _given(rest) if len(rest) == 2 else (None, None)
    at = number.value if number is not None and number.kind in (NUMBER, *WHOLE) else None
    if separator is None or not isinstance(at, Fraction) or at.denominator != 1 or not 1 <= abs(at) <= _LONGEST:
        raise NotTotal("split_part takes a constant separator, and the number of a part, which is not 0.")
    return Scalar(builtin("split_part", *_texts(scalar, [separator], 1), str(int(at))), "VARCHAR")


def _matching(name: str) -> _Function:
    """Whether a text has or is what a regular expression describes, with options or none."""

    def written(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
        texts, given = _texts(scalar, rest, 2), [str(each.value) for each in _given(rest)]
        if not given or not is_regular(given[0]) or not set("".join(given[1:])) <= {*"cims"}:
            raise NotTotal(
                f"{name} takes a constant regular expression of characters, classes, groups, alternatives, anchors and "
                "repetitions, and options of c, i, m and s."
            )
        return Scalar(builtin(name, *texts), "BOOLEAN")

    return written


def _like_escaped(name: str) -> _Function:
    """LIKE and ILIKE with ESCAPE."""

    def written(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
        texts, given = _texts(scalar, rest, 2), [str(each.value) for each in _given(rest)]
        if len(given) != 2 or not is_escaped(*given):
            raise NotTotal("LIKE takes a constant pattern in which a character follows each ESCAPE.")
        return Scalar(builtin(name, *texts), "BOOLEAN")

    return written


def _or_infinite(scalar: Scalar, kind: str, write: Callable[[str], str]) -> Scalar:
    """A date or a timestamp as another, which is infinite for dates beyond 290,000 years. kind: of the other."""
    inside, moved = within_years(scalar)
    sql = (
        f"CASE WHEN {inside} THEN {write(moved)} WHEN {scalar.sql} > {scalar.kind} '{LATEST}' THEN {kind} 'infinity' "
        f"WHEN {scalar.sql} < {scalar.kind} '{EARLIEST}' THEN {kind} '-infinity' END"
    )
    return Scalar(sql, kind)


def _clock(scalar: Scalar, zone: str) -> Scalar:
    """What clocks of a zone show at a moment. Raises NotTotal."""
    return _between_zones(scalar, zone, "TIMESTAMP", zones.clock_sql)


def _moments(scalar: Scalar, zone: str) -> Scalar:
    """The moments at which clocks of a zone show a TIMESTAMP. Raises NotTotal."""
    return _between_zones(scalar, zone, ZONED, zones.moment_sql)


def _between_zones(scalar: Scalar, zone: str, kind: str, write: Callable[[str, str], str]) -> Scalar:
    if zone == "UTC":
        return replace(scalar, kind=kind, is_moment=False)
    if len(scalar.sql) > _LONGEST_MOVED:
        raise NotTotal("A time is brought into another zone too often: leave out what is not needed.")
    if scalar.is_near:
        return Scalar(write(zone, scalar.sql), kind, is_near=True)
    moved = _or_infinite(replace(scalar, kind="TIMESTAMP"), "TIMESTAMP", partial(write, zone))
    return replace(moved, kind=kind, is_near=True)


def _of_moments(column: str) -> Scalar:
    """A column with a time zone, as a TIMESTAMP in UTC."""
    found = _or_infinite(Scalar(column, ZONED), "TIMESTAMP", lambda moved: builtin("timezone", "'UTC'", moved))
    return replace(found, kind=ZONED, is_near=True)


def _of_date(
    name: str, low: int, high: int, *, guarded: bool = False, kinds: tuple[str, ...] = ("DATE", "TIMESTAMP")
) -> _Function:
    """A part of a date as a number. guarded: whether it is NULL beyond 290,000 years, where it could fail."""

    def written(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
        _no_more(rest)
        if scalar.kind not in kinds:
            raise NotTotal(f"{name} is for columns of the types {' and '.join(kinds)} here.")
        sql = builtin(name, scalar.sql)
        if guarded:
            inside, moved = within_years(scalar)
            sql = f"CASE WHEN {inside} THEN {builtin(name, moved)} END"
        return Scalar(sql, "BIGINT", (Fraction(low), Fraction(high)))

    return written


def _truncated(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
    """date_trunc to a day or a longer unit. Dates beyond 290,000 years count as infinite."""
    (unit,) = [str(each.value).lower() for each in _given(rest)] or [""]
    if scalar.kind == "TIMESTAMP" and unit in ("hour", "minute", "second"):
        return Scalar(builtin("date_trunc", f"'{unit}'", scalar.sql), "TIMESTAMP")
    if scalar.kind not in ("DATE", "TIMESTAMP") or unit not in _TRUNCATED:
        raise NotTotal(f"date_trunc is for dates and timestamps here, to {', '.join(_TRUNCATED)}.")
    quoted_unit = constants.literal(unit)
    if scalar.is_near:
        started = f"CAST({builtin('date_trunc', quoted_unit, scalar.sql)} AS DATE)"
        return Scalar(started, "DATE", is_near=True, is_start=True)
    start = _or_infinite(scalar, "DATE", lambda moved: f"CAST({builtin('date_trunc', quoted_unit, moved)} AS DATE)")
    return replace(start, is_start=True)


def _in_utc(scalar: Scalar) -> Scalar:
    """A moment as the time in UTC."""
    return replace(scalar, kind="TIMESTAMP") if scalar.kind == ZONED else scalar


def _epoch(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
    """Seconds since 1970."""
    _no_more(rest)
    scalar = _in_utc(scalar)
    if scalar.kind not in ("DATE", "TIMESTAMP"):
        raise NotTotal("epoch is for columns of the types DATE and TIMESTAMP here.")
    most = Fraction(2 * 10**14)
    return Scalar(builtin("epoch", scalar.sql), "DOUBLE", (-most, most))


def _shown(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
    """Strftime with a constant format."""
    form = [each.value for each in _given(rest)]
    plain = len(form) == 1 and isinstance(form[0], str) and _FORMAT.fullmatch(form[0])
    if scalar.kind not in ("DATE", "TIMESTAMP") or not plain:
        raise NotTotal(
            "strftime takes a date or a time, and a constant format of %Y, %m, %d, %j, %H, %I, %p, %M, %S, %g and %f."
        )
    return Scalar(builtin("strftime", scalar.sql, constants.literal(str(form[0]))), "VARCHAR")


def _day(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
    """date(x), as a cast."""
    _no_more(rest)
    return _cast(scalar, "DATE")


def _named(part: str, names: Sequence[str], least: int) -> _Function:
    """The name of a part of a date. least: the number of the first one."""

    def written(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
        number = _DATES[part](scalar, rest).sql
        cases = " ".join(f"WHEN {at} THEN {constants.literal(name)}" for at, name in enumerate(names, least))
        return Scalar(f"CASE {number} {cases} END", "VARCHAR")

    return written


def _last_day(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
    """The last day of the month. Dates beyond 290,000 years count as infinite, and have none."""
    _no_more(rest)
    if scalar.kind not in ("DATE", "TIMESTAMP"):
        raise NotTotal("last_day is for dates and timestamps.")
    inside, moved = within_years(scalar)
    return Scalar(f"CASE WHEN {inside} THEN {builtin('last_day', moved)} END", "DATE")


_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_FORMAT = re.compile(r"(?:[^%]|%[YmdjHIpMSgf%])*")
_TRUNCATED = ("day", "week", "month", "quarter", "year", "decade", "century")


def _rounded(name: str) -> _Function:
    """floor, ceil, round and trunc: a DECIMAL without digits of a DECIMAL, else a DOUBLE."""

    def written(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
        _no_more(rest)
        span = None if scalar.span is None else (Fraction(floor(scalar.span[0])), Fraction(ceil(scalar.span[1])))
        decimal = digits(scalar.kind)
        if decimal is not None:
            return Scalar(builtin(name, scalar.sql), f"DECIMAL({decimal[0]},0)", span)
        if scalar.kind in WHOLE and name == "trunc":
            return scalar
        if scalar.kind in ("FLOAT", "DOUBLE") or (scalar.kind in WHOLE and name != "round"):
            exact = scalar if scalar.kind == "FLOAT" else _cast(scalar, "DOUBLE")
            return Scalar(builtin(name, exact.sql), exact.kind, span)
        raise NotTotal(LISTED)

    return written


def _absolute(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
    _no_more(rest)
    if scalar.kind in WHOLE and scalar.span is not None:
        most = max(abs(scalar.span[0]), abs(scalar.span[1]))
        kind = _holding([scalar.span, (Fraction(0), most)], [scalar.kind, "BIGINT"])
        return Scalar(builtin("abs", widened(scalar, kind).sql), kind, (Fraction(0), most))
    if scalar.kind in ("FLOAT", "DOUBLE") or digits(scalar.kind) is not None:
        span = None if scalar.span is None else (Fraction(0), max(abs(scalar.span[0]), abs(scalar.span[1])))
        return Scalar(builtin("abs", scalar.sql), scalar.kind, span)
    raise NotTotal(LISTED)


def _signed(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
    _no_more(rest)
    if scalar.kind in WHOLE or scalar.kind in ("FLOAT", "DOUBLE") or digits(scalar.kind) is not None:
        return Scalar(builtin("sign", scalar.sql), "TINYINT", (Fraction(-1), Fraction(1)))
    raise NotTotal(LISTED)


def _negative(scalar: Scalar, rest: Sequence[Value | None]) -> Scalar:
    _no_more(rest)
    if scalar.kind in WHOLE:
        return _difference(_of_number(Value(Fraction(0), NUMBER)), scalar)
    if digits(scalar.kind) is not None and scalar.span is not None:
        return Scalar(builtin("-", scalar.sql), scalar.kind, (-scalar.span[1], -scalar.span[0]))
    raise NotTotal(LISTED)


_DATES: Mapping[str, _Function] = {
    "year": _of_date("year", -6_000_000, 6_000_000),
    "quarter": _of_date("quarter", 1, 4),
    "month": _of_date("month", 1, 12),
    "day": _of_date("day", 1, 31),
    "dayofweek": _of_date("dayofweek", 0, 6),
    "isodow": _of_date("isodow", 1, 7),
    "dayofyear": _of_date("dayofyear", 1, 366),
    "decade": _of_date("decade", -600_000, 600_000),
    "century": _of_date("century", -60_000, 60_000),
    "week": _of_date("week", 1, 53, guarded=True),
    "isoyear": _of_date("isoyear", -300_000, 300_000, guarded=True),
    "yearweek": _of_date("yearweek", -30_000_000, 30_000_000, guarded=True),
    "hour": _of_date("hour", 0, 23, kinds=("TIMESTAMP",)),
    "minute": _of_date("minute", 0, 59, kinds=("TIMESTAMP",)),
}
FUNCTIONS: Mapping[str, _Function] = {
    **{name: _of_text(name) for name in ("lower", "upper", "reverse")},
    **{name: _of_text(name, most=1) for name in ("trim", "ltrim", "rtrim")},
    **{name: _of_text(name, "BIGINT") for name in ("length", "strlen")},
    **{name: _of_text(name, "BOOLEAN", 1, 1) for name in ("starts_with", "ends_with", "contains")},
    "glob": _of_text("~~~", "BOOLEAN", 1, 1),
    **{name: _like_escaped(name) for name in ("like_escape", "ilike_escape")},
    **{name: _matching(name) for name in ("regexp_matches", "regexp_full_match")},
    "strpos": _of_text("strpos", "BIGINT", 1, 1),
    "split_part": _split_part,
    "left": _part_of_text("left", 1, 1),
    "right": _part_of_text("right", 1, 1),
    "substring": _part_of_text("substring", 1, 2),
    "date_trunc": _truncated,
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
    "round": _rounded("round"),
    "trunc": _rounded("trunc"),
    "dayname": _named("dayofweek", _DAYS, 0),
    "monthname": _named("month", _MONTHS, 1),
    "last_day": _last_day,
    "epoch": _epoch,
    "strftime": _shown,
    "date": _day,
    "abs": _absolute,
    "sign": _signed,
    "neg": _negative,
    **_DATES,
}
# DuckDB's other names, and sqlglot's, of functions on the list.
OTHER_NAMES = {
    "lcase": "lower", "ucase": "upper", "len": "length", "char_length": "length", "character_length": "length",
    "prefix": "starts_with", "startswith": "starts_with", "suffix": "ends_with", "endswith": "ends_with",
    "substr": "substring", "ceiling": "ceil", "dayofmonth": "day", "weekday": "dayofweek", "dow": "dayofweek",
    "dayofweekiso": "isodow", "weekofyear": "week", "doy": "dayofyear", "datetrunc": "date_trunc",
    "timestamptrunc": "date_trunc", "datepart": "date_part", "extract": "date_part", "y": "year", "years": "year",
    "months": "month", "days": "day", "weeks": "week", "quarters": "quarter", "timetounix": "epoch",
    "lastday": "last_day", "datebin": "time_bucket", "regexpfullmatch": "regexp_full_match",
    "similarto": "regexp_full_match", "instr": "strpos", "position": "strpos", "strposition": "strpos",
    "splitpart": "split_part",
}  # fmt: skip
# Arguments for which sqlglot has names of their own, in DuckDB's order.
_ARGUMENTS = {"strposition": ("this", "substr"), "splitpart": ("this", "delimiter", "part_index")}
_SIDES = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def called(call: Expr) -> tuple[str, Sequence[Expr]]:
    """The name of a function as DuckDB has it, and its arguments: what it is applied to comes first.

    What is no function, or has an argument that is not known here, gives the name ''.
    """
    match call:
        case Negative(operand):
            return "neg", [operand]
        case Round(operand, None):
            return "round", [operand]
        case Function(name, operands, quoted=False):
            return _by_name(name.lower(), operands)
        case Operation():
            return _by_class(call)
    return "", []


def _by_name(written: str, operands: Sequence[Expr]) -> tuple[str, Sequence[Expr]]:
    """As `called`, for a function that sqlglot has no class for."""
    name = OTHER_NAMES.get(written, written)
    if not operands:
        return "", []
    # DuckDB takes the format of strftime first or last.
    is_format_first = name == "strftime" and [isinstance(operand, Constant) for operand in operands] == [True, False]
    if name == "date_trunc" or is_format_first:
        return name, operands[::-1]
    if name == "date_part":
        unit, *rest = operands
        return _part(unit.value if isinstance(unit, Constant) and unit.is_text else "", rest)
    return name, operands


def _by_class(call: Operation) -> tuple[str, Sequence[Expr]]:
    """As `called`, for a function that sqlglot has a class for."""
    if call.kind == "Substring":
        parts = [call.argument(name) for name in ("this", "start", "length")]
        return "substring", [part for part in parts if isinstance(part, Expr)]
    name = call.kind.lower()
    if name == "attimezone":
        parts = [call.argument("zone"), call.argument("this")]
        return "timezone", [part for part in parts if isinstance(part, Expr)]
    if name in _ARGUMENTS and {each for each, _ in call.arguments} <= {*_ARGUMENTS[name]}:
        parts = [call.argument(each) for each in _ARGUMENTS[name]]
        return OTHER_NAMES[name], [part for part in parts if isinstance(part, Expr)]
    if not {name for name, _ in call.arguments} <= {"this", "expression", "position", "unit"}:
        return "", []
    if name == "trim":
        side = call.argument("position")
        return (name if side is None else _SIDES.get(str(side), "")), call.parts
    name = OTHER_NAMES.get(name, name)
    units = [value.text for _, value in call.arguments if isinstance(value, Word) and not value.is_name]
    if name == "date_trunc":
        return name, [*call.parts, *(Constant(unit, is_text=True) for unit in units)]
    if name == "date_part":
        return _part(units[0], call.parts) if units else _by_name(name, call.parts)
    return (name, call.parts) if call.parts else ("", [])


def _part(unit: str, operands: Sequence[Expr]) -> tuple[str, Sequence[Expr]]:
    """The function that takes this part of a date."""
    part = OTHER_NAMES.get(unit.lower(), unit.lower())
    return (part, operands) if part in (*_DATES, "epoch") and len(operands) == 1 else ("", [])
