"""Keys whose values follow from the bounds of columns that have no domain, such as `floor(age / 10) * 10`.

The bounds are public, so the values of such a key are, too. What lies outside of the bounds counts in the first or the
last of them, as in sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction

from duckanon.catalog.types import reach
from duckanon.releases.layout import Steps
from duckanon.releases.measures import MOST_CELLS
from duckanon.releases.noise import NotOffered
from duckanon.releases.numbers import Columns
from duckanon.rewrite.algebra import zones
from duckanon.rewrite.algebra.bounds import (
    DATE,
    TIMESTAMP,
    Bounded,
    NotBounded,
    buckets,
    counted,
    known,
    on_clocks,
    shifted,
    truncation,
    weeks,
)
from duckanon.rewrite.algebra.constants import (
    MOVED_BY,
    NUMBER,
    ZONED,
    duration,
    folded,
    in_sql,
    is_of_days,
    literal,
    type_name,
)
from duckanon.rewrite.algebra.expressions import Arithmetic, Cast, Constant, Expr, Function
from duckanon.rewrite.algebra.filters import NotTotal, scalar
from duckanon.rewrite.algebra.moments import Duration
from duckanon.rewrite.algebra.own_types import own_kind
from duckanon.rewrite.algebra.scalars import called
from duckanon.rewrite.algebra.written_dates import directives, unit_written

# DuckDB's decimals have no more.
_MOST_DIGITS = 38


@dataclass(frozen=True)
class Histogram:
    """The values of a key, by the places of an event. value: as SQL of the place, which is {0} in it."""

    event: Steps
    value: str


@dataclass(frozen=True)
class _Values:
    """of: a whole number of steps. value: what stands for so many, as SQL of the number, which is {} in it.

    of_months: whether these are first days of months. of_moments: whether they are times in the session's zone, which
    stand for moments. refused: why these are no keys, in a sentence; empty where they are.
    """

    of: Bounded
    value: str
    of_months: bool = False
    of_moments: bool = False
    refused: str = ""


def histogram(columns: Columns, expr: Expr, shown: str) -> Histogram:
    """The values of a key. shown: how it is written.

    Raises NotOffered for one that has too many values, and NotBounded and NotTotal for one of which none are known.
    """
    try:
        key_values = next(filter(None, (read(columns, expr) for read in _READERS)), None) or _plain(columns, expr)
    except NotOffered as no:
        raise NotBounded(str(no)) from no
    count = key_values.of.high - key_values.of.low + 1
    if count > MOST_CELLS and isinstance(expr, Arithmetic) and expr.operator == "//":
        # Of other than whole numbers it has a fraction: the refusal then names floor.
        raise NotBounded("// of others than whole numbers has a fraction")
    if count > MOST_CELLS:
        raise NotOffered(
            f"A key that is computed from bounds has at most {MOST_CELLS:,} values, and {shown} has {count:,}: take "
            "wider steps, or fewer of them by a condition with CASE."
        )
    if key_values.refused:
        raise NotOffered(key_values.refused)
    shown_value = key_values.value.format(f"(CAST({{0}} AS BIGINT) + ({key_values.of.low}))")
    if not key_values.of.nullable:
        return Histogram(Steps(key_values.of.sql, key_values.of.low, count - 1), shown_value)
    return Histogram(
        Steps(key_values.of.sql, key_values.of.low, count), f"(CASE WHEN {{0}} < {count} THEN {shown_value} END)"
    )


def _plain(columns: Columns, expr: Expr) -> _Values:
    """A number, a truth value or a day, and its values."""
    bounded = known(expr, columns)
    if _is_truth(columns, expr):
        return _Values(bounded, "({} = 1)")
    if bounded.kind == DATE:
        return _Values(bounded, _START_OF["day"])
    if bounded.kind != NUMBER:
        raise NotBounded("A key is a number, a day, or a part of a date")
    kind = _decimal(bounded, bounded.scale) if bounded.scale else _whole_kind(columns, expr, bounded)
    return _Values(bounded, _number(bounded.step, kind if bounded.scale is not None else "DOUBLE"))


def _whole_kind(columns: Columns, expr: Expr, bounded: Bounded) -> str:
    """The type that DuckDB gives a whole number, where that holds all its values; BIGINT for others and wider ones."""
    own = own_kind(expr, columns.types)
    if own in ("", "HUGEINT", "UHUGEINT"):
        return "BIGINT"
    low, high = reach(own)
    return own if low <= bounded.least and bounded.largest <= high else "BIGINT"


def _decimal(bounded: Bounded, scale: int) -> str:
    """A type for decimals that holds all values."""
    digits = len(str(int(bounded.size))) + scale
    if digits > _MOST_DIGITS:
        raise NotBounded(f"The values of a key have at most {_MOST_DIGITS} digits")
    return f"DECIMAL({max(digits, 18)},{scale})"


def _is_truth(columns: Columns, expr: Expr) -> bool:
    """Whether it is a BOOLEAN, which is counted as 0 and 1."""
    try:
        return scalar(expr, columns.types, columns.today)[1] == "BOOLEAN"
    except NotTotal:
        return False


def _number(step: Fraction, kind: str) -> str:
    """So many steps as a number of a type, as SQL."""
    times = f"({{}} * {step.numerator})"
    if step.denominator == 1:
        return f"CAST({times} AS {kind})"
    if kind == "DOUBLE":
        return f"(CAST({times} AS DOUBLE) / CAST({step.denominator} AS DOUBLE))"
    return f"CAST({times} * {in_sql(Fraction(1, step.denominator), kind)} AS {kind})"


def _truncated(columns: Columns, expr: Expr) -> _Values | None:
    """A date or a timestamp, truncated to a unit; None for anything else."""
    cut = truncation(expr)
    if cut is None:
        return None
    of = known(cut[1], columns)
    starts = _starts(cut[0], on_clocks(of, columns.today))
    return starts if of.kind != ZONED else _as_moments(columns, cut[0], starts)


def _as_moments(columns: Columns, unit: str, starts: _Values) -> _Values:
    """Starts of units of time, which the session's clocks show, as the moments that they are."""
    return _as_moments_of(str(zones.session_zone(columns.today)), unit, starts)


