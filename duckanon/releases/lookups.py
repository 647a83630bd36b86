"""Records joined with an open table.

By columns of the hierarchy the release is joined with it in their place: each group lies in one region of the release,
and the open table says what a region is part of. That costs nothing, since what is in an open table is public. A
semi-join by any column, or IN (SELECT ...), is a condition on records, and part of the question.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from duckanon.catalog.names import fold, quoted
from duckanon.catalog.types import WITHIN_BIGINT
from duckanon.governance.locations import Location
from duckanon.releases.group_sizes import offered
from duckanon.releases.noise import NotOffered, not_dropped
from duckanon.releases.sizes import Among
from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Column,
    Comparison,
    Expr,
    InQuery,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import written
from duckanon.rewrite.algebra.relations import Block, Source, Table, is_protected
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.recognize import GroupSizes
from duckanon.rewrite.rule_context import RuleContext

_TEMPORARY = (
    "Records are looked up in open tables, not in a temporary one: write its values out, as in x IN (1, 2), or ask the "
    "steward to open a table of them."
)
# The number of the source of the release's own columns.
OURS = -1


@dataclass(frozen=True)
class Lookup:
    """An open table that is joined with a release.

    path: of the table. own, theirs: the columns by which they are joined, of the release and of the table. shown: the
    table's columns that the query uses. where: conditions on its rows, as SQL.
    """

    path: tuple[str, str, str]
    own: tuple[str, ...]
    theirs: tuple[str, ...]
    shown: tuple[str, ...]
    where: tuple[str, ...]

    def joined(self, release: str) -> str:
        """The release with the columns of the table, under names of their own.

        A record that matches several rows with the same values is as many records of its group.
        """
        columns = [f"{quoted([column])} AS {_named(column)}" for column in dict.fromkeys((*self.theirs, *self.shown))]
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        counted = f"SELECT {', '.join(columns)}, count(*) AS _dk_times FROM {quoted(self.path)} AS _dk_rows"
        met = " AND ".join(
            f"_dk_sizes.{quoted([own_column])} = _dk_open.{_named(other)}"
            for own_column, other in zip(self.own, self.theirs, strict=True)
        )
        beside = "".join(f", _dk_open.{_named(column)}" for column in self.shown)
        return (
            f"(SELECT _dk_sizes.* REPLACE (_dk_sizes.size * _dk_open._dk_times AS size){beside} "
            f"FROM {release} AS _dk_sizes JOIN ({counted}{where} GROUP BY ALL) AS _dk_open ON {met})"
        )


def _named(column: str) -> str:
    return quoted([f"_dk_{column}"])


def looked_up(context: RuleContext, group_sizes: GroupSizes) -> tuple[GroupSizes, Lookup | None]:
    """A query whose records are joined with an open table, as one of the records alone, and the table.

    A query of other tables is left as it is. Raises NotOffered for other conditions than equal columns.
    """
    records, other = _sources(group_sizes)
    if records is None or other is None:
        return group_sizes, None
    assert isinstance(other.relation, Table)
    pairs = {
        expression: pair
        for expression in group_sizes.filter
        if (pair := _pair(expression, records.number, other.number)) is not None
    }
    hierarchy = {fold(key.column) for key in offered(context, group_sizes.table) or ()}
    about = {expression: _numbers(expression) for expression in group_sizes.filter if expression not in pairs}
    if not pairs or not {record_column for record_column, _ in pairs.values()} <= hierarchy:
        return group_sizes, None
    if any(len(numbers) != 1 for numbers in about.values()):
        raise NotOffered(
            "A table that is joined is joined by equal columns alone: write other conditions on one of both."
        )
    same = {theirs: Column(records.number, record_column) for record_column, theirs in pairs.values()}

    def change(expression: Expr) -> Expr | None:
        if not isinstance(expression, Column) or expression.source != other.number:
            return None
        return same.get(expression.name) or Column(OURS, f"_dk_{expression.name}")

    keys = tuple(rebuilt(key, change) for key in group_sizes.keys)
    columns = tuple(
        replace(
            role,
            expr=None if role.expr is None else rebuilt(role.expr, change),
            where=frozenset(rebuilt(condition, change) for condition in role.where),
        )
        for role in group_sizes.columns
    )
    changed = replace(
        group_sizes,
        sources=(replace(records, join="inner", on=frozenset()),),
        filter=frozenset(expression for expression, numbers in about.items() if numbers == {records.number}),
        regions=tuple(rebuilt(region, change) for region in group_sizes.regions),
        unit=tuple(rebuilt(expression, change) for expression in group_sizes.unit),
        keys=keys,
        kept=frozenset(rebuilt(expression, change) for expression in group_sizes.kept),
        columns=columns,
    )
    used = [
        condition
        for role in group_sizes.columns
        for condition in (*role.where, *([role.expr] if role.expr is not None else []))
    ]
    shown = {
        part.name
        for key in (*group_sizes.keys, *group_sizes.unit, *group_sizes.kept, *used)
        for part in walk(key)
        if isinstance(part, Column) and part.source == other.number and part.name not in same
    }
    where = sorted(
        f"({Renderer().text(condition)})" for condition, numbers in about.items() if numbers == {other.number}
    )
    own, theirs = zip(*sorted(pairs.values()), strict=True)
    return changed, Lookup(context.path(other.relation.name), own, theirs, tuple(sorted(shown)), tuple(where))


def _sources(group_sizes: GroupSizes) -> tuple[Source | None, Source | None]:
    """The records, and the open table with which they are joined; None if it is not such a join."""
    size = group_sizes.size
    counted = isinstance(size, Aggregate) and not size.distinct
    if len(group_sizes.sources) != 2 or group_sizes.frame or group_sizes.joins or not counted:
        return None, None
    records = [source for source in group_sizes.sources if getattr(source.relation, "name", None) == group_sizes.table]
    others = [
        source
        for source in group_sizes.sources
        if isinstance(source.relation, Table)
        and not source.relation.protected
        and source.join == "inner"
        and not source.on
    ]
    if len(records) != 1 or len(others) != 1 or records[0].join != "inner" or records[0].on:
        return None, None
    if _numbers(size) - {records[0].number}:
        return None, None
    return records[0], others[0]


def _pair(condition: Expr, records: int, other: int) -> tuple[str, str] | None:
    """The columns of the records and of the other table that a condition says are equal."""
    if not isinstance(condition, Comparison) or condition.operator != "=":
        return None
    by_source = {part.source: part.name for part in condition.parts if isinstance(part, Column)}
    return (by_source[records], by_source[other]) if set(by_source) == {records, other} else None


def _numbers(expr: Expr) -> set[int]:
    return {node.source for node in walk(expr) if isinstance(node, Column)}


def among(context: RuleContext, group_sizes: GroupSizes) -> tuple[GroupSizes, tuple[Among, ...]]:
    """A query without its conditions that a column has one of an open table's values, and these.

    A query without such conditions is left as it is. Raises NotOffered and NotTotal for what could fail on a record.
    """
    semi = [source for source in group_sizes.sources if source.join == "semi"]
    inner = [
        condition
        for condition in group_sizes.filter
        if isinstance(condition, InQuery) and not is_protected(condition.query)
    ]
    memberships: list[Among] = []
    for source in semi:
        pairs = [
            pair
            for condition in source.on
            if (pair := _pair(condition, group_sizes.sources[0].number, source.number)) is not None
        ]
        rest = [condition for condition in source.on if _numbers(condition) == {source.number}]
        if len(pairs) != 1 or len(rest) != len(source.on) - 1 or not isinstance(source.relation, Table):
            return group_sizes, ()
        memberships.append(values_of(context, group_sizes, pairs[0], source.relation, rest))
    for in_query in inner:
        probed = _probed(in_query, group_sizes)
        if probed is None:
            return group_sizes, ()
        own, column, table, rest = probed
        memberships.append(values_of(context, group_sizes, (own, column), table, rest))
    sources = tuple(source for source in group_sizes.sources if source not in semi)
    return replace(group_sizes, sources=sources, filter=group_sizes.filter - frozenset(inner)), tuple(
        sorted(memberships, key=repr)
    )


def _probed(in_query: InQuery, group_sizes: GroupSizes) -> tuple[str, str, Table, list[Expr]] | None:
    """Column, other column, table and conditions of `column IN (SELECT other FROM table WHERE ...)`."""
    query = in_query.query
    if not isinstance(query, Block) or not query.is_plain or len(query.sources) != 1 or len(query.outputs) != 1:
        return None
    (source,), (output,) = query.sources, query.outputs
    if any(_numbers(condition) != {source.number} for condition in query.where):
        return None
    match in_query.operand, output.expr, source.relation:
        case Column(number, own), Column(name=other), Table() as table if number == group_sizes.sources[0].number:
            return own, other, table, list(query.where)
    return None


def values_of(
    context: RuleContext, group_sizes: GroupSizes, pair: tuple[str, str], table: Table, where: Iterable[Expr] = ()
) -> Among:
    """The condition that a column has one of an open table's values. Raises NotOffered and NotTotal.

    pair: the column, and that of the open table.
    """
    (record_column, other), types, theirs = pair, context.types(group_sizes.table), context.types(table.name)
    if table.protected or not compare(types.get(record_column, ""), theirs.get(other, "")):
        raise NotOffered(
            "Records are looked up in an open table by columns of one type: a cast could fail on a record."
        )
    stored = context.catalog.stored(table.name)
    if stored is not None and stored.temporary:
        raise NotOffered(_TEMPORARY)
    not_dropped(context, group_sizes.table, {record_column})
    written_where = tuple(sorted(written(condition, theirs, context.today) for condition in where))
    own = {fold(column): column for column in context.columns(group_sizes.table)}
    columns = {fold(column): column for column in context.columns(table.name)}
    membership = Among(
        own=own[record_column],
        location=Location(*context.path(table.name)),
        column=columns[other],
        filter=written_where,
    )
    return replace(membership, content=context.releases.content(membership))


def compare(kind: str, other: str) -> bool:
    """Whether values of two types are compared without a cast that could fail."""
    return bool(kind) and (kind == other or (kind in WITHIN_BIGINT and other in WITHIN_BIGINT))
