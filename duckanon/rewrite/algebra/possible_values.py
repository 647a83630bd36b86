"""Which constants an expression can have as its value, such as the values of a CASE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date

from duckanon.rewrite.algebra.constants import folded
from duckanon.rewrite.algebra.expressions import NULL, Case, Coalesce, Expr, Nullif


def possible_values(expr: Expr, today: date, known: Callable[[Expr], Sequence[Expr]]) -> tuple[Expr, ...]:
    """The constants of which an expression's value is one, NULL as the last of them; none where others are possible.

    known: those of an expression, if something else says so; none if not. Raises NotTotal for a constant that has no
    value.
    """
    expressions = known(expr)
    if expressions:
        return in_order(expressions)
    constant = folded(expr, today)
    if constant is not None:
        return (NULL,) if constant.value is None else (expr,)
    match expr:
        case Case():
            parts = [possible_values(value, today, known) for value in expr.values]
        case Coalesce(operands):
            parts = [possible_values(operand, today, known) for operand in operands]
            if all(parts) and NULL not in parts[-1]:
                return in_order(expression for part in parts for expression in part if expression != NULL)
        case Nullif(operand, _):
            parts = [possible_values(operand, today, known), (NULL,)]
        case _:
            return ()
    return in_order(expression for part in parts for expression in part) if all(parts) else ()


def in_order(values: Iterable[Expr]) -> tuple[Expr, ...]:
    """Each once, NULL as the last."""
    different = dict.fromkeys(values)
    return (*(expression for expression in different if expression != NULL), *([NULL] if NULL in different else []))


def or_null(values: Sequence[Expr]) -> tuple[Expr, ...]:
    """The values where NULL may stand in place of each; none where they are not known."""
    return in_order([*values, NULL]) if values else ()
