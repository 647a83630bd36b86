"""Operators and functions as sqlglot has them: its class for each expression, and its names of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import TypeAlias

from duckanon.rewrite.algebra.expressions import (
    FALSE,
    NULL,
    TRUE,
    Aggregate,
    And,
    Argument,
    Arithmetic,
    Between,
    Boolean,
    Cast,
    Coalesce,
    Column,
    Comparator,
    Comparison,
    Expr,
    Field,
    Function,
    In,
    Interval,
    Is,
    Like,
    Negative,
    Nested,
    Not,
    Null,
    Nullif,
    Operation,
    Operator,
    Or,
    Round,
    Star,
    TypeName,
    Unclear,
    Window,
    WindowFunction,
    Word,
    walk,
)

# Arguments by sqlglot's names: `this` first, then the others in alphabetical order.
Arguments: TypeAlias = Mapping[str, Argument]

_COMPARATORS: Mapping[str, Comparator] = {
    "EQ": "=",
    "NEQ": "<>",
    "GT": ">",
    "GTE": ">=",
    "LT": "<",
    "LTE": "<=",
    "NullSafeEQ": "IS NOT DISTINCT FROM",
    "NullSafeNEQ": "IS DISTINCT FROM",
}
# Comparisons that mean the same with their sides exchanged; the others stay as they are.
_TURNED: Mapping[Comparator, Comparator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_READING = (Column, Star, Aggregate, Window, WindowFunction, Nested, Unclear)
_OPERATORS: Mapping[str, Operator] = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "IntDiv": "//", "Mod": "%"}
_CLASSES = {sign: kind for kind, sign in (*_COMPARATORS.items(), *_OPERATORS.items())}


def typed(kind: str, arguments: Arguments) -> Expr:
    """The expression that a node of sqlglot is. An argument that its class does not know makes it an Operation."""
    read = _READERS.get(kind)
    built = None if read is None else read(arguments)
    return Operation(kind, tuple(arguments.items())) if built is None else built


def untyped(expr: Expr) -> tuple[str, Arguments]:
    """The class and the arguments that sqlglot has for an operator or a function."""
    own = type(expr).__name__
    match expr:
        case Operation(kind, listed):
            return kind, dict(listed)
        case Function(name, operands, quoted):
            named = Word(name, is_name=True) if quoted else name
            return "Anonymous", {"this": named, "expressions": operands} if operands else {"this": named}
        case Comparison(sign, left, right) | Arithmetic(sign, left, right):
            return _CLASSES[sign], {"this": left, "expression": right}
        case And(left, right) | Or(left, right) | Is(left, right) | Nullif(left, right):
            return own, {"this": left, "expression": right}
        case Not(operand):
            return own, {"this": operand}
        case Negative(operand):
            return "Neg", {"this": operand}
        case Null():
            return own, {}
        case Boolean(value):
            return own, {"this": True} if value else {}
    return _untyped(own, expr)


def _untyped(own: str, expr: Expr) -> tuple[str, Arguments]:
    """As `untyped`, for what has names of its own for its arguments. own: the class, whose name sqlglot's mostly is."""
    arguments: dict[str, Argument]
    match expr:
        case In(operand, values):
            return own, {"this": operand, "expressions": values}
        case Between(operand, low, high, symmetric):
            arguments = {"this": operand, "high": high, "low": low}
            return own, {**arguments, "symmetric": True} if symmetric else arguments
        case Like(operand, pattern, negated, ignores_case):
            arguments = {"this": operand, "expression": pattern}
            return "ILike" if ignores_case else own, {**arguments, "negate": True} if negated else arguments
        case Cast(operand, name, tries):
            arguments = {"this": operand, "safe": True} if tries else {"this": operand}
            return "TryCast" if tries else own, {**arguments, "to": TypeName(name)}
        case Coalesce((first, *rest)):
            return own, {"this": first, "expressions": tuple(rest)} if rest else {"this": first}
        case Round(operand, places):
            return own, {"this": operand} if places is None else {"this": operand, "decimals": places}
        case Interval(operand, unit):
            return own, {"this": operand, "unit": Word(unit)} if unit else {"this": operand}
        case Field(operand, name):
            return "Dot", {"this": operand, "expression": Word(name, is_name=True)}
    raise TypeError(own)


def _leaf(expr: Expr, arguments: Arguments) -> Expr | None:
    return None if arguments else expr


def _boolean(arguments: Arguments) -> Expr | None:
    return TRUE if arguments == {"this": True} else FALSE if not arguments else None


def _unary(build: Callable[[Expr], Expr], arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as operand} if len(arguments) == 1:
            return build(operand)
    return None


def _binary(build: Callable[[Expr, Expr], Expr], arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as left, "expression": Expr() as right} if len(arguments) == 2:
            return build(left, right)
    return None


