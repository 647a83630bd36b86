"""Counts and sums in one form, whatever their spelling: what is summed, and over which records."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from duckanon.catalog import types
from duckanon.rewrite.algebra.constants import type_name
from duckanon.rewrite.algebra.expressions import (
    NULL,
    TRUE,
    Aggregate,
    Case,
    Cast,
    Constant,
    Expr,
    Is,
    Not,
    conjuncts,
    is_aggregated,
    is_windowed,
)
from duckanon.rewrite.algebra.relations import Source
from duckanon.rewrite.algebra.rows import is_condition, present

# As casts may write them too.
WHOLE = frozenset({*types.WHOLE, "INT", "INT4", "INT8"})

# What a sum may be multiplied by, so that it stays a DOUBLE.
_SMALLEST, _LARGEST = Fraction(1, 10**60), Fraction(10**60)


@dataclass(frozen=True, slots=True)
class Measure:
    """`scale` times the sum of `weight` (None: 1 for each record) over the records that meet `where`."""

    weight: Expr | None = None
    where: frozenset[Expr] = frozenset()
    scale: Fraction = Fraction(1)


def number(expr: Expr) -> Fraction | None:
    """The value of a numeric literal, also of one that is cast to a type that has it; None beyond 10^60 and 10^-60."""
    if isinstance(expr, Cast):
        inner = number(expr.operand)
        return inner if inner is not None and _holds(type_name(expr.type), inner) else None
    if not isinstance(expr, Constant) or expr.is_text:
        return None
    try:
        literal = Fraction(expr.value)
    except (ValueError, ZeroDivisionError):
        return None
    return literal if not literal or _SMALLEST <= abs(literal) <= _LARGEST else None


def _holds(kind: str, literal: Fraction) -> bool:
    """Whether a cast to a type leaves a number as it is, or nearly so: floats are rounded."""
    if types.is_exact(kind):
        low, high = types.reach(kind)
        return low <= literal <= high and (literal / types.step(kind)).denominator == 1
    return kind in types.FLOATS


def measure(expr: Expr, sources: tuple[Source, ...]) -> Measure | None:
    """What an aggregate adds up, if it counts or sums."""
    if not isinstance(expr, Aggregate) or expr.distinct or any(map(is_aggregated, expr.where)):
        return None
    if expr.name == "count":
        return _counted(expr)
    if expr.name == "sum" and expr.argument is not None:
        term = _term(expr.argument, sources, NULL)
        return None if term is None else Measure(term.weight, term.where | expr.where, term.scale)
    return None


def share(expr: Expr, sources: tuple[Source, ...]) -> tuple[Measure, Measure] | None:
    """Numerator and denominator of an average of zeros and ones."""
    if not isinstance(expr, Aggregate) or expr.name != "avg" or expr.distinct:
        return None
    inner = expr.argument
    term = None if inner is None else _term(inner, sources)
    if inner is None or term is None or term.weight is not None or not term.where:
        return None
    # A condition as a number can be NULL, which averages leave out; CASE ... ELSE 0 is never NULL.
    known = frozenset() if _branches(inner) else frozenset([present(_uncast(inner))])
    return Measure(None, term.where | expr.where, term.scale), Measure(None, known | expr.where)


def _counted(expr: Aggregate) -> Measure | None:
    if not expr.operands:
        return Measure(None, expr.where)
    inner = expr.argument
    if inner is None:
        return None
    if (branches := _branches(inner, default=NULL)) is not None:
        condition, value = branches
        if isinstance(_uncast(value), Constant):
            return Measure(None, expr.where | conjuncts(condition))
    return Measure(None, expr.where | {present(inner)})


def _branches(expr: Expr, default: Expr | None = None) -> tuple[Expr, Expr] | None:
    """Condition and value of CASE WHEN condition THEN value ELSE 0 (or `default`) END.

    Of CASE WHEN condition THEN 0 ELSE number END the condition that it is not true, and the number. A cast of CASE is
    one of its values.
    """
    if isinstance(expr, Cast):
        inner = _branches(expr.operand, default)
        return None if inner is None else (inner[0], Cast(inner[1], expr.type, expr.tries))
    match expr:
        case Case(((condition, value),), other):
            if other == default or (default is None and number(other) == 0):
                return condition, value
            if default is None and number(value) == 0 and number(other) is not None:
                return Not(Is(condition, TRUE)), other
    return None


def _term(expr: Expr, sources: tuple[Source, ...], default: Expr | None = None) -> Measure | None:
    """What a record adds to a sum. default: a value besides 0 that ELSE may have."""
    if is_windowed(expr) or is_aggregated(expr):
        return None
    if (branches := _branches(expr) or (_branches(expr, default) if default else None)) is not None:
        condition, value = branches
        scale = number(value)
        return Measure(value, conjuncts(condition)) if scale is None else Measure(None, conjuncts(condition), scale)
    inner = _uncast(expr)
    if is_condition(inner, sources):
        is_counted = expr is inner or (isinstance(expr, Cast) and _is_number(expr.type))
        return Measure(None, conjuncts(inner)) if is_counted else None
    if (scale := number(expr)) is not None:
        return Measure(None, frozenset(), scale)
    return Measure(expr)


def _uncast(expr: Expr) -> Expr:
    while isinstance(expr, Cast):
        expr = expr.operand
    return expr


def _is_number(kind: str) -> bool:
    name = kind.upper().partition("(")[0].strip()
    return name in WHOLE | types.NUMBERS or name in ("REAL", "NUMERIC", "BIGDECIMAL")
