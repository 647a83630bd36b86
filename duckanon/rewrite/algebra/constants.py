"""Constants of a statement: folded to one value while it is decided about, and written as SQL of a column's type."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from math import ceil, floor, isfinite, sqrt
from typing import Any
from uuid import UUID

from duckanon.accounting import rational
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
)

# The least and the greatest value of each type of whole numbers.
WHOLE = {
    **{f"{name}INT": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in (("TINY", 8), ("SMALL", 16))},
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    **{f"U{name}INT": (0, 2**bits - 1) for name, bits in (("TINY", 8), ("SMALL", 16), ("BIG", 64), ("HUGE", 128))},
    "UINTEGER": (0, 2**32 - 1),
}
# The kinds of constants whose type is not written: they take the type of what they are compared with.
NUMBER, TEXT, NOTHING = "a number", "a text", "NULL"
# Of the current time only the day is fixed: it is some moment within it, which is written as noon.
NOW = "now"
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_MIDNIGHT = re.compile(r"( 00:00:00(\.0{1,6})?)?")
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_SPAN = re.compile(r"\s*([-+]?\d{1,6})\s*([a-z]+)", re.ASCII | re.IGNORECASE)
# sqlglot's names of types that have another name in DuckDB.
_OTHER_NAMES = {"INT": "INTEGER", "TEXT": "VARCHAR", "REAL": "FLOAT", "INT128": "HUGEINT", "UINT128": "UHUGEINT"}
# Months, days and microseconds of each unit of an interval.
_UNITS = {
    "year": (12, 0, 0),
    "quarter": (3, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000),
    "minute": (0, 0, 60_000_000),
    "second": (0, 0, 1_000_000),
}
_MOST_DAYS = 4_000_000


class NotTotal(Exception):
    """An expression that could fail on a record, as far as is known. Its text says why, in one sentence."""


@dataclass(frozen=True)
class Duration:
    """Months, days and microseconds, which are added in this order."""

    months: int = 0
    days: int = 0
    micros: int = 0


@dataclass(frozen=True)
class Value:
    """A constant. kind: its DuckDB type, or NUMBER, TEXT or NOTHING where its type is not written, or NOW.

    value: a Fraction for numbers, also for a finite DOUBLE; None for NULL.
    """

    value: Fraction | str | bool | date | time | UUID | Duration | None
    kind: str


def type_name(kind: str) -> str:
    """The type of a cast as DuckDB writes it."""
    plain = kind.upper().replace(", ", ",")
    return _OTHER_NAMES.get(plain, plain)


def digits(kind: str) -> tuple[int, int] | None:
    """The width and scale of a DECIMAL; None for every other type."""
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]), int(found[2]))


def is_exact(kind: str) -> bool:
    """Whether a type holds whole numbers or decimals, which compare exactly, whatever their widths."""
    return kind in WHOLE or digits(kind) is not None


def decimal_type(number: Fraction) -> str | None:
    """The least DECIMAL that holds a number; None if none does."""
    scale = next((one for one in range(39) if (number * 10**one).denominator == 1), 39)
    width = max(len(str(abs(int(number * 10**scale)))), scale, 1)
    return f"DECIMAL({width},{scale})" if width <= 38 else None


def reach(kind: str) -> tuple[Fraction, Fraction]:
    """The least and the greatest value of a type of exact numbers."""
    if kind in WHOLE:
        return Fraction(WHOLE[kind][0]), Fraction(WHOLE[kind][1])
    width, scale = digits(kind) or (0, 0)
    most = Fraction(10**width - 1, 10**scale)
    return -most, most


def step(kind: str) -> Fraction:
    """The distance between two values of a type of exact numbers."""
    scale = (digits(kind) or (0, 0))[1]
    return Fraction(1, 10**scale)


def own_step(kind: str) -> Fraction | None:
    """As `step`; None for a type of other values."""
    return step(kind) if is_exact(kind) else None


def is_text(kind: str) -> bool:
    # A cast to an ENUM fails for a text that is not one of its values, which discloses the values. So text is compared.
    return kind == "VARCHAR" or kind.startswith("ENUM(")


def literal(text: str) -> str:
    """The text as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


# --- folding ----------------------------------------------------------------------------------------------------------


# Of a DECIMAL.
_MOST_DIGITS = 38


