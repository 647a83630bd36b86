"""Constants of a statement: folded to one value while it is decided about, and written as SQL of a column's type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from fractions import Fraction
from functools import partial
from math import ceil, floor, isfinite, sqrt
from typing import Any, TypeGuard
from uuid import UUID

from duckanon.accounting import rational
from duckanon.catalog.types import WHOLE, digits, is_exact, reach, step
from duckanon.rewrite.algebra import moments
from duckanon.rewrite.algebra.expressions import (
    Arithmetic,
    Boolean,
    Cast,
    Constant,
    Expr,
    Function,
    Interval,
    Negative,
    Null,
    Operation,
    Operator,
    Round,
    Word,
    walk,
)
from duckanon.rewrite.algebra.moments import Duration, Now

# The kinds of constants whose type is not written: they take the type of what they are compared with.
NUMBER, TEXT, NOTHING = "a number", "a text", "NULL"
# A moment, kept as the time of the session's zone.
ZONED = "TIMESTAMP WITH TIME ZONE"
# The current time, of which the day is known: it is some moment of the 24 hours that begin with the value.
NOW = "now"
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
# sqlglot's names of types that have another name in DuckDB.
_OTHER_NAMES = {
    "INT": "INTEGER", "TEXT": "VARCHAR", "REAL": "FLOAT", "INT128": "HUGEINT", "UINT128": "UHUGEINT",
    "TIMESTAMPTZ": ZONED, **{f"TIMESTAMP({digits})": "TIMESTAMP" for digits in (4, 5, 6)},
}  # fmt: skip


class NotTotal(Exception):
    """An expression that could fail on a record, as far as is known. Its text says why, in one sentence."""


@dataclass(frozen=True)
class Value:
    """A constant. kind: its DuckDB type, or NUMBER, TEXT or NOTHING where its type is not written.

    value: a Fraction for numbers, also for a finite DOUBLE; None for NULL.
    """

    value: Fraction | str | bool | date | time | UUID | Duration | None
    kind: str


def type_name(kind: str) -> str:
    """The type of a cast as DuckDB writes it."""
    plain = kind.upper().replace(", ", ",")
    return _OTHER_NAMES.get(plain, plain)


def decimal_type(number: Fraction) -> str | None:
    """The least DECIMAL that holds a number; None if none does."""
    scale = next((scale for scale in range(39) if (number * 10**scale).denominator == 1), 39)
    width = max(len(str(abs(int(number * 10**scale)))), scale, 1)
    return f"DECIMAL({width},{scale})" if width <= 38 else None


def is_text(kind: str) -> bool:
    # A cast to an ENUM fails for a text that is not one of its values, which discloses the values. So text is compared.
    return kind == "VARCHAR" or kind.startswith("ENUM(")


def literal(text: str) -> str:
    """The text as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


# --- folding ----------------------------------------------------------------------------------------------------------


# Of a DECIMAL.
_MOST_DIGITS = 38
# By which an interval is multiplied, or days that are added.
_MOST_TIMES = 10**15


def folded(expr: Expr, today: date | None = None) -> Value | None:
    """The value of a constant expression; None for other expressions, and where it is not computed here. Raises
    NotTotal for a constant that has no value, such as DATE '2026-02-30'.

    today: what `current_date` stands for, with the session's zone if it is a Now; without it what depends on the day is
    no constant.
    """
    if isinstance(today, Now) and not today.exact and _is_of_now(expr):
        return _of_now(expr, today)
    match expr:
        case Constant(written, is_text):
            return Value(written, TEXT) if is_text else _number(written)
        case Null():
            return Value(None, NOTHING)
        case Boolean(truth):
            return Value(truth, "BOOLEAN")
        case Function("today", ()) | Operation("CurrentDate", ()):
            return None if today is None else Value(date(today.year, today.month, today.day), "DATE")
        case _ if is_clock(expr):
            return None if today is None else _current(today, _CLOCKS[_clock_name(expr)])
        case Arithmetic(operator, left, right):
            first, second = folded(left, today), folded(right, today)
            if first is None or second is None or (operator == "//" and not (is_whole(left) and is_whole(right))):
                return None
            return _computed(operator, first, second)
        case Negative(operand) | Cast(operand, tries=False) | Interval(operand):
            constant = folded(operand, today)
            return None if constant is None else _changed(expr, constant, today)
    return _called(expr, today)


