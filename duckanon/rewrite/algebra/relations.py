"""Relations: what a query reads and computes, with one block for each SELECT."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from duckanon.catalog.names import TableName, fold
from duckanon.catalog.snapshot import Stored
from duckanon.rewrite.algebra.expressions import (
    Column,
    Direction,
    Expr,
    Function,
    Nested,
    Operation,
    Star,
    is_aggregated,
    is_windowed,
    walk,
)

Change: TypeAlias = Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the database stores it. `columns` are their folded names, or None if they are not known."""

    name: TableName
    columns: tuple[str, ...] | None
    protected: bool
    keys: tuple[frozenset[str], ...] = ()
    types: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: TableName, stored: Stored, *, protected: bool) -> Table:
        """The table of that name, as it is known."""
        types = stored.types
        return cls(name, tuple(types) if stored.complete else None, protected, stored.keys, tuple(types.items()))

    def rebuilt(self, _: Change) -> Table:
        return self


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that is not analysed, and why. `reads` is what is known to be read in it."""

    reason: str
    reads: tuple[Relation, ...] = ()
    columns: tuple[str, ...] | None = None
    node: Any = field(default=None, compare=False, repr=False)

    def rebuilt(self, change: Change) -> Opaque:
        return replace(self, reads=tuple(read.rebuilt(change) for read in self.reads))


@dataclass(frozen=True, slots=True)
class Output:
    """A column that comes out, under a name as written. A star of unknown columns is named `*`."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Source:
    """A relation in FROM. `join` is inner, left, right, full, semi, anti, lateral or other; `on` the conditions."""

    number: int
    relation: Relation
    join: str = "inner"
    on: frozenset[Expr] = frozenset()
    node: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Block:
    """One SELECT: sources, filter, grouping, and each output as an expression over the sources' columns.

    keys: what it groups by; None if it does not group, () for one row over everything.
    sets: the grouping sets as positions in `keys`; None for all keys at once.
    distinct: None, or what must differ: all outputs, or the expressions of DISTINCT ON.
    limited: whether some rows are left out (LIMIT, SAMPLE). first: of LIMIT how many are kept and how `order` sorts;
    None where they are left out in another way.
    spread: whether values of its last keys become columns (PIVOT without a list of values).
    """

    sources: tuple[Source, ...]
    outputs: tuple[Output, ...]
    where: frozenset[Expr] = frozenset()
    keys: tuple[Expr, ...] | None = None
    sets: tuple[frozenset[int], ...] | None = None
    having: frozenset[Expr] = frozenset()
    qualify: frozenset[Expr] = frozenset()
    distinct: tuple[Expr, ...] | None = None
    order: tuple[Expr, ...] = ()
    limited: bool = False
    spread: bool = False
    first: tuple[int, tuple[Direction, ...]] | None = None
    node: Any = field(default=None, compare=False, repr=False)

    @property
    def is_plain(self) -> bool:
        """Whether each result row is a row of the sources, only filtered and with computed columns."""
        return (
            self.keys is None
            and self.distinct is None
            and not self.limited
            and not self.qualify
            and not any(is_windowed(output.expr) or repeats(output.expr) for output in self.outputs)
        )

    def output(self, name: str) -> Expr | None:
        """The expression of the column with that folded name; None if there is none or several."""
        if self.spread:
            return None
        for output in self.outputs:
            if fold(output.name) == name and not isinstance(output.expr, Star):
                return output.expr
        stars = [output.expr for output in self.outputs if output.name == "*" and isinstance(output.expr, Star)]
        if len(stars) == 1 and name not in stars[0].without:
            return Column(stars[0].source, name)
        return None

    def expressions(self) -> list[Expr]:
        """All expressions of the block."""
        expressions = [output.expr for output in self.outputs]
        for some in (self.where, self.keys, self.having, self.qualify, self.distinct, self.order):
            expressions.extend(some or ())
        for source in self.sources:
            expressions.extend(source.on)
        return expressions

    def rebuilt(self, change: Change) -> Block:
        """The block with every expression changed, also the joins' conditions."""

        def some(exprs: frozenset[Expr]) -> frozenset[Expr]:
            return frozenset(map(change, exprs))

        return replace(
            self,
            sources=tuple(
                replace(source, relation=source.relation.rebuilt(change), on=some(source.on)) for source in self.sources
            ),
            outputs=tuple(Output(output.name, change(output.expr)) for output in self.outputs),
            where=some(self.where),
            keys=None if self.keys is None else tuple(map(change, self.keys)),
            having=some(self.having),
            qualify=some(self.qualify),
            distinct=None if self.distinct is None else tuple(map(change, self.distinct)),
            order=tuple(map(change, self.order)),
        )


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of several queries, combined. `kind` is all, distinct, except, intersect, except all, intersect all."""

    kind: str
    members: tuple[Relation, ...]
    node: Any = field(default=None, compare=False, repr=False)

    def rebuilt(self, change: Change) -> Union:
        return replace(self, members=tuple(member.rebuilt(change) for member in self.members))


Relation: TypeAlias = Table | Block | Union | Opaque


def nested(exprs: Iterable[Expr]) -> list[Nested]:
    """The subqueries in expressions, without those inside subqueries."""
    return [node for expr in exprs for node in walk(expr) if isinstance(node, Nested)]


def below(relation: Relation) -> list[Relation]:
    """The relations directly below: sources, members, and subqueries of expressions."""
    if isinstance(relation, Block):
        sources = [source.relation for source in relation.sources]
        return sources + [subquery.query for subquery in nested(relation.expressions())]
    if isinstance(relation, Union):
        return list(relation.members)
    return list(relation.reads) if isinstance(relation, Opaque) else []


def tables(relation: Relation) -> list[Table]:
    """Every table that is read in it, in order and with repetitions."""
    tables: list[Table] = []
    stack = [relation]
    while stack:
        current = stack.pop()
        if isinstance(current, Table):
            tables.append(current)
        else:
            stack.extend(reversed(below(current)))
    return tables


def is_protected(relation: Relation) -> bool:
    """Whether a protected table is read anywhere in it."""
    return any(table.protected for table in tables(relation))


def columns(relation: Relation) -> tuple[str, ...] | None:
    """The folded names of its columns, or None if they are not all known."""
    if isinstance(relation, Table | Opaque):
        return relation.columns
    if isinstance(relation, Union):
        return columns(relation.members[0])
    if relation.spread or any(isinstance(output.expr, Star) and output.name == "*" for output in relation.outputs):
        return None
    return tuple(fold(output.name) for output in relation.outputs)


def repeats(expr: Expr) -> bool:
    """Whether it makes several rows of one, or none: unnest."""
    return any(
        (isinstance(node, Operation) and node.kind in _REPEATING)
        or (isinstance(node, Function) and node.name == "unnest")
        for node in walk(expr)
    )


_REPEATING = frozenset({"Explode", "ExplodeOuter", "Posexplode", "PosexplodeOuter", "Inline", "Unnest"})


def groups(block: Block) -> bool:
    """Whether a block without GROUP BY aggregates all its rows, by its expressions."""
    return any(is_aggregated(expr) for expr in (*(output.expr for output in block.outputs), *block.having))