def folded(expr: Expr, today: date | None = None) -> Value | None:
    """The value of a constant expression; None for other expressions, and where it is not computed here. Raises
    NotTotal for a constant that has no value, such as DATE '2026-02-30'.

    today: what `current_date` stands for; without it what depends on the day is no constant.
    """
    match expr:
        case Constant(text, is_text):
            return Value(text, TEXT) if is_text else _number(text)
        case Null():
            return Value(None, NOTHING)
        case Boolean(truth):
            return Value(truth, "BOOLEAN")
        case Function("today", ()) | Operation("CurrentDate", ()):
            return None if today is None else Value(today, "DATE")
        case Function("now" | "get_current_timestamp" | "transaction_timestamp", ()):
            return None if today is None else Value(datetime(today.year, today.month, today.day, 12), NOW)
        case Operation("CurrentTimestamp" | "Localtimestamp", ()):
            return folded(Function("now"), today)
        case Arithmetic(operator, left, right):
            first, second = folded(left, today), folded(right, today)
            return None if first is None or second is None else _computed(operator, first, second)
        case Negative(operand) | Cast(operand, tries=False) | Interval(operand):
            value = folded(operand, today)
            return None if value is None else _changed(expr, value)
    return _called(expr, today)


def _changed(expr: Expr, operand: Value) -> Value | None:
    """A cast, a sign or an interval of a constant."""
    match expr:
        case Cast(_, name):
            return _typed(operand, type_name(name))
        case Interval(_, unit):
            return _interval(operand, unit)
    return Value(-operand.value, operand.kind) if isinstance(operand.value, Fraction) else None


def _number(text: str) -> Value | None:
    number = rational(text.strip())
    if number is None:
        return None
    # DuckDB reads a decimal of more digits than a DECIMAL holds as a DOUBLE.
    wide = "." in text and sum(map(str.isdigit, text)) > _MOST_DIGITS
    return _double(number) if wide or "e" in text.lower() else Value(number, NUMBER)


def _double(number: Fraction) -> Value:
    try:
        return Value(Fraction(float(number)), "DOUBLE")
    except OverflowError:
        raise NotTotal("A number is too large for a DOUBLE: write a smaller one.") from None


def _typed(value: Value, kind: str) -> Value | None:
    """The value of a cast of a constant, if nothing is lost by it."""
    if kind == "INTERVAL" and isinstance(value.value, str):
        return _interval(value, "")
    if kind == "DATE" and isinstance(value.value, datetime):
        return Value(value.value.date(), kind)
    if value.value is None:
        return Value(None, kind)
    if value.kind == NOW:
        return value if kind.startswith("TIMESTAMP") else None
    found = of_type(value, kind)
    if found is None:
        raise NotTotal(_unread(kind))
    return Value(found, kind)


def _unread(kind: str) -> str:
    """Why a constant that is cast to a type is not read."""
    written = _WRITTEN.get(kind) or ("a number that it holds without loss" if is_exact(kind) else None)
    if written is None:
        return f"A constant has a type that filters do not compare: {plain(kind)}."
    return f"A constant of the type {plain(kind)} must be {written}."


def _interval(value: Value, unit: str) -> Value | None:
    text = f"{value.value} {unit.lower()}".strip()
    total, at = [0, 0, 0], 0
    for found in _SPAN.finditer(text):
        per = _UNITS.get(found[2].lower()) or _UNITS.get(found[2].lower().removesuffix("s"))
        if per is None or found.start() != at:
            return None
        at = found.end()
        total = [old + int(found[1]) * each for old, each in zip(total, per, strict=True)]
    return Value(Duration(*total), "INTERVAL") if at == len(text) and at else None


def _computed(operator: Operator, one: Value, other: Value) -> Value | None:
    """The sum, difference, product or quotient of two constants, as DuckDB computes it; None where it is not."""
    left, right = one.value, other.value
    if operator == "+" and isinstance(right, date):
        left, right = right, left
    if NOW in (one.kind, other.kind):
        moved = _moved(left, right, 1 if operator == "+" else -1) if isinstance(left, date) else None
        whole_days = isinstance(right, Duration) and not right.micros and operator in ("+", "-")
        return Value(moved.value, NOW) if moved is not None and whole_days else None
    if operator == "-" and one.kind == other.kind == "DATE" and isinstance(left, date) and isinstance(right, date):
        return Value(Fraction((left - right).days), "BIGINT")
    if isinstance(left, date) and operator in ("+", "-"):
        return _moved(left, right, 1 if operator == "+" else -1)
    if not isinstance(left, Fraction) or not isinstance(right, Fraction):
        return None
    if operator in ("//", "%"):
        return _whole_part(operator, left, right) if "DOUBLE" not in (one.kind, other.kind) else None
    if operator == "/" or "DOUBLE" in (one.kind, other.kind):
        a, b = float(left), float(right)
        if operator == "/" and b == 0:
            raise NotTotal("A constant is divided by zero: write its value.")
        found = a / b if operator == "/" else a + b if operator == "+" else a - b if operator == "-" else a * b
        return Value(Fraction(found), "DOUBLE") if isfinite(found) else None
    exact = left + right if operator == "+" else left - right if operator == "-" else left * right
    return Value(exact, NUMBER) if abs(exact) < 10**38 else None


