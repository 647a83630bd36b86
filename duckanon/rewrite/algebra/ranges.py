"""Between which numbers, dates or moments the columns of all records lie that meet conditions, as the text says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from math import ceil, floor
from typing import Any, Generic, TypeVar

from duckanon.catalog.types import FLOATS, own_step
from duckanon.rewrite.algebra import zones
from duckanon.rewrite.algebra.constants import NOTHING, NUMBER, TEXT, ZONED, NotTotal, Value, folded
from duckanon.rewrite.algebra.expressions import And, Between, Column, Comparator, Comparison, Expr, In, Null
from duckanon.rewrite.algebra.moments import read_date, read_timestamp
from duckanon.rewrite.algebra.scalars import called, instant

_MICRO, _DAY = timedelta(microseconds=1), timedelta(days=1)
# How far a constant moves at most, as a share of it, when it becomes a float.
_FLOAT_ERROR = Fraction(1, 2**23)
_TURNED: Mapping[Comparator, Comparator] = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "="}


End = TypeVar("End", datetime, Fraction)


@dataclass(frozen=True)
class Range(Generic[End]):
    """low, high: the first and the last, of moments with a time zone in UTC; None where there is no such end."""

    low: End | None = None
    high: End | None = None

    def met(self, other: Range[End]) -> Range[End]:
        """What lies in both."""
        lows = [moment for moment in (self.low, other.low) if moment is not None]
        highs = [moment for moment in (self.high, other.high) if moment is not None]
        return Range(max(lows, default=None), min(highs, default=None))

    def joined(self, other: Range[End]) -> Range[End]:
        """What lies in either, and between both."""
        lows, highs = [self.low, other.low], [self.high, other.high]
        return Range(
            None if None in lows else min(low for low in lows if low is not None),
            None if None in highs else max(high for high in highs if high is not None),
        )

    def within(self, first: End, last: End) -> tuple[End, End]:
        """The ends of what lies in it and between two others; the nearer of these twice, where nothing does."""
        low = first if self.low is None else min(max(self.low, first), last)
        return low, last if self.high is None else max(min(self.high, last), low)


def ranges(conditions: Iterable[Expr], types: Mapping[str, str], today: date) -> dict[str, Range[Any]]:
    """By folded column. types: of the columns; today: what `current_date` stands for, with the session's zone."""
    found: dict[str, Range[Any]] = {}
    for condition in conditions:
        for left, operator, constants in _compared(condition):
            column, zone = _on_clocks(left, today)
            if column is None:
                continue
            met = _of_constants(operator, constants, types.get(column.name, ""), zone, today)
            if met is not None:
                found[column.name] = found.get(column.name, Range()).met(met)
    return found


def _of_constants(
    operator: Comparator, constants: Sequence[Expr], kind: str, zone: str, today: date
) -> Range[Any] | None:
    """The values of a type that compare so with one of some constants; None where they are not known."""
    together: Range[Any] | None = None
    for constant in constants:
        if kind in ("DATE", "TIMESTAMP", ZONED):
            met = _of_moments(operator, constant, kind, zone, today)
        else:
            met = None if zone else _of_numbers(operator, constant, kind, today)
        if met is None:
            return None
        together = met if together is None else together.joined(met)
    return together


def _of_numbers(operator: Comparator, constant: Expr, kind: str, today: date) -> Range[Any] | None:
    """The values of a type of exact numbers that compare so with a constant, which is exact, too."""
    step, value = own_step(kind), _folded(constant, today)
    if kind in FLOATS and value is not None and isinstance(value.value, Fraction):
        return _of_floats(operator, value.value)
    is_exact = value is not None and (value.kind == NUMBER or own_step(value.kind) is not None)
    if step is None or value is None or not is_exact or not isinstance(value.value, Fraction):
        return None
    below, above = floor(value.value / step), ceil(value.value / step)
    low = {">": below + 1, ">=": above, "=": above}.get(operator)
    high = {"<": above - 1, "<=": below, "=": below}.get(operator)
    return Range(None if low is None else low * step, None if high is None else high * step)


