"""Group sizes in ordinary SQL: which question a query asks, and the query over the answer that replaces it.

All group-size queries of a table without filters on records, by the same regions, read one release for the policy's
epsilon per query. So every query after the first is free, and answers about different regions and sizes agree. Filters
on records, other sizes than the number of records, parts of groups, and the table of all units make a release of its
own. Conditions on sizes and on the regions by which groups are counted, and all that is computed of sizes, are applied
to the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import sqlglot
from sqlglot import exp

from duckanon.accounting import rational
from duckanon.catalog.names import TableName, fold, literal, quoted, spelled
from duckanon.catalog.policy import LARGEST_BOUND, Policy
from duckanon.governance.locations import Location
from duckanon.releases import weighted_groups as weighted
from duckanon.releases.group_sizes import NONE, check, offered, question_of, settle, words_beside
from duckanon.releases.lookups import OURS, Lookup, among, compare, looked_up, values_of
from duckanon.releases.noise import NotOffered, conditions, not_dropped
from duckanon.releases.numbers import is_number
from duckanon.releases.paid_questions import GroupSizesQuestion, Key
from duckanon.releases.sizes import RECORDS, Size, UnitsTable
from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Between,
    Column,
    Comparison,
    Constant,
    Expr,
    In,
    Nested,
    is_aggregated,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import NotTotal, scalar
from duckanon.rewrite.algebra.nodes import Node, nodes_of, within
from duckanon.rewrite.algebra.relations import Source, Table
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.algebra.rows import columns_in, outer_columns, present
from duckanon.rewrite.decision import Verdict
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.grouped import aggregates_of
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.recognize import GroupSizes
from duckanon.rewrite.recognize.findings import Role
from duckanon.rewrite.recognize.measures import WHOLE, measure
from duckanon.rewrite.rule_context import RuleContext, type_of_count, written_columns

# The alias of the release in the text that runs.
_RELEASE = "_dk_release"
_SIZE = Column(OURS, "size")
_OWN = " It is a release of its own, with a charge of its own: its {} not those of the policy's release."
_HOW_MANY = (
    "How many groups there are is told where the policy lists the values of all columns that are read: ask for "
    "count(*) by columns with domains"
)
_JOINED = (
    "The groups are joined with another table, which the release does not know. Of units without records it "
    "knows as many as a table of all units has: FROM units LEFT JOIN ... ON, counting {}."
)


@dataclass(frozen=True)
class _Answering:
    """What answers a query. regions: folded columns of the release. after: conditions on the release. units: the path
    of the open table of all units, and their column in it. lookup: an open table that is joined with the release.
    """

    question: GroupSizesQuestion
    regions: tuple[str, ...] = ()
    after: tuple[Expr, ...] = ()
    units: tuple[tuple[str, str, str], str] | None = None
    lookup: Lookup | None = None


@dataclass(frozen=True)
class _Parts:
    """The joined tables of a query: the records, and the table of all units, if there is one.

    on_records, on_units: conditions on the rows of each.
    """

    records: Source
    units: Source | None = None
    unit: str = ""
    on_records: tuple[Expr, ...] = ()
    on_units: tuple[Expr, ...] = ()

    @property
    def of_units(self) -> bool:
        """Whether the table of all units is protected too."""
        return self.units is not None and isinstance(self.units.relation, Table) and self.units.relation.protected


def answer(context: RuleContext, group_sizes: GroupSizes, node: Node) -> str | None:
    """Replace the node that asks for `group_sizes` by the release. Returns why that cannot be done, else None."""
    name = group_sizes.table
    if offered(context, name) is None:
        return _not_offered(context, group_sizes)
    try:
        answering, replacement = _answered(context, group_sizes, node)
    except (NotOffered, NotTotal) as no:
        return context.not_answered(_refused_part(context, node, str(no)), str(no))
    context.replace(node, replacement)
    question = answering.question
    sentences = f"{words_beside(context, name, question)}{_about_release(question)}{_about_units(answering)}"
    settle(context, name, question, Verdict.REWRITTEN, sentences)
    return None


def _not_offered(context: RuleContext, group_sizes: GroupSizes) -> str:
    """Why there is no release of group sizes, or that a query asks for none: it counts groups of whatever size."""
    protected = context.protected(group_sizes.table)
    sized = (
        *group_sizes.keys,
        *group_sizes.kept,
        *(expression for role in group_sizes.columns for expression in _of(role)),
    )
    if protected.policy.per_query is None or not protected.stands or any(map(is_aggregated, sized)):
        return NONE
    return (
        f"{_HOW_MANY}{_different(context, group_sizes, {name for part in group_sizes.unit for name in _names(part)})}."
    )


def _answered(context: RuleContext, group_sizes: GroupSizes, node: Node) -> tuple[_Answering, Node]:
    """The question behind a query, and the query over its answer. Raises NotOffered and NotTotal."""
    answering, group_sizes = _answering(context, group_sizes)
    reason = check(answering.question, context.protected(group_sizes.table))
    if reason is not None:
        raise NotOffered(reason)
    _check_cut(group_sizes, answering.question)
    return answering, _over_release(context, group_sizes, answering, node)


def _refused_part(context: RuleContext, node: Node, reason: str) -> Node:
    """The part of a query that is refused for a reason: without it, it is not; all of the query if there is none."""
    for part, without in _without(context, node):
        sizes = [
            group_sizes for group_sizes in context.recognised(without, node) if isinstance(group_sizes, GroupSizes)
        ]
        if len(sizes) == 1:
            try:
                _answered(context, sizes[0], without)
            except (NotOffered, NotTotal) as no:
                if str(no) == reason:
                    continue
            return part
    inner = [
        select
        for select in nodes_of(node, exp.Select)
        if select is not node and select.args.get("distinct") is not None
    ]
    return inner[0] if len(inner) == 1 else node


def _without(context: RuleContext, node: Node) -> Iterator[tuple[Node, Node]]:
    """The parts of a query of group sizes, each with the query without it.

    Conditions are left out, a size becomes a number of records, and a column of a group becomes the policy's unit.
    """
    for select in nodes_of(node, exp.Select):
        where, group = select.args.get("where"), select.args.get("group")
        if where is not None:
            for condition in list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]:
                yield condition, _changed(node, [condition], exp.true())
        if group is None or select is node:
            continue
        for aggregate in (column for shown in select.expressions for column in aggregates_of(shown)):
            yield aggregate, _changed(node, [aggregate], exp.Count(this=exp.Star()))
        units = {context.policy(name).unit for name, read in context.reads if within(read, select)}
        for expression in group.expressions:
            if len(units) == 1 and isinstance(expression, exp.Column):
                named = [
                    column for column in nodes_of(select, exp.Column) if fold(column.name) == fold(expression.name)
                ]
                yield expression, _changed(node, named, exp.column(units.copy().pop() or ""))


def _changed(node: Node, parts: Sequence[Node], by: Node) -> Node:
    """A copy of a query with something else in place of some of its parts."""
    copy = node.copy()
    places = [at for at, descendant in enumerate(node.walk()) if any(descendant is part for part in parts)]
    nodes = list(copy.walk())
    for at in places:
        nodes[at].replace(by.copy())
    return copy


def _about_release(question: GroupSizesQuestion) -> str:
    """Sentences about a release that is not the policy's usual one, for the reason of its step."""
    size = question.size
    sentences = _cut(question)
    own = [
        subject
        for subject, differs in (
            ("filters", bool(question.filter or question.among)),
            ("groups", bool(question.within or question.computed) or question.units is not None),
            ("sizes", size != RECORDS),
        )
        if differs
    ]
    sentences += _OWN.format(f"{' and '.join(own)} are") if own else ""
    if size.what == "sum":
        low, high = size.low * size.step, size.high * size.step
        sentences += f" Each {size.column} is clamped to {low} to {high} and rounded to a multiple of {size.step}."
    return sentences


