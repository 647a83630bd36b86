"""Bounds of computed numbers, by interval arithmetic (Moore 1966) over the bounds of the columns in them.

A number is a whole number of steps, so that computing with it is exact and its sums do not depend on the order of
records. Columns are clamped to their bounds before anything is computed from them. So each part of an expression lies
within bounds that follow from those of the columns, and is computed in 64 bits: nothing overflows or fails on a record.

What the columns are is the caller's: `Leaves` gives each of them with its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import reduce
from math import ceil, gcd, lcm
from typing import Protocol

from duckanon.catalog.types import WHOLE, digits, reach
from duckanon.rewrite.algebra import constants, times, zones
from duckanon.rewrite.algebra.constants import NUMBER, ZONED, Value, folded
from duckanon.rewrite.algebra.expressions import (
    CONDITIONS,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Constant,
    Expr,
    Negative,
    Not,
    Null,
    Nullif,
    Operation,
    Round,
    walk,
)
from duckanon.rewrite.algebra.moments import Duration
from duckanon.rewrite.algebra.own_types import own_kind
from duckanon.rewrite.algebra.scalars import builtin, called
from duckanon.rewrite.algebra.total import Scalar

# The most steps between the bounds of what a statistic is of: more are rounded to fewer.
MOST_STEPS = 10**13
# The largest number of steps anywhere within an expression: sums and differences of two fit into 64 bits.
_MOST = 2**61
# The smallest and the largest step: then squares of sums are DOUBLEs, neither infinite nor 0.
_FINEST, _COARSEST = Fraction(1, 10**60), Fraction(10**60)
_OUT_OF_REACH = "What is computed is in steps of less than 10^-60 or more than 10^60"
_DAY = "DATE '1970-01-01'"
_FIRST = date(1970, 1, 1)
DATE, TIMESTAMP = "DATE", "TIMESTAMP"
_MOST_DIGITS = 38
_FOLLOWED = (
    "What a statistic is of may be computed by + - *, division by constants, CASE with conditions, coalesce, nullif, "
    "least, greatest, abs, floor, ceil, round, // and % by constants, date_diff, parts of dates, lengths of columns, "
    "and casts to wider numbers"
)
_DIVIDED = "Numbers are divided by others than zero"
# How many steps a quotient of two numbers of a record has, about.
_STEPS_OF_RATIO = 10**6
_MICROS = {"second": 10**6, "minute": 6 * 10**7, "hour": 36 * 10**8, "day": 864 * 10**8}
# Parts of a date, or of the time between two, with few values.
_PARTS = frozenset("quarter month day dayofweek isodow dayofyear week hour minute".split())
# Those of the time between two moments: what they are parts of, and their unit.
_OF_ELAPSED = {"day": (None, "day"), "hour": ("day", "hour"), "minute": ("hour", "minute")}


TOO_FINE = (
    "What is computed has more than 10^18 steps between its bounds, so one of its columns needs bounds with a coarser "
    "step"
)


class NotBounded(Exception):
    """Why no bounds are known of a number, in a sentence without its full stop."""


@dataclass(frozen=True)
class Bounded:
    """What is known of a number that each record has.

    sql: the number of steps as a BIGINT, which cannot fail and lies from low to high. kind: NUMBER, DATE (in days),
    TIMESTAMP (in microseconds) or ZONED (in microseconds, in UTC). scale: the digits after the point in the type that
    DuckDB gives it; None: a DOUBLE. decimal: how many digits that has, if it is a DECIMAL; 0 for others. error: how far
    it is at most from the number without rounding columns to their steps. nullable: whether it may be NULL. constant:
    whether it is the same for all records.
    """

    low: int
    high: int
    step: Fraction
    sql: str
    scale: int | None = 0
    error: Fraction = Fraction(0)
    kind: str = NUMBER
    nullable: bool = True
    constant: bool = False
    decimal: int = 0

    def __post_init__(self) -> None:
        if max(abs(self.low), abs(self.high)) > _MOST:
            raise NotBounded(TOO_FINE)
        if not _FINEST <= self.step <= _COARSEST:
            raise NotBounded(_OUT_OF_REACH)

    @property
    def least(self) -> Fraction:
        return self.low * self.step

    @property
    def largest(self) -> Fraction:
        return self.high * self.step

    @property
    def size(self) -> Fraction:
        """The largest absolute value."""
        return max(abs(self.least), abs(self.largest))

    @property
    def is_whole(self) -> bool:
        """Whether DuckDB gives it a type of whole numbers."""
        return self.scale == 0 and not self.decimal

    @property
    def type(self) -> str:
        """The type that DuckDB gives its sum."""
        return "DOUBLE" if self.scale is None else f"DECIMAL(38,{self.scale})" if self.scale else "HUGEINT"


class Leaves(Protocol):
    """What expressions are made of."""

    @property
    def types(self) -> Mapping[str, str]:
        """The types of columns, by folded name."""

    @property
    def today(self) -> date:
        """What `current_date` stands for."""

    def column(self, column: Column) -> Bounded:
        """A column, clamped to its bounds. Raises NotBounded."""

    def has_bounds(self, column: Column) -> bool:
        """Whether bounds are known of a column."""

    def length(self, name: str, column: Column) -> Bounded:
        """The length of a column of text, clamped to its bounds, by a function of that name. Raises NotBounded."""

    def meeting(self, conditions: Sequence[Expr]) -> Leaves:
        """The columns of those records alone that meet conditions, which may lie within narrower bounds."""

    def condition(self, expr: Expr) -> str:
        """A condition on a record as SQL that cannot fail. Raises NotTotal."""

    def part(self, expr: Expr) -> Scalar:
        """A part of a date, or of the time between two, as SQL that cannot fail, with its span. Raises NotTotal."""


def bounded(expr: Expr, leaves: Leaves) -> Bounded:
    """A number that is computed from columns, with its bounds. Raises NotBounded, and NotTotal for conditions."""
    return _Reader(leaves).number(expr)


def known(expr: Expr, leaves: Leaves) -> Bounded:
    """As `bounded`, also for dates and timestamps."""
    return _Reader(leaves).of(expr)


def centred_product(one: Bounded, other: Bounded) -> tuple[Bounded, Fraction, Fraction]:
    """The product of two numbers, each less the middle of its bounds, and both middles. Raises NotBounded."""
    middles = [(each.low + each.high) // 2 for each in (one, other)]
    moved = [_added(each, -1, _constant(at, each.step)) for each, at in zip((one, other), middles, strict=True)]
    return reduce(_product, sorted(moved, key=lambda each: each.sql)), middles[0] * one.step, middles[1] * other.step


class _Reader:
    def __init__(self, leaves: Leaves) -> None:
        self._leaves = leaves

    def number(self, expr: Expr) -> Bounded:
        """The expression, which must be a number."""
        found = self.of(expr)
        if found.kind != NUMBER:
            raise NotBounded("A statistic is of numbers: of dates take a difference in days, or a part of them")
        return found

    def of(self, expr: Expr) -> Bounded:
        value = folded(expr, self._leaves.today)
        if value is not None:
            return _of_constant(value, expr)
        match expr:
            case Column():
                return self._leaves.column(expr)
            case Arithmetic() | Negative():
                return self._computed(expr)
            case Case():
                return self._case(expr)
            case Cast(operand, kind, tries=False):
                return self._cast(operand, constants.type_name(kind))
            case Coalesce(operands):
                return _coalesced(self._alike(operands))
            case Nullif(operand, other):
                values = self._alike((operand, other))
                sql = f"(CASE WHEN {values[0].sql} IS DISTINCT FROM {values[-1].sql} THEN {values[0].sql} END)"
                return replace(values[0], sql=sql, nullable=True, constant=False)
            case Round(operand, places):
                return _to_places(_rounded, self.number(operand), self._places(places))
            case Operation("Least" | "Greatest", _):
                return _extreme(self._alike(expr.parts), is_least=expr.kind == "Least")
        return self._truth(expr) if isinstance(expr, CONDITIONS) else self._called(expr)

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def _computed(self, expr: Expr) -> Bounded:
        match expr:
            case Arithmetic("*"):
                factors = sorted(map(self.number, _factors(expr)), key=lambda item: item.sql)
                return reduce(_product, factors)
            case Arithmetic("/", left, right):
                return _quotient(self.number(left), self.number(right))
            case Arithmetic("//", left, right):
                return _whole_quotient(self.number(left), self.number(right))
            case Arithmetic("%", left, right):
                return _remainder(self.number(left), self.number(right))
        return self._sum(expr)

    def _sum(self, expr: Expr) -> Bounded:
        """A sum of terms, each with its sign, in an order that does not depend on how it is written."""
        if (moves := moved_by(expr, self._leaves.today)) is not None:
            micros, of = moves
            at = _added(_as_timestamp(self.of(of)), 1, _constant(micros, Fraction(1), kind=TIMESTAMP))
            return replace(at, kind=TIMESTAMP)
        self._check_days(expr)
        terms = [(sign, self.of(expression)) for sign, expression in _terms(expr, 1)]
        days = sum(sign for sign, one in terms if one.kind == DATE)
        kinds = {one.kind for _, one in terms}
        if kinds & {TIMESTAMP, ZONED}:
            raise NotBounded("The difference of timestamps is no number: take date_diff('hour', ...) or another unit")
        if days not in (0, 1) or (DATE in kinds and any(one.step.denominator != 1 for _, one in terms)):
            raise NotBounded("Dates are subtracted from each other, or moved by whole days: nothing else is added")
        step = grid([one.step for _, one in terms if one.low or one.high])
        offset = sum((sign * one.least for sign, one in terms if one.constant), Fraction(0)) / step
        moving = sorted(
            ((sign, one) for sign, one in terms if not one.constant), key=lambda item: (-item[0], item[1].sql)
        )
        constant = _constant(int(offset), step)
        for sign, one in moving:
            constant = _added(constant, sign, _in_steps(one, step))
        scale, decimal = _together([one for _, one in terms])
        return replace(constant, scale=scale, decimal=min(_MOST_DIGITS, decimal), kind=DATE if days else NUMBER)

    def _check_days(self, expr: Expr) -> None:
        """Raises NotBounded for a number that DuckDB does not add to a DATE: it is wider than an INTEGER."""
        if not isinstance(expr, Arithmetic) or expr.operator not in ("+", "-"):
            return
        if moved_by(expr, self._leaves.today) is None:
            kinds = {self.of(expression).kind: expression for expression in (expr.left, expr.right)}
            if kinds.keys() == {DATE, NUMBER} and own_kind(kinds[NUMBER], self._leaves.types) not in constants.DAYS:
                raise NotBounded(constants.MOVED_BY.rstrip("."))
        for one in (expr.left, expr.right):
            self._check_days(one)

    # --- values of several -------------------------------------------------------------------------------------------

    def _alike(self, exprs: Sequence[Expr]) -> list[Bounded]:
        """Several numbers, or dates, in steps of one size."""
        return _in_common_steps([self.of(expr) for expr in exprs if not isinstance(expr, Null)])

    def _case(self, expr: Case) -> Bounded:
        # What stands after THEN is asked only of records that meet the condition.
        found = [
            _Reader(self._leaves.meeting([branch.condition])).of(branch.value)
            for branch in expr.branches
            if not isinstance(branch.value, Null)
        ]
        if not isinstance(expr.default, Null):
            found.append(self.of(expr.default))
        values = _in_common_steps(found)
        rest = iter(values)
        sql = [None if isinstance(value, Null) else next(rest).sql for value in expr.values]
        cases = " ".join(
            f"WHEN {self._leaves.condition(branch.condition)} THEN {then or 'NULL'}"
            for branch, then in zip(expr.branches, sql, strict=False)
        )
        default = f" ELSE {sql[-1]}" if sql[-1] is not None else ""
        nullable = None in sql or any(value.nullable for value in values)
        return replace(_around(values), sql=f"(CASE {cases}{default} END)", nullable=nullable, constant=False)

    def _truth(self, expr: Expr) -> Bounded:
        """A condition as a number: 1 for true, 0 for false."""
        met, unmet = self._leaves.condition(expr), self._leaves.condition(Not(expr))
        return Bounded(0, 1, Fraction(1), f"(CASE WHEN {met} THEN {whole(1)} WHEN {unmet} THEN {whole(0)} END)")

    # --- casts and functions -----------------------------------------------------------------------------------------

    def _cast(self, operand: Expr, kind: str) -> Bounded:
        """A cast that changes no number."""
        if kind == "DATE":
            return _day(on_clocks(self.of(operand), self._leaves.today))
        if kind == "TIMESTAMP":
            return _as_timestamp(on_clocks(self.of(operand), self._leaves.today))
        if kind == ZONED:
            of = self.of(operand)
            return of if of.kind == ZONED else _moments(_as_timestamp(of), _own_zone(self._leaves.today))
        condition_or_number = self._condition_or_number(operand)
        if kind == "DOUBLE":
            return replace(condition_or_number, scale=None)
        scale = 0 if kind in WHOLE else (digits(kind) or (0, None))[1]
        if scale is None:
            raise NotBounded(_FOLLOWED)
        low, high = reach(kind)
        if (
            (condition_or_number.step * 10**scale).denominator != 1
            or condition_or_number.least < low
            or high < condition_or_number.largest
        ):
            raise NotBounded(f"A cast to {kind} could change a number, as far as bounds say: leave it out, or round")
        return replace(condition_or_number, scale=scale, decimal=(digits(kind) or (0, 0))[0])

    def _condition_or_number(self, operand: Expr) -> Bounded:
        return self._truth(operand) if isinstance(operand, CONDITIONS) else self.number(operand)

    def _places(self, places: Expr | None) -> int:
        value = None if places is None else folded(places, self._leaves.today)
        if places is None:
            return 0
        if value is None or not isinstance(value.value, Fraction) or value.value.denominator != 1:
            raise NotBounded("Numbers are rounded to a constant number of places")
        return int(value.value)

    def _called(self, expr: Expr) -> Bounded:
        """A function."""
        name, arguments = _function(expr)
        if name == "date_diff":
            unit, first, last = arguments
            assert isinstance(unit, Constant)
            return _added(counted(unit.value, self.of(last)), -1, counted(unit.value, self.of(first)))
        if (cut := truncation(expr)) is not None:
            return self._truncated(cut[0], self.of(cut[1]))
        if (whole_units := self._whole_units(expr)) is not None:
            return whole_units
        if name == "timezone":
            return self._at_zone(*arguments)
        if len(arguments) != 1:
            raise NotBounded(_FOLLOWED)
        if name in _PARTS:
            return self._part(name, expr, arguments[0])
        if name == "epoch" and (elapsed := self._elapsed(arguments[0])) is not None:
            return _in_seconds(elapsed)
        if name in _OF_TIMES:
            of = self.of(arguments[0])
            return _epoch(of) if name == "epoch" else _OF_TIMES[name](on_clocks(of, self._leaves.today))
        if name in _OF_NUMBERS:
            return _OF_NUMBERS[name](self.number(arguments[0]))
        if name in ("length", "strlen") and isinstance(arguments[0], Column):
            return self._leaves.length(name, arguments[0])
        raise NotBounded(_FOLLOWED)

    def _part(self, name: str, expr: Expr, operand: Expr) -> Bounded:
        """A part of a date, or of the time between two moments."""
        elapsed = self._elapsed(operand)
        if elapsed is not None and name in _OF_ELAPSED:
            whole_of, unit = _OF_ELAPSED[name]
            rest = elapsed if whole_of is None else _remainder(elapsed, _constant(_MICROS[whole_of], Fraction(1)))
            return _whole_quotient(rest, _constant(_MICROS[unit], Fraction(1)))
        scalar = self._leaves.part(expr)
        assert scalar.span is not None
        low, high = map(int, scalar.span)
        sql, date_within = f"CAST({scalar.sql} AS BIGINT)", self._date_within_bounds(operand)
        if date_within is None:
            return Bounded(low, high, Fraction(1), sql)
        # Of an infinite date, which has no parts, it is that of the nearest one within the bounds.
        sql = f"coalesce({sql}, CAST({builtin(name, date_within)} AS BIGINT))"
        return Bounded(low, high, Fraction(1), sql, nullable=False)

    def _date_within_bounds(self, operand: Expr) -> str | None:
        """A date or a time as SQL that is clamped to bounds; None where none are known of it, or it may be NULL."""
        if not all(self._leaves.has_bounds(column) for column in walk(operand) if isinstance(column, Column)):
            return None
        try:
            within = on_clocks(self.of(operand), self._leaves.today)
        except NotBounded:
            return None
        if within.nullable or within.kind not in (DATE, TIMESTAMP):
            return None
        if within.kind == DATE:
            return builtin("+", _DAY, f"CAST({within.sql} AS INTEGER)")
        return builtin("make_timestamp", within.sql)

    def _elapsed(self, expr: Expr) -> Bounded | None:
        """The microseconds between two moments of which one is a TIMESTAMP; None for another expression."""
        if not isinstance(expr, Arithmetic) or expr.operator != "-" or shifted(expr, self._leaves.today) is not None:
            return None
        last, first = self.of(expr.left), self.of(expr.right)
        if {last.kind, first.kind} not in ({TIMESTAMP}, {DATE, TIMESTAMP}):
            return None
        return replace(_added(_as_timestamp(last), -1, _as_timestamp(first)), kind=NUMBER)

    def _whole_units(self, expr: Expr) -> Bounded | None:
        """The whole years of an age, or what date_sub counts; None for another expression."""
        name, unit, moments = times.between(expr)
        if name == "date_sub":
            first, last = map(self.of, moments)
            return _units_between(unit, first, last, lambda *both: builtin("date_sub", f"'{unit}'", *both))
        part, arguments = called(expr)
        name, _, moments = times.between(arguments[0]) if part == "year" and len(arguments) == 1 else ("", "", ())
        if name != "age":
            return None
        last, first = map(self.of, moments)
        return _units_between(
            "year", first, last, lambda *both: builtin("date_part", "'year'", builtin("age", *both[::-1]))
        )

    def _truncated(self, unit: str, of: Bounded) -> Bounded:
        """The start of the unit of time in which a date lies: a day, or of a moment a moment."""
        start = _first_day(unit, on_clocks(of, self._leaves.today))
        return start if of.kind != ZONED else _moments(_as_timestamp(start), _own_zone(self._leaves.today))

    def _at_zone(self, zone: Expr, operand: Expr) -> Bounded:
        """A time of a zone as a moment, or a moment as the time there."""
        named, of = folded(zone, self._leaves.today), self.of(operand)
        known = zones.zone_by_name(named.value) if named is not None and isinstance(named.value, str) else None
        if known is None:
            raise NotBounded(zones.UNKNOWN.rstrip("."))
        return _clock(of, known) if of.kind == ZONED else _moments(_as_timestamp(of), known)


def _own_zone(today: date) -> str:
    zone = zones.session_zone(today)
    if zone is None:
        raise NotBounded("The session's time zone is not known here: take the moment AT TIME ZONE 'UTC'")
    return zone


def on_clocks(one: Bounded, today: date) -> Bounded:
    """A moment as clocks in the session's zone show it; anything else as it is. Raises NotBounded."""
    return _clock(one, _own_zone(today)) if one.kind == ZONED else one


