"""The order in which conditions and keys are put, whatever their spelling and the process.

A stored answer is found by a key in which conditions stand in this order, so each text here stays as it is: with
another order the answer would not be found, and be paid again.
"""

from __future__ import annotations

from collections.abc import Iterable

from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Argument,
    Case,
    Column,
    Constant,
    Expr,
    Field,
    Nested,
    Row,
    Star,
    TypeName,
    Unclear,
    Window,
    WindowFunction,
    Word,
)
from duckanon.rewrite.algebra.forms import untyped


def in_order(exprs: Iterable[Expr]) -> list[Expr]:
    return sorted(exprs, key=sort_key)


def sort_key(expr: Expr) -> str:
    """What an expression is compared with others by."""
    match expr:
        case Column() | Star() | Constant() | Aggregate() | Window() | Nested() | Unclear():
            return repr(expr)
        case Case():
            return _call("Case", expr.parts)
        case Field(_, name):
            return _call("Dot", expr.parts, [("field", name)])
        case Row():
            return _call("Row", expr.parts)
        case WindowFunction(name):
            return _call("WindowFunction", expr.parts, [("name", name)])
    kind, arguments = untyped(expr)
    groups = [(argument,) if isinstance(argument, Expr) else argument for argument in arguments.values()]
    operands = [operand for group in groups if isinstance(group, tuple) for operand in group]
    return _call(kind, operands, [(name, *_form(argument)) for name, argument in arguments.items()])


def _call(kind: str, operands: Iterable[Expr], shape: Iterable[tuple[object, ...]] = ()) -> str:
    return f"Call(kind={kind!r}, operands={_tuple(map(sort_key, operands))}, shape={_tuple(map(repr, shape))})"


def _tuple(parts: Iterable[str]) -> str:
    listed = list(parts)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"


def _form(argument: Argument) -> tuple[object, ...]:
    if isinstance(argument, Expr):
        return ("part",)
    if isinstance(argument, tuple):
        return "parts", len(argument)
    if isinstance(argument, TypeName):
        return "type", argument.text
    if isinstance(argument, Word):
        return "Identifier" if argument.is_name else "Var", argument.text
    return (argument,)