def _like(ignores_case: bool, arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as operand, "expression": Expr() as pattern, **rest} if rest in ({}, {"negate": True}):
            return Like(operand, pattern, "negate" in rest, ignores_case)
    return None


def _like_escaped(arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Like(operand, pattern, negated, ignores_case), "expression": Expr() as escape}:
            function = Function("ilike_escape" if ignores_case else "like_escape", (operand, pattern, escape))
            return Not(function) if negated else function
    return None


def _in(arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as operand, "expressions": tuple(values)} if len(arguments) == 2:
            parts, others = parts_of_tuple(operand), [parts_of_tuple(member) for member in values]
            if parts and all(len(members) == len(parts) for members in others):
                return reduce(Or, (_same(parts, members) for members in others))
            return Comparison("=", operand, values[0]) if len(values) == 1 else In(operand, values)
    return None


def parts_of_tuple(expr: Expr) -> tuple[Expr, ...]:
    """The parts of `(a, b)`; none for other expressions."""
    argument = expr.argument("expressions") if isinstance(expr, Operation) and expr.kind == "Tuple" else ()
    return tuple(part for part in argument if isinstance(part, Expr)) if isinstance(argument, tuple) else ()


def _same(parts: tuple[Expr, ...], others: tuple[Expr, ...]) -> Expr:
    """That two tuples are equal, in which NULL is a value as any other."""
    pairs = zip(parts, others, strict=True)
    same: list[Expr] = [Comparison("IS NOT DISTINCT FROM", left, right) for left, right in pairs]
    return reduce(And, same)


def _compared(sign: Comparator, arguments: Arguments) -> Expr | None:
    """A comparison, of tuples by = and <> part by part. What is compared with a constant stands on the left."""
    comparison = _binary(partial(Comparison, sign), arguments)
    if not isinstance(comparison, Comparison):
        return comparison
    left, right = parts_of_tuple(comparison.left), parts_of_tuple(comparison.right)
    if left and len(left) == len(right) and sign in ("=", "<>"):
        return _same(left, right) if sign == "=" else Not(_same(left, right))
    is_turned = not _reads(comparison.left) and _reads(comparison.right)
    return Comparison(_TURNED.get(sign, sign), comparison.right, comparison.left) if is_turned else comparison


def _reads(expr: Expr) -> bool:
    """Whether an expression has something else than constants in it."""
    return any(isinstance(node, _READING) for node in walk(expr))


def _between(arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as operand, "low": Expr() as low, "high": Expr() as high, **rest} if rest in (
            {},
            {"symmetric": True},
        ):
            return Between(operand, low, high, "symmetric" in rest)
    return None


def _cast(tries: bool, arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as operand, "to": TypeName(name), **rest} if rest in ({}, {"safe": True}):
            return Cast(operand, name, tries)
    return None


def _coalesce(arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as first, "expressions": tuple(rest)} if len(arguments) == 2:
            return Coalesce((first, *rest))
        case {"this": Expr() as first} if len(arguments) == 1:
            return Coalesce((first,))
    return None


def _round(arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as operand, "decimals": Expr() as places} if len(arguments) == 2:
            return Round(operand, places)
    return _unary(Round, arguments)


def _interval(arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as operand, "unit": Word(unit, is_name=False)} if len(arguments) == 2:
            return Interval(operand, unit)
    return _unary(Interval, arguments)


def _field(arguments: Arguments) -> Expr | None:
    match arguments:
        case {"this": Expr() as operand, "expression": Word(name, is_name=True)}:
            return Field(operand, name)
    return None


def _function(arguments: Arguments) -> Expr | None:
    operands = arguments.get("expressions", ())
    if not isinstance(operands, tuple) or not set(arguments) <= {"this", "expressions"}:
        return None
    match arguments.get("this"):
        case str(name):
            return Function(name, operands)
        case Word(name, is_name=True):
            return Function(name, operands, quoted=True)
    return None


_READERS: Mapping[str, Callable[[Arguments], Expr | None]] = {
    "Null": partial(_leaf, NULL),
    "Boolean": _boolean,
    "Not": partial(_unary, Not),
    "And": partial(_binary, And),
    "Or": partial(_binary, Or),
    **{kind: partial(_compared, sign) for kind, sign in _COMPARATORS.items()},
    "Is": partial(_binary, Is),
    "In": _in,
    "Between": _between,
    "Like": partial(_like, False),
    "ILike": partial(_like, True),
    "Escape": _like_escaped,
    "Neg": partial(_unary, Negative),
    **{kind: partial(_binary, partial(Arithmetic, sign)) for kind, sign in _OPERATORS.items()},
    "Cast": partial(_cast, False),
    "TryCast": partial(_cast, True),
    "Coalesce": _coalesce,
    "Nullif": partial(_binary, Nullif),
    "Round": _round,
    "Interval": _interval,
    "Dot": _field,
    "Anonymous": _function,
}
