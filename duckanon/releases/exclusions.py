"""Conditions that exclude each other, seen in the conditions alone."""

from __future__ import annotations

from collections.abc import Mapping

from duckanon.rewrite.algebra.expressions import Column, Comparison, Constant, Expr, Not

# What cannot both hold of the same two values.
_APART = {frozenset(pair) for pair in (("<", ">="), ("<", ">"), ("<", "="), ("<=", ">"), (">", "="), ("=", "<>"))}


def excludes(expressions: frozenset[Expr], other: frozenset[Expr], types: Mapping[str, str]) -> bool:
    """Whether no record meets both: it is seen in the conditions alone.

    They require different texts of a column, compare the same two in ways that are apart, or are a condition and its
    opposite.
    """
    compared = {
        (condition.left, condition.right, condition.operator)
        for condition in expressions
        if isinstance(condition, Comparison)
    }
    for condition in other:
        if isinstance(condition, Comparison) and any(
            (left, right) == (condition.left, condition.right) and {operator, condition.operator} in _APART
            for left, right, operator in compared
        ):
            return True
    required = {
        left: right for left, right in (_equal(condition, types) for condition in expressions) if left is not None
    }
    for condition in other:
        left, right = _equal(condition, types)
        if left is not None and left in required and required[left] != right:
            return True
        if isinstance(condition, Not) and condition.operand in expressions:
            return True
    return any(isinstance(condition, Not) and condition.operand in other for condition in expressions)


def _equal(condition: Expr, types: Mapping[str, str]) -> tuple[Column | None, Constant | None]:
    """The column of text and the constant that a condition calls equal; None for another condition.

    Of numbers and dates several texts can mean one value.
    """
    match condition:
        case Comparison("=", Column() as column, Constant(_, True) as value):
            pass
        case Comparison("=", Constant(_, True) as value, Column() as column):
            pass
        case _:
            return None, None
    return (column, value) if _is_text(types.get(column.name, "")) else (None, None)


def _is_text(kind: str) -> bool:
    return kind == "VARCHAR" or kind.startswith("ENUM(")
