"""Filters that cannot fail on any record: an error that depends on a record would disclose something about it.

A filter is made of comparisons of total expressions with constants or with each other, LIKE with a constant pattern,
IS NULL, AND, OR and NOT. Each constant is folded and cast here, without loss: one that lies between two values of the
type becomes the bound that means the same. So no value of a record is cast to a type that may not hold it. TRY does not
help: in DuckDB an error in one record changes the result of TRY for others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from math import ceil, floor
from operator import eq, ge, gt, le, lt, ne

from duckanon.catalog.names import quoted
from duckanon.catalog.types import is_exact, reach, step
from duckanon.rewrite.algebra.constants import (
    NOTHING,
    NOW,
    NUMBER,
    TEXT,
    ZONED,
    NotTotal,
    Value,
    in_sql,
    is_text,
    literal,
    of_type,
)
from duckanon.rewrite.algebra.expressions import (
    CONDITIONS,
    NULL,
    And,
    Arithmetic,
    Between,
    Boolean,
    Coalesce,
    Column,
    Comparator,
    Comparison,
    Constant,
    Expr,
    In,
    Is,
    Like,
    Not,
    Null,
    Operation,
    Or,
)
from duckanon.rewrite.algebra.scalars import LISTED, Scalar, Scalars, builtin, instant, of_constant, together, widened

__all__ = ["NotTotal", "is_total", "scalar", "written"]

# Up to here DOUBLEs hold all whole numbers.
_WHOLE_DOUBLES = 2**53
_HOLDS: Mapping[Comparator, Callable[[Fraction, Fraction], bool]] = {
    "=": eq,
    "<>": ne,
    ">": gt,
    ">=": ge,
    "<": lt,
    "<=": le,
    "IS NOT DISTINCT FROM": eq,
    "IS DISTINCT FROM": ne,
}
_TURNED: Mapping[Comparator, Comparator] = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def written(condition: Expr, types: Mapping[str, str], today: date) -> str:
    """The condition as SQL over the table's own columns, with every constant cast to its column's type.

    types: of the table's columns as DuckDB writes them, by folded name. today: what `current_date` stands for.
    Raises NotTotal.
    """
    return _Writer(types, today).condition(condition)


def scalar(expr: Expr, types: Mapping[str, str], today: date) -> tuple[str, str]:
    """An expression over the table's own columns as SQL that cannot fail, and its DuckDB type.

    Where a result could leave DuckDB's own type for it (`age + 1` of an INTEGER), the type is the next that holds all
    results. Arguments as for `translated`. Raises NotTotal.
    """
    translated = _Writer(types, today).scalar(expr)
    if translated.kind == ZONED:
        raise NotTotal(
            "A moment with a time zone is no value by itself here: take its date or a part of it, or what clocks of a "
            "zone show, as in x AT TIME ZONE 'Europe/Berlin'."
        )
    return translated.sql, translated.kind


def part_of_time(expr: Expr, types: Mapping[str, str], today: date) -> Scalar:
    """A part of a date, or of the time between two moments, with the least and the greatest that it can be.

    Arguments as for `written`. Raises NotTotal.
    """
    return _Writer(types, today).scalar(expr)


def is_total(condition: Expr, types: Mapping[str, str]) -> bool:
    """Whether a condition on records is proven not to fail."""
    try:
        written(condition, types, date(2000, 1, 1))
    except NotTotal:
        return False
    return True


class _Writer:
    def __init__(self, types: Mapping[str, str], today: date) -> None:
        self._scalars, self._today = Scalars(types, today, self.condition), today

    def scalar(self, expr: Expr) -> Scalar:
        """An expression, which may be a condition."""
        if isinstance(expr, CONDITIONS):
            return Scalar(self.condition(expr), "BOOLEAN")
        return self._scalars.scalar(expr)

    def condition(self, expr: Expr) -> str:
        match expr:
            case And(left, right):
                return f"({self.condition(left)} AND {self.condition(right)})"
            case Or(left, right):
                return f"({self.condition(left)} OR {self.condition(right)})"
            case Not(operand):
                return f"(NOT {self.condition(operand)})"
            case Boolean(value):
                return "true" if value else "false"
            case Is(operand, value):
                return self._is(operand, value)
            case Like():
                return self._like(expr)
            case Comparison(operator, left, right):
                return self._compared(operator, left, right)
            case In(operand, values):
                return self._in(operand, values)
            case Between(operand, low, high, symmetric):
                met = self._between(operand, low, high)
                return f"({met} OR {self._between(operand, high, low)})" if symmetric else met
        translated = self._scalars.scalar(expr)
        if translated.kind != "BOOLEAN":
            raise NotTotal("A value that is no BOOLEAN is no condition: compare it with a constant.")
        return translated.sql

    def _intervals(self, *exprs: Expr) -> list[str] | None:
        """Times between moments, and constant ones to compare them with; None where something else is compared."""
        if all(self._scalars.constant(expr) is not None for expr in exprs):
            return None
        intervals = [self._scalars.interval(expr) for expr in exprs]
        return [interval for interval in intervals if interval is not None] if None not in intervals else None

    def _is(self, operand: Expr, value: Expr) -> str:
        match operand, value:
            case Column(name=name), Null():
                self._scalars.type_of_column(operand)
                return f"({quoted([name])} IS NULL)"
            case Arithmetic("+" | "-" | "*", left, right), Null():
                # It has a value where both have one, so that nothing has to be computed.
                parts = [self._is(part, NULL) for part in (left, right) if self._scalars.constant(part) is None]
                return f"({' OR '.join(parts)})" if parts else "false"
            case ((Coalesce(parts) | Operation("Least" | "Greatest", parts=parts)), Null()):
                # It has no value where none of its parts has one.
                if any(self._scalars.constant(part) is not None for part in parts):
                    return "false"
                return f"({' AND '.join(self._is(part, NULL) for part in parts)})"
            case _, Null():
                return f"({self.scalar(operand).sql} IS NULL)"
            case _, Boolean(truth):
                return f"({self.condition(operand)} IS {'TRUE' if truth else 'FALSE'})"
        raise NotTotal(LISTED)

    def _like(self, expr: Like) -> str:
        subject = self.scalar(expr.operand)
        if not is_text(subject.kind) or not isinstance(expr.pattern, Constant) or not expr.pattern.is_text:
            raise NotTotal("LIKE compares a text with a constant pattern, without ESCAPE.")
        matched = builtin("~~*" if expr.ignores_case else "~~", subject.sql, literal(expr.pattern.value))
        return f"(NOT {matched})" if expr.negated else matched

    def _in(self, operand: Expr, values: Sequence[Expr]) -> str:
        subject, *rest = self._comparable((operand, *values))
        if not isinstance(subject, Scalar):
            return "(" + " OR ".join(self._pair("=", subject, other) for other in rest) + ")"
        parts = [_same(other, subject.kind) for other in rest]
        known = [part for part in parts if part]
        return f"({subject.sql} IN ({', '.join(known)}))" if known else _never(subject)

    def _compared(self, operator: Comparator, left: Expr, right: Expr) -> str:
        intervals = self._intervals(left, right)
        if intervals is not None:
            return f"({intervals[0]} {operator} {intervals[1]})"
        first, second = self._comparable((left, right), ordered=operator in _TURNED)
        return self._pair(operator, first, second)

    def _between(self, operand: Expr, low: Expr, high: Expr) -> str:
        intervals = self._intervals(operand, low, high)
        if intervals is not None:
            return f"({intervals[0]} BETWEEN {intervals[1]} AND {intervals[2]})"
        subject, least, most = self._comparable((operand, low, high), ordered=True)
        if isinstance(subject, Scalar):
            plain = [_same(end, subject.kind) for end in (least, most)]
            if all(plain):
                return f"({subject.sql} BETWEEN {plain[0]} AND {plain[1]})"
        return f"({self._pair('>=', subject, least)} AND {self._pair('<=', subject, most)})"

    def _comparable(self, exprs: Sequence[Expr], *, ordered: bool = False) -> list[Scalar | Value]:
        """The scalars among expressions in one type, and the constants to be compared with them."""
        known = [_plain_number(self._scalars.constant(expr)) for expr in exprs]
        scalars = [self.scalar(expr) for expr, constant in zip(exprs, known, strict=True) if constant is None]
        constants = [constant for constant in known if constant is not None]
        enums = {scalar.enum for scalar in scalars}
        if len(scalars) > 1 and any(enums) and (ordered or len(enums) > 1):
            raise NotTotal("Columns of an ENUM are compared by = and <> only, with others of their own type.")
        if any(scalar.is_start for scalar in scalars):
            known = [constant and _with_clock(constant) for constant in known]
        kinds = [scalar.kind for scalar in scalars]
        known = [
            None if constant is None else _within_day(constant) if set(kinds) == {"DATE"} else constant
            for constant in known
        ]
        constants = [constant for constant in known if constant is not None]
        if any(constant.kind == "DOUBLE" for constant in constants) and all(
            is_exact(kind) or kind == "FLOAT" for kind in kinds
        ):
            kind = "DOUBLE"
        else:
            # Whole numbers that the type does not hold become bounds, so they do not widen it.
            kind = together(kinds, [constant for constant in constants if constant.kind != NUMBER]) if kinds else ""
        rest = iter(scalars)
        if kind == ZONED and scalars:
            known = [None if constant is None else instant(constant, self._today) for constant in known]
        return [widened(next(rest), kind) if constant is None else constant for constant in known]

    def _pair(self, operator: Comparator, left: Scalar | Value, right: Scalar | Value) -> str:
        """A comparison of two."""
        if isinstance(left, Scalar) and isinstance(right, Scalar):
            return f"({left.sql} {operator} {right.sql})"
        if isinstance(left, Scalar):
            assert isinstance(right, Value)
            return _bounded(operator, left, right)
        if not isinstance(right, Scalar):
            return _of_constants(operator, left, right)
        plain = _same(left, right.kind)
        if plain:
            return f"({plain} {operator} {right.sql})"
        return _bounded(_TURNED.get(operator, operator), right, left)


def _plain_number(constant: Value | None) -> Value | None:
    """3e1 as 30: a DOUBLE that is a whole number is compared like one."""
    if constant is None or constant.kind != "DOUBLE" or not isinstance(constant.value, Fraction):
        return constant
    is_whole = constant.value.denominator == 1 and abs(constant.value) <= _WHOLE_DOUBLES
    return Value(constant.value, NUMBER) if is_whole else constant


def _with_clock(constant: Value) -> Value:
    """A text with a time of day as that time; every other constant as it is."""
    written = of_type(constant, "TIMESTAMP") if constant.kind == TEXT else None
    has_clock = isinstance(written, datetime) and written.time() != time()
    return Value(written, "TIMESTAMP") if has_clock else constant


def _within_day(constant: Value) -> Value:
    """The current time as dates are compared with it: it lies between the day and the next."""
    at = constant.value
    if constant.kind != NOW or not isinstance(at, datetime) or at.time() != time():
        return constant
    return Value(at + timedelta(hours=12), "TIMESTAMP")


def _of_constants(operator: Comparator, left: Value, right: Value) -> str:
    """A comparison of two constant numbers, such as `1 = 0`."""
    a, b = left.value, right.value
    if left.kind != NUMBER or right.kind != NUMBER or not isinstance(a, Fraction) or not isinstance(b, Fraction):
        raise NotTotal("A comparison has a column in it: write the others out.")
    return "true" if _HOLDS[operator](a, b) else "false"


def _same(operand: Scalar | Value, kind: str) -> str | None:
    """A value of the type as SQL; None for a number or a time that lies between its values or beyond them.

    Raises NotTotal for a constant that is no number or time, though the type's values are.
    """
    if isinstance(operand, Scalar):
        return operand.sql
    if operand.kind == NOTHING or of_type(operand, kind) is not None:
        return of_constant(operand, kind).sql
    if _is_between(operand, kind):
        return None
    return of_constant(operand, kind).sql


def _is_between(constant: Value, kind: str) -> bool:
    number = (
        isinstance(constant.value, Fraction) and is_exact(kind) and (constant.kind == NUMBER or is_exact(constant.kind))
    )
    return number or (isinstance(constant.value, datetime) and kind == "DATE")


def _never(subject: Scalar) -> str:
    """False for every value; NULL for NULL."""
    return f"({subject.sql} <> {subject.sql})"


def _bounded(operator: Comparator, subject: Scalar, constant: Value) -> str:
    """The comparison of a scalar with a constant, which may lie between two values of its type or beyond them."""
    plain = _same(constant, subject.kind)
    if plain:
        return f"({subject.sql} {operator} {plain})"
    if operator in ("IS NOT DISTINCT FROM", "IS DISTINCT FROM"):
        return "false" if operator == "IS NOT DISTINCT FROM" else "true"
    if operator in ("=", "<>"):
        return _never(subject) if operator == "=" else f"({subject.sql} = {subject.sql})"
    above = operator in (">", ">=")
    nearest = _next(constant, subject.kind, above=above)
    if nearest is None:
        return _never(subject)
    return f"({subject.sql} {'>=' if above else '<='} {in_sql(nearest, subject.kind)})"


def _next(constant: Value, kind: str, *, above: bool) -> Fraction | date | None:
    """The nearest value of a type above or below a constant that the type does not have; None if there is none."""
    if isinstance(constant.value, datetime):
        day = constant.value.date()
        midnight = constant.value == datetime(day.year, day.month, day.day)
        return day + timedelta(days=1) if above and not midnight else day
    assert isinstance(constant.value, Fraction)
    steps = constant.value / step(kind)
    number = Fraction(ceil(steps) if above else floor(steps)) * step(kind)
    low, high = reach(kind)
    if (above and number > high) or (not above and number < low):
        return None
    return max(low, number) if above else min(high, number)
