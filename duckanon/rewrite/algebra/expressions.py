"""Symbolic expressions: how a column is computed from the columns of numbered sources.

They are compared by value: columns that are computed in the same way are equal, whatever aliases they had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from duckanon.rewrite.algebra.relations import Relation

# The source number of a column that could belong to several tables.
SOMEWHERE = 0
# The most parts of an expression. Parts are shared in memory, but written out they could grow exponentially.
LARGEST = 20_000


class TooComplex(Exception):
    """A statement that is too large to be analysed."""


# Each kind of expression has `parts`: its direct parts, without those of a subquery.


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source, by the source's number."""

    source: int
    name: str
    parts: ClassVar[tuple[Expr, ...]] = ()


@dataclass(frozen=True, slots=True)
class Star:
    """All columns of a source whose columns are not known, or a source's row as one value; less `without`."""

    source: int
    without: frozenset[str] = frozenset()
    parts: ClassVar[tuple[Expr, ...]] = ()


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal, with its text as written."""

    value: str
    is_text: bool = False
    parts: ClassVar[tuple[Expr, ...]] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function or operator: sqlglot's class, its arguments' names and flags, and its operands in order."""

    kind: str
    operands: tuple[Expr, ...] = ()
    shape: tuple[object, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.operands


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate: its name, arguments, DISTINCT and FILTER. `count()` counts rows."""

    name: str
    operands: tuple[Expr, ...] = ()
    distinct: bool = False
    where: frozenset[Expr] = frozenset()

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (*self.operands, *self.where)


@dataclass(frozen=True, slots=True)
class Window:
    """A function over a window. `frame` is the text of an explicit frame, if there is one."""

    call: Expr
    partition: frozenset[Expr] = frozenset()
    order: tuple[Expr, ...] = ()
    frame: str = ""

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.call, *self.partition, *self.order)


@dataclass(frozen=True, slots=True)
class Nested:
    """A subquery in an expression: `kind` is scalar, exists, in, any or all; `operands` is what it is compared with."""

    kind: str
    query: Relation
    operands: tuple[Expr, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.operands


@dataclass(frozen=True, slots=True)
class Unclear:
    """An expression whose meaning is not known. It is equal only to itself, by its number."""

    text: str
    number: int
    operands: tuple[Expr, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.operands


Expr: TypeAlias = Column | Star | Constant | Call | Aggregate | Window | Nested | Unclear

NULL = Call("Null")
_BINARY = (("this", "part"), ("expression", "part"))


def binary(kind: str, left: Expr, right: Expr) -> Call:
    """An operator with two operands, of sqlglot's class `kind`."""
    return Call(kind, (left, right), _BINARY)


def one_of(expr: Expr, values: list[Expr]) -> Call:
    """`expr IN (values)`."""
    return Call("In", (expr, *values), (("this", "part"), ("expressions", "parts", len(values))))


def walk(expr: Expr, *, into: Callable[[Expr], bool] | None = None) -> list[Expr]:
    """The expression and all its parts, each shared part once. into: whether to visit the parts of a part; None: all.

    Parts of a subquery are not among them.
    """
    seen: dict[int, Expr] = {}
    stack = [expr]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if into is None or into(one):
            stack.extend(one.parts)
    return list(seen.values())


def measured(expr: Expr) -> Expr:
    """The expression itself. Raises TooComplex if written out it would be longer than LARGEST."""
    sizes: dict[int, int] = {}
    stack = [expr]
    while stack:
        one = stack[-1]
        below = [part for part in one.parts if id(part) not in sizes]
        if below:
            stack.extend(below)
            continue
        stack.pop()
        sizes[id(one)] = 1 + sum(sizes[id(part)] for part in one.parts)
        if sizes[id(one)] > LARGEST:
            raise TooComplex
    return expr


def has(expr: Expr, kind: type | tuple[type, ...], *, into: Callable[[Expr], bool] | None = None) -> bool:
    """Whether a part is of the kind."""
    return any(isinstance(one, kind) for one in walk(expr, into=into))


def is_aggregated(expr: Expr) -> bool:
    """Whether it contains an aggregate of its own block. A window's own function is none."""
    if isinstance(expr, Aggregate):
        return True
    if isinstance(expr, Window):
        inner = [*expr.call.parts, *expr.partition, *expr.order]
        return any(is_aggregated(one) for one in inner)
    return any(is_aggregated(one) for one in expr.parts)


def is_windowed(expr: Expr) -> bool:
    """Whether it has a window."""
    return has(expr, Window)


def conjuncts(expr: Expr) -> frozenset[Expr]:
    """The conditions that are joined by AND."""
    if isinstance(expr, Call) and expr.kind == "And":
        return frozenset().union(*(conjuncts(one) for one in expr.operands))
    if isinstance(expr, Call) and expr.kind == "Boolean" and expr.shape == (("this", True),):
        return frozenset()
    return frozenset([expr])


def rebuilt(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with changed parts. change: gives a new part, or None to look at the parts below."""
    known: dict[int, Expr] = {}

    def one(old: Expr) -> Expr:
        done = known.get(id(old))
        if done is None:
            new = change(old)
            done = known[id(old)] = _below(old, one) if new is None else new
        return done

    return measured(one(expr))


def _below(expr: Expr, one: Callable[[Expr], Expr]) -> Expr:
    if isinstance(expr, Call):
        return Call(expr.kind, tuple(map(one, expr.operands)), expr.shape) if expr.operands else expr
    if isinstance(expr, Aggregate):
        where = frozenset().union(*(conjuncts(one(condition)) for condition in expr.where))
        return Aggregate(expr.name, tuple(map(one, expr.operands)), expr.distinct, where)
    if isinstance(expr, Window):
        return Window(one(expr.call), frozenset(map(one, expr.partition)), tuple(map(one, expr.order)), expr.frame)
    if isinstance(expr, Unclear):
        return Unclear(expr.text, expr.number, tuple(map(one, expr.operands)))
    if isinstance(expr, Nested):
        return Nested(expr.kind, expr.query.rebuilt(one), tuple(map(one, expr.operands)))
    return expr
