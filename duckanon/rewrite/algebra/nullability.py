"""Whether an expression can be NULL: by its form, and by the conditions that its record meets."""

from __future__ import annotations

from collections.abc import Iterable

from duckanon.rewrite.algebra.expressions import (
    And,
    Arithmetic,
    Between,
    Boolean,
    Case,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Expr,
    In,
    Is,
    Like,
    Negative,
    Not,
    Null,
    Operation,
    Or,
)


def never_null(expr: Expr, present: frozenset[Column] = frozenset()) -> bool:
    """Whether an expression has a value in every record in which these columns have one."""
    match expr:
        case Column():
            return expr in present
        case Constant() | Boolean() | Is() | Comparison("IS NOT DISTINCT FROM" | "IS DISTINCT FROM"):
            return True
        case Coalesce(operands):
            return any(never_null(operand, present) for operand in operands)
        case Case():
            return all(never_null(value, present) for value in expr.values)
        case And() | Or() | In() | Between():
            return all(never_null(part, present) for part in expr.parts)
    return _is_strict(expr) and all(never_null(part, present) for part in expr.parts)


def _is_strict(expr: Expr) -> bool:
    """Whether it is NULL where one of its parts is NULL, and only there."""
    match expr:
        case Comparison(operator):
            return operator not in ("IS NOT DISTINCT FROM", "IS DISTINCT FROM")
        case Arithmetic("+" | "-" | "*") | Operation("Abs" | "Lower" | "Upper"):
            return True
    return isinstance(expr, Like | Negative | Not)


def present_columns(conditions: Iterable[Expr]) -> frozenset[Column]:
    """The columns that have a value in every record that meets all conditions."""
    return frozenset[Column]().union(*map(_needed, conditions))


def _needed(condition: Expr) -> frozenset[Column]:
    """The columns without which a condition is not true."""
    match condition:
        case And(left, right):
            return _needed(left) | _needed(right)
        case Or(left, right):
            return _needed(left) & _needed(right)
        case In(operand):
            return _strict(operand)
        case Between():
            return frozenset[Column]().union(*map(_strict, condition.parts))
        case Not(operand):
            return _needed_not(operand)
    return _strict(condition)


def _needed_not(denied: Expr) -> frozenset[Column]:
    """The columns without which a condition is not false."""
    match denied:
        case Is(operand, Null()):
            return _strict(operand)
        case In(operand) | Between(operand):
            # 10 NOT BETWEEN NULL AND 5 is true.
            return _strict(operand)
    return _strict(denied)


def _strict(expr: Expr) -> frozenset[Column]:
    """The columns without which an expression is NULL."""
    if isinstance(expr, Column):
        return frozenset({expr})
    return frozenset[Column]().union(*map(_strict, expr.parts)) if _is_strict(expr) else frozenset()
