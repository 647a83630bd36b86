"""The types that DuckDB itself gives to whole numbers that are computed.

`scalars` computes in wider ones where a result could leave them. Where bounds are known, DuckDB's own hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from duckanon.catalog.types import SIGNED, WHOLE, reach
from duckanon.rewrite.algebra.constants import NUMBER, folded, is_whole, type_name
from duckanon.rewrite.algebra.expressions import Arithmetic, Cast, Column, Constant, Expr, Negative

_SIGNED = list(SIGNED)
# Of literals, the first that holds them.
_LITERALS = ("INTEGER", "BIGINT", "HUGEINT")


def own_kind(expr: Expr, types: Mapping[str, str]) -> str:
    """DuckDB's type of a whole number that is computed from columns and literals by + - * // and %.

    Empty where it is not known.
    """
    match expr:
        case Column(name=name):
            kind = types.get(name, "")
            return kind if kind in WHOLE else ""
        case Cast(_, name):
            kind = type_name(name)
            return kind if kind in WHOLE else ""
        case Constant(value, is_text=False) if value.isdigit():
            return next((kind for kind in _LITERALS if int(value) <= WHOLE[kind][1]), "")
        case Negative(operand):
            return own_kind(operand, types)
        case Arithmetic("+" | "-" | "*" | "//" | "%", left, right):
            return _together(left, right, types)
    return ""


def _together(left: Expr, right: Expr, types: Mapping[str, str]) -> str:
    constants = [folded(expression) for expression in (left, right)]
    if any(
        constant is not None and not is_whole(expression)
        for expression, constant in zip((left, right), constants, strict=True)
    ):
        return ""
    kinds = [
        own_kind(expression, types)
        for expression, constant in zip((left, right), constants, strict=True)
        if constant is None
    ]
    numbers = [constant.value for constant in constants if constant is not None and constant.kind == NUMBER]
    if not kinds:
        # Literals.
        known = {own_kind(expression, types) for expression in (left, right)}
        return "" if "" in known else max(known, key=_SIGNED.index)
    if "" in kinds or len(kinds) + len(numbers) < 2:
        return ""
    if len(set(kinds)) > 1:
        # Of a signed and an unsigned type it is another one.
        return max(kinds, key=_SIGNED.index) if set(kinds) <= set(_SIGNED) else ""
    (kind, *_) = kinds
    fits = all(isinstance(number, Fraction) and reach(kind)[0] <= number <= reach(kind)[1] for number in numbers)
    return kind if fits else ""