def is_whole(expr: Expr) -> bool:
    """Whether DuckDB gives a constant a type of whole numbers, as 4 and not as 4.0: by others // has a fraction."""
    match expr:
        case Constant(written, is_text=False):
            return written.strip().isdigit()
        case Negative(operand):
            return is_whole(operand)
        case Cast(_, kind):
            return type_name(kind) in WHOLE
        case Arithmetic("+" | "-" | "*" | "//" | "%", left, right):
            return is_whole(left) and is_whole(right)
    found = folded(expr)
    return found is not None and found.kind in WHOLE


# The current time under its names, and the type that it has: the first moment of the day, unless a function says how
# much of it counts.
_CLOCKS = {
    **dict.fromkeys(("now", "get_current_timestamp", "transaction_timestamp", "CurrentTimestamp"), ZONED),
    **dict.fromkeys(("current_localtimestamp", "Localtimestamp"), "TIMESTAMP"),
}


def _current(today: date, kind: str) -> Value:
    """The current time. kind: what it is of where it is known exactly."""
    is_exact = isinstance(today, Now) and today.exact
    return Value(moments.now_of(today), kind if is_exact else NOW)


def _clock_name(expr: Expr) -> str:
    match expr:
        case Function(name, (), quoted=False):
            return name.lower()
        case Operation(kind, ()):
            return kind
    return ""


def is_name_of_clock(name: str) -> bool:
    """Whether a function without arguments is the current time."""
    return name in _CLOCKS


def is_clock(expr: Expr) -> bool:
    """Whether an expression is the current time."""
    return _clock_name(expr) in _CLOCKS


def _is_of_now(expr: Expr) -> bool:
    """Whether an expression keeps a part of what is computed from the current time, such as its month or its hour."""
    cuts = isinstance(expr, Cast) and type_name(expr.type) == "DATE"
    return (cuts or _call(expr)[0] in _OF_MOMENTS) and any(map(is_clock, walk(expr)))


def _of_now(expr: Expr, today: Now) -> Value | None:
    """What is kept of the current time. It is read only where the day alone does not say it."""
    first = datetime(today.year, today.month, today.day)
    ends = [folded(expr, today.exactly(first + by)) for by in (timedelta(0), timedelta(days=1, microseconds=-1))]
    return ends[0] if ends[0] == ends[1] else folded(expr, today.exactly(today.read()))


def _changed(expr: Expr, operand: Value, today: date | None) -> Value | None:
    """A cast, a sign or an interval of a constant."""
    match expr:
        case Cast(_, name):
            return _typed(operand, type_name(name), today)
        case Interval(_, unit):
            return _interval(operand, unit)
    if isinstance(operand.value, Duration):
        return Value(operand.value.times(-1), operand.kind)
    return Value(-operand.value, operand.kind) if isinstance(operand.value, Fraction) else None


def _number(written: str) -> Value | None:
    number = rational(written.strip())
    if number is None:
        return None
    # DuckDB reads a decimal of more digits than a DECIMAL holds as a DOUBLE.
    wide = "." in written and sum(map(str.isdigit, written)) > _MOST_DIGITS
    return _double(number) if wide or "e" in written.lower() else Value(number, NUMBER)


def _double(number: Fraction) -> Value:
    try:
        return Value(Fraction(float(number)), "DOUBLE")
    except OverflowError:
        raise NotTotal("A number is too large for a DOUBLE: write a smaller one.") from None