def _of_floats(operator: Comparator, value: Fraction) -> Range[Any]:
    """The floats that compare so with a constant, and those near it: it is compared as a float, too."""
    error = abs(value) * _FLOAT_ERROR
    low = value - error if operator in (">", ">=", "=") else None
    return Range(low, value + error if operator in ("<", "<=", "=") else None)


def _of_moments(operator: Comparator, constant: Expr, kind: str, zone: str, today: date) -> Range[datetime] | None:
    """The moments that compare so with a constant. zone: whose clocks are compared; empty for the column itself."""
    if zone:
        return _in_zone(operator, _moment(constant, "TIMESTAMP", today), zone) if kind == ZONED else None
    at = _moment(constant, kind, today)
    return None if at is None else _range(operator, at, kind)


def _folded(constant: Expr, today: date) -> Value | None:
    try:
        return folded(constant, today)
    except NotTotal:
        return None


def _compared(condition: Expr) -> list[tuple[Expr, Comparator, Sequence[Expr]]]:
    """The comparisons that a condition implies, each in both directions: with one of some constants."""
    match condition:
        case And(left, right):
            return [*_compared(left), *_compared(right)]
        case Between(operand, low, high, symmetric=False):
            return [(operand, ">=", [low]), (operand, "<=", [high])]
        case In(operand, values):
            # NULL is equal to nothing.
            known = [value for value in values if not isinstance(value, Null)]
            return [(operand, "=", known)] if known else []
        case Comparison(operator, left, right) if operator in _TURNED:
            return [(left, operator, [right]), (right, _TURNED[operator], [left])]
    return []


def _on_clocks(expr: Expr, today: date) -> tuple[Column | None, str]:
    """A column, and the zone whose clocks are compared; no column for anything else."""
    if isinstance(expr, Column):
        return expr, ""
    name, arguments = called(expr)
    if name != "timezone" or len(arguments) != 2 or not isinstance(arguments[1], Column):
        return None, ""
    named = _folded(arguments[0], today)
    zone = zones.zone_by_name(named.value) if named is not None and isinstance(named.value, str) else None
    return (arguments[1], zone) if zone else (None, "")


def _in_zone(operator: Comparator, clock: datetime | None, zone: str) -> Range[datetime] | None:
    """The moments at which what clocks of a zone show compares so with a time: from the first of these on."""
    if clock is None:
        return None
    plain = _range(operator, clock, "TIMESTAMP")
    try:
        low = None if plain.low is None else min(zones.moments_of(plain.low, zone))
        high = None if plain.high is None else max(zones.moments_of(plain.high, zone))
    except OverflowError:
        return None
    return Range(low, high)


def _moment(constant: Expr, kind: str, today: date) -> datetime | None:
    """A constant as a moment with which a column of a type is compared; None for anything else."""
    try:
        value = folded(constant, today)
        if value is None or value.kind == NOTHING:
            return None
        found = instant(value, today).value if kind == ZONED else _plain(value, kind)
    except (NotTotal, ValueError, OverflowError):
        return None
    if isinstance(found, datetime):
        return found
    return datetime.combine(found, time()) if isinstance(found, date) else None


def _plain(value: Value, kind: str) -> object:
    if isinstance(value.value, str) and value.kind == TEXT:
        return read_date(value.value) if kind == "DATE" else read_timestamp(value.value)
    return value.value


def _range(operator: Comparator, at: datetime, kind: str) -> Range[datetime]:
    """The moments that compare so with one. Of dates a day more than needed is none that is wrong."""
    step = _DAY if kind == "DATE" and at.time() == time() else _MICRO
    if operator == "=":
        return Range(at, at)
    if operator in (">", ">="):
        return Range(low=at)
    return Range(high=at - step if operator == "<" else at)
