"""Numbers that are computed from one prepared column: what is known of it is enough for them.

A multiple of a measured number, also with a constant added, has the same place between its bounds as the number itself.
A negative multiple falls as the number grows: its bounds change places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from duckanon.releases.measures import Computed, Number
from duckanon.releases.prepared_parts import VALUES, Wanted, presence
from duckanon.rewrite.algebra.constants import NotTotal, folded
from duckanon.rewrite.algebra.expressions import (
    Arithmetic,
    Branch,
    Case,
    Cast,
    Coalesce,
    Column,
    Constant,
    Expr,
    Negative,
    walk,
)


@dataclass(frozen=True)
class Line:
    """What a number is multiplied by, and what is added. missing: what NULL becomes; None where it stays NULL."""

    times: Fraction
    plus: Fraction
    missing: Fraction | None = None


def multiple(of: Number, expr: Expr, computed: Computed) -> Wanted | None:
    """What is computed from a measured number, in the steps in which that is measured; None where it has others.

    Its `low` is what it is for the number's least value: where it falls, its largest value, and its step is below zero.
    expr: it, of one column. computed: it in steps of its own, which follow from the bounds of the column.
    """
    line = _line(expr)
    if line is None or not line.times:
        return None
    ends = [line.times * each + line.plus for each in (Fraction(of.low), of.high)]
    if not Fraction(computed.low) <= min(ends) < max(ends) <= computed.high:
        return None
    # Its own steps are finer where what is added is no multiple of them: of 2 * x + 1 they are 1.
    step = str(line.times * Fraction(of.step))
    number = replace(computed, column=of.column, value="", low=str(ends[0]), step=step, steps=of.steps)
    return Wanted(number, missing=line.missing)


def _line(expr: Expr) -> Line | None:
    """An expression of one column as a line; None where it is something else."""
    match expr:
        case Column():
            return Line(Fraction(1), Fraction(0))
        case Constant(value, is_text=False):
            return Line(Fraction(0), Fraction(value), Fraction(value))
        case Cast(operand, kind) if kind.upper() == "DOUBLE":
            return _line(operand)
        case Cast() if not any(isinstance(node, Column) for node in walk(expr)):
            return _constant(expr)
        case Negative(operand):
            return _combined("-", Line(Fraction(0), Fraction(0), Fraction(0)), _line(operand))
        case Arithmetic(operator, one, other):
            return _combined(operator, _line(one), _line(other))
        case Coalesce((operand, otherwise)):
            return _or_else(_line(operand), _line(otherwise))
        case Case((Branch(condition, value),), default):
            columns = presence(frozenset([condition]))
            if columns is None:
                return None
            there, otherwise = (value, default) if columns[1] is VALUES else (default, value)
            return _or_else(_line(there), _line(otherwise))
    return None


def _constant(expr: Expr) -> Line | None:
    try:
        value = folded(expr)
    except NotTotal:
        return None
    if value is None or not isinstance(value.value, Fraction):
        return None
    return Line(Fraction(0), value.value, value.value)


def _or_else(line: Line | None, otherwise: Line | None) -> Line | None:
    """A line, with a constant for NULL."""
    if line is None or otherwise is None or otherwise.times or not line.times:
        return None
    return line if line.missing is not None else replace(line, missing=otherwise.missing)


def _combined(operator: str, left: Line | None, right: Line | None) -> Line | None:
    """Two that are added, subtracted, multiplied or divided."""
    if left is None or right is None:
        return None
    if operator in "+-":
        sign = 1 if operator == "+" else -1
        missing = None
        if left.missing is not None and right.missing is not None:
            missing = left.missing + sign * right.missing
        return Line(left.times + sign * right.times, left.plus + sign * right.plus, missing)
    if operator == "*" and not left.times:
        return _scaled(right, left.plus, left.missing)
    if operator == "*" and not right.times:
        return _scaled(left, right.plus, right.missing)
    if operator == "/" and not right.times and right.plus:
        return _scaled(left, 1 / right.plus, right.missing and 1 / right.missing)
    return None


def _scaled(line: Line, by: Fraction, for_missing: Fraction | None) -> Line:
    """A line times a constant. for_missing: that constant where the column is NULL; None where it is NULL, too."""
    missing = None if line.missing is None or for_missing is None else line.missing * for_missing
    return Line(line.times * by, line.plus * by, missing)
