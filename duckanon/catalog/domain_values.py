"""Which values the domain of a column may list, so that each cell counts the records that its value means.

A value is one of the column's type, or a text that says one without loss. A day is none of a TIMESTAMP: as one it would
be midnight, and all other records of the day would not count. A time without a time zone is none of a TIMESTAMP WITH
TIME ZONE: which one it would be depends on who runs the statement.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from duckanon.accounting import rational
from duckanon.catalog.domain_sources import ENUM, DomainSource, Range
from duckanon.catalog.types import FLOATS, WITHIN_BIGINT, is_exact, step

# Types of columns whose values may be found with noise: equal values have equal bytes.
FINDABLE = WITHIN_BIGINT | {"UBIGINT", "VARCHAR", "DATE", "BOOLEAN"}
# How many digits of a second each type of times holds.
_DIGITS = {
    "TIMESTAMP": 6,
    "TIMESTAMP_S": 0,
    "TIMESTAMP_MS": 3,
    "TIMESTAMP_NS": 9,
    "TIMESTAMP WITH TIME ZONE": 6,
    "TIME": 6,
    "TIME WITH TIME ZONE": 6,
    "TIME_NS": 9,
}
_TIME = re.compile(
    r"(?P<day>[^:]*[ T])?\d{1,2}:\d{2}(:\d{2}(\.(?P<digits>\d+))?)?\s*(?P<zone>Z|UTC|[-+]\d{1,2}(:?\d{2})*)?\s*",
    re.ASCII,
)
_ENDLESS = ("infinity", "-infinity")


def objection(column: str, source: DomainSource, kind: str) -> str | None:
    """Why a list or a range of values is no domain of a column of that type, in a sentence; None if it may be one.

    What no cast to the type holds is found by DuckDB. A name is none of the wrong type here.
    """
    values = source.ends if isinstance(source, Range) else source if isinstance(source, tuple) else ()
    reasons = [number for number in (_wrong(value, kind) for value in values) if number is not None]
    return _SENTENCES[min(reasons)].format(column) if reasons else None


def listed_types(values: Iterable[object]) -> list[str]:
    """The types of a list's values in SQL as far as Python knows them: '' for a text, which may say any value."""
    return sorted({_listed_type(value) for value in values if value is not None})


def of_other_type(column: str, listed: Iterable[str], kind: str) -> str | None:
    """As `objection`, for the types that `listed_types` gives: once stored, a number looks like a text."""
    reasons = [number for number in (_other(each, kind) for each in listed) if number is not None]
    return _SENTENCES[min(reasons)].format(column) if reasons else None


def of_other_column(column: str, theirs: str, kind: str) -> str | None:
    """Why a column of type `theirs` is no domain of a column of type `kind`, in a sentence; None if it may be one.

    Numbers are compared by their values, which must not change in a cast; all else only with its own type.
    """
    texts = all(text == "VARCHAR" or text.startswith("ENUM(") for text in (theirs, kind))
    numbers = is_exact(theirs) and (is_exact(kind) or kind in FLOATS)
    if theirs == kind or texts or numbers or (theirs in FLOATS and kind in FLOATS):
        return None
    return _SENTENCES[_DAY if theirs == "DATE" and is_time(kind) else _MISFIT].format(column)


def may_be_days(column: str, source: DomainSource, kind: str) -> str | None:
    """Why a domain of an earlier version may count only the records of midnight, in a sentence; None if it does not.

    Earlier versions cast days to TIMESTAMPs. Of an open table's column they did not keep the type.
    """
    if not is_time(kind) or source == ENUM:
        return None
    listed = {_wrong(value, kind) for value in source} if isinstance(source, tuple) else None
    return _EARLIER.format(column) if listed is None or _DAY in listed else None


def is_time(kind: str) -> bool:
    """Whether a type holds days with times of day."""
    return kind.startswith("TIMESTAMP")


