"""Filters that cannot fail on any record: an error that depends on a record would disclose something about it.

A filter is made of comparisons of total expressions with constants or with each other, LIKE with a constant pattern,
IS NULL, AND, OR and NOT. Each constant is folded and cast here, without loss: one that lies between two values of the
type becomes the bound that means the same. So no value of a record is cast to a type that may not hold it. TRY does not
help: in DuckDB an error in one record changes the result of TRY for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import ceil, floor
from operator import eq, ge, gt, le, lt, ne

from duckanon.catalog.names import quoted
from duckanon.rewrite.algebra.constants import (
    NOTHING,
    NUMBER,
    NotTotal,
    Value,
    in_sql,
    is_exact,
    is_text,
    literal,
    of_type,
    reach,
    step,
)
from duckanon.rewrite.algebra.expressions import Call, Column, Constant, Expr
from duckanon.rewrite.algebra.scalars import LISTED, Scalar, Scalars, builtin, of_constant, together, widened

__all__ = ["NotTotal", "is_total", "scalar", "written"]

# Up to here DOUBLEs hold all whole numbers.
_WHOLE_DOUBLES = 2**53
_JOINED = {"And": " AND ", "Or": " OR "}
_COMPARED = {
    "EQ": "=",
    "NEQ": "<>",
    "GT": ">",
    "GTE": ">=",
    "LT": "<",
    "LTE": "<=",
    "NullSafeEQ": "IS NOT DISTINCT FROM",
    "NullSafeNEQ": "IS DISTINCT FROM",
}
_HOLDS = {
    "EQ": eq,
    "NEQ": ne,
    "GT": gt,
    "GTE": ge,
    "LT": lt,
    "LTE": le,
    "NullSafeEQ": eq,
    "NullSafeNEQ": ne,
}
_TURNED = {"GT": "LT", "GTE": "LTE", "LT": "GT", "LTE": "GTE"}
_MATCHED = {"Like": "~~", "ILike": "~~*"}
# The arguments that each kind of condition may have, operands included. Others would change its meaning.
_ARGUMENTS = {
    **dict.fromkeys((*_JOINED, *_COMPARED, "Is"), ("this", "expression")),
    **dict.fromkeys(_MATCHED, ("this", "expression", "negate")),
    **dict.fromkeys(("Not", "Paren", "Boolean"), ("this",)),
    "In": ("this", "expressions"),
    "Between": ("this", "low", "high", "symmetric"),
}


def written(condition: Expr, types: Mapping[str, str], today: date) -> str:
    """The condition as SQL over the table's own columns, with every constant cast to its column's type.

    types: of the table's columns as DuckDB writes them, by folded name. today: what `current_date` stands for.
    Raises NotTotal.
    """
    return _Writer(types, today).condition(condition)


def scalar(expr: Expr, types: Mapping[str, str], today: date) -> tuple[str, str]:
    """An expression over the table's own columns as SQL that cannot fail, and its DuckDB type.

    Where a result could leave DuckDB's own type for it (`age + 1` of an INTEGER), the type is the next that holds all
    results. Arguments as for `written`. Raises NotTotal.
    """
    found = _Writer(types, today).scalar(expr)
    return found.sql, found.kind


def is_total(condition: Expr, types: Mapping[str, str]) -> bool:
    """Whether a condition on records is proven not to fail."""
    try:
        written(condition, types, date(2000, 1, 1))
    except NotTotal:
        return False
    return True


class _Writer:
    def __init__(self, types: Mapping[str, str], today: date) -> None:
        self._scalars = Scalars(types, today, self.condition)

    def scalar(self, expr: Expr) -> Scalar:
        """An expression, which may be a condition."""
        if isinstance(expr, Call) and expr.kind in _ARGUMENTS and expr.kind != "Paren":
            return Scalar(self.condition(expr), "BOOLEAN")
        return self._scalars.scalar(expr)

    def condition(self, expr: Expr) -> str:
        if not isinstance(expr, Call) or expr.kind not in _ARGUMENTS:
            found = self._scalars.scalar(expr)
            if found.kind != "BOOLEAN":
                raise NotTotal("A value that is no BOOLEAN is no condition: compare it with a constant.")
            return found.sql
        if not _is_plain(expr):
            raise NotTotal(LISTED)
        if expr.kind in _JOINED:
            return "(" + _JOINED[expr.kind].join(map(self.condition, expr.operands)) + ")"
        if expr.kind in ("Not", "Paren"):
            inner = self.condition(expr.operands[0])
            return f"(NOT {inner})" if expr.kind == "Not" else inner
        if expr.kind == "Boolean":
            return "true" if ("this", True) in expr.shape else "false"
        if expr.kind == "Is":
            return self._is(expr)
        return self._like(expr) if expr.kind in _MATCHED else self._compared(expr)

    def _is(self, expr: Call) -> str:
        subject, what = expr.operands
        if what == Call("Null"):
            if isinstance(subject, Column) and self._scalars.type_of_column(subject):
                return f"({quoted([subject.name])} IS NULL)"
            return f"({self.scalar(subject).sql} IS NULL)"
        if isinstance(what, Call) and what.kind == "Boolean":
            return f"({self.condition(subject)} IS {'TRUE' if _flag(what, 'this') else 'FALSE'})"
        raise NotTotal(LISTED)

    def _like(self, expr: Call) -> str:
        subject, pattern = expr.operands
        found = self.scalar(subject)
        if not is_text(found.kind) or not isinstance(pattern, Constant) or not pattern.is_text:
            raise NotTotal("LIKE compares a text with a constant pattern, without ESCAPE.")
        matched = builtin(_MATCHED[expr.kind], found.sql, literal(pattern.value))
        return f"(NOT {matched})" if _flag(expr, "negate") else matched

    def _compared(self, expr: Call) -> str:
        if expr.kind == "In":
            return self._in(expr)
        if expr.kind == "Between":
            this, low, high = (expr.operands[_operand(expr, name)] for name in ("this", "low", "high"))
            least = self._between(this, low, high)
            return f"({least} OR {self._between(this, high, low)})" if _flag(expr, "symmetric") else least
        return self._pair(expr.kind, *self._comparable(expr.operands, ordered=expr.kind in _TURNED))

    def _in(self, expr: Call) -> str:
        subject, *rest = self._comparable(expr.operands)
        if not isinstance(subject, Scalar):
            return "(" + " OR ".join(self._pair("EQ", subject, one) for one in rest) + ")"
        parts = [_same(one, subject.kind) for one in rest]
        known = [one for one in parts if one]
        return f"({subject.sql} IN ({', '.join(known)}))" if known else _never(subject)

    def _between(self, this: Expr, low: Expr, high: Expr) -> str:
        subject, least, most = self._comparable((this, low, high), ordered=True)
        if isinstance(subject, Scalar):
            plain = [_same(one, subject.kind) for one in (least, most)]
            if all(plain):
                return f"({subject.sql} BETWEEN {plain[0]} AND {plain[1]})"
        return f"({self._pair('GTE', subject, least)} AND {self._pair('LTE', subject, most)})"

    def _comparable(self, exprs: Sequence[Expr], *, ordered: bool = False) -> list[Scalar | Value]:
        """The scalars among expressions in one type, and the constants to be compared with them."""
        values = [_plain_number(self._scalars.constant(one)) for one in exprs]
        scalars = [self.scalar(one) for one, value in zip(exprs, values, strict=True) if value is None]
        constants = [value for value in values if value is not None]
        enums = {one.enum for one in scalars}
        if len(scalars) > 1 and any(enums) and (ordered or len(enums) > 1):
            raise NotTotal("Columns of an ENUM are compared by = and <> only, with others of their own type.")
        kinds = [one.kind for one in scalars]
        if any(one.kind == "DOUBLE" for one in constants) and all(is_exact(one) or one == "FLOAT" for one in kinds):
            kind = "DOUBLE"
        else:
            # Whole numbers that the type does not hold become bounds, so they do not widen it.
            kind = together(kinds, [one for one in constants if one.kind != NUMBER]) if kinds else ""
        rest = iter(scalars)
        return [widened(next(rest), kind) if value is None else value for value in values]

    def _pair(self, kind: str, one: Scalar | Value, other: Scalar | Value) -> str:
        """A comparison of two."""
        if isinstance(one, Scalar) and isinstance(other, Scalar):
            return f"({one.sql} {_COMPARED[kind]} {other.sql})"
        if isinstance(one, Scalar):
            assert isinstance(other, Value)
            return _bounded(kind, one, other)
        if not isinstance(other, Scalar):
            return _of_constants(kind, one, other)
        plain = _same(one, other.kind)
        if plain:
            return f"({plain} {_COMPARED[kind]} {other.sql})"
        return _bounded(_TURNED.get(kind, kind), other, one)


def _plain_number(value: Value | None) -> Value | None:
    """3e1 as 30: a DOUBLE that is a whole number is compared like one."""
    if value is None or value.kind != "DOUBLE" or not isinstance(value.value, Fraction):
        return value
    is_whole = value.value.denominator == 1 and abs(value.value) <= _WHOLE_DOUBLES
    return Value(value.value, NUMBER) if is_whole else value


def _of_constants(kind: str, one: Value, other: Value) -> str:
    """A comparison of two constant numbers, such as `1 = 0`."""
    a, b = one.value, other.value
    if one.kind != NUMBER or other.kind != NUMBER or not isinstance(a, Fraction) or not isinstance(b, Fraction):
        raise NotTotal("A comparison has a column in it: write the others out.")
    return "true" if _HOLDS[kind](a, b) else "false"


def _same(one: Scalar | Value, kind: str) -> str | None:
    """A value of the type as SQL; None for a number or a time that lies between its values or beyond them.

    Raises NotTotal for a constant that is no number or time, though the type's values are.
    """
    if isinstance(one, Scalar):
        return one.sql
    if one.kind == NOTHING or of_type(one, kind) is not None:
        return of_constant(one, kind).sql
    if _is_between(one, kind):
        return None
    return of_constant(one, kind).sql


def _is_between(value: Value, kind: str) -> bool:
    number = isinstance(value.value, Fraction) and is_exact(kind) and (value.kind == NUMBER or is_exact(value.kind))
    return number or (isinstance(value.value, datetime) and kind == "DATE")


def _never(one: Scalar) -> str:
    """False for every value; NULL for NULL."""
    return f"({one.sql} <> {one.sql})"


def _bounded(kind: str, one: Scalar, value: Value) -> str:
    """The comparison of a scalar with a constant, which may lie between two values of its type or beyond them."""
    plain = _same(value, one.kind)
    if plain:
        return f"({one.sql} {_COMPARED[kind]} {plain})"
    if kind in ("NullSafeEQ", "NullSafeNEQ"):
        return "false" if kind == "NullSafeEQ" else "true"
    if kind in ("EQ", "NEQ"):
        return _never(one) if kind == "EQ" else f"({one.sql} = {one.sql})"
    above = kind in ("GT", "GTE")
    found = _next(value, one.kind, above=above)
    if found is None:
        return _never(one)
    return f"({one.sql} {'>=' if above else '<='} {in_sql(found, one.kind)})"


def _next(value: Value, kind: str, *, above: bool) -> Fraction | date | None:
    """The nearest value of a type above or below a constant that the type does not have; None if there is none."""
    if isinstance(value.value, datetime):
        day = value.value.date()
        midnight = value.value == datetime(day.year, day.month, day.day)
        return day + timedelta(days=1) if above and not midnight else day
    assert isinstance(value.value, Fraction)
    steps = value.value / step(kind)
    found = Fraction(ceil(steps) if above else floor(steps)) * step(kind)
    low, high = reach(kind)
    if (above and found > high) or (not above and found < low):
        return None
    return max(low, found) if above else min(high, found)


def _is_plain(expr: Call) -> bool:
    """Whether a condition has only arguments that are handled here."""
    known = _ARGUMENTS.get(expr.kind, ())
    return all(isinstance(one, tuple) and one[0] in known for one in expr.shape)


def _operand(expr: Call, name: str) -> int:
    """The index of an argument among the operands."""
    return [one[0] for one in expr.shape if isinstance(one, tuple) and one[1] == "part"].index(name)


def _flag(expr: Call, name: str) -> bool:
    return (name, True) in expr.shape