def _about_units(answering: _Answering) -> str:
    """A sentence about the open table of all units, if there is one; its name may be that of one behind a view."""
    if answering.units is None:
        return ""
    return " The groups are the different units in the open table, each once; NULL is no unit."


def _cut(question: GroupSizesQuestion) -> str:
    """A sentence about groups larger than the largest size that is told."""
    size, largest = question.size, question.largest * question.size.step
    what = {"records": "Sizes", "distinct": f"Numbers of different {size.column}", "sum": f"Sums of {size.column}"}
    by = "max_size" if question.largest == question.max_size else "rows_per_unit"
    return f" {what[size.what]} above {largest:,} count as {largest:,}, by the policy's {by}."


def _check_cut(group_sizes: GroupSizes, question: GroupSizesQuestion) -> None:
    """Raises NotOffered for a comparison of sizes with a number above the largest that is told.

    Groups that differ there cannot be told apart: `size > 20` holds for none if 20 is the largest.
    """
    largest = question.largest * question.size.step
    exprs = (
        *group_sizes.keys,
        *group_sizes.kept,
        *(expression for role in group_sizes.columns for expression in _of(role)),
    )
    for expression in (part for expr in exprs for part in walk(_released(expr, group_sizes.size))):
        if not isinstance(expression, Comparison | In | Between) or _SIZE not in expression.parts:
            continue
        numbers = [
            float(constant.value)
            for constant in expression.parts
            if isinstance(constant, Constant) and not constant.is_text
        ]
        if any(number > largest or (number == largest and _is_above(expression)) for number in numbers):
            raise NotOffered(
                f"{_cut(question).strip()} So nothing is told by comparing with more: compare with less, or ask the "
                "steward for a larger one."
            )


