"""What recognisers find, as data. Expressions are over the columns of `sources`, whose numbers they carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from duckanon.catalog.names import TableName
from duckanon.rewrite.algebra.expressions import Expr
from duckanon.rewrite.algebra.relations import Source


@dataclass(frozen=True, kw_only=True)
class Found:
    """What all findings have. kind: as code knows it. shown: as people do.

    table: whose records it is about. tables: all protected tables that are read. sources: what is read, joined.
    filter: conditions on records. node: the part of the statement, as sqlglot's tree; None for what has no part.
    """

    kind: ClassVar[str]
    shown: ClassVar[str]
    table: TableName
    tables: tuple[TableName, ...] = ()
    sources: tuple[Source, ...] = ()
    filter: frozenset[Expr] = frozenset()
    node: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Role:
    """What a column of the query shows: region, size, groups, or derived from these.

    expr: the region, the size's expression, or for groups the condition on sizes that the column is about.
    """

    name: str
    what: str
    expr: Expr | None = None
    where: frozenset[Expr] = frozenset()


@dataclass(frozen=True, kw_only=True)
class GroupSizes(Found):
    """How many groups there are of each size.

    unit: what makes a group. size: the aggregate that is its size. regions: by which groups are told apart.
    kept: conditions on groups. levels: for each grouping set the positions of its regions.
    zeros: whether units without records are groups of size zero. frame: tables beside the groups, met by
    `joins`.
    """

    kind: ClassVar[str] = "group-size"
    shown: ClassVar[str] = "group sizes"
    unit: tuple[Expr, ...]
    size: Expr
    regions: tuple[Expr, ...] = ()
    kept: frozenset[Expr] = frozenset()
    levels: tuple[tuple[int, ...], ...] = ()
    zeros: bool = False
    frame: tuple[Source, ...] = ()
    joins: frozenset[Expr] = frozenset()
    columns: tuple[Role, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Conditional(Found):
    """Proportions within rows.

    name: the column that shows it. rows: the variables within whose combinations shares add up to one. cols: those
    that the cells differ by. event: conditions that make a cell, where a column of the query is one cell of each row.
    of: conditions on what is counted at all. weight: what is added up; None counts records.
    scale: 1, or 100 for percentages. digits: decimals it is rounded to; None if it is not. kept: conditions on rows,
    cells and shares. columns: all that the query shows: keys, shares, and what is neither; each with its expression.
    """

    kind: ClassVar[str] = "conditional"
    shown: ClassVar[str] = "conditional table"
    name: str
    rows: tuple[Expr, ...]
    cols: tuple[Expr, ...] = ()
    event: frozenset[Expr] = frozenset()
    of: frozenset[Expr] = frozenset()
    weight: Expr | None = None
    scale: str = "1"
    digits: int | None = None
    kept: frozenset[Expr] = frozenset()
    columns: tuple[Role, ...] = ()

    @property
    def decimals(self) -> int | None:
        """Decimals of the proportion itself, if it is rounded: percentages without decimals have two. -1: not known."""
        if self.digits is None:
            return None
        scale, power = Fraction(self.scale), 0
        while scale > 1:
            scale, power = scale / 10, power + 1
        while scale < 1:
            scale, power = scale * 10, power - 1
        return self.digits + power if scale == 1 else -1


@dataclass(frozen=True, kw_only=True)
class Counts(Found):
    """Counts of records, or of different values of `unit`, by `keys`. sets: grouping sets, as positions in keys."""

    kind: ClassVar[str] = "count"
    shown: ClassVar[str] = "count"
    keys: tuple[Expr, ...] = ()
    unit: Expr | None = None
    events: tuple[frozenset[Expr], ...] = ()
    kept: frozenset[Expr] = frozenset()
    sets: tuple[tuple[int, ...], ...] = ()
    columns: tuple[Role, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RecordReads(Found):
    """Records, or values of single records, as they stand."""

    kind: ClassVar[str] = "row-level"
    shown: ClassVar[str] = "row-level read"
    columns: tuple[Expr, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Unknown(Found):
    """Something that reads the table and is not proven to be anything above. writes: it only fills or changes it."""

    kind: ClassVar[str] = "unknown"
    shown: ClassVar[str] = "other use"
    reason: str = ""
    writes: bool = False


Finding: TypeAlias = GroupSizes | Conditional | Counts | RecordReads | Unknown
