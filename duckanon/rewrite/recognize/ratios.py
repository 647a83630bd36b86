"""Products and quotients in one form: a constant times one aggregate over another, rounded or not."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from duckanon.rewrite.algebra.expressions import (
    NULL,
    Aggregate,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Comparison,
    Constant,
    Expr,
    Nullif,
    Operation,
    Round,
    Window,
)
from duckanon.rewrite.recognize.measures import WHOLE, number

_FACTORS = (Aggregate, Window)
# Factors above and below the line, the constant factor, and the decimals to which a part was rounded.
_Product: TypeAlias = tuple[list[Expr], list[Expr], Fraction, int | None]


@dataclass(frozen=True, slots=True)
class Ratio:
    """`scale * above / below`, rounded to `digits` decimals; `below` is None for something that is not divided."""

    above: Expr
    below: Expr | None
    scale: Fraction
    digits: int | None


def ratio(expr: Expr) -> Ratio | None:
    """The expression as a ratio of two aggregates or windows, or as one aggregate."""
    digits: int | None = None
    scale = Fraction(1)
    while True:
        inner, places = _shown(expr)
        if inner is None:
            break
        expr, digits = inner, _fewer(digits, places)
    product = _product(expr)
    if product is None:
        return None
    above, below, constant, inside = product
    if len(above) != 1 or len(below) > 1:
        return None
    scale *= constant
    return Ratio(above[0], below[0] if below else None, scale, _fewer(digits, inside))


def core(expr: Expr) -> Expr:
    """The ratio inside rounding and formatting."""
    while (inner := _shown(expr)[0]) is not None:
        expr = inner
    return expr


def terms(expr: Expr) -> list[Expr]:
    """The terms of a sum."""
    match expr:
        case Arithmetic("+", left, right):
            return [*terms(left), *terms(right)]
    return [expr]


def _fewer(first: int | None, second: int | None) -> int | None:
    return min((digits for digits in (first, second) if digits is not None), default=None)


def _shown(expr: Expr) -> tuple[Expr | None, int | None]:
    """The expression inside one rounding or formatting, and the decimals that are left."""
    match expr:
        case Round(operand, None):
            return operand, 0
        case Round(operand, Expr() as decimals):
            places = number(decimals)
            if places is not None and places.denominator == 1:
                return operand, int(places)
        case Cast(operand, name):
            return _cast(operand, name.upper())
        case Coalesce((operand, Constant())):
            return operand, None
        case Operation("DPipe" | "Concat" | "SafeConcat"):
            rest = [part for part in expr.parts if not (isinstance(part, Constant) and part.is_text)]
            if len(rest) == 1:
                return rest[0], None
    return None, None


def _cast(operand: Expr, kind: str) -> tuple[Expr | None, int | None]:
    """As `_shown`, of a cast to a type."""
    if kind in WHOLE:
        return operand, 0
    if kind.startswith(("DECIMAL", "NUMERIC")):
        scale = kind.rpartition(",")[2].strip(") ") if "," in kind else "3" if "(" not in kind else "0"
        return operand, int(scale) if scale.isdigit() else None
    return (operand, None) if kind in ("DOUBLE", "VARCHAR", "TEXT") else (None, None)


def _product(expr: Expr) -> _Product | None:
    """An expression as a product; None where it is no product of aggregates, windows and constants."""
    if isinstance(expr, _FACTORS):
        return [expr], [], Fraction(1), None
    if (constant := number(expr)) is not None:
        return [], [], constant, None
    match expr:
        case Arithmetic("+") if all(isinstance(term, Aggregate) for term in terms(expr)):
            return [expr], [], Fraction(1), None
        case Arithmetic("*" | "/" as operator, first, second):
            left, right = _product(first), _product(second)
            if left is None or right is None:
                return None
            return _multiplied(left, right) if operator == "*" else _divided(left, right)
        case Round():
            inner, places = _shown(expr)
            below = _product(inner) if inner is not None else None
            return None if below is None else (below[0], below[1], below[2], _fewer(places, below[3]))
    same = _same_value(expr)
    return None if same is None else _product(same)


def _multiplied(left: _Product, right: _Product) -> _Product | None:
    """The product of two; None where both are rounded."""
    if left[3] is None:
        left, right = right, left
    if right[3] is not None:
        return None
    return left[0] + right[0], left[1] + right[1], left[2] * right[2], _moved(left[3], right)


def _divided(left: _Product, right: _Product) -> _Product | None:
    """The quotient of two; None where the divisor is rounded or zero."""
    if right[3] is not None or right[2] == 0:
        return None
    return left[0] + right[1], left[1] + right[0], left[2] / right[2], _moved(left[3], right, over=True)


def _same_value(expr: Expr) -> Expr | None:
    """The operand that a guard against division by zero, a default for NULL or a cast leaves as it is."""
    match expr:
        case Nullif(operand, other) if number(other) == 0:
            return operand
        case Coalesce((operand, Constant())):
            return operand
        case Case(((condition, value),), other):
            return _guarded(condition, value, other)
        case Cast(operand, name) if name.upper() in ("DOUBLE", "FLOAT", "REAL") or isinstance(operand, _FACTORS):
            return operand  # a count as another number is the same number
    return None


def _moved(digits: int | None, by: _Product, *, over: bool = False) -> int | None:
    """The decimals after multiplying by a power of ten; None if the factor is no such constant."""
    if digits is None:
        return None
    if by[0] or by[1]:
        return None
    factor = 1 / by[2] if over and by[2] else by[2]
    power = 0
    while factor >= 10 and factor % 10 == 0:
        factor, power = factor / 10, power + 1
    while 0 < factor < 1 and (factor * 10).limit_denominator(10**12) == factor * 10 and power > -12:
        factor, power = factor * 10, power - 1
    return digits - power if factor == 1 else None


def _guarded(condition: Expr, result: Expr, other: Expr) -> Expr | None:
    """The value of CASE WHEN below = 0 THEN NULL ELSE value END, or of CASE WHEN below > 0 THEN value END."""
    match condition:
        case Comparison("=" | ">" | "<>" as operator, Aggregate() | Window(), zero) if number(zero) == 0:
            plain, guarded = (result, other) if operator == "=" else (other, result)
            return guarded if plain == NULL or number(plain) is not None else None
    return None