def _is_above(condition: Expr) -> bool:
    """Whether the condition says that the size is above a number."""
    match condition:
        case Comparison(">", size, _) | Comparison("<", _, size):
            return size == _SIZE
    return False


# --- the question -----------------------------------------------------------------------------------------------------


def _answering(context: RuleContext, group_sizes: GroupSizes) -> tuple[_Answering, GroupSizes]:
    """The question that answers a query, and the query without the open tables that are part of the question.

    Raises NotOffered and NotTotal.
    """
    group_sizes, lookup = looked_up(context, group_sizes)
    group_sizes, open_tables = among(context, group_sizes)
    name = group_sizes.table
    policy = context.policy(name)
    assert policy.unit is not None and policy.per_query is not None and policy.max_size is not None  # noqa: PT018
    if not group_sizes.columns or any(role.what == "derived" for role in group_sizes.columns):
        raise NotOffered("The query shows more than regions, sizes and numbers of groups: compute the rest around it.")
    parts = _parts(group_sizes, policy)
    keys = () if parts.of_units else offered(context, name) or ()
    keys = keys[: _needed_regions(group_sizes, keys, lookup, parts.on_records)]
    regions = tuple(fold(key.column) for key in keys)
    after = tuple(
        expression
        for expression in parts.on_records
        if _names(expression) <= set(regions) and not _looks_out(expression)
    )
    filters = [expression for expression in parts.on_records if expression not in after]
    stored = {fold(column): column for column in context.columns(name)}
    more: dict[str, Any] = {"filter": _conditions(context, name, filters), "size": _size(context, group_sizes, policy)}
    more["among"] = open_tables
    epsilon = policy.per_query
    if parts.units is None:
        within, computed = _within(context, group_sizes, regions)
        more["within"], more["computed"] = tuple(stored[column] for column in within), computed
        more["is_unit"] = policy.unit_is_group and not within and not computed
    elif not parts.of_units:
        # Groups that the open table does not list are no groups of the query.
        assert isinstance(parts.units.relation, Table)
        own = fold(policy.unit)
        more["among"] = (*open_tables, values_of(context, group_sizes, (own, parts.unit), parts.units.relation))
    else:
        more["units"], other_policy = _units_table(context, group_sizes, parts)
        epsilon = min(epsilon, other_policy.per_query or epsilon)
    question = question_of(context, name, keys, epsilon=epsilon, max_size=policy.max_size, **more)
    _check_shown(group_sizes, regions)
    expressions = (*after, *(_released(expression, group_sizes.size) for expression in group_sizes.kept))
    if question.units is not None or parts.units is None:
        return _Answering(question, regions, expressions, lookup=lookup), group_sizes
    assert isinstance(parts.units.relation, Table)
    return _Answering(
        question, regions, expressions, (context.path(parts.units.relation.name), parts.unit)
    ), group_sizes


