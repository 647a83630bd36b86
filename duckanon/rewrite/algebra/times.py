"""Differences of dates and timestamps, and dates some time later, as SQL that cannot fail on any value.

DuckDB computes the difference of two DATEs, `date_diff` from centuries to seconds, and `age` of TIMESTAMPs for all
values, also infinite ones. It fails where a DATE does not fit into a TIMESTAMP, where a TIMESTAMP leaves its range, and
where two are further apart than microseconds in a BIGINT: there dates beyond 290,000 years count as infinite, and the
time between TIMESTAMPs beyond 140,000 years is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from duckanon.rewrite.algebra.constants import NotTotal
from duckanon.rewrite.algebra.expressions import Constant, Expr, Function, Operation, Word
from duckanon.rewrite.algebra.moments import Duration
from duckanon.rewrite.algebra.total import EARLIEST, LATEST, Scalar, builtin, within_years

TIMES = ("DATE", "TIMESTAMP")
# Units of date_diff, and how many of them lie between two dates at most.
UNITS = {
    "century": 10**6, "decade": 10**7, "year": 10**8, "quarter": 10**9, "month": 10**9, "week": 10**10,
    "day": 10**11, "hour": 10**12, "minute": 10**14, "second": 10**15,
}  # fmt: skip
# What is taken of the time between two timestamps, and how much of it there is at most.
PARTS = {"year": 10**6, "month": 11, "day": 10**9, "hour": 10**8, "minute": 59}
# As much of an age, which has whole days and months.
_PARTS_OF_AGE = {**PARTS, "day": 31, "hour": 23}
# Timestamps between these are at most 2**63 microseconds apart.
_NEAR = "140000-01-01 (BC)", "140000-12-31"
# DATEs are moved by so many days, and by so much time, that they stay within a TIMESTAMP's range.
_MOST_DAYS = 100_000
_MOST_MONTHS = 12 * 250


def difference(first: Scalar, last: Scalar) -> Scalar:
    """The days from a DATE to another."""
    most = Fraction(2**33)
    return Scalar(builtin("-", last.sql, first.sql), "BIGINT", (-most, most))


def date_diff(unit: str, first: Scalar, last: Scalar) -> Scalar:
    """How many times a unit of time begins between two moments. Raises NotTotal."""
    if unit not in UNITS:
        raise NotTotal(f"date_diff is for the units {', '.join(UNITS)} here.")
    if first.kind != last.kind or first.kind not in TIMES:
        first, last = moment(first), moment(last)
    most = Fraction(UNITS[unit])
    return Scalar(builtin("date_diff", f"'{unit}'", first.sql, last.sql), "BIGINT", (-most, most))


def date_sub(unit: str, first: Scalar, last: Scalar) -> Scalar:
    """How many whole units of time lie between two moments. Raises NotTotal."""
    if unit not in UNITS:
        raise NotTotal(f"date_sub is for the units {', '.join(UNITS)} here.")
    met, (a, b) = _near(first, last)
    most = Fraction(UNITS[unit])
    units = builtin("date_sub", f"'{unit}'", a, b)
    return Scalar(f"CASE WHEN {met} THEN {units} END", "BIGINT", (-most, most))


def age(last: Scalar, first: Scalar) -> str:
    """The time between two moments in years, months and days, as SQL of an INTERVAL. Raises NotTotal."""
    return builtin("age", moment(last).sql, moment(first).sql)


def elapsed(last: Scalar, first: Scalar) -> str:
    """The time between two moments in days and parts of a day, as SQL of an INTERVAL. Raises NotTotal."""
    met, (a, b) = _near(last, first)
    return f"CASE WHEN {met} THEN {builtin('-', a, b)} END"


def _near(*scalars: Scalar) -> tuple[str, list[str]]:
    """A condition that moments are not too far apart, and they moved so."""
    limited = [within_years(moment(scalar), *_NEAR) for scalar in scalars]
    return " AND ".join(met for met, _ in limited), [moved for _, moved in limited]


def part(name: str, interval: str, *, of_age: bool = False) -> Scalar:
    """A part of an INTERVAL, as a number. of_age: whether it is one by `age`."""
    most = Fraction((_PARTS_OF_AGE if of_age else PARTS)[name])
    return Scalar(builtin("date_part", f"'{name}'", interval), "BIGINT", (-most, most))


def seconds(interval: str) -> Scalar:
    """An INTERVAL in seconds, with months of 30 days and years of 365.25, as DuckDB has them."""
    return Scalar(builtin("epoch", interval), "DOUBLE")


def moment(scalar: Scalar) -> Scalar:
    """A DATE or a TIMESTAMP as a TIMESTAMP. Raises NotTotal."""
    if scalar.kind == "TIMESTAMP":
        return scalar
    if scalar.kind != "DATE":
        raise NotTotal("The time between two values is told of dates and timestamps here.")
    met, moved = within_years(scalar)
    sql = (
        f"CASE WHEN {met} THEN CAST({moved} AS TIMESTAMP) WHEN {scalar.sql} > DATE '{LATEST}' "
        f"THEN TIMESTAMP 'infinity' WHEN {scalar.sql} < DATE '{EARLIEST}' THEN TIMESTAMP '-infinity' END"
    )
    return Scalar(sql, "TIMESTAMP", null=scalar.null)


def later(scalar: Scalar, by: Duration, sign: str) -> Scalar:
    """A moment and an interval later or earlier. sign: + or -. Raises NotTotal."""
    at, span = moment(scalar), interval(by)
    met, moved = within_years(at)
    return Scalar(f"CASE WHEN {met} THEN {builtin(sign, moved, span)} ELSE {at.sql} END", "TIMESTAMP")


def days_later(scalar: Scalar, by: Fraction, sign: str) -> Scalar:
    """A DATE and a number of days later or earlier. sign: + or -. Raises NotTotal."""
    if scalar.kind != "DATE" or by.denominator != 1 or abs(by) > _MOST_DAYS:
        raise NotTotal(f"To a DATE a whole number of days is added, of {_MOST_DAYS:,} at most.")
    met, moved = within_years(scalar)
    return Scalar(
        f"CASE WHEN {met} THEN {builtin(sign, moved, f'CAST({by} AS INTEGER)')} ELSE {scalar.sql} END", "DATE"
    )


def interval(by: Duration) -> str:
    """A constant INTERVAL of 250 years at most. Raises NotTotal."""
    most = _MOST_MONTHS * 31
    if abs(by.months) > _MOST_MONTHS or abs(by.days) > most or abs(by.micros) > most * 86_400_000_000:
        raise NotTotal("Dates are moved by 250 years at most, and compared with no longer times.")
    return f"CAST('{by.months} months {by.days} days {by.micros} microseconds' AS INTERVAL)"


def between(expr: Expr) -> tuple[str, str, Sequence[Expr]]:
    """A function of two moments: its name, its unit, and both; empty for others.

    date_diff and date_sub have the earlier one first, age the later one.
    """
    match expr:
        case Operation("DateDiff", _):
            last, first, unit = (expr.argument(name) for name in ("this", "expression", "unit"))
            if isinstance(last, Expr) and isinstance(first, Expr) and isinstance(unit, Word):
                return "date_diff", _unit(unit.text), (first, last)
        case Function("date_diff" | "datediff", (Constant(_, True) as unit, first, last), quoted=False):
            return "date_diff", _unit(unit.value), (first, last)
        case Function("date_sub" | "datesub", (Constant(_, True) as unit, first, last), quoted=False):
            return "date_sub", _unit(unit.value), (first, last)
        case Function("age", (last, first), quoted=False):
            return "age", "", (last, first)
        case Function("age", (first,), quoted=False):
            return "age", "", (Function("today"), first)
    return "", "", ()


def _unit(written: str) -> str:
    name = written.lower()
    return name if name in UNITS else {"centuries": "century"}.get(name, name.removesuffix("s"))
