"""The records behind a block: of which table they are, and whether all that is read is understood."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from duckanon.catalog.names import TableName
from duckanon.rewrite.algebra.expressions import (
    NULL,
    SOMEWHERE,
    Aggregate,
    And,
    Between,
    Boolean,
    Cast,
    Column,
    Comparison,
    Exists,
    Expr,
    Function,
    In,
    InQuery,
    Is,
    Like,
    Nested,
    Not,
    Operation,
    Or,
    Star,
    Unclear,
    walk,
)
from duckanon.rewrite.algebra.relations import Block, Source, Table, is_protected, tables

# Of these, sqlglot's IN is that with a list in place of values.
_OTHER_CONDITIONS = frozenset({"Xor", "In", "SimilarTo", "RegexpLike", "StartsWith", "EndsWith", "Contains"})


def records(sources: Iterable[Source]) -> bool:
    """Whether the joins are understood, and all protected sources are tables themselves."""
    return all(
        source.join in ("inner", "left", "semi", "anti")
        and (isinstance(source.relation, Table) or not is_protected(source.relation))
        and all(is_clean(condition) for condition in source.on)
        for source in sources
    )


def is_clean(expr: Expr) -> bool:
    """Whether it is understood: it has no subquery over a protected table, no whole row, no macro and no error()."""
    return not any(
        isinstance(node, Star | Unclear)
        or (isinstance(node, Nested) and is_protected(node.query))
        or (isinstance(node, Function) and node.name == "error" and not node.quoted)
        for node in walk(expr)
    )


def is_closed(block: Block) -> bool:
    """Whether it reads no column of a query around it."""
    own = {source.number for source in block.sources} | {SOMEWHERE}
    return all(column.source in own for column in columns_in(block.expressions()))


def columns_in(exprs: Iterable[Expr]) -> Iterator[Column | Star]:
    """The columns in expressions, and the outer columns in their subqueries."""
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Column | Star):
                yield node
            elif isinstance(node, Nested):
                yield from outer_columns(node.query)


def outer_columns(relation: object) -> Iterator[Column | Star]:
    """The columns of the queries around it that a relation reads."""
    if isinstance(relation, Block):
        own = {source.number for source in relation.sources} | {SOMEWHERE}
        inner = [*columns_in(relation.expressions())]
        for source in relation.sources:
            inner += outer_columns(source.relation)
        yield from (column for column in inner if column.source not in own)
    else:
        for part in getattr(relation, "members", ()) or getattr(relation, "reads", ()):
            yield from outer_columns(part)


def watched(block: Block) -> tuple[TableName, ...]:
    """The protected tables that are read in a block, each once."""
    return tuple(dict.fromkeys(table.name for table in tables(block) if table.protected))


def whose(sources: tuple[Source, ...], size: Aggregate, where: frozenset[Expr] = frozenset()) -> TableName | None:
    """The table whose records an aggregate counts; None if that is not clear.

    It is the table of the aggregate's column. The rows of a join are records of its only protected table, or of a table
    that is joined with all others by their keys.
    """
    named = {node.source for counted in size.operands[:1] for node in walk(counted) if isinstance(node, Column)}
    stored = [source for source in sources if isinstance(source.relation, Table)]
    if len(named) == 1:
        for source in stored:
            if source.number in named and isinstance(source.relation, Table):
                return source.relation.name
    if named:
        return None
    counted = [source for source in stored if source.join not in ("semi", "anti")]
    protected = [source for source in counted if source.relation.protected]  # type: ignore[union-attr]
    for chosen in (protected, [source for source in protected if not by_key(source, sources, where)]):
        if len(chosen) == 1 and isinstance(chosen[0].relation, Table) and chosen[0].join == "inner":
            return chosen[0].relation.name
    return None


def by_key(source: Source, sources: tuple[Source, ...], where: frozenset[Expr]) -> bool:
    """Whether the conditions fix a key of the source, so that at most one of its rows matches."""
    if not isinstance(source.relation, Table):
        return False
    bound = set()
    for condition in where.union(*(source.on for source in sources)):
        if isinstance(condition, Comparison) and condition.operator == "=":
            bound |= {
                part.name for part in condition.parts if isinstance(part, Column) and part.source == source.number
            }
    return any(key <= bound for key in source.relation.keys)


def is_condition(expr: Expr, sources: tuple[Source, ...]) -> bool:
    """Whether an expression is known to be a condition: true, false or NULL."""
    match expr:
        case And() | Or() | Not() | Comparison() | Is() | In() | Between() | Like() | Boolean() | Exists() | InQuery():
            return True
        case Operation(kind):
            return kind in _OTHER_CONDITIONS
        case Cast(_, kind):
            return kind.upper() in ("BOOLEAN", "BOOL")
        case Column():
            return _is_column_of_conditions(expr, sources)
    return False


def _is_column_of_conditions(expr: Column, sources: tuple[Source, ...]) -> bool:
    for source in sources:
        if source.number == expr.source:
            if isinstance(source.relation, Table):
                return dict(source.relation.types).get(expr.name, "").upper() in ("BOOLEAN", "BOOL")
            if isinstance(source.relation, Block) and (inner := source.relation.output(expr.name)) is not None:
                return is_condition(inner, source.relation.sources)
    return False


def present(expr: Expr) -> Expr:
    """`expr IS NOT NULL`."""
    return Not(Is(expr, NULL))
