"""Symbolic expressions: how a column is computed from the columns of numbered sources.

They are compared by value: columns that are computed in the same way are equal, whatever aliases they had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from duckanon.rewrite.algebra.relations import Relation

# The source number of a column that could belong to several tables.
SOMEWHERE = 0
# The most parts of an expression. Parts are shared in memory, but written out they could grow exponentially.
LARGEST = 20_000

Comparator = Literal["=", "<>", ">", ">=", "<", "<=", "IS NOT DISTINCT FROM", "IS DISTINCT FROM"]
Operator = Literal["+", "-", "*", "/", "//", "%"]


class TooComplex(Exception):
    """A statement that is too large to be analysed."""


class Expr:
    """An expression. Each kind has a class below, with the names of its parts."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The direct parts, without those of a subquery."""
        return ()

    def with_parts(self, _: Change, /) -> Expr:
        """The expression with each direct part changed, and each expression of a subquery."""
        return self


Change: TypeAlias = Callable[[Expr], Expr]


# --- columns and constants --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column(Expr):
    """A column of a source, by the source's number."""

    source: int
    name: str


@dataclass(frozen=True, slots=True)
class Star(Expr):
    """All columns of a source whose columns are not known, or a source's row as one value; less `without`."""

    source: int
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Constant(Expr):
    """A number or a text, as written."""

    value: str
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Null(Expr):
    """NULL."""


@dataclass(frozen=True, slots=True)
class Boolean(Expr):
    """true or false."""

    value: bool


# --- conditions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Not(Expr):
    """`NOT operand`."""

    operand: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def with_parts(self, change: Change) -> Not:
        return Not(change(self.operand))


@dataclass(frozen=True, slots=True)
class And(Expr):
    """`left AND right`."""

    left: Expr
    right: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def with_parts(self, change: Change) -> And:
        return And(change(self.left), change(self.right))


@dataclass(frozen=True, slots=True)
class Or(Expr):
    """`left OR right`."""

    left: Expr
    right: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def with_parts(self, change: Change) -> Or:
        return Or(change(self.left), change(self.right))


@dataclass(frozen=True, slots=True)
class Comparison(Expr):
    """`left operator right`."""

    operator: Comparator
    left: Expr
    right: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def with_parts(self, change: Change) -> Comparison:
        return Comparison(self.operator, change(self.left), change(self.right))


@dataclass(frozen=True, slots=True)
class Is(Expr):
    """`operand IS value`: the value is NULL, true or false."""

    operand: Expr
    value: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand, self.value)

    def with_parts(self, change: Change) -> Is:
        return Is(change(self.operand), change(self.value))


@dataclass(frozen=True, slots=True)
class In(Expr):
    """`operand IN (values)`, of which there is at least one."""

    operand: Expr
    values: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand, *self.values)

    def with_parts(self, change: Change) -> In:
        return In(change(self.operand), tuple(map(change, self.values)))


@dataclass(frozen=True, slots=True)
class Between(Expr):
    """`operand BETWEEN low AND high`. symmetric: whether low and high may stand the other way round."""

    operand: Expr
    low: Expr
    high: Expr
    symmetric: bool = False

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand, self.low, self.high)

    def with_parts(self, change: Change) -> Between:
        return Between(change(self.operand), change(self.low), change(self.high), self.symmetric)


@dataclass(frozen=True, slots=True)
class Like(Expr):
    """`operand LIKE pattern`, NOT LIKE, or ILIKE."""

    operand: Expr
    pattern: Expr
    negated: bool = False
    ignores_case: bool = False

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand, self.pattern)

    def with_parts(self, change: Change) -> Like:
        return Like(change(self.operand), change(self.pattern), self.negated, self.ignores_case)


# --- values -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Negative(Expr):
    """`-operand`."""

    operand: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def with_parts(self, change: Change) -> Negative:
        return Negative(change(self.operand))


@dataclass(frozen=True, slots=True)
class Arithmetic(Expr):
    """`left operator right`."""

    operator: Operator
    left: Expr
    right: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def with_parts(self, change: Change) -> Arithmetic:
        return Arithmetic(self.operator, change(self.left), change(self.right))


class Branch(NamedTuple):
    """`WHEN condition THEN value`."""

    condition: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Case(Expr):
    """CASE in all its forms, and if(). Without ELSE the default is NULL."""

    branches: tuple[Branch, ...]
    default: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (*(part for branch in self.branches for part in branch), self.default)

    @property
    def values(self) -> tuple[Expr, ...]:
        """What it can be."""
        return (*(branch.value for branch in self.branches), self.default)

    def with_parts(self, change: Change) -> Case:
        branches = tuple(Branch(change(condition), change(value)) for condition, value in self.branches)
        return Case(branches, change(self.default))


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """CAST(operand AS type), the type as DuckDB writes it. tries: TRY_CAST."""

    operand: Expr
    type: str
    tries: bool = False

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def with_parts(self, change: Change) -> Cast:
        return Cast(change(self.operand), self.type, self.tries)