def _as_moments_of(zone: str, unit: str, starts: _Values) -> _Values:
    moment = f"timezone('{zone}', CAST({starts.value} AS TIMESTAMP))"
    is_fine = zone == "UTC" or (unit in (*_START_OF, "hour") and _are_different(zone, unit, starts.of))
    refused = "" if is_fine else _NO_MOMENTS.format(unit=unit, zone=zone)
    return replace(starts, value=moment, of_moments=True, refused=refused)


_NO_MOMENTS = (
    "In {zone} clocks are put forward, so a {unit} is left out, or it is shorter than an hour: write "
    "date_trunc('{unit}', x AT TIME ZONE '{zone}') with the column for x, and nothing around it."
)


def _in_zone(columns: Columns, expr: Expr) -> _Values | None:
    """A start of a unit of time on the clocks of a zone, brought back to a moment; None for anything else."""
    name, arguments = called(expr)
    cut = truncation(arguments[1]) if name == "timezone" and len(arguments) == 2 else None
    named = folded(arguments[0], columns.today) if cut is not None else None
    zone = zones.zone_by_name(named.value) if named is not None and isinstance(named.value, str) else None
    if cut is None or zone is None:
        return None
    of = known(cut[1], columns)
    if of.kind == ZONED:
        return None
    return _as_moments_of(zone, cut[0], _starts(cut[0], of))


def _are_different(zone: str, unit: str, of: Bounded) -> bool:
    """Whether all starts are different moments: of hours and days, of which a zone may leave some out."""
    if unit not in ("hour", "day"):
        return True
    if of.high - of.low > MOST_CELLS:
        # They are too many for a key anyway.
        return True
    per = (1 if unit == "hour" else 24) * _MICROS_OF_HOUR
    return zones.are_different_moments(zone, range(of.low * per, (of.high + 1) * per, per))


def _starts(unit: str, of: Bounded) -> _Values:
    """The starts of the units of time in which a date or a timestamp lies."""
    bounded = weeks(of) if unit == "week" else counted(unit, of)
    if unit in _START_OF:
        return _Values(bounded, _START_OF[unit])
    length = timedelta(**{f"{unit}s": 1})
    return _Values(bounded, f"make_timestamp({{}} * {length // timedelta(microseconds=1)})")


def _first_days(columns: Columns, expr: Expr) -> _Values | None:
    """A date that is truncated to a day or a longer unit, as BI tools write it; None for anything else.

    They cast it, and move it by a constant interval: weeks from Sunday on are those of the next day, less a day. The
    starts of days and longer units remain different, and the first days of months also where months are added.
    """
    if (cut := truncation(expr)) is not None:
        if cut[0] not in _START_OF:
            return None
        of = known(cut[1], columns)
        starts = _starts(cut[0], on_clocks(of, columns.today))
        return replace(starts, of_months=cut[0] in _OF_MONTHS, of_moments=of.kind == ZONED)
    if isinstance(expr, Cast) and not expr.tries and (kind := type_name(expr.type)) in ("DATE", "TIMESTAMP"):
        inner = _first_days(columns, expr.operand)
        return inner and replace(inner, value=f"CAST({inner.value} AS {kind})", of_moments=False)
    return _moved(columns, expr) or _last_days(columns, expr)