# Reasons, the one that is told first.
_DAY, _ZONE, _ENDS, _MISFIT = range(4)
_SENTENCES = {
    _DAY: (
        'The domain of "{}" lists days, and the column has times of day, of which only midnight would count: add a '
        "column of type DATE and declare its domain, or list the times, as in '2024-01-31 09:00:00'."
    ),
    _ZONE: (
        'The domain of "{}" lists times without a time zone, and the column has one: write each with its offset, as in '
        "'2024-01-31 09:00:00+00'."
    ),
    _ENDS: (
        'The domain of "{}" lists infinity, or the first day of year 1 or the last of 9999, which look alike in a list '
        "of dates: write it as a text, as in ['infinity', '9999-12-31']."
    ),
    _MISFIT: (
        'The domain of "{}" does not fit the column: its values must be of the column\'s type, and an open table must '
        "have the column under the same name, or the domain names another one of it, as in 'items.item_id'."
    ),
}
_EARLIER = (
    "The domain of {} may list days, and the column has times of day, of which only midnight would count: ask the "
    "steward to unprotect the table and protect it again, with a column of type DATE or the times themselves."
)


def misfit(column: str) -> str:
    """The sentence for a domain of other values than the column's type has."""
    return _SENTENCES[_MISFIT].format(column)


def _wrong(value: Any, kind: str) -> int | None:
    """What is wrong with a value of a list, as a policy stores it: NULL, a truth value, a whole number or a text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return None if kind == "BOOLEAN" else _MISFIT
    if is_exact(kind):
        return None if _is_held(value, kind) else _MISFIT
    if isinstance(value, int):
        return None if kind in FLOATS else _MISFIT
    return _wrong_text(str(value), kind)


def _wrong_text(text: str, kind: str) -> int | None:
    if kind == "DATE":
        return _MISFIT if ":" in text else None
    if kind not in _DIGITS or text.strip().lower() in _ENDLESS:
        return None
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return _DAY if is_time(kind) and ":" not in text else _MISFIT
    zoned = kind.endswith("WITH TIME ZONE")
    if zoned and match["zone"] is None:
        return _ZONE
    too_fine = len((match["digits"] or "").rstrip("0")) > _DIGITS[kind]
    wrong = too_fine or (match["zone"] is not None and not zoned) or (match["day"] is None) == is_time(kind)
    return _MISFIT if wrong else None


def _is_held(value: object, kind: str) -> bool:
    """Whether a type of exact numbers holds a number without rounding it."""
    number = rational(value)
    return number is not None and (Fraction(number) / step(kind)).denominator == 1


def _listed_type(value: object) -> str:
    if isinstance(value, str):
        return ""
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, float):
        return "FLOAT" if _is_narrow(value) else "DOUBLE"
    if isinstance(value, int | Decimal):
        return _NUMBER
    if isinstance(value, datetime):
        # DuckDB gives the ends of Python's calendar for infinity.
        if value.replace(tzinfo=None) in (datetime.min, datetime.max):
            return _END
        return "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP WITH TIME ZONE"
    if isinstance(value, date):
        return _END if value in (date.min, date.max) else "DATE"
    return {time: "TIME", timedelta: "INTERVAL", UUID: "UUID"}.get(type(value), "another type")


def _is_narrow(value: float) -> bool:
    """Whether a FLOAT holds a number: a column of FLOATs has no value that equals another one."""
    try:
        (narrow,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return False
    return narrow == value or value != value


def _other(listed: str, kind: str) -> int | None:
    """What is wrong with the type of a value in a list."""
    if listed == _END:
        return _ENDS
    if listed == "DATE" and is_time(kind):
        return _DAY
    numbers = listed == _NUMBER and (is_exact(kind) or kind in FLOATS)
    numbers = numbers or (listed == "FLOAT" and kind == "DOUBLE")
    # Python has no nanoseconds.
    times = listed == "TIMESTAMP" and kind in ("TIMESTAMP_S", "TIMESTAMP_MS")
    return None if listed in ("", kind) or numbers or times else _MISFIT


_NUMBER, _END = "a number", "an end of the calendar"
