"""Whether an expression can be NULL: by its form, and by the conditions that its record meets."""

from __future__ import annotations

from collections.abc import Iterable

from duckanon.rewrite.algebra.expressions import NULL, Call, Column, Constant, Expr

# NULL where one of their operands is NULL, and only there.
_STRICT = frozenset({
    "EQ", "NEQ", "GT", "GTE", "LT", "LTE", "Like", "ILike", "Add", "Sub", "Mul", "Neg", "Abs", "Lower", "Upper", "Not",
    "Paren",
})  # fmt: skip
_TWO_VALUED = frozenset({"NullSafeEQ", "NullSafeNEQ", "Boolean"})


def never_null(expr: Expr, present: frozenset[Column] = frozenset()) -> bool:
    """Whether an expression has a value in every record in which these columns have one."""
    if isinstance(expr, Column):
        return expr in present
    if isinstance(expr, Constant):
        return True
    if not isinstance(expr, Call):
        return False
    if expr.kind == "Is":
        # IS NULL and IS TRUE alike.
        return True
    if expr.kind in _TWO_VALUED:
        return True
    if expr.kind == "Coalesce":
        return any(never_null(one, present) for one in expr.operands)
    if expr.kind == "Case":
        return all(never_null(one, present) for one in (*expr.operands[1:-1:2], expr.operands[-1]))
    if expr.kind in _STRICT or expr.kind in ("And", "Or", "In", "Between"):
        return all(never_null(one, present) for one in expr.operands)
    return False


def present_columns(conditions: Iterable[Expr]) -> frozenset[Column]:
    """The columns that have a value in every record that meets all conditions."""
    return frozenset[Column]().union(*map(_needed, conditions))


def _needed(condition: Expr) -> frozenset[Column]:
    """The columns without which a condition is not true."""
    if isinstance(condition, Call):
        if condition.kind == "And":
            return present_columns(condition.operands)
        if condition.kind == "Or":
            return frozenset.intersection(*map(_needed, condition.operands))
        if condition.kind == "In":
            return _strict(condition.operands[0])
        if condition.kind == "Between":
            return frozenset[Column]().union(*map(_strict, condition.operands))
        if condition.kind == "Not":
            return _needed_not(condition.operands[0])
    return _strict(condition)


def _needed_not(denied: Expr) -> frozenset[Column]:
    """The columns without which a condition is not false."""
    if isinstance(denied, Call):
        if denied.kind == "Is" and denied.operands[1] == NULL:
            return _strict(denied.operands[0])
        if denied.kind in ("In", "Between"):
            # 10 NOT BETWEEN NULL AND 5 is true.
            return _strict(denied.operands[0])
    return _strict(denied)


def _strict(expr: Expr) -> frozenset[Column]:
    """The columns without which an expression is NULL."""
    if isinstance(expr, Column):
        return frozenset({expr})
    if isinstance(expr, Call) and expr.kind in _STRICT:
        return frozenset[Column]().union(*map(_strict, expr.operands))
    return frozenset()