def _moved(columns: Columns, expr: Expr) -> _Values | None:
    """A date that is truncated and moved by a constant interval, or by a whole number of days."""
    if (shift := shifted(expr, columns.today)) is not None:
        by, of = shift
        starts = _first_days(columns, of)
        if starts is None or starts.of_moments or (by.months and not starts.of_months):
            return None
        micros = by.days * _MICROS_OF_DAY + by.micros
        moved = f"CAST({starts.value} AS TIMESTAMP)"
        moved += f" + to_months(CAST({by.months} AS INTEGER))" if by.months else ""
        moved += f" + to_microseconds(CAST({micros} AS BIGINT))" if micros or not by.months else ""
        return replace(starts, value=f"({moved})", of_months=starts.of_months and not micros)
    if isinstance(expr, Arithmetic) and expr.operator in ("+", "-"):
        days = folded(expr.right, columns.today)
        starts = _first_days(columns, expr.left)
        is_whole = days is not None and isinstance(days.value, Fraction) and days.value.denominator == 1
        is_date = (
            starts is not None and not starts.of_moments and scalar(expr.left, columns.types, columns.today)[1] == DATE
        )
        if days is not None and is_whole and starts is not None and is_date:
            if not is_of_days(days):
                raise NotTotal(MOVED_BY)
            return replace(starts, value=f"({starts.value} {expr.operator} ({days.value}))", of_months=False)
    return None


_OF_MONTHS = ("month", "quarter", "year")
# The first day of a unit, by its number, as SQL.
_START_OF = {
    "day": "(DATE '1970-01-01' + CAST({} AS INTEGER))",
    "week": "(DATE '1969-12-29' + CAST(7 * {} AS INTEGER))",
    "month": "(DATE '0001-01-01' + to_months(CAST({} - 12 AS INTEGER)))::DATE",
    "quarter": "(DATE '0001-01-01' + to_months(CAST(3 * {} - 12 AS INTEGER)))::DATE",
    "year": "(DATE '0001-01-01' + to_months(CAST(12 * {} - 12 AS INTEGER)))::DATE",
}


def _named(columns: Columns, expr: Expr) -> _Values | None:
    """The name of a day of the week or of a month; None for anything else."""
    name, arguments = called(expr)
    if name not in _NAMES or len(arguments) != 1:
        return None
    part, shown = _NAMES[name]
    return _Values(known(Function(part, tuple(arguments)), columns), shown)


# The part of a date that has the name, and one date with each of its values.
_NAMES = {
    "dayname": ("dayofweek", "dayname(DATE '2024-01-07' + CAST({} AS INTEGER))"),
    "monthname": ("month", "monthname(DATE '2023-12-01' + to_months(CAST({} AS INTEGER)))"),
}


def _written(columns: Columns, expr: Expr) -> _Values | None:
    """A date or a timestamp as a text by strftime, from the year on to some unit of time; None for anything else."""
    name, arguments = called(expr)
    if name != "strftime" or len(arguments) != 2 or not isinstance(arguments[1], Constant):
        return None
    # Its format is one that cannot fail.
    scalar(expr, columns.types, columns.today)
    form = arguments[1].value
    used = directives(form)
    # A number of a place is put in twice.
    format_sql = literal(form).replace("{", "{{{{").replace("}", "}}}}")
    if len(used) == 1 and used <= _PARTS_WRITTEN.keys():
        part, moment = _PARTS_WRITTEN[used.pop()]
        return _Values(known(Function(part, (arguments[0],)), columns), f"strftime({moment}, {format_sql})")
    unit = unit_written(form)
    if unit is None:
        # Two dates must not have one text: they would be one group.
        raise NotBounded(f"A key by strftime has one of {', '.join(_PARTS_WRITTEN)} in its format, or %Y and so on")
    coarser, of = truncation(arguments[0]) or ("", arguments[0])
    is_coarser = coarser in _COARSER[unit]
    of, unit = (of, coarser) if is_coarser else (arguments[0], unit)
    dates = _starts(unit, on_clocks(known(of, columns), columns.today))
    return _Values(dates.of, f"strftime({dates.value}, {format_sql})")


def _last_days(columns: Columns, expr: Expr) -> _Values | None:
    """The last day of the month in which a date lies; None for anything else."""
    name, arguments = called(expr)
    if name != "last_day" or len(arguments) != 1:
        return None
    of = on_clocks(known(arguments[0], columns), columns.today)
    return _Values(counted("month", of), f"last_day({_START_OF['month']})")