def _typed(constant: Value, kind: str, today: date | None) -> Value | None:
    """The value of a cast of a constant, if nothing is lost by it."""
    if kind == "INTERVAL" and isinstance(constant.value, str | Duration):
        return _interval(constant, "") if isinstance(constant.value, str) else constant
    if kind == "DATE" and isinstance(constant.value, datetime):
        return Value(constant.value.date(), kind)
    if constant.kind == NOW and kind in ("TIMESTAMP", ZONED):
        return constant
    if constant.value is None:
        return Value(None, kind)
    instant = _instant(constant, today) if kind == ZONED else of_type(constant, kind)
    if instant is None:
        raise NotTotal(unread(kind))
    return Value(instant, kind)


def _instant(constant: Value, today: date | None) -> datetime | None:
    """A constant as a moment, by the time of the session's zone; None if it is none, or not known exactly."""
    at = constant.value
    if isinstance(at, str):
        try:
            return moments.read_instant(at, moments.zone_of(today)) if constant.kind == TEXT else None
        except (ValueError, OverflowError):
            return None
    return at if isinstance(at, datetime) else datetime(at.year, at.month, at.day) if isinstance(at, date) else None


def unread(kind: str) -> str:
    """Why a constant that is cast to a type is not read."""
    written = _WRITTEN.get(kind) or ("a number that it holds without loss" if is_exact(kind) else None)
    if written is None:
        return f"A constant has a type that filters do not compare: {plain(kind)}."
    return f"A constant of the type {plain(kind)} must be {written}."


def _interval(constant: Value, unit: str) -> Value | None:
    interval = moments.read_interval(f"{constant.value} {unit.lower()}".strip())
    return None if interval is None else Value(interval, "INTERVAL")


def duration(constant: Value | None) -> Duration | None:
    """A constant as a span of time, which may be written as a text; None for anything else."""
    if constant is not None and constant.kind == TEXT:
        constant = _interval(constant, "")
    return constant.value if constant is not None and isinstance(constant.value, Duration) else None


def _computed(operator: Operator, first: Value, second: Value) -> Value | None:
    """The sum, difference, product or quotient of two constants, as DuckDB computes it; None where it is not."""
    left, right = first.value, second.value
    if operator == "+" and isinstance(right, date):
        left, right = right, left
    if operator == "*" and isinstance(right, Duration):
        left, right = right, left
    if operator == "*" and isinstance(left, Duration):
        return Value(left.times(int(right)), "INTERVAL") if _is_whole(right) else None
    if operator == "-" and first.kind == second.kind == "DATE" and isinstance(left, date) and isinstance(right, date):
        return Value(Fraction((left - right).days), "BIGINT")
    if isinstance(left, date) and operator in ("+", "-"):
        kind = next((candidate for candidate in (NOW, ZONED) if candidate in (first.kind, second.kind)), "TIMESTAMP")
        if isinstance(right, Fraction) and not is_of_days(second if right is second.value else first):
            raise NotTotal(MOVED_BY)
        return _moved(left, right, 1 if operator == "+" else -1, kind)
    if not isinstance(left, Fraction) or not isinstance(right, Fraction):
        return None
    if operator in ("//", "%"):
        return _whole_part(operator, left, right) if "DOUBLE" not in (first.kind, second.kind) else None
    if operator == "/" or "DOUBLE" in (first.kind, second.kind):
        a, b = float(left), float(right)
        if operator == "/" and b == 0:
            raise NotTotal("A constant is divided by zero: write its value.")
        number = a / b if operator == "/" else a + b if operator == "+" else a - b if operator == "-" else a * b
        return Value(Fraction(number), "DOUBLE") if isfinite(number) else None
    exact = left + right if operator == "+" else left - right if operator == "-" else left * right
    return Value(exact, NUMBER) if abs(exact) < 10**38 else None


# To a DATE DuckDB adds whole numbers of these types alone.
DAYS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT"})
MOVED_BY = "To a DATE DuckDB adds an INTEGER, and no wider number: cast it, as in day + x::INTEGER."


def is_of_days(constant: Value) -> bool:
    """Whether DuckDB adds a constant number to a DATE."""
    low, high = reach("INTEGER")
    plain = constant.kind == NUMBER and isinstance(constant.value, Fraction) and low <= constant.value <= high
    return plain or constant.kind in DAYS