def _clock(one: Bounded, zone: str) -> Bounded:
    """What clocks of a zone show at a moment."""
    return _between_zones(one, zone, TIMESTAMP, zones.clock_sql, zones.clock_ends)


def _moments(one: Bounded, zone: str) -> Bounded:
    """The moments at which clocks of a zone show a TIMESTAMP."""
    return _between_zones(one, zone, ZONED, zones.moment_sql, zones.moment_ends)


def _between_zones(
    one: Bounded,
    zone: str,
    kind: str,
    write: Callable[[str, str], str],
    ends: Callable[[str, int, int], tuple[int, int]],
) -> Bounded:
    """A time, moved from a zone to UTC or back. What DuckDB makes of it is clamped to the ends that are known here."""
    if one.constant:
        raise NotBounded(_FOLLOWED)
    if zone == "UTC":
        return replace(one, kind=kind)
    try:
        low, high = ends(zone, one.low, one.high)
    except OverflowError:
        raise NotBounded("A date within it could lie outside of the years 1 to 9999") from None
    moved = builtin("epoch_us", write(zone, builtin("make_timestamp", one.sql)))
    clamped = builtin("least", builtin("greatest", moved, whole(low)), whole(high))
    sql = f"(CASE WHEN {one.sql} IS NOT NULL THEN {clamped} END)" if one.nullable else clamped
    return replace(one, low=low, high=high, sql=sql, kind=kind)