@dataclass(frozen=True, slots=True)
class Coalesce(Expr):
    """coalesce(operands), of which there is at least one."""

    operands: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.operands

    def with_parts(self, change: Change) -> Coalesce:
        return Coalesce(tuple(map(change, self.operands)))


@dataclass(frozen=True, slots=True)
class Nullif(Expr):
    """nullif(operand, other)."""

    operand: Expr
    other: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand, self.other)

    def with_parts(self, change: Change) -> Nullif:
        return Nullif(change(self.operand), change(self.other))


@dataclass(frozen=True, slots=True)
class Round(Expr):
    """round(operand) or round(operand, places)."""

    operand: Expr
    places: Expr | None = None

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand,) if self.places is None else (self.operand, self.places)

    def with_parts(self, change: Change) -> Round:
        return Round(change(self.operand), None if self.places is None else change(self.places))


@dataclass(frozen=True, slots=True)
class Interval(Expr):
    """`INTERVAL operand unit`. The unit is '' if it is part of the operand."""

    operand: Expr
    unit: str = ""

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def with_parts(self, change: Change) -> Interval:
        return Interval(change(self.operand), self.unit)


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """A field of a value that is a struct."""

    operand: Expr
    name: str

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def with_parts(self, change: Change) -> Field:
        return Field(change(self.operand), self.name)


@dataclass(frozen=True, slots=True)
class Row(Expr):
    """Several values as one."""

    operands: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.operands

    def with_parts(self, change: Change) -> Row:
        return Row(tuple(map(change, self.operands)))


@dataclass(frozen=True, slots=True)
class Function(Expr):
    """A call of a function by its name as written. quoted: whether the name is in quotes."""

    name: str
    operands: tuple[Expr, ...] = ()
    quoted: bool = False

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.operands

    def with_parts(self, change: Change) -> Function:
        return Function(self.name, tuple(map(change, self.operands)), self.quoted)


@dataclass(frozen=True, slots=True)
class Word:
    """An argument that is no value but a word, such as the unit of date_trunc. is_name: whether it names something."""

    text: str
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class TypeName:
    """An argument that is a type, as DuckDB writes it."""

    text: str


Argument: TypeAlias = Expr | tuple[Expr, ...] | Word | TypeName | str | bool | int


@dataclass(frozen=True, slots=True)
class Operation(Expr):
    """Any other function or operator: sqlglot's class of it, and its arguments by the names that they have there."""

    kind: str
    arguments: tuple[tuple[str, Argument], ...] = ()

    def argument(self, name: str) -> Argument | None:
        """The argument of that name; None if it has none."""
        return next((argument for own, argument in self.arguments if own == name), None)

    @property
    def parts(self) -> tuple[Expr, ...]:
        expressions: list[Expr] = []
        for _, argument in self.arguments:
            if isinstance(argument, Expr):
                expressions.append(argument)
            elif isinstance(argument, tuple):
                expressions += argument
        return tuple(expressions)

    def with_parts(self, change: Change) -> Operation:
        def changed(argument: Argument) -> Argument:
            if isinstance(argument, Expr):
                return change(argument)
            return tuple(map(change, argument)) if isinstance(argument, tuple) else argument

        return Operation(self.kind, tuple((name, changed(argument)) for name, argument in self.arguments))


# --- aggregates, windows and subqueries -------------------------------------------------------------------------------


class Direction(NamedTuple):
    """How an expression of ORDER BY sorts."""

    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate(Expr):
    """An aggregate: its name, arguments, DISTINCT, FILTER and ORDER BY. `count()` counts rows.

    directions: of each expression in `order`; none: all sort upwards, with NULLs last.
    """

    name: str
    operands: tuple[Expr, ...] = ()
    distinct: bool = False
    where: frozenset[Expr] = frozenset()
    order: tuple[Expr, ...] = ()
    directions: tuple[Direction, ...] = ()

    @property
    def argument(self) -> Expr | None:
        """The only argument; None if there are none or several, or an order."""
        return self.operands[0] if len(self.operands) == 1 and not self.order else None

    @property
    def is_of_aggregates(self) -> bool:
        """Whether its arguments contain aggregates of the same block."""
        return any(map(is_aggregated, (*self.operands, *self.order)))

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (*self.operands, *self.order, *self.where)

    def with_parts(self, change: Change) -> Aggregate:
        where = frozenset[Expr]().union(*(conjuncts(change(condition)) for condition in self.where))
        operands, order = tuple(map(change, self.operands)), tuple(map(change, self.order))
        return Aggregate(self.name, operands, self.distinct, where, order, self.directions)