def _needed_regions(
    group_sizes: GroupSizes, keys: Sequence[Key], lookup: Lookup | None, on_records: Sequence[Expr]
) -> int:
    """How many regions, from the widest on, the query names, in its groups or around them.

    A group may lie in several regions, and the release has it once in each. So a region is of use only where the query
    has it so too: it groups by it, takes any_value of it, or leaves one of its values. Otherwise the groups are those
    that the query's records form, which is another question. Raises NotOffered where its rows are such regions.
    """
    names = [fold(key.column) for key in keys]
    within = {column.name for column in group_sizes.unit if isinstance(column, Column)}
    named = 1 + max((at for at, name in enumerate(names) if name in within), default=-1)
    needed = max(_depth(group_sizes, names, lookup), named)
    grouped = within | {name for region in group_sizes.regions for name in _names(_released(region, group_sizes.size))}
    told_apart = grouped | _of_each_group(group_sizes) | _left_one_value(on_records) | set(lookup.own if lookup else ())
    missing = next((at for at, name in enumerate(names[:needed]) if name not in told_apart), needed)
    shown = {name for key in group_sizes.keys for name in _names(_released(key, group_sizes.size))}
    if shown & set(names[missing:needed]):
        raise NotOffered(
            "A group may lie in several regions: where it is counted by one, its GROUP BY has all wider ones too, "
            f"here {keys[missing].column}."
        )
    return missing


def _of_each_group(group_sizes: GroupSizes) -> set[str]:
    """The columns of which any_value stands for all records of a group."""
    exprs = (
        *group_sizes.keys,
        *group_sizes.kept,
        *(expression for role in group_sizes.columns for expression in _of(role)),
    )
    aggregates = (
        node for expr in exprs for node in walk(expr) if isinstance(node, Aggregate) and node.name == "any_value"
    )
    return {aggregate.argument.name for aggregate in aggregates if isinstance(aggregate.argument, Column)}


def _left_one_value(conditions: Iterable[Expr]) -> set[str]:
    """The columns of which conditions leave one value."""
    columns = set[str]()
    for condition in conditions:
        match condition:
            case (
                Comparison("=", Column(name=name), value)
                | Comparison("=", value, Column(name=name))
                | In(Column(name=name), (value,))
            ) if not any(True for _ in columns_in([value])):
                columns.add(name)
    return columns


def _parts(group_sizes: GroupSizes, policy: Policy) -> _Parts:
    """The tables of a query and the conditions on each. Raises NotOffered for a join that is not followed."""
    if len(group_sizes.sources) == 1 and not group_sizes.frame and not group_sizes.joins:
        there = frozenset(map(present, group_sizes.unit))
        return _Parts(
            group_sizes.sources[0],
            on_records=tuple(expression for expression in group_sizes.filter if expression not in there),
        )
    refusal = _JOINED.format(policy.unit)
    if (
        len(group_sizes.sources) != 2
        or group_sizes.regions
        or group_sizes.frame
        or group_sizes.joins
        or not group_sizes.zeros
    ):
        raise NotOffered(refusal)
    first, second = group_sizes.sources
    every, records = first.relation, second.relation
    if not isinstance(every, Table) or not isinstance(records, Table) or first.on or second.join != "left":
        raise NotOffered(refusal)
    if records.name != group_sizes.table or len(group_sizes.unit) != 1 or not isinstance(group_sizes.size, Aggregate):
        raise NotOffered(refusal)
    (unit,) = group_sizes.unit
    own = Column(second.number, fold(policy.unit or ""))
    if not isinstance(unit, Column) or unit.source != first.number or group_sizes.size.name != "count":
        raise NotOffered(refusal)
    met = {Comparison("=", unit, own), Comparison("=", own, unit)}
    on_records = tuple(condition for condition in second.on if condition not in met)
    if len(second.on) != len(on_records) + 1 or any(
        _sources(expression) != {second.number} for expression in on_records
    ):
        raise NotOffered(
            f"Units and records must be joined by {policy.unit}, and all other conditions of ON be about records."
        )
    on_units = tuple(group_sizes.filter)
    if any(_sources(expression) != {first.number} for expression in on_units) or (on_units and not every.protected):
        raise NotOffered(
            "Conditions on the records stand in ON, so that units without such records stay. Those in WHERE leave "
            "units out, and are followed for a protected table of units only."
        )
    return _Parts(second, first, unit.name, on_records, on_units)


