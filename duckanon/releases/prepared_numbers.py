"""Numbers that are computed from one prepared column: what is known of it is enough for them.

A multiple of a measured number, also with a constant added, has the same place between its bounds as the number itself.
A negative multiple falls as the number grows: its bounds change places.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from duckanon.releases.measures import Computed, Number
from duckanon.rewrite.algebra.expressions import Arithmetic, Cast, Column, Constant, Expr, Negative


def multiple(of: Number, expr: Expr, computed: Computed) -> Computed | None:
    """What is computed from a measured number, in the steps in which that is measured; None where it has others.

    Its `low` is what it is for the number's least value: where it falls, its largest value, and its step is below zero.
    expr: it, of one column. computed: it in steps of its own, which follow from the bounds of the column.
    """
    line = _line(expr)
    if line is None or not line[0]:
        return None
    times, plus = line
    ends = [times * each + plus for each in (Fraction(of.low), of.high)]
    if not Fraction(computed.low) <= min(ends) < max(ends) <= computed.high:
        return None
    # Its own steps are finer where what is added is no multiple of them: of 2 * x + 1 they are 1.
    step = str(times * Fraction(of.step))
    return replace(computed, column=of.column, value="", low=str(ends[0]), step=step, steps=of.steps)


def _line(expr: Expr) -> tuple[Fraction, Fraction] | None:
    """By what an expression multiplies its only column, and what it adds; None where it does something else."""
    match expr:
        case Column():
            return Fraction(1), Fraction(0)
        case Constant(value, is_text=False):
            return Fraction(0), Fraction(value)
        case Cast(operand, kind) if kind.upper() == "DOUBLE":
            return _line(operand)
        case Negative(operand):
            line = _line(operand)
            return None if line is None else (-line[0], -line[1])
        case Arithmetic(operator, one, other):
            left, right = _line(one), _line(other)
            return None if left is None or right is None else _combined(operator, left, right)
    return None


def _combined(
    operator: str, left: tuple[Fraction, Fraction], right: tuple[Fraction, Fraction]
) -> tuple[Fraction, Fraction] | None:
    """As `_line`, of two that are added, subtracted, multiplied or divided."""
    if operator in "+-":
        sign = 1 if operator == "+" else -1
        return left[0] + sign * right[0], left[1] + sign * right[1]
    if operator == "*" and not (left[0] and right[0]):
        by, of = (left[1], right) if not left[0] else (right[1], left)
        return of[0] * by, of[1] * by
    if operator == "/" and not right[0] and right[1]:
        return left[0] / right[1], left[1] / right[1]
    return None