def _function(expr: Expr) -> tuple[str, Sequence[Expr]]:
    """The name of a function, and its arguments; date_diff has its unit first, then the earlier date."""
    name, unit, moments = times.between(expr)
    if name == "date_diff":
        return name, (Constant(unit, is_text=True), *moments)
    return called(expr)


# --- steps ------------------------------------------------------------------------------------------------------------


def grid(steps: Sequence[Fraction]) -> Fraction:
    """The largest step of which all steps are whole multiples; 1 if there are none."""
    below = lcm(*(step.denominator for step in steps))
    return Fraction(gcd(*(int(step * below) for step in steps)), below) if steps else Fraction(1)


def _in_steps(one: Bounded, step: Fraction) -> Bounded:
    """The same number in smaller steps."""
    times = one.step / step
    if times == 1 or not (one.low or one.high):
        return replace(one, step=step)
    sql = whole(int(one.low * times)) if one.constant else builtin("*", one.sql, str(times))
    return replace(one, low=int(one.low * times), high=int(one.high * times), step=step, sql=sql)


def _constant(steps: int, step: Fraction, scale: int | None = 0, kind: str = NUMBER) -> Bounded:
    return Bounded(steps, steps, step, whole(steps), scale, kind=kind, nullable=False, constant=True)


def _of_constant(value: Value, expr: Expr) -> Bounded:
    number = value.value
    if isinstance(number, datetime):
        return _constant((number - datetime(1970, 1, 1)) // timedelta(microseconds=1), Fraction(1), kind=TIMESTAMP)
    if isinstance(number, date):
        return _constant((number - _FIRST).days, Fraction(1), kind=DATE)
    if not isinstance(number, Fraction):
        raise NotBounded(_FOLLOWED)
    if value.kind in ("DOUBLE", "FLOAT"):
        # 1e-2 is one hundredth, as it is written, not the float that is nearest.
        number = Fraction(repr(float(number)))
    sign = (number > 0) - (number < 0)
    scale = _scale(number, value.kind, expr)
    constant = _constant(sign, abs(number) or Fraction(1), scale)
    return (
        constant if constants.is_whole(expr) else replace(constant, decimal=len(str(int(abs(number)))) + (scale or 0))
    )


def _scale(number: Fraction, kind: str, expr: Expr) -> int | None:
    """The digits after the point in the type that DuckDB gives a constant; None: a DOUBLE."""
    if kind in ("DOUBLE", "FLOAT"):
        return None
    if isinstance(expr, Constant) and kind == NUMBER:
        return len(expr.value.partition(".")[2])
    needed = next((at for at in range(39) if (number * 10**at).denominator == 1), 0)
    return needed if kind == NUMBER else (digits(kind) or (0, 0))[1]


def whole(number: int) -> str:
    """A constant number of steps, as SQL."""
    return f"CAST({number} AS BIGINT)"


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _terms(expr: Expr, sign: int) -> list[tuple[int, Expr]]:
    """The terms of a sum with their signs."""
    match expr:
        case Arithmetic("+", left, right):
            return [*_terms(left, sign), *_terms(right, sign)]
        case Arithmetic("-", left, right):
            return [*_terms(left, sign), *_terms(right, -sign)]
        case Negative(operand):
            return _terms(operand, -sign)
    return [(sign, expr)]


def _factors(expr: Expr) -> list[Expr]:
    return (
        [*_factors(expr.left), *_factors(expr.right)]
        if isinstance(expr, Arithmetic) and expr.operator == "*"
        else [expr]
    )


def _added(one: Bounded, sign: int, other: Bounded) -> Bounded:
    """A sum or a difference of two numbers of the same steps."""
    ends = sorted((sign * other.low, sign * other.high))
    if one.constant and one.low == 0:
        sql = other.sql if sign > 0 else builtin("-", "0", other.sql)
    else:
        sql = builtin("+" if sign > 0 else "-", one.sql, other.sql)
    return Bounded(
        one.low + ends[0], one.high + ends[1], one.step, sql, one.scale, one.error + other.error,
        nullable=one.nullable or other.nullable,
    )  # fmt: skip


def _product(one: Bounded, other: Bounded) -> Bounded:
    ends = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
    units = [each for each in (one, other) if each.constant and each.low == 1]
    if units:
        rest = other if one is units[0] else one
        sql, constant = rest.sql, rest.constant
    else:
        sql, constant = builtin("*", one.sql, other.sql), one.constant and other.constant
    if constant:
        sql = whole(ends[0])
    return Bounded(
        min(ends),
        max(ends),
        one.step * other.step,
        sql,
        None if one.scale is None or other.scale is None else one.scale + other.scale,
        one.error * other.size + other.error * one.size + one.error * other.error,
        nullable=one.nullable or other.nullable,
        constant=constant,
        decimal=min(_MOST_DIGITS, one.decimal + other.decimal),
    )


def _divisor(other: Bounded) -> Fraction:
    if not other.constant or not other.low:
        raise NotBounded(_DIVIDED)
    return other.least


def _ratio(one: Bounded, other: Bounded) -> Bounded:
    """A quotient of two numbers of each record, rounded towards zero to a step; NULL where it is divided by zero."""
    least = 1 if other.low <= 0 <= other.high else min(abs(other.low), abs(other.high))
    if not other.low and not other.high:
        raise NotBounded(_DIVIDED)
    size = one.size / (least * other.step)
    step = _power_of_ten(size / _STEPS_OF_RATIO)
    times = one.step / (other.step * step)
    a = _in_steps(one, one.step / times.numerator)
    b = _in_steps(other, other.step / times.denominator)
    most = ceil(size / step)
    low, high = (0 if one.low >= 0 and other.low >= 0 else -most), most
    sql = builtin("//", a.sql, f"nullif({b.sql}, 0)")
    return Bounded(low, high, step, sql, None, _error_of_ratio(one, other, least * other.step) + step)


def _error_of_ratio(one: Bounded, other: Bounded, least: Fraction) -> Fraction:
    """How far a quotient can be from that of the numbers before they were rounded; least: of the absolute divisors."""
    if not other.error:
        return one.error / least
    return (one.size + one.error) / least + one.size / least


def _power_of_ten(most: Fraction) -> Fraction:
    """The largest power of ten that is not above a number; 1 for none."""
    if most <= 0:
        return Fraction(1)
    at = len(str(int(most))) - 1 if most >= 1 else -len(str(ceil(1 / most) - 1))
    return Fraction(10) ** at


def _quotient(one: Bounded, other: Bounded) -> Bounded:
    if not other.constant:
        return _ratio(one, other)
    by = _divisor(other)
    found = replace(one, step=one.step / abs(by), error=one.error / abs(by), scale=None)
    return found if by > 0 else replace(found, low=-one.high, high=-one.low, sql=builtin("-", "0", one.sql))


def _absolute(one: Bounded) -> Bounded:
    least = 0 if one.low < 0 < one.high else min(abs(one.low), abs(one.high))
    return replace(one, low=least, high=max(abs(one.low), abs(one.high)), sql=builtin("abs", one.sql), constant=False)


# --- whole numbers ----------------------------------------------------------------------------------------------------


def _divided(sql: str, low: int, by: int) -> str:
    """The quotient of a number of at least `low`, rounded down, where DuckDB's own // goes towards zero.

    Raises NotBounded for so large a divisor that a number which is moved by it may leave 64 bits.
    """
    if by == 1:
        return sql
    if by > _MOST:
        raise NotBounded("Numbers are divided by 10^18 at most")
    below = low // by
    moved = sql if below == 0 else builtin("-", sql, f"({below * by})")
    text = builtin("//", moved, str(by))
    return text if below == 0 else builtin("+", text, f"({below})")


def _floored(quotient: Bounded, *, half: bool = False) -> Bounded:
    """The largest whole number that is not above; half: that is not above the number plus one half."""
    p, q, plus = quotient.step.numerator, quotient.step.denominator, 0
    if half:
        p, q, plus = 2 * p, 2 * q, q
    # Raises NotBounded for numbers that do not fit.
    times = replace(quotient, low=quotient.low * p + plus, high=quotient.high * p + plus)
    sql = quotient.sql if p == 1 else builtin("*", quotient.sql, str(p))
    sql = builtin("+", sql, str(plus)) if plus else sql
    return replace(
        quotient,
        low=times.low // q,
        high=times.high // q,
        step=Fraction(1),
        sql=_divided(sql, times.low, q),
        scale=None if quotient.scale is None else 0,
        error=Fraction(ceil(quotient.error)),
        constant=False,
    )


def _ceiled(quotient: Bounded) -> Bounded:
    return _negative(_floored(_negative(quotient)))


def _negative(one: Bounded) -> Bounded:
    return replace(one, low=-one.high, high=-one.low, sql=builtin("-", "0", one.sql), constant=False)


def _rounded(one: Bounded) -> Bounded:
    """The nearest whole number; of two the one that is farther from zero, as DuckDB has it."""
    up = _floored(one, half=True)
    if one.low >= 0:
        return up
    down = _negative(_floored(_negative(one), half=True))
    sql = f"(CASE WHEN {one.sql} >= 0 THEN {up.sql} ELSE {down.sql} END)"
    return replace(up, low=min(up.low, down.low), high=max(up.high, down.high), sql=sql)


def _in_floats(one: Bounded) -> Bounded:
    """DuckDB gives floor and ceil of whole numbers as DOUBLEs."""
    return replace(one, scale=None) if one.is_whole else one


def _to_places(rounded: Callable[[Bounded], Bounded], one: Bounded, places: int) -> Bounded:
    """A number rounded to a number of decimal places."""
    if not -18 <= places <= 18:
        raise NotBounded("Numbers are rounded to at most 18 places")
    unit = Fraction(10) ** -places
    if (one.step / unit).denominator == 1:
        return one
    scaled = rounded(replace(one, step=one.step / unit, error=one.error / unit))
    scale = None if one.scale is None else max(0, min(one.scale, places))
    return replace(scaled, step=scaled.step * unit, error=scaled.error * unit, scale=scale)


def _whole_quotient(one: Bounded, other: Bounded) -> Bounded:
    """The quotient of whole numbers, rounded towards zero; of others DuckDB's // is /."""
    _divisor(other)
    quotient = _quotient(one, other)
    if not one.is_whole or not other.is_whole:
        return quotient
    if one.step.denominator != 1:
        raise NotBounded("// is for whole numbers: of columns rounded to other steps take floor(x / 10)")
    down = _floored(quotient)
    if quotient.low >= 0:
        return replace(down, scale=0)
    up = _ceiled(quotient)
    sql = f"(CASE WHEN {quotient.sql} >= 0 THEN {down.sql} WHEN {quotient.sql} < 0 THEN {up.sql} END)"
    return replace(down, low=min(up.low, 0), high=max(down.high, 0), sql=sql, scale=0)


def _remainder(one: Bounded, other: Bounded) -> Bounded:
    """What is left of a whole number, with its sign."""
    by = abs(_divisor(other))
    if one.scale != 0 or one.step.denominator != 1 or by.denominator != 1:
        raise NotBounded("% is for whole numbers by constants")
    found, most = _in_steps(one, Fraction(1)), int(by) - 1
    low, high = max(-most, min(found.low, 0)), min(most, max(found.high, 0))
    return replace(found, low=low, high=high, sql=builtin("%", found.sql, str(by)), constant=False)


# --- dates ------------------------------------------------------------------------------------------------------------


def _day(one: Bounded) -> Bounded:
    """The day of a date or a timestamp."""
    if one.kind == DATE:
        return one
    if one.kind != TIMESTAMP:
        raise NotBounded(_FOLLOWED)
    per = _MICROS["day"]
    return replace(one, low=one.low // per, high=one.high // per, sql=_divided(one.sql, one.low, per), kind=DATE)


def truncation(expr: Expr) -> tuple[str, Expr] | None:
    """The unit of time to which a date is truncated, and the date; None for another expression."""
    name, arguments = called(expr)
    if name != "date_trunc" or len(arguments) != 2 or not isinstance(arguments[1], Constant):
        return None
    return arguments[1].value.lower(), arguments[0]


def shifted(expr: Expr, today: date) -> tuple[Duration, Expr] | None:
    """The constant interval by which a date is moved, and the date; None for another expression."""
    if not isinstance(expr, Arithmetic) or expr.operator not in ("+", "-"):
        return None
    by, of = folded(expr.right, today), expr.left
    if by is None and expr.operator == "+":
        by, of = folded(expr.left, today), expr.right
    if by is None or not isinstance(by.value, Duration):
        return None
    return by.value.times(1 if expr.operator == "+" else -1), of


def moved_by(expr: Expr, today: date) -> tuple[int, Expr] | None:
    """By how many microseconds a date is moved with a constant interval, and the date; None for another expression.

    An interval of months moves dates by different times.
    """
    durations = shifted(expr, today)
    if durations is None or durations[0].months:
        return None
    by, of = durations
    return by.days * _MICROS["day"] + by.micros, of


def start(moment: datetime, unit: str) -> datetime:
    """The start of the unit of time in which a moment lies. Raises NotBounded for other units than these."""
    if unit in ("second", "minute", "hour"):
        return moment - (moment - datetime.min) % timedelta(**{f"{unit}s": 1})
    day = datetime(moment.year, moment.month, moment.day)
    if unit == "week":
        return day - timedelta(days=day.weekday())
    months = {"day": 0, "month": 1, "quarter": 3, "year": 12}.get(unit)
    if months is None:
        raise NotBounded("Dates are truncated to seconds, minutes, hours, days, weeks, months, quarters and years")
    return datetime(day.year, (day.month - 1) // months * months + 1, 1) if months else day


def _first_day(unit: str, one: Bounded) -> Bounded:
    """The day that begins the unit of time in which a date lies."""
    day = _day(one)
    try:
        ends = [start(datetime(1970, 1, 1) + timedelta(days=at), unit) for at in (day.low, day.high)]
    except OverflowError:
        raise NotBounded("A date within it could lie outside of the years 1 to 9999") from None
    if unit in _MICROS and unit != "day":
        raise NotBounded(_FOLLOWED)
    low, high = ((at - datetime(1970, 1, 1)).days for at in ends)
    at = builtin("+", _DAY, f"CAST({day.sql} AS INTEGER)")
    first = "CAST(" + builtin("date_trunc", f"'{unit}'", at) + " AS DATE)"
    return replace(day, low=low, high=high, sql=f"CAST({builtin('-', first, _DAY)} AS BIGINT)")


def _as_timestamp(one: Bounded) -> Bounded:
    """A timestamp, or the first moment of a date."""
    if one.kind == TIMESTAMP:
        return one
    if one.kind != DATE:
        raise NotBounded(_FOLLOWED)
    return replace(_in_steps(one, Fraction(1, _MICROS["day"])), step=Fraction(1), kind=TIMESTAMP)


def _cut(one: Bounded) -> Bounded:
    """Trunc of a number that is a whole number already, or not negative."""
    if one.step.denominator == 1:
        return one
    if one.low < 0:
        raise NotBounded("trunc is of numbers that are not negative: of others take floor or ceil")
    return _to_places(_floored, one, 0)


def weeks(one: Bounded) -> Bounded:
    """The number of the week, from Monday on, in which a date lies: 0 is that of 1970-01-01.

    date_diff counts other weeks.
    """
    day = _day(one)
    moved = replace(day, low=day.low + 3, high=day.high + 3, sql=builtin("+", day.sql, whole(3)))
    sql = _divided(moved.sql, moved.low, 7)
    return replace(day, low=moved.low // 7, high=moved.high // 7, sql=sql, kind=NUMBER)


def buckets(one: Bounded, first: int, width: int) -> Bounded:
    """The number of the bucket of a width in which a whole number lies: 0 is the one that begins at `first`."""
    moved = _added(one, -1, _constant(first, one.step))
    sql = _divided(moved.sql, moved.low, width)
    return replace(moved, low=moved.low // width, high=moved.high // width, sql=sql, kind=NUMBER)


def counted(unit: str, one: Bounded) -> Bounded:
    """The number of the unit of time in which a date lies. Differences of such numbers are date_diff."""
    if one.kind not in (DATE, TIMESTAMP):
        raise NotBounded("date_diff is for dates and timestamps with bounds")
    if unit in _MICROS and unit != "day":
        if one.kind == DATE:
            return replace(_in_steps(one, Fraction(_MICROS[unit], _MICROS["day"])), step=Fraction(1), kind=NUMBER)
        per = _MICROS[unit]
        return replace(one, low=one.low // per, high=one.high // per, sql=_divided(one.sql, one.low, per), kind=NUMBER)
    day = _day(one)
    if unit == "day":
        return replace(day, kind=NUMBER)
    if unit not in _CALENDAR:
        raise NotBounded(f"date_diff is for the units {', '.join([*_MICROS, *_CALENDAR])}")
    try:
        first, last = (_CALENDAR[unit](_FIRST + timedelta(days=at)) for at in (day.low, day.high))
    except OverflowError:
        raise NotBounded("A date within it could lie outside of the years 1 to 9999") from None
    at = builtin("+", _DAY, f"CAST({day.sql} AS INTEGER)")
    year = builtin("year", at)
    per = {"year": 1, "quarter": 4, "month": 12}[unit]
    sql = year if per == 1 else builtin("+", builtin("*", year, str(per)), builtin("-", builtin(unit, at), "1"))
    return replace(day, low=first, high=last, sql=f"CAST({sql} AS BIGINT)", kind=NUMBER)


def _units_between(unit: str, first: Bounded, last: Bounded, write: Callable[[str, str], str]) -> Bounded:
    """The whole units of time from one moment to another: date_diff counts one more at most, whose part is not over.

    write: gives the SQL of both moments as TIMESTAMPs.
    """
    begun = _added(counted(unit, last), -1, counted(unit, first))
    low, high = begun.low - (begun.low > 0), begun.high + (begun.high < 0)
    moments = [builtin("make_timestamp", _as_timestamp(one).sql) for one in (first, last)]
    units = f"CAST({write(*moments)} AS BIGINT)"
    clamped = builtin("least", builtin("greatest", units, whole(low)), whole(high))
    sql = f"(CASE WHEN {units} IS NOT NULL THEN {clamped} END)" if begun.nullable else clamped
    return replace(begun, low=low, high=high, sql=sql, scale=0, constant=False)


def _epoch(one: Bounded) -> Bounded:
    """The seconds since 1970."""
    return _in_seconds(one if one.kind == ZONED else _as_timestamp(one))


def _in_seconds(micros: Bounded) -> Bounded:
    """A number of microseconds as seconds."""
    return replace(micros, kind=NUMBER, step=Fraction(1, _MICROS["second"]), scale=None)


# Functions of one argument, of a date or a timestamp and of a number.
_OF_TIMES: Mapping[str, Callable[[Bounded], Bounded]] = {
    "date": _day,
    "epoch": _epoch,
    "year": lambda one: counted("year", one),
}
_OF_NUMBERS: Mapping[str, Callable[[Bounded], Bounded]] = {
    "abs": _absolute,
    "ceil": lambda one: _in_floats(_to_places(_ceiled, one, 0)),
    "floor": lambda one: _in_floats(_to_places(_floored, one, 0)),
    "trunc": _cut,
}
_CALENDAR: Mapping[str, Callable[[date], int]] = {
    "month": lambda day: day.year * 12 + day.month - 1,
    "quarter": lambda day: day.year * 4 + (day.month - 1) // 3,
    "year": lambda day: day.year,
}


# --- values of several ------------------------------------------------------------------------------------------------


def _in_common_steps(values: Sequence[Bounded]) -> list[Bounded]:
    """Several numbers, or dates, in steps of one size. Raises NotBounded where they are not alike."""
    if not values or len({value.kind for value in values}) > 1:
        raise NotBounded("The values of CASE, coalesce, least and greatest are all numbers, or all dates")
    step = grid([value.step for value in values if value.low or value.high])
    scale, decimal = _together(values)
    if decimal > _MOST_DIGITS:
        raise NotBounded(
            f"Together these decimals need more than {_MOST_DIGITS} digits, so DuckDB would round them: cast "
            "the widest to a DECIMAL of fewer"
        )
    return [replace(_in_steps(value, step), scale=scale, decimal=decimal) for value in values]


def _together(values: Sequence[Bounded]) -> tuple[int | None, int]:
    """The digits after the point in the type that holds several numbers, and how many digits it has as a DECIMAL."""
    scales = [value.scale for value in values]
    if None in scales:
        return None, 0
    scale = max(scale or 0 for scale in scales)
    return scale, max((scale + value.decimal - (value.scale or 0) for value in values if value.decimal), default=0)


def _around(values: Sequence[Bounded]) -> Bounded:
    """The bounds of a number that is one of several."""
    return replace(
        values[0],
        low=min(value.low for value in values),
        high=max(value.high for value in values),
        error=max(value.error for value in values),
    )


def _coalesced(values: Sequence[Bounded]) -> Bounded:
    sql = f"coalesce({', '.join(value.sql for value in values)})"
    return replace(_around(values), sql=sql, nullable=all(value.nullable for value in values), constant=False)


def _extreme(values: Sequence[Bounded], *, is_least: bool) -> Bounded:
    """The least or the greatest, which leave out NULL: so only what is never NULL narrows the bounds."""
    found, never = _around(values), [value for value in values if not value.nullable]
    if is_least:
        found = replace(found, high=min([found.high, *(one.high for one in never)]))
    else:
        found = replace(found, low=max([found.low, *(one.low for one in never)]))
    sql = builtin("least" if is_least else "greatest", *sorted(value.sql for value in values))
    return replace(found, sql=sql, nullable=not never, constant=False)
