"""The type that DuckDB itself gives to a sum, by what is added up.

A sum of whole numbers is a HUGEINT, one of decimals a DECIMAL with as many digits after the point, others are DOUBLEs,
also that of UHUGEINTs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from duckanon.catalog.types import FLOATS, WHOLE, digits
from duckanon.rewrite.algebra.constants import type_name
from duckanon.rewrite.algebra.expressions import (
    CONDITIONS,
    NULL,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Column,
    Constant,
    Expr,
    Negative,
    Nullif,
    Operation,
    Round,
)
from duckanon.rewrite.algebra.scalars import called

# What a value is: one of these words, or of a decimal the digits after its point. None: it is not known.
_Kind: TypeAlias = str | int | None
_WHOLE, _FLOAT, _DATE = "whole", "float", "date"
_TYPES = {**dict.fromkeys({*WHOLE, "BOOLEAN"} - {"UHUGEINT"}, _WHOLE), **dict.fromkeys(FLOATS, _FLOAT), "DATE": _DATE}
_MOST_DIGITS = 38
_OF_DATES = frozenset(
    "year quarter month day dayofweek isodow dayofyear decade century week isoyear yearweek hour minute".split()
)
_COUNTS = frozenset({"date_diff", "date_sub", "datediff", "datesub", "length", "strlen", *_OF_DATES})


def sum_type(expr: Expr, types: Mapping[str, str]) -> str:
    """DuckDB's type of a sum of an expression; empty where it is not known. types: of columns, by folded name."""
    kind = _Reader(types).kind(expr)
    if isinstance(kind, int):
        return f"DECIMAL({_MOST_DIGITS},{kind})" if kind <= _MOST_DIGITS else ""
    return {_WHOLE: "HUGEINT", _FLOAT: "DOUBLE"}.get(kind or "", "")


class _Reader:
    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types

    def kind(self, expr: Expr) -> _Kind:
        match expr:
            case Column(name=name):
                return _of_type(self._types.get(name, ""))
            case Constant(value, is_text=False):
                return _of_literal(value)
            case Cast(_, name):
                return _of_type(type_name(name))
            case Negative(operand) | Nullif(operand, _):
                return self.kind(operand)
            case Arithmetic():
                return self._computed(expr)
            case Case():
                return _together(self._part(value) for value in expr.values if value != NULL)
            case Coalesce(operands):
                return _together(self._part(operand) for operand in operands if operand != NULL)
            case Round(operand, places):
                return self._rounded(operand, places)
            case Operation("Least" | "Greatest", _):
                return _together(map(self._part, expr.parts))
        return _WHOLE if isinstance(expr, CONDITIONS) else self._called(expr)

    def _part(self, expr: Expr) -> _Kind:
        """As `kind`, beside others: there a decimal of all digits may lose some after its point."""
        match expr:
            case Column(name=name):
                written = self._types.get(name, "")
            case Cast(_, name):
                written = type_name(name)
            case _:
                written = ""
        return None if (digits(written) or (0, 0))[0] == _MOST_DIGITS else self.kind(expr)

    def _computed(self, expr: Arithmetic) -> _Kind:
        left, right = self._part(expr.left), self._part(expr.right)
        if expr.operator == "-" and left == right == _DATE:
            return _WHOLE
        if None in (left, right) or _DATE in (left, right):
            return None
        if expr.operator == "/":
            return _FLOAT
        if expr.operator in ("//", "%"):
            return _WHOLE if left == right == _WHOLE else None
        if expr.operator == "*" and _FLOAT not in (left, right):
            scales = [number for number in (left, right) if isinstance(number, int)]
            return sum(scales) if scales else _WHOLE
        return _together((left, right))

    def _rounded(self, operand: Expr, places: Expr | None) -> _Kind:
        kind = self.kind(operand)
        if not isinstance(kind, int):
            return kind
        if places is None:
            return 0
        match places:
            case Constant(value, is_text=False) if value.isdigit():
                return min(kind, int(value))
            case Negative(Constant(_, is_text=False)):
                return 0
        return None

    def _called(self, expr: Expr) -> _Kind:
        name, arguments = called(expr)
        if name in _COUNTS or (isinstance(expr, Operation) and expr.kind == "DateDiff"):
            return _WHOLE
        if len(arguments) != 1 or name not in _OF_NUMBERS:
            return None
        return _OF_NUMBERS[name](self.kind(arguments[0]))


def _to_whole(kind: _Kind) -> _Kind:
    """Of floor and ceil: whole numbers become floats."""
    return 0 if isinstance(kind, int) else _FLOAT if kind in (_WHOLE, _FLOAT) else None


_OF_NUMBERS: Mapping[str, Callable[[_Kind], _Kind]] = {
    "abs": lambda kind: kind,
    "floor": _to_whole,
    "ceil": _to_whole,
    "trunc": lambda kind: 0 if isinstance(kind, int) else kind,
    "epoch": lambda _: _FLOAT,
}


def _of_type(kind: str) -> _Kind:
    decimal = digits(kind)
    return decimal[1] if decimal is not None else _TYPES.get(kind)


def _of_literal(written: str) -> _Kind:
    """What a number is, as it is written."""
    if not written.replace(".", "", 1).isdigit():
        return _FLOAT
    return len(written.partition(".")[2]) if "." in written else _WHOLE


def _together(kinds: Iterable[_Kind]) -> _Kind:
    """What values of several kinds are, side by side or added up."""
    different = set(kinds)
    if not different or None in different or _DATE in different:
        return None
    if _FLOAT in different:
        return _FLOAT
    return max((number for number in different if isinstance(number, int)), default=_WHOLE)