@dataclass(frozen=True, slots=True)
class WindowFunction(Expr):
    """A function that only a window has, such as row_number."""

    name: str
    operands: tuple[Expr, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.operands

    def with_parts(self, change: Change) -> WindowFunction:
        return WindowFunction(self.name, tuple(map(change, self.operands)))


@dataclass(frozen=True, slots=True)
class Window(Expr):
    """A function over a window.

    frame: the text of an explicit frame, if there is one. directions: of each expression in `order`; none: all sort
    upwards, with NULLs last. skips_nulls: IGNORE NULLS.
    """

    call: Expr
    partition: frozenset[Expr] = frozenset()
    order: tuple[Expr, ...] = ()
    frame: str = ""
    directions: tuple[Direction, ...] = ()
    skips_nulls: bool = False

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.call, *self.partition, *self.order)

    def with_parts(self, change: Change) -> Window:
        return self.over(change(self.call), change)

    def over(self, call: Expr, change: Change) -> Window:
        """Another function over the same window, whose expressions are changed."""
        partition, order = frozenset(map(change, self.partition)), tuple(map(change, self.order))
        return Window(call, partition, order, self.frame, self.directions, self.skips_nulls)


@dataclass(frozen=True, slots=True)
class DistinctOn(Expr):
    """What DISTINCT ON keeps one row of each of: the first in an order, whose directions are those of a window's."""

    keys: tuple[Expr, ...]
    order: tuple[Expr, ...] = ()
    directions: tuple[Direction, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (*self.keys, *self.order)

    def with_parts(self, change: Change) -> DistinctOn:
        return DistinctOn(tuple(map(change, self.keys)), tuple(map(change, self.order)), self.directions)


@dataclass(frozen=True, slots=True)
class Nested(Expr):
    """A subquery in an expression."""

    query: Relation


@dataclass(frozen=True, slots=True)
class ScalarQuery(Nested):
    """A subquery that is one value."""

    def with_parts(self, change: Change) -> ScalarQuery:
        return ScalarQuery(self.query.rebuilt(change))


@dataclass(frozen=True, slots=True)
class Exists(Nested):
    """`EXISTS (query)`."""

    def with_parts(self, change: Change) -> Exists:
        return Exists(self.query.rebuilt(change))


@dataclass(frozen=True, slots=True)
class InQuery(Nested):
    """`operand IN (query)`."""

    operand: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def with_parts(self, change: Change) -> InQuery:
        return InQuery(self.query.rebuilt(change), change(self.operand))


@dataclass(frozen=True, slots=True)
class Unclear(Expr):
    """An expression whose meaning is not known. It is equal only to itself, by its number."""

    text: str
    number: int
    operands: tuple[Expr, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.operands

    def with_parts(self, change: Change) -> Unclear:
        return Unclear(self.text, self.number, tuple(map(change, self.operands)))


NULL, TRUE, FALSE = Null(), Boolean(True), Boolean(False)
# What is true, false or NULL by its form.
CONDITIONS = And | Or | Not | Comparison | Is | In | Between | Like | Boolean


# --- walking and changing ---------------------------------------------------------------------------------------------


def walk(expr: Expr, *, into: Callable[[Expr], bool] | None = None) -> list[Expr]:
    """The expression and all its parts, each shared part once. into: whether to visit the parts of a part; None: all.

    Parts of a subquery are not among them.
    """
    expressions: dict[int, Expr] = {}
    stack = [expr]
    while stack:
        expression = stack.pop()
        if id(expression) in expressions:
            continue
        expressions[id(expression)] = expression
        if into is None or into(expression):
            stack.extend(expression.parts)
    return list(expressions.values())


def measured(expr: Expr) -> Expr:
    """The expression itself. Raises TooComplex if written out it would be longer than LARGEST."""
    sizes: dict[int, int] = {}
    stack = [expr]
    while stack:
        expression = stack[-1]
        parts = expression.parts
        below = [part for part in parts if id(part) not in sizes]
        if below:
            stack.extend(below)
            continue
        stack.pop()
        size = sizes[id(expression)] = 1 + sum(sizes[id(part)] for part in parts)
        if size > LARGEST:
            raise TooComplex
    return expr


def has(expr: Expr, kind: type | tuple[type, ...], *, into: Callable[[Expr], bool] | None = None) -> bool:
    """Whether a part is of the kind."""
    return any(isinstance(node, kind) for node in walk(expr, into=into))


def is_aggregated(expr: Expr) -> bool:
    """Whether it contains an aggregate of its own block. A window's own function is none."""
    if isinstance(expr, Aggregate):
        return True
    if isinstance(expr, Window):
        inner = [*expr.call.parts, *expr.partition, *expr.order]
        return any(is_aggregated(expression) for expression in inner)
    return any(is_aggregated(part) for part in expr.parts)


def is_windowed(expr: Expr) -> bool:
    """Whether it has a window."""
    return has(expr, Window)


def conjuncts(expr: Expr) -> frozenset[Expr]:
    """The conditions that are joined by AND."""
    if isinstance(expr, And):
        return conjuncts(expr.left) | conjuncts(expr.right)
    return frozenset() if expr == TRUE else frozenset([expr])


def rebuilt(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with changed parts. change: gives a new part, or None to look at the parts below."""
    known: dict[int, Expr] = {}

    def rebuild(old: Expr) -> Expr:
        done = known.get(id(old))
        if done is None:
            new = change(old)
            done = known[id(old)] = old.with_parts(rebuild) if new is None else new
        return done

    return measured(rebuild(expr))