def _units_table(context: RuleContext, group_sizes: GroupSizes, parts: _Parts) -> tuple[UnitsTable, Policy]:
    """The protected table of all units, and its policy.

    Raises NotOffered unless both tables are of one population, and joined by the privacy unit of both.
    """
    assert parts.units is not None
    assert isinstance(parts.units.relation, Table)
    name = parts.units.relation.name
    protected, own_policy = context.catalog.protected[name], context.policy(group_sizes.table)
    policy, (here, there) = protected.policy, (context.label(name), context.label(group_sizes.table))
    if (
        name.catalog != group_sizes.table.catalog
        or policy.population != own_policy.population
        or policy.privacy_unit is None
    ):
        raise NotOffered(
            f"{here} and {there} are not protected in one population, so no charge covers both: ask the steward to "
            "protect them with the same population, and the column of the privacy unit in each."
        )
    if fold(policy.privacy_unit) != parts.unit or not own_policy.unit_is_group:
        raise NotOffered(
            f"{here} and {there} are joined only by the privacy unit of both, and then its records are counted: "
            f"{policy.unit_in_words} of {here} is one, and {own_policy.unit_in_words} of {there}, whose groups the "
            f"policy counts by {own_policy.unit}."
        )
    if not protected.stands or policy.per_query is None:
        raise NotOffered(f"The policy of {here} offers no releases with noise: ask the steward for per_query.")
    types, column = context.types(name), fold(policy.privacy_unit)
    if not compare(types[column], context.types(group_sizes.table)[fold(own_policy.unit or "")]):
        raise NotOffered(f"The units of {here} and {there} have different types: ask the steward to give them one.")
    stored = {fold(column): column for column in context.columns(name)}
    filters = _conditions(context, name, parts.on_units)
    location = Location(*context.path(name))
    units = UnitsTable(location=location, version=protected.version, column=stored[column], filter=filters)
    return units, policy