def _whole_part(operator: Operator, left: Fraction, right: Fraction) -> Value | None:
    """The quotient of two whole numbers without its fraction, or the remainder; neither is negative."""
    if right == 0:
        raise NotTotal("A constant is divided by zero: write its value.")
    if left < 0 or right < 0 or left.denominator != 1 or right.denominator != 1:
        return None
    return Value(Fraction(left // right) if operator == "//" else left % right, NUMBER)


def _moved(day: date, by: object, sign: int) -> Value | None:
    """A date or a timestamp plus or minus an interval, or a date plus or minus a number of days."""
    if isinstance(by, Fraction) and not isinstance(day, datetime):
        by, kind = Duration(days=by.numerator) if by.denominator == 1 else None, "DATE"
    else:
        kind = "TIMESTAMP"
    if not isinstance(by, Duration) or abs(by.days) > _MOST_DAYS:
        return None
    try:
        at = day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)
        year, month = divmod(at.year * 12 + at.month - 1 + sign * by.months, 12)
        at = at.replace(year=year, month=month + 1, day=min(at.day, monthrange(year, month + 1)[1]))
        at += timedelta(days=sign * by.days, microseconds=sign * by.micros)
    except (ValueError, OverflowError):
        raise NotTotal("A date computed from constants is outside of the years 1 to 9999: write it out.") from None
    return Value(at if kind == "TIMESTAMP" else at.date(), kind)


# --- functions of constants -------------------------------------------------------------------------------------------

_UNIT_NAMES = {"dayofmonth": "day", "dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear"}
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
}


def _called(expr: Expr, today: date | None) -> Value | None:
    """The value of a function of constants, as DuckDB computes it on every machine; None for every other expression."""
    name, arguments = _call(expr)
    if name not in CALLS:
        return None
    values = [Value(one.text, TEXT) if isinstance(one, Word) else folded(one, today) for one in arguments]
    known = [one for one in values if one is not None and one.value is not None]
    if len(known) < len(values) or not values:
        return None
    try:
        return CALLS[name](known)
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
            found = [one for one in map(expr.argument, own) if isinstance(one, Expr | Word)]
            return (name, found) if len(found) == len(expr.arguments) else ("", [])
    return "", []


def _numbers(values: Sequence[Value], least: int, most: int) -> list[Fraction]:
    """The values as numbers, if there are so many; else none."""
    found = [one.value for one in values if isinstance(one.value, Fraction)]
    return found if least <= len(found) <= most and len(found) == len(values) else []


def _kind_of(value: Value) -> str:
    """Of a function's result that is of the kind of its argument."""
    return "DOUBLE" if value.kind in ("DOUBLE", "FLOAT") else NUMBER


def _part_of_date(name: str) -> Callable[[Sequence[Value]], Value | None]:
    return lambda values: _date_part([Value(name, TEXT), *values])


def _date_part(values: Sequence[Value]) -> Value | None:
    if len(values) != 2 or not isinstance(values[1].value, date):
        return None
    unit, day = str(values[0].value).lower(), values[1].value
    read = _PARTS.get(_UNIT_NAMES.get(unit, unit))
    return None if read is None else Value(Fraction(read(day)), "BIGINT")