def _bucketed(columns: Columns, expr: Expr) -> _Values | None:
    """The start of the bucket of time_bucket in which a date or a timestamp lies; None for anything else.

    Buckets of months begin with January 2000, others with its first Monday.
    """
    name, arguments = called(expr)
    width = duration(folded(arguments[0], columns.today)) if name == "time_bucket" and len(arguments) == 2 else None
    if width is None:
        return None
    of = known(arguments[1], columns)
    if of.kind != ZONED:
        return _buckets(width, of)
    # DuckDB's buckets of moments begin in UTC, whatever the session's zone.
    in_local_time = _buckets(width, replace(of, kind=TIMESTAMP))
    return replace(in_local_time, value=f"timezone('UTC', {in_local_time.value})")


def _buckets(by: Duration, of: Bounded) -> _Values:
    """The starts of buckets of a width."""
    micros = by.days * _MICROS_OF_DAY + by.micros
    if (by.months > 0) == (micros > 0) or min(by.months, micros) < 0 or of.kind not in (DATE, TIMESTAMP):
        raise NotBounded("time_bucket takes a time of months alone or without months, and a date or a timestamp")
    if by.months:
        start = f"(DATE '2000-01-01' + to_months(CAST({{}} * {by.months} AS INTEGER)))"
        kind = "DATE" if of.kind == DATE else "TIMESTAMP"
        return _Values(buckets(counted("month", of), 24_000, by.months), f"CAST({start} AS {kind})")
    if of.kind == TIMESTAMP:
        first = _FIRST_MONDAY * _MICROS_OF_DAY
        return _Values(buckets(of, first, micros), f"make_timestamp({{}} * {micros} + {first})")
    if micros % _MICROS_OF_DAY:
        raise NotBounded("time_bucket of a date takes whole days: of others cast the date to a TIMESTAMP")
    days = micros // _MICROS_OF_DAY
    return _Values(buckets(of, _FIRST_MONDAY, days), f"(DATE '2000-01-03' + CAST({{}} * {days} AS INTEGER))")


def _within_hours(columns: Columns, expr: Expr) -> _Values | None:
    """The start of a part of an hour, as Superset writes it; None for anything else.

    date_trunc('hour', ts) + INTERVAL '5 minutes' * floor(extract(minute FROM ts) / 5)
    """
    match expr:
        case Arithmetic("+", start, Arithmetic("*", span, floored)):
            cut, (_, minutes) = truncation(start), called(floored)
        case _:
            return None
    by = duration(folded(span, columns.today))
    if (
        cut is None
        or cut[0] != "hour"
        or by is None
        or by.months
        or by.days
        or not _divides(by.micros, _MICROS_OF_HOUR)
    ):
        return None
    is_part = (
        called(floored)[0] == "floor" and len(minutes) == 1 and _minutes_by(columns, minutes[0], cut[1], by.micros)
    )
    of = known(cut[1], columns)
    if not is_part or of.kind not in (DATE, TIMESTAMP):
        return None
    if of.kind == DATE:
        return replace(_starts("day", of), value=f"CAST({_START_OF['day']} AS TIMESTAMP)")
    return _Values(buckets(of, 0, by.micros), f"make_timestamp({{}} * {by.micros})")


def _minutes_by(columns: Columns, expr: Expr, of: Expr, micros: int) -> bool:
    """Whether it is the minute of a date, divided by so many minutes as an interval has."""
    if not isinstance(expr, Arithmetic) or expr.operator != "/":
        return False
    divisor, (name, arguments) = folded(expr.right, columns.today), called(expr.left)
    return name == "minute" and list(arguments) == [of] and divisor is not None and divisor.value == micros / _MINUTE


def _divides(part: int, whole: int) -> bool:
    return part > 0 and whole % part == 0


_MINUTE = Fraction(60_000_000)
_MICROS_OF_HOUR = 3_600_000_000
_MICROS_OF_DAY = 24 * _MICROS_OF_HOUR
# 2000-01-03, in days since 1970.
_FIRST_MONDAY = 10_959
_READERS = (_named, _written, _truncated, _in_zone, _within_hours, _first_days, _last_days, _bucketed)
# A directive of a format that names one part of a date, that part, and one date or time with each of its values.
_PARTS_WRITTEN = {
    "%m": ("month", "DATE '1999-12-01' + to_months(CAST({} AS INTEGER))"),
    "%d": ("day", "DATE '1999-12-31' + CAST({} AS INTEGER)"),
    "%j": ("dayofyear", "DATE '1999-12-31' + CAST({} AS INTEGER)"),
    "%H": ("hour", "make_timestamp({} * 3600000000)"),
    "%M": ("minute", "make_timestamp({} * 60000000)"),
}
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_COARSER = {unit: _UNITS[:at] for at, unit in enumerate(_UNITS)}