def _within(context: RuleContext, group_sizes: GroupSizes, regions: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The columns that identify a group besides the policy's unit and regions; and if a group is identified by
    something that is computed, all that identifies it, as SQL. Raises NotOffered, and NotTotal for what could fail.
    """
    policy = context.policy(group_sizes.table)
    unit, names = fold(policy.unit or ""), {name for expression in group_sizes.unit for name in _names(expression)}
    if unit not in names:
        raise NotOffered(
            f"The policy counts groups by {policy.unit}: ask for groups by it, or by it and further columns"
            f"{_different(context, group_sizes, names)}."
        )
    not_dropped(context, group_sizes.table, names)
    unknown = sorted(names - set(map(fold, context.columns(group_sizes.table))))
    if unknown:
        raise NotOffered(
            f'{context.label(group_sizes.table)} has no column "{unknown[0]}": look at its names in '
            "information_schema.columns."
        )
    expressions = [
        expression
        for expression in group_sizes.unit
        if not (isinstance(expression, Column) and expression.name in regions)
    ]
    within = sorted(names - {unit, *regions})
    if all(isinstance(expression, Column) for expression in expressions):
        return within, ()
    return [], tuple(
        sorted({scalar(expression, context.types(group_sizes.table), context.today)[0] for expression in expressions})
    )


def _different(context: RuleContext, group_sizes: GroupSizes, names: set[str]) -> str:
    """What may be asked of a single column that is no unit."""
    held = {fold(name) for name in context.policy(group_sizes.table).drop}
    columns = [spelled([column]) for column in context.columns(group_sizes.table) if fold(column) in names - held]
    plain = len(columns) == 1 == len(group_sizes.unit) and isinstance(group_sizes.unit[0], Column)
    return f", or for count(DISTINCT {columns[0]}) instead" if plain else ""


def _size(context: RuleContext, group_sizes: GroupSizes, policy: Policy) -> Size:
    """What the size of a group is. Raises NotOffered and NotTotal."""
    size, name = group_sizes.size, group_sizes.table
    assert isinstance(size, Aggregate)
    there = [fold(name) for name in (policy.unit, policy.privacy_unit) if name is not None]

    def counted(where: Iterable[Expr]) -> tuple[str, ...]:
        kept = [
            condition
            for condition in where
            if not any(
                condition == present(Column(source.number, at)) for source in group_sizes.sources for at in there
            )
        ]
        return _conditions(context, name, kept)

    column = size.argument
    if size.distinct and column is not None:
        if not isinstance(column, Column):
            raise NotOffered("Different values are counted of a column, as it stands.")
        _conditions(context, name, [Comparison("=", column, column)])
        return Size(what="distinct", column=_stored(context, name, column), where=counted(size.where))
    meant = measure(size, group_sizes.sources)
    if meant is None or meant.scale != 1:
        raise NotOffered("Sizes are numbers of records, of different values, or sums of a column with bounds.")
    if meant.weight is None:
        where = counted(meant.where)
        return Size(where=where) if where else RECORDS
    return _sum(context, name, policy, meant.weight, counted({*meant.where, present(meant.weight)}))


def _sum(context: RuleContext, name: TableName, policy: Policy, of: Expr, where: tuple[str, ...]) -> Size:
    """A sum of a column with bounds, as the size of a group. Raises NotOffered."""
    if not isinstance(of, Column):
        raise NotOffered("Sums are of a column, as it stands.")
    bounds = {fold(column): bound for column, bound in policy.bounds.items()}.get(of.name)
    if bounds is None:
        raise NotOffered(
            f"The policy has no bounds for {of.name}, so nobody knows how much one record adds: ask the steward for "
            f"bounds := {{{literal(of.name)}: [least, largest]}}."
        )
    if not is_number(context.types(name)[of.name]):
        raise NotOffered(f"Sums are of a column of numbers, and {of.name} is none.")
    low, high, *more = [rational(bound) for bound in bounds]
    step = more[0] if more else rational("1")
    if low is None or high is None or step is None or low < 0 or step <= 0:
        raise NotOffered(
            f"Sizes are sums of numbers that are not negative, and the least bound of {of.name} is negative: ask for "
            "the sum or the mean of all records."
        )
    if step.denominator != 1:
        raise NotOffered(
            f"Sizes are sums in steps of a whole number, and that of {of.name} is none: ask the steward for bounds in "
            f"whole steps, as in {{{literal(of.name)}: [{floor(low)}, {ceil(high)}]}}, or ask for the sum or the mean "
            "of all records."
        )
    if high > LARGEST_BOUND:
        raise NotOffered(f"The bounds of {of.name} are too wide for sums: ask the steward for narrower ones.")
    if (low / step).denominator != 1 or (high / step).denominator != 1 or high <= 0:
        raise NotOffered(f"The bounds of {of.name} must be multiples of its step: ask the steward.")
    return Size(
        what="sum",
        column=_stored(context, name, of),
        low=int(low / step),
        high=int(high / step),
        step=int(step),
        where=where,
    )


def _stored(context: RuleContext, name: TableName, column: Column) -> str:
    return {fold(column): column for column in context.columns(name)}[column.name]


def _conditions(context: RuleContext, name: TableName, expressions: Iterable[Expr]) -> tuple[str, ...]:
    """Conditions on records as SQL, each once, in order. Raises NotOffered for dropped columns, and NotTotal."""
    return tuple(sorted(set(conditions(context, name, list(expressions)))))


def _check_shown(group_sizes: GroupSizes, regions: Sequence[str]) -> None:
    """Raises NotOffered where the query distinguishes groups by something that the release does not have."""
    for key in (*group_sizes.keys, *group_sizes.kept):
        released = _released(key, group_sizes.size)
        if not _names(released) <= set(regions) or any(isinstance(part, Aggregate) for part in walk(released)):
            raise NotOffered("Regions must be columns of the policy's hierarchy that have domains.")
    for role in group_sizes.columns:
        of = (*role.where, *([role.expr] if role.what == "statistic" and role.expr is not None else []))
        there = frozenset(map(present, group_sizes.unit))
        if any(
            not _names(_released(expression, group_sizes.size)) <= set(regions)
            for expression in of
            if expression not in there
        ):
            raise NotOffered("Groups are counted, and their sizes summed up, by regions and sizes.")
        if role.what == "statistic" and isinstance(role.expr, Aggregate) and weighted.is_quantile(role.expr):
            if len(group_sizes.sets) > 1:
                raise NotOffered("Medians and quantiles are told for one grouping at a time: ask for one level.")
            if not weighted.known_quantile(role.expr):
                raise NotOffered("A quantile is asked by a number from 0 to 1.")


def _names(expr: Expr) -> set[str]:
    """The columns in an expression, without the release's own."""
    return {column.name for column in columns_in([expr]) if isinstance(column, Column) and column.source != OURS}


def _looks_out(expr: Expr) -> bool:
    """Whether a subquery in it uses columns of the query around it."""
    return any(True for node in walk(expr) if isinstance(node, Nested) for _ in outer_columns(node.query))


def _sources(expr: Expr) -> set[int]:
    return {node.source for node in walk(expr) if isinstance(node, Column)}


# --- the query over the release ---------------------------------------------------------------------------------------


def _released(expr: Expr, size: Expr) -> Expr:
    """The expression over the release's columns. A value that stands for all records of a group is its region."""

    def change(expression: Expr) -> Expr | None:
        if expression == size:
            return _SIZE
        if isinstance(expression, Aggregate) and expression.name == "any_value" and not expression.where:
            return expression.argument if isinstance(expression.argument, Column) else None
        return None

    return rebuilt(expr, change)


def _over_release(context: RuleContext, group_sizes: GroupSizes, answering: _Answering, node: Node) -> Node:
    """The query over the release that shows the columns of `group_sizes`. Raises NotOffered."""
    renderer = Renderer()

    def over(expr: Expr) -> str:
        return renderer.text(_released(expr, group_sizes.size))

    names = context.names(group_sizes.table, node, group_sizes.columns)
    keys = [over(key) for key in group_sizes.keys]
    there = frozenset(map(present, group_sizes.unit))
    quantiles = list(
        dict.fromkeys(
            role.expr
            for role in group_sizes.columns
            if isinstance(role.expr, Aggregate) and weighted.is_quantile(role.expr)
        )
    )
    named_keys = _named_keys(group_sizes, keys)
    shown = []
    for role, name, written_column in zip(
        group_sizes.columns, names, written_columns(node, group_sizes.columns), strict=True
    ):
        column_sql = _column(role, over, type_of_count(written_column), there, quantiles)
        column_sql = (
            named_keys[keys.index(column_sql)] if role.what in ("region", "size") and column_sql in keys else column_sql
        )
        shown.append(f"{column_sql} AS {quoted([name])}")
    source = f"{_source(context, group_sizes, answering)} AS {_RELEASE}"
    where = " AND ".join(
        [f"level = {_level(group_sizes, answering)}", *sorted(f"({over(condition)})" for condition in answering.after)]
    )
    if quantiles:
        beside = [
            column for at, quantile in enumerate(quantiles) for column in weighted.cumulative(quantile, over, at, keys)
        ]
        source, where = f"(SELECT *, {', '.join(beside)} FROM {source} WHERE {where}) AS {_RELEASE}", ""
    if named_keys != keys:
        named = ", ".join(f"{key} AS {name}" for key, name in zip(keys, named_keys, strict=True) if key != name)
        source, where = f"(SELECT *, {named} FROM {source} WHERE {where}) AS {_RELEASE}", ""
    filtered = f" WHERE {where}" if where else ""
    sql = f"SELECT {', '.join(shown)} FROM {source}{filtered}{_grouped(group_sizes, named_keys)}"
    replacement = sqlglot.parse_one(sql, read=DIALECT)
    followed = group_sizes.whole or any(node.args.get(part) for part in _OF_GROUPS)
    if not followed or not order_limit(_bare(node) if group_sizes.whole else node, replacement):
        # Where the query has no such clause of its own, it is a WHERE around the query of sizes.
        raise NotOffered(
            "The query orders or filters the groups in a way that is not followed: write that around the query of "
            "sizes, as in SELECT ... FROM (query) ORDER BY size."
        )
    return replacement


def _column(
    role: Role, over: Callable[[Expr], str], kind: str, there: frozenset[Expr], quantiles: Sequence[Expr]
) -> str:
    if role.what == "groups":
        return weighted.count((condition for condition in role.where if condition not in there), over, kind)
    assert role.expr is not None
    if role.what != "statistic":
        return over(role.expr)
    assert isinstance(role.expr, Aggregate)
    return weighted.statistic(role.expr, over, quantiles.index(role.expr) if role.expr in quantiles else 0)


def _level(group_sizes: GroupSizes, answering: _Answering) -> int:
    """The level of the release that has all regions of the query; each level adds up to the one above it."""
    return _depth(group_sizes, answering.regions, answering.lookup)


def _depth(group_sizes: GroupSizes, regions: Sequence[str], lookup: Lookup | None) -> int:
    """How many of the regions, from the widest on, the query needs."""
    exprs = (
        *group_sizes.keys,
        *group_sizes.filter,
        *group_sizes.kept,
        *(expression for role in group_sizes.columns for expression in _of(role)),
    )
    used = set(lookup.own if lookup is not None else ())
    used |= {name for expr in exprs for name in _names(_released(expr, group_sizes.size))}
    return 1 + max((at for at, region in enumerate(regions) if region in used), default=-1)


def _of(role: Role) -> Iterable[Expr]:
    return (*role.where, *([role.expr] if role.expr is not None else []))


def _named_keys(group_sizes: GroupSizes, keys: Sequence[str]) -> list[str]:
    """The keys as they are grouped by: with several grouping sets, what is computed has a name of its own.

    Not every version of sqlglot reads expressions in GROUPING SETS.
    """
    if len(group_sizes.sets) == 1:
        return list(keys)
    plain = [isinstance(_released(key, group_sizes.size), Column) for key in group_sizes.keys]
    return [key if plain[at] else f"_dk_key{at}" for at, key in enumerate(keys)]


def _grouped(group_sizes: GroupSizes, keys: Sequence[str]) -> str:
    if not keys:
        return ""
    if len(group_sizes.sets) == 1 and len(group_sizes.sets[0]) == len(keys):
        return f" GROUP BY {', '.join(dict.fromkeys(keys))}"
    sets = ", ".join(f"({', '.join(keys[at] for at in numbers)})" for numbers in group_sizes.sets)
    return f" GROUP BY GROUPING SETS ({sets})"


def _bare(node: Node) -> Node:
    """The query without clauses that the finding has taken in, such as HAVING on keys."""
    bare = node.copy()
    if isinstance(bare, exp.Select):
        for part in (*_OF_GROUPS, "windows"):
            bare.set(part, None)
    return bare


# The clauses that leave groups out.
_OF_GROUPS = ("having", "qualify", "distinct")


def _source(context: RuleContext, group_sizes: GroupSizes, answering: _Answering) -> str:
    """The release, with sizes of the type that the query gives them, and a row for groups of size 0, if there is an
    open table of all units.
    """
    release, column = quoted(answering.question.path), answering.question.size.column
    if isinstance(group_sizes.size, Aggregate) and group_sizes.size.name == "sum":
        whole = column is None or context.types(group_sizes.table)[fold(column)] in WHOLE
        kind = "HUGEINT" if whole else "DOUBLE"
        release = f"(SELECT * REPLACE (CAST(size AS {kind}) AS size) FROM {release})"
    if answering.lookup is not None:
        release = answering.lookup.joined(release)
    if answering.units is None:
        return release
    path, column = answering.units
    known = f"SELECT count(DISTINCT {quoted([column])}) FROM {quoted(path)} AS _dk_units"
    return (
        f"(SELECT 0 AS level, size, groups FROM {release} AS _dk_sizes WHERE level = 0 AND size > 0 UNION ALL "
        f"SELECT 0, 0, greatest(CAST(({known}) - coalesce(sum(groups), 0) AS BIGINT), 0) "
        f"FROM {release} AS _dk_sizes WHERE level = 0 AND size > 0)"
    )