_PARTS: Mapping[str, Callable[[date], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar()[1],
    "day": lambda day: day.day,
    "dayofweek": lambda day: day.isoweekday() % 7,
    "isodow": lambda day: day.isoweekday(),
    "dayofyear": lambda day: day.timetuple().tm_yday,
}


def _truncated(values: Sequence[Value]) -> Value | None:
    """The first midnight of a year, quarter, month, week or day."""
    if len(values) != 2 or not isinstance(values[1].value, date):
        return None
    unit, day = str(values[0].value).lower(), values[1].value
    first = datetime(day.year, day.month, day.day)
    if unit == "week":
        first -= timedelta(days=first.weekday())
    elif unit in ("month", "quarter", "year"):
        months = {"month": 1, "quarter": 3, "year": 12}[unit]
        first = first.replace(month=(first.month - 1) // months * months + 1, day=1)
    return Value(first, "TIMESTAMP") if unit in ("day", "week", "month", "quarter", "year") else None


def _made_date(values: Sequence[Value]) -> Value | None:
    parts = [int(one) for one in _numbers(values, 3, 3) if one.denominator == 1]
    return Value(date(*parts), "DATE") if len(parts) == 3 else None


def _last_day(values: Sequence[Value]) -> Value | None:
    day = values[0].value
    if len(values) != 1 or not isinstance(day, date):
        return None
    return Value(date(day.year, day.month, monthrange(day.year, day.month)[1]), "DATE")


def _square_root(values: Sequence[Value]) -> Value | None:
    return next((Value(Fraction(sqrt(one)), "DOUBLE") for one in _numbers(values, 1, 1)), None)


def _power(values: Sequence[Value]) -> Value | None:
    """A whole power that a DOUBLE holds exactly."""
    numbers = _numbers(values, 2, 2)
    if not numbers or numbers[1] not in range(65):
        return None
    found = numbers[0] ** int(numbers[1])
    return Value(found, "DOUBLE") if Fraction(float(found)) == found else None


def _stepped(to: Callable[[Fraction], int]) -> Callable[[Sequence[Value]], Value | None]:
    """A whole number near a number."""
    return lambda values: next((Value(Fraction(to(one)), _kind_of(values[0])) for one in _numbers(values, 1, 1)), None)


def _rounded(values: Sequence[Value]) -> Value | None:
    """To decimals; halves go away from zero. Of a DOUBLE to whole numbers only."""
    numbers = _numbers(values, 1, 2)
    places = numbers[1] if len(numbers) == 2 else Fraction(0)
    if not numbers or places not in range(19) or (places and _kind_of(values[0]) == "DOUBLE"):
        return None
    steps = floor(abs(numbers[0]) * 10 ** int(places) + Fraction(1, 2))
    return Value(Fraction(steps, 10 ** int(places)) * (1 if numbers[0] >= 0 else -1), _kind_of(values[0]))


def _outermost(of: Callable[..., Any]) -> Callable[[Sequence[Value]], Value | None]:
    """The least or the greatest of values of one kind."""

    def computed(values: Sequence[Value]) -> Value | None:
        plain = len({one.kind for one in values}) == 1 and values[0].kind in (NUMBER, "DOUBLE", "DATE", "TIMESTAMP")
        return of(values, key=lambda one: one.value) if plain else None

    return computed


def _of_text(to: Callable[[str], str]) -> Callable[[Sequence[Value]], Value | None]:
    """Of a text of ASCII, of which no version has another opinion."""

    def computed(values: Sequence[Value]) -> Value | None:
        text = values[0].value
        plain = len(values) == 1 and isinstance(text, str) and text.isascii()
        return Value(to(str(text)), "VARCHAR") if plain else None

    return computed


CALLS: Mapping[str, Callable[[Sequence[Value]], Value | None]] = {
    **{name: _part_of_date(name) for name in (*_PARTS, *_UNIT_NAMES)},
    "date_part": _date_part,
    "date_trunc": _truncated,
    "make_date": _made_date,
    "last_day": _last_day,
    "sqrt": _square_root,
    "pow": _power,
    "power": _power,
    "abs": lambda values: next((Value(abs(one), _kind_of(values[0])) for one in _numbers(values, 1, 1)), None),
    "floor": _stepped(floor),
    "ceil": _stepped(ceil),
    "ceiling": _stepped(ceil),
    "round": _rounded,
    "least": _outermost(min),
    "greatest": _outermost(max),
    "lower": _of_text(str.lower),
    "upper": _of_text(str.upper),
}


# --- writing ----------------------------------------------------------------------------------------------------------


def of_type(value: Value, kind: str) -> Fraction | str | bool | date | time | UUID | None:
    """The constant as a value of a type, without loss; None if the type does not have that value."""
    found, said = value.value, value.kind
    if is_text(kind):
        return found if isinstance(found, str) and said in (TEXT, "VARCHAR") else None
    if isinstance(found, str):
        return _read(found, kind) if said == TEXT else None
    if isinstance(found, bool):
        return found if kind == "BOOLEAN" else None
    if isinstance(found, Fraction):
        return _fitting(found, said, kind)
    if said == NOW:
        return None
    if isinstance(found, datetime):
        midnight = found.replace(hour=0, minute=0, second=0, microsecond=0)
        return found if kind == "TIMESTAMP" else found.date() if kind == "DATE" and found == midnight else None
    if isinstance(found, date):
        midnight = datetime(found.year, found.month, found.day)
        return found if kind == "DATE" else midnight if kind == "TIMESTAMP" else None
    return found if not isinstance(found, Duration) and said == kind else None


def _fitting(number: Fraction, said: str, kind: str) -> Fraction | None:
    if kind in ("FLOAT", "DOUBLE"):
        most = 3e38 if kind == "FLOAT" else 1.7e308
        return number if abs(number) < most and (kind == "DOUBLE" or said != "DOUBLE") else None
    if not is_exact(kind) or said in ("FLOAT", "DOUBLE"):
        return None
    low, high = reach(kind)
    return number if low <= number <= high and (number / step(kind)).denominator == 1 else None


def _read(text: str, kind: str) -> Fraction | bool | date | time | UUID | None:
    """The value of a quoted constant."""
    if kind == "BOOLEAN":
        return text.lower() == "true" if text.lower() in ("true", "false") else None
    if kind in _READERS:
        try:
            return _READERS[kind](text)
        except ValueError:
            return None
    number = rational(text.strip())
    return None if number is None else _fitting(number, TEXT, kind)


def _date(text: str) -> date | None:
    """The day, also with the time of its midnight after it, as tools write bounds."""
    day, clock = text[:10], text[10:]
    return date.fromisoformat(day) if _DATE.fullmatch(day) and _MIDNIGHT.fullmatch(clock) else None


def _timestamp(text: str) -> datetime | None:
    day, gap, clock = text[:10], text[10:11], text[11:]
    if not _DATE.fullmatch(day) or gap not in ("", " ", "T") or bool(gap) != bool(_TIME.fullmatch(clock)):
        return None
    return datetime.combine(date.fromisoformat(day), time.fromisoformat(_padded(clock)) if gap else time())


def _time(text: str) -> time | None:
    return time.fromisoformat(_padded(text)) if _TIME.fullmatch(text) else None


def _padded(clock: str) -> str:
    """A time whose fraction has six digits, which Python 3.10 could not read otherwise."""
    whole, point, part = clock.partition(".")
    return f"{whole}.{part:0<6}" if point else whole


def _uuid(text: str) -> UUID | None:
    return UUID(text) if _UUID.fullmatch(text) else None


_READERS = {"DATE": _date, "TIMESTAMP": _timestamp, "TIME": _time, "UUID": _uuid}
# How constants of a type are written so that they are read; whole numbers and decimals are told alike.
_WRITTEN = {
    "DATE": "written as in DATE '2024-03-31'",
    "TIMESTAMP": "written as in TIMESTAMP '2024-03-31 00:30:00'",
    "TIME": "written as in TIME '00:30:00'",
    "UUID": "written as in UUID '5c3a0f2e-9d1b-4c7a-8e6f-0123456789ab'",
    "BOOLEAN": "true or false",
    "FLOAT": "a finite number that it holds without loss",
    "DOUBLE": "a finite number",
    "VARCHAR": "a text in quotes",
}
# The types whose constants can be written.
SIMPLE = frozenset({*WHOLE, *_READERS, "BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR"})


def in_sql(found: Fraction | str | bool | date | time | UUID, kind: str) -> str:
    """A value of a type, as SQL of that type."""
    if isinstance(found, str):
        return literal(found)
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, Fraction):
        return f"CAST('{_digits_of(found, kind)}' AS {kind})"
    if isinstance(found, datetime):
        return f"TIMESTAMP '{found.isoformat(sep=' ')}'"
    if isinstance(found, UUID):
        return f"CAST('{found}' AS UUID)"
    return f"{kind} '{found.isoformat()}'"


def _digits_of(number: Fraction, kind: str) -> str:
    if kind in ("FLOAT", "DOUBLE"):
        return repr(float(number))
    scale = (digits(kind) or (0, 0))[1]
    scaled: int = (number * 10**scale).numerator
    text = f"{abs(scaled):0{scale + 1}d}"
    return "-" * (scaled < 0) + (f"{text[:-scale]}.{text[-scale:]}" if scale else text)


def plain(kind: str) -> str:
    """The type as people are shown it: without the values of an ENUM."""
    return "VARCHAR" if is_text(kind) else kind.split("(")[0]
