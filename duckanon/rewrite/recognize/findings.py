"""Findings, as data. Expressions use columns of `sources`, by the sources' numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from duckanon.catalog.names import TableName
from duckanon.rewrite.algebra.expressions import Column, Expr
from duckanon.rewrite.algebra.relations import Source


@dataclass(frozen=True, kw_only=True)
class Found:
    """What all findings have in common. kind: its name in code. shown: its name for people.

    table: of the records. tables: all protected tables that are read. sources: all that is read, joined. filter:
    conditions on records. node: the part of the statement, as sqlglot's tree; None if there is no such part.
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
    """What a column of the query shows, such as a region, a size, a number of groups, or something derived from these.

    expr: of group sizes a region, a size, or a statistic of sizes, such as their mean; of counts and shares any column.
    where: the conditions under which groups or records are counted.
    """

    name: str
    what: str
    expr: Expr | None = None
    where: frozenset[Expr] = frozenset()


@dataclass(frozen=True, kw_only=True)
class GroupSizes(Found):
    """How many groups there are of each size, or a statistic of their sizes.

    unit: the expressions that identify a group. size: the aggregate that is its size. regions: by which groups are
    counted. keys: all by which they are, sizes too. sets: the grouping sets, as positions in keys. kept: conditions on
    groups. zeros: whether units without records are groups of size zero. frame: tables that are joined with the groups.
    joins: the conditions. whole: whether the columns are all that the query asks: no HAVING, QUALIFY or DISTINCT is
    left to be applied to them.
    """

    kind: ClassVar[str] = "group-size"
    shown: ClassVar[str] = "group sizes"
    unit: tuple[Expr, ...]
    size: Expr
    regions: tuple[Expr, ...] = ()
    keys: tuple[Expr, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    kept: frozenset[Expr] = frozenset()
    zeros: bool = False
    frame: tuple[Source, ...] = ()
    joins: frozenset[Expr] = frozenset()
    columns: tuple[Role, ...] = ()
    whole: bool = True


@dataclass(frozen=True, kw_only=True)
class Conditional(Found):
    """Shares within rows.

    name: the column that shows it. rows: the variables within which shares add up to one. cols: the variables that
    distinguish the cells of a row. event: conditions that define the cell, if the column shows one cell of each row.
    of: conditions on the records that are counted at all. weight: what is summed; None counts records. scale: 1, or 100
    for percentages. digits: decimals to which it is rounded; None if it is not. kept: conditions on rows, cells and
    shares. columns: all columns of the query, each with its expression.
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


@dataclass(frozen=True)
class Statistic:
    """A statistic of each group's records that meet `where`.

    name: records (how many there are), units (how many different values of a column), share (of the records that meet
    `of`), sum, avg, var_samp, var_pop, stddev_samp, stddev_pop, covar_pop, or quantile (at `place`). operand: what it
    is of, if it is of a value. other: what else a covariance is of. factor: by which it is multiplied. own: further
    conditions, which do not divide the cells of the answer: it is measured under these alone. type: that DuckDB gives a
    sum, or the value of a quantile, as it is written; empty where it is not known.
    """

    name: str
    operand: Expr | None = None
    where: frozenset[Expr] = frozenset()
    other: Expr | None = None
    of: frozenset[Expr] = frozenset()
    place: Fraction | None = None
    factor: Fraction = Fraction(1)
    own: frozenset[Expr] = frozenset()
    type: str = ""

    @property
    def column(self) -> str | None:
        """The column that it is of; None if it is of none, or of what is computed."""
        return self.operand.name if isinstance(self.operand, Column) else None


@dataclass(frozen=True, kw_only=True)
class Aggregates(Found):
    """Statistics of the records of one table by keys: a column for each key, then one for each statistic."""

    kind: ClassVar[str] = "aggregates"
    shown: ClassVar[str] = "statistics"
    keys: tuple[Expr, ...] = ()
    statistics: tuple[Statistic, ...] = ()


@dataclass(frozen=True)
class Unanswered:
    """Why an aggregate is not answered, and what may be asked instead, as far as the policy has it.

    reason: without its full stop. columns: that it is of, folded. instead: aggregates to be asked of these, as SQL with
    {} for a column. keys: likewise, by what records may be counted where none of these is answered. otherwise: the end
    of the sentence where nothing is.
    """

    reason: str
    columns: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    otherwise: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordReads(Found):
    """A read of records, or of values of single records."""

    kind: ClassVar[str] = "row-level"
    shown: ClassVar[str] = "row-level read"
    columns: tuple[Expr, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Unknown(Found):
    """A use of the table that is not proven to be any of the above. writes: it only inserts, updates or drops."""

    kind: ClassVar[str] = "unknown"
    shown: ClassVar[str] = "other use"
    reason: str = ""
    writes: bool = False


Finding: TypeAlias = GroupSizes | Conditional | Counts | RecordReads | Unknown