def _whole_part(operator: Operator, left: Fraction, right: Fraction) -> Value | None:
    """The quotient of two whole numbers without its fraction, or the remainder; neither is negative."""
    if right == 0:
        raise NotTotal("A constant is divided by zero: write its value.")
    if left < 0 or right < 0 or left.denominator != 1 or right.denominator != 1:
        return None
    return Value(Fraction(left // right) if operator == "//" else left % right, NUMBER)


def _is_whole(number: object) -> TypeGuard[Fraction]:
    return isinstance(number, Fraction) and number.denominator == 1 and abs(number) <= _MOST_TIMES


def _moved(day: date, by: object, sign: int, kind: str) -> Value | None:
    """A date or a timestamp plus or minus an interval, or a date plus or minus a number of days. kind: of times."""
    is_day = isinstance(by, Fraction) and not isinstance(day, datetime)
    if is_day:
        by = Duration(days=int(by)) if _is_whole(by) else None
    if not isinstance(by, Duration):
        return None
    try:
        at = moments.moved(day, by, sign)
    except (ValueError, OverflowError):
        raise NotTotal("A date computed from constants is outside of the years 1 to 9999: write it out.") from None
    if at is None:
        return None
    return Value(at.date(), "DATE") if is_day else Value(at, kind)


# --- functions of constants -------------------------------------------------------------------------------------------

# What is written in another way, by the names of its arguments in order.
_ARGUMENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "DateFromParts": ("make_date", ("year", "month", "day")),
    "TimestampTrunc": ("date_trunc", ("unit", "this")),
    "DateTrunc": ("date_trunc", ("unit", "this")),
    "Extract": ("date_part", ("this", "expression")),
    "DayOfWeek": ("dayofweek", ("this",)),
    "DayOfWeekIso": ("isodow", ("this",)),
    "DayOfYear": ("dayofyear", ("this",)),
    "LastDay": ("last_day", ("this",)),
    "Pow": ("pow", ("this", "expression")),
    "AtTimeZone": ("timezone", ("zone", "this")),
    "UnixToTime": ("to_timestamp", ("this",)),
}


def _called(expr: Expr, today: date | None) -> Value | None:
    """The value of a function of constants, as DuckDB computes it on every machine; None for every other expression."""
    name, arguments = _call(expr)
    if name not in CALLS and name not in _IN_ZONES:
        return None
    constants = [
        Value(argument.text, TEXT) if isinstance(argument, Word) else folded(argument, today) for argument in arguments
    ]
    known = [constant for constant in constants if constant is not None and constant.value is not None]
    if len(known) < len(constants) or not constants:
        return None
    try:
        return CALLS[name](known) if name in CALLS else _IN_ZONES[name](known, moments.zone_of(today))
    except (ValueError, OverflowError):
        raise NotTotal("A function of constants has no value here: write it out.") from None


def _call(expr: Expr) -> tuple[str, Sequence[Expr | Word]]:
    """The name of a function as DuckDB has it, and its arguments; '' for another expression."""
    match expr:
        case Function(name, operands, quoted=False):
            return {"datetrunc": "date_trunc", "datepart": "date_part"}.get(name.lower(), name.lower()), operands
        case Round(operand, decimals):
            return "round", [operand] if decimals is None else [operand, decimals]
        case Operation(kind):
            name, own = _ARGUMENTS.get(kind, (kind.lower(), ()))
            if not own:
                return name, expr.parts
            passed = [argument for argument in map(expr.argument, own) if isinstance(argument, Expr | Word)]
            return (name, passed) if len(passed) == len(expr.arguments) else ("", [])
    return "", []


def _numbers(constants: Sequence[Value], least: int, most: int) -> list[Fraction]:
    """The values as numbers, if there are so many; else none."""
    numbers = [constant.value for constant in constants if isinstance(constant.value, Fraction)]
    return numbers if least <= len(numbers) <= most and len(numbers) == len(constants) else []


def _kind_of(constant: Value) -> str:
    """Of a function's result that is of the kind of its argument."""
    return "DOUBLE" if constant.kind in ("DOUBLE", "FLOAT") else NUMBER


def _part_of_date(name: str) -> Callable[[Sequence[Value]], Value | None]:
    return lambda constants: _date_part([Value(name, TEXT), *constants])


def _date_part(constants: Sequence[Value]) -> Value | None:
    if len(constants) != 2 or not isinstance(constants[1].value, date):
        return None
    unit, day = str(constants[0].value).lower(), constants[1].value
    read = moments.PARTS.get(moments.UNIT_NAMES.get(unit, unit))
    return None if read is None else Value(Fraction(read(day)), "BIGINT")


def _truncated(constants: Sequence[Value]) -> Value | None:
    if len(constants) != 2 or not isinstance(constants[1].value, date):
        return None
    moment = moments.truncated(str(constants[0].value).lower(), constants[1].value)
    return None if moment is None else Value(moment, ZONED if constants[1].kind == ZONED else "TIMESTAMP")


def _made_date(constants: Sequence[Value]) -> Value | None:
    parts = [int(number) for number in _numbers(constants, 3, 3) if number.denominator == 1]
    return Value(date(*parts), "DATE") if len(parts) == 3 else None


def _made_timestamp(constants: Sequence[Value]) -> Value | None:
    """Of year, month, day, hour, minute and seconds, to the microsecond."""
    *parts, seconds = _numbers(constants, 6, 6) or [Fraction(-1)]
    micros = seconds * 1_000_000
    if len(parts) != 5 or not all(map(_is_whole, [*parts, micros])) or not 0 <= seconds < 60:
        return None
    year, month, day, hour, minute = map(int, parts)
    return Value(datetime(year, month, day, hour, minute) + timedelta(microseconds=int(micros)), "TIMESTAMP")


def _last_day(constants: Sequence[Value]) -> Value | None:
    day = constants[0].value
    return Value(moments.last_day(day), "DATE") if len(constants) == 1 and isinstance(day, date) else None


def _from_epoch(constants: Sequence[Value], zone: tzinfo | None) -> Value | None:
    """The moment so many seconds after 1970."""
    seconds = _numbers(constants, 1, 1)
    if not seconds or zone is None or (seconds[0] * 1_000_000).denominator != 1:
        return None
    at = datetime(1970, 1, 1) + timedelta(microseconds=int(seconds[0] * 1_000_000))
    moment = moments.between_zones(at, UTC, zone)
    return None if moment is None else Value(moment, ZONED)


def _at_zone(constants: Sequence[Value], zone: tzinfo | None) -> Value | None:
    """What clocks of a named zone show at a moment; or the moment at which they show a time."""
    if len(constants) != 2 or zone is None or not isinstance(constants[0].value, str):
        return None
    named, at = moments.zone_named(constants[0].value), _instant(constants[1], None)
    if named is None or at is None:
        return None
    if constants[1].kind == NOW:
        return constants[1] if named is UTC and zone is UTC else None
    is_moment = constants[1].kind == ZONED
    moment = moments.between_zones(at, zone, named) if is_moment else moments.between_zones(at, named, zone)
    return None if moment is None else Value(moment, "TIMESTAMP" if is_moment else ZONED)


def _joined(constants: Sequence[Value]) -> Value | None:
    """Texts and whole numbers, one after another."""
    parts = [constant.value if isinstance(constant.value, str) else str(constant.value) for constant in constants]
    plain = all(
        isinstance(constant.value, str) or (constant.kind == NUMBER and _is_whole(constant.value))
        for constant in constants
    )
    return Value("".join(parts), TEXT) if plain else None


def _square_root(constants: Sequence[Value]) -> Value | None:
    return next((Value(Fraction(sqrt(number)), "DOUBLE") for number in _numbers(constants, 1, 1)), None)


def _power(constants: Sequence[Value]) -> Value | None:
    """A whole power that a DOUBLE holds exactly."""
    numbers = _numbers(constants, 2, 2)
    if not numbers or numbers[1] not in range(65):
        return None
    number = numbers[0] ** int(numbers[1])
    return Value(number, "DOUBLE") if Fraction(float(number)) == number else None


def _stepped(to: Callable[[Fraction], int]) -> Callable[[Sequence[Value]], Value | None]:
    """A whole number near a number."""
    return lambda constants: next(
        (Value(Fraction(to(number)), _kind_of(constants[0])) for number in _numbers(constants, 1, 1)), None
    )


def _rounded(constants: Sequence[Value]) -> Value | None:
    """To decimals; halves go away from zero. Of a DOUBLE to whole numbers only."""
    numbers = _numbers(constants, 1, 2)
    places = numbers[1] if len(numbers) == 2 else Fraction(0)
    if not numbers or places not in range(19) or (places and _kind_of(constants[0]) == "DOUBLE"):
        return None
    steps = floor(abs(numbers[0]) * 10 ** int(places) + Fraction(1, 2))
    return Value(Fraction(steps, 10 ** int(places)) * (1 if numbers[0] >= 0 else -1), _kind_of(constants[0]))


def _outermost(of: Callable[..., Any]) -> Callable[[Sequence[Value]], Value | None]:
    """The least or the greatest of values of one kind."""

    def computed(constants: Sequence[Value]) -> Value | None:
        plain = len({constant.kind for constant in constants}) == 1 and constants[0].kind in (
            NUMBER,
            "DOUBLE",
            "DATE",
            "TIMESTAMP",
            ZONED,
        )
        return of(constants, key=lambda constant: constant.value) if plain else None

    return computed


def _of_text(to: Callable[[str], str]) -> Callable[[Sequence[Value]], Value | None]:
    """Of a text of ASCII, of which no version has another opinion."""

    def computed(constants: Sequence[Value]) -> Value | None:
        string = constants[0].value
        plain = len(constants) == 1 and isinstance(string, str) and string.isascii()
        return Value(to(str(string)), "VARCHAR") if plain else None

    return computed


CALLS: Mapping[str, Callable[[Sequence[Value]], Value | None]] = {
    **{name: _part_of_date(name) for name in (*moments.PARTS, *moments.UNIT_NAMES)},
    "date_part": _date_part,
    "date_trunc": _truncated,
    "make_date": _made_date,
    "make_timestamp": _made_timestamp,
    "last_day": _last_day,
    "dpipe": _joined,
    "sqrt": _square_root,
    "pow": _power,
    "power": _power,
    "abs": lambda constants: next(
        (Value(abs(number), _kind_of(constants[0])) for number in _numbers(constants, 1, 1)), None
    ),
    "floor": _stepped(floor),
    "ceil": _stepped(ceil),
    "ceiling": _stepped(ceil),
    "round": _rounded,
    "least": _outermost(min),
    "greatest": _outermost(max),
    "lower": _of_text(str.lower),
    "upper": _of_text(str.upper),
}
# Those that depend on the session's zone.
_IN_ZONES: Mapping[str, Callable[[Sequence[Value], tzinfo | None], Value | None]] = {
    "to_timestamp": _from_epoch,
    "timezone": _at_zone,
}
# Those that keep a part of a moment.
_OF_MOMENTS = frozenset({*moments.PARTS, *moments.UNIT_NAMES, "date_part", "date_trunc", "last_day"})


# --- writing ----------------------------------------------------------------------------------------------------------


def of_type(constant: Value, kind: str) -> Fraction | str | bool | date | time | UUID | None:
    """The constant as a value of a type, without loss; None if the type does not have that value."""
    content, own_kind = constant.value, constant.kind
    if is_text(kind):
        return content if isinstance(content, str) and own_kind in (TEXT, "VARCHAR") else None
    if isinstance(content, str):
        return _read(content, kind) if own_kind == TEXT else None
    if isinstance(content, bool):
        return content if kind == "BOOLEAN" else None
    if isinstance(content, Fraction):
        return _fitting(content, own_kind, kind)
    if isinstance(content, datetime):
        midnight = content.replace(hour=0, minute=0, second=0, microsecond=0)
        return (
            content
            if kind in ("TIMESTAMP", ZONED)
            else content.date()
            if kind == "DATE" and content == midnight
            else None
        )
    if isinstance(content, date):
        midnight = datetime(content.year, content.month, content.day)
        return content if kind == "DATE" else midnight if kind in ("TIMESTAMP", ZONED) else None
    return content if not isinstance(content, Duration) and own_kind == kind else None


def _fitting(number: Fraction, own_kind: str, kind: str) -> Fraction | None:
    if kind in ("FLOAT", "DOUBLE"):
        most = 3e38 if kind == "FLOAT" else 1.7e308
        return number if abs(number) < most and (kind == "DOUBLE" or own_kind != "DOUBLE") else None
    if not is_exact(kind) or own_kind in ("FLOAT", "DOUBLE"):
        return None
    low, high = reach(kind)
    return number if low <= number <= high and (number / step(kind)).denominator == 1 else None


def _read(written: str, kind: str) -> Fraction | bool | date | time | UUID | None:
    """The value of a quoted constant."""
    if kind == "BOOLEAN":
        return written.lower() == "true" if written.lower() in ("true", "false") else None
    if kind in _READERS:
        try:
            return _READERS[kind](written)
        except ValueError:
            return None
    number = rational(written.strip())
    return None if number is None else _fitting(number, TEXT, kind)


def _uuid(written: str) -> UUID | None:
    return UUID(written) if _UUID.fullmatch(written) else None


_READERS: Mapping[str, Callable[[str], date | time | UUID | None]] = {
    "DATE": moments.read_date,
    "TIMESTAMP": moments.read_timestamp,
    "TIME": moments.read_time,
    "UUID": _uuid,
    # Columns are compared with moments in UTC only.
    ZONED: partial(moments.read_instant, zone=UTC),
}
# How constants of a type are written so that they are read; whole numbers and decimals are told alike.
_WRITTEN = {
    "DATE": "written as in DATE '2024-03-31'",
    "TIMESTAMP": "written as in TIMESTAMP '2024-03-31 00:30:00'",
    ZONED: "written as in TIMESTAMPTZ '2024-03-31 00:30:00+00', and not of an hour in which the zone's clocks change",
    "TIME": "written as in TIME '00:30:00'",
    "UUID": "written as in UUID '5c3a0f2e-9d1b-4c7a-8e6f-0123456789ab'",
    "BOOLEAN": "true or false",
    "FLOAT": "a finite number that it holds without loss",
    "DOUBLE": "a finite number",
    "VARCHAR": "a text in quotes",
}
# The types whose constants can be written.
SIMPLE = frozenset({*WHOLE, *_READERS, "BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR"} - {ZONED})


def in_sql(content: Fraction | str | bool | date | time | UUID, kind: str) -> str:
    """A value of a type, as SQL of that type."""
    if isinstance(content, str):
        return literal(content)
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, Fraction):
        return f"CAST('{_digits_of(content, kind)}' AS {kind})"
    if isinstance(content, datetime):  # a moment, too: in UTC
        return f"TIMESTAMP '{content.isoformat(sep=' ')}'"
    if isinstance(content, UUID):
        return f"CAST('{content}' AS UUID)"
    return f"{kind} '{content.isoformat()}'"


def _digits_of(number: Fraction, kind: str) -> str:
    if kind in ("FLOAT", "DOUBLE"):
        return repr(float(number))
    scale = (digits(kind) or (0, 0))[1]
    scaled: int = (number * 10**scale).numerator
    shown = f"{abs(scaled):0{scale + 1}d}"
    return "-" * (scaled < 0) + (f"{shown[:-scale]}.{shown[-scale:]}" if scale else shown)


def plain(kind: str) -> str:
    """The type as people are shown it: without the values of an ENUM."""
    return "VARCHAR" if is_text(kind) else kind.split("(")[0]
