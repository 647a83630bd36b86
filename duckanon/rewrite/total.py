"""Conditions that cannot fail, whatever the data: an error that depends on a record would tell about it.

Casts of columns, arithmetic and most functions can fail on some value. Comparisons of columns with constants, and what
is built of them, cannot, as long as no column has to be cast for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from duckanon.rewrite.spot.expressions import Call, Column, Constant, Expr
from duckanon.rewrite.spot.names import fold

_LOGIC = frozenset({"And", "Or", "Not", "Paren"})
_COMPARED = frozenset({"EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "In", "Between", "Is"})
_MATCHED = frozenset({"Like", "ILike"})
_NUMBERS = frozenset("TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE".split())
_MOMENTS = frozenset({"DATE", "TIMESTAMP", "TIME"})


def is_total(condition: Expr, types: Mapping[str, str]) -> bool:
    """Whether a condition on records is proven not to fail. types: of the table's columns, by folded name."""
    if isinstance(condition, Column):
        return _kind(condition, types) == "truth"
    if not isinstance(condition, Call):
        return False
    if condition.kind in _LOGIC:
        return all(is_total(one, types) for one in condition.operands)
    if condition.kind == "Boolean":
        return True
    if condition.kind == "Is" and len(condition.operands) == 2 and is_total(condition.operands[0], types):
        return _kind(condition.operands[1], types) in ("null", "truth")
    kinds = {_kind(one, types) for one in condition.operands}
    if condition.kind in _MATCHED:
        return _kind(condition.operands[0], types) == "text" and kinds <= {"text", "quoted"}
    if condition.kind in _COMPARED:
        # A quoted constant takes the column's type, once and for all records; NULL takes any.
        plain = kinds - {"quoted", "null"}
        return "" not in kinds and len(plain) <= 1
    return False


def _kind(expr: Expr, types: Mapping[str, str]) -> str:
    """What an operand is compared as; '' for what is not known."""
    if isinstance(expr, Constant):
        return "quoted" if expr.is_text else "number"
    if isinstance(expr, Column):
        stored = types.get(fold(expr.name), "")
        if stored in _NUMBERS:
            return "number"
        return {"VARCHAR": "text", "BOOLEAN": "truth"}.get(stored, stored.lower() if stored in _MOMENTS else "")
    if isinstance(expr, Call) and expr.kind in ("Null", "Boolean"):
        return "null" if expr.kind == "Null" else "truth"
    if isinstance(expr, Call) and expr.kind == "Neg" and isinstance(expr.operands[0], Constant):
        return "" if expr.operands[0].is_text else "number"
    return ""
