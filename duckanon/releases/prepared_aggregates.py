"""Counts, sums, means and shares that follow from what a steward prepared: they are free, and agree with each other.

A question follows from a preparation of the same table, policy and edition if all columns of its keys and conditions
are in one of the prepared tables, beside the number that is summed. Then conditions on records are conditions on keys:
they say which cells are added up. Of each cell the answer has its place in the prepared table, and widths of intervals
follow from the places that a row adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate
from math import isnan
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import TableName, fold
from duckanon.governance.preparations import Preparation, PreparedNumber
from duckanon.releases import layout
from duckanon.releases.keyed_aggregates import OTHERWISE, ByKeys, asks_nothing
from duckanon.releases.looking_up import LookingUp, counted_sources, looking_up
from duckanon.releases.measures import Computed, Measure, Number, Records, Sums
from duckanon.releases.noise import NotOffered, left_out_of
from duckanon.releases.noisy_aggregates import REFUSALS, parts_alone
from duckanon.releases.numbers import Columns, Quantity, quantity, rounding
from duckanon.releases.paid_questions import Key, basis
from duckanon.releases.plan_measures import Measures
from duckanon.releases.preparations import MOST_STEPS, PLACE, FollowingQuestion
from duckanon.releases.prepared_noise import PreparedNoise, noise_of
from duckanon.releases.prepared_numbers import multiple
from duckanon.releases.prepared_parts import ALL, VALUES, PartOf, Wanted, always_holds, of_each, presence, share
from duckanon.releases.prepared_statistics import PreparedCount, PreparedMean, PreparedShare, PreparedSum, divided
from duckanon.releases.set_by_set import SetBySet
from duckanon.releases.side_by_side import Part, SideBySide
from duckanon.releases.statistics import Counted, Measured, Told, answer_column
from duckanon.releases.within_units import local
from duckanon.rewrite.algebra.bounds import NotBounded
from duckanon.rewrite.algebra.expressions import Column, Expr, Nested, has, walk
from duckanon.rewrite.algebra.filters import NotTotal
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.normalize.grouped import Grouped, Over
from duckanon.rewrite.recognize.findings import Aggregates, Statistic
from duckanon.rewrite.rule_context import RuleContext

_BY_CELLS: Any = None
# The places of numbers that follow from one table together, with how they do.
Parts: TypeAlias = Sequence[tuple[Sequence[int], "Prepared"]]
# So many columns are named in a sentence.
_MOST_NAMED = 5
# Of more numbers no answers are put side by side.
_MOST_NUMBERS = 20
_OF_SEVERAL = (
    "What is computed of several records of a unit is no column of a record, so it is not prepared: ask it by itself."
)
_PLANNED = "What is prepared answers counts, sums and means of records by public columns with a domain, and shares."


class _NothingPrepared(NotOffered):
    """Of the table that a query reads there is nothing prepared."""


def follows(context: RuleContext, node: Node, meant: Node | None = None) -> bool:
    """Replace a SELECT by the same over what follows from a preparation. Returns whether one has it.

    meant: what the SELECT means, if that is written in another way.
    """
    following = _planned(context, meant or node, node)
    if following is None:
        return False
    is_result = node is context.bound.query
    noisy, note = (following.answers.noisy, following.answers.note(following.query)) if is_result else ([], None)
    context.replace(node, following.query)
    for at, plan in enumerate(following.plans):
        context.answers.append(plan.question)
        context.steps.append(_step(context, following.table, plan, *((noisy, note) if at == 0 else ((), None))))
    return True


@dataclass(frozen=True)
class TableQuery:
    """A query as one of the records of one protected table. aggregates: what it asks, of `read.name`.

    is_part: whether it has only some of a query's numbers, and the rows of its answer stand beside those of others.
    """

    grouped: Grouped
    aggregates: Aggregates
    read: LookingUp
    is_part: bool = False

    @property
    def places(self) -> tuple[int, ...]:
        """Of its numbers."""
        return tuple(range(len(self.aggregates.statistics)))

    def in_set(self, keys: Sequence[int]) -> TableQuery:
        """The rows of one grouping set. keys: their places."""
        aggregates = replace(self.aggregates, keys=tuple(self.aggregates.keys[at] for at in keys))
        return replace(self, grouped=self.grouped.in_set(keys), aggregates=aggregates, is_part=True)

    def part(self, places: Sequence[int]) -> TableQuery:
        """The query with some of its numbers."""
        aggregates = replace(self.aggregates, statistics=tuple(self.aggregates.statistics[at] for at in places))
        return replace(self, grouped=self.grouped.part(places), aggregates=aggregates, is_part=True)


@dataclass(frozen=True)
class Following:
    """How a query follows from a preparation. query: it over the answers. table: the protected one.

    number: of the draw. variance: as of the plans, together.
    """

    query: Node
    table: TableName
    plans: Sequence[Prepared]
    answers: SideBySide | SetBySet

    @property
    def number(self) -> int:
        return self.plans[0].preparation.number

    @property
    def variance(self) -> Fraction:
        return sum((plan.variance for plan in self.plans), Fraction(0))


def _table_queries(context: RuleContext, query: Node, place: Node) -> list[TableQuery]:
    """The ways to read a query as one of a table of which something is prepared. Raises REFUSALS where there is none.

    place: where the query stands.
    """
    grouped = context.grouped(query, place)
    block = context.shown(grouped, place)
    if len(block.sources) == 1 and not any(has(expression, Nested) for expression in block.expressions()):
        core, relation = local(context, block, asks_nothing)
        aggregates = context.aggregates(core)
        if relation is not None:
            raise NotOffered(_OF_SEVERAL)
        if not context.releases.prepared(aggregates.table):
            raise _NothingPrepared(OTHERWISE)
        return [TableQuery(grouped, aggregates, LookingUp(core, aggregates.table, aggregates.table))]
    readings, refused = [], NotOffered(OTHERWISE)
    for counted_source in counted_sources(context, block):
        try:
            read = looking_up(context, block, counted_source)
            readings.append(TableQuery(grouped, context.aggregates(read.block), read))
        except NotOffered as no:
            refused = no
    if not readings:
        raise refused
    return readings


def _planned(context: RuleContext, query: Node, place: Node) -> Following | None:
    """How a query follows; None where nothing prepared has it. place: where the query stands."""
    try:
        return _most_exact(context, query, place)
    except _NothingPrepared:
        return None
    except REFUSALS as no:
        why = no
    context.releases.not_prepared(lambda: _refused(context, place, why))
    return None


def _most_exact(context: RuleContext, query: Node, place: Node) -> Following:
    """As `_planned`. place: where the query stands. Raises REFUSALS."""
    answering = [
        following
        for table_query in _table_queries(context, query, place)
        for following in _following(context, table_query)
    ]
    # Different draws are never combined: the most exact one answers, and of equal ones the first.
    return min(answering, key=lambda following: (following.variance, following.number))


def _refused(context: RuleContext, node: Node, why: Exception) -> str:
    """Why a query does not follow, with the part of it that does not, alone beside a count."""
    part = getattr(why, "part", None)
    for piece, alone in () if part is not None else parts_alone(context, node, node):
        try:
            _most_exact(context, alone, node)
        except REFUSALS as no:
            if str(no) == str(why):
                part = getattr(no, "part", None) or piece
                break
    reason = _PLANNED if str(why) == OTHERWISE else str(why)
    return context.not_answered(part, reason if reason.endswith(".") else f"{reason}.")


def _following(context: RuleContext, table_query: TableQuery) -> list[Following]:
    """The answers to a query that follow, of each preparation the most exact one. Raises REFUSALS."""
    refused: Exception = _NothingPrepared(OTHERWISE)
    following = []
    for preparation in context.releases.prepared(table_query.read.table):
        try:
            following.append(_from_tables(context, table_query, preparation))
        except REFUSALS as no:
            refused = no
    if not following:
        raise refused
    return following


def _from_tables(context: RuleContext, table_query: TableQuery, preparation: Preparation) -> Following:
    """How a query follows from one preparation: each number from one of its tables. Raises REFUSALS.

    The rows of several grouping sets are from one table with all keys, as totals of its rows, if there is such a table;
    else those of each set are from tables of their own.
    """
    sets = table_query.grouped.sets
    is_only_planned = not preparation.design.measured
    try:
        if is_only_planned and sets and max(map(len, sets)) < len(table_query.aggregates.keys):
            # No row needs all keys together.
            raise NotOffered(OTHERWISE)
        tables = _tables(context, table_query, preparation)
        return _first([partial(_written, context, table_query, parts) for parts in tables])
    except REFUSALS:
        if not sets:
            raise
    parts_by_set = [_tables(context, table_query.in_set(keys), preparation) for keys in sets]
    return _first(
        [partial(_set_by_set, context, table_query, [parts[way] for parts in parts_by_set]) for way in (0, -1)]
    )


def _first(ways: Sequence[Callable[[], Following]]) -> Following:
    """The first way that is one: the interval of a quotient may need its numbers together. Raises REFUSALS."""
    for way in ways[:-1]:
        try:
            return way()
        except REFUSALS:
            continue
    return ways[-1]()


def _tables(context: RuleContext, table_query: TableQuery, preparation: Preparation) -> list[Parts]:
    """From which tables the numbers of a query may follow, the best way first. Raises REFUSALS where there is none.

    Numbers of one table are told together, unless some of them need more of its keys than others: records whose values
    of these are outside of the domains count in the others alone. Where it is only asked which tables would do, no
    number gets a table with more keys than one of the numbers needs.
    """
    parts: list[Parts] = []
    refused: Exception = NotOffered(OTHERWISE)
    try:
        whole = _most_exact_plan(context, table_query, preparation)
        parts.append([(table_query.places, whole)])
    except REFUSALS as no:
        refused = no
    few = 1 < len(table_query.places) <= _MOST_NUMBERS
    if few and (not parts or whole.open_ended or not preparation.design.measured):
        try:
            parts.insert(0, _parts(context, table_query, preparation))
        except REFUSALS as no:
            refused = no
    if not parts:
        raise refused
    return parts


def _parts(
    context: RuleContext, table_query: TableQuery, preparation: Preparation
) -> list[tuple[tuple[int, ...], Prepared]]:
    """The numbers of a query that are told together, with their plans. Raises REFUSALS."""
    parts: list[tuple[tuple[int, ...], Prepared]] = []
    for places, alone in _least(context, table_query, preparation):
        for at, (own, plan) in enumerate(parts):
            joined = _joined(context, table_query.part([*own, *places]), plan, alone)
            if joined is not None:
                parts[at] = (*own, *places), joined
                break
        else:
            parts.append((places, alone))
    return parts


def _least(
    context: RuleContext, table_query: TableQuery, preparation: Preparation
) -> Iterator[tuple[tuple[int, ...], Prepared]]:
    """The numbers of a query with their plans: those of a quotient together, if they can be. Raises REFUSALS."""
    for places in table_query.grouped.divided:
        try:
            together = _most_exact_plan(context, table_query.part(places), preparation)
        except REFUSALS:
            if len(places) == 1:
                raise
            for at in places:
                yield (at,), _most_exact_plan(context, table_query.part([at]), preparation)
        else:
            yield places, together


def _joined(context: RuleContext, table_query: TableQuery, prepared: Prepared, other: Prepared) -> Prepared | None:
    """The plan for the numbers of two plans together; None where they are not to be told so. asked: them."""
    try:
        most_exact_plan = _most_exact_plan(context, table_query, prepared.asked_of)
    except REFUSALS:
        return None
    if not prepared.asked_of.design.measured:
        return (
            most_exact_plan if most_exact_plan.question.keys in (prepared.question.keys, other.question.keys) else None
        )
    return (
        most_exact_plan
        if most_exact_plan.open_ended.keys() == prepared.open_ended.keys() == other.open_ended.keys()
        else None
    )


def _most_exact_plan(context: RuleContext, table_query: TableQuery, preparation: Preparation) -> Prepared:
    """How a query follows from one table for all of its numbers, with its keys in common. Raises REFUSALS."""
    conditions = {
        condition for statistic in table_query.aggregates.statistics for condition in (*statistic.where, *statistic.of)
    } | table_query.aggregates.filter
    is_of_number = any(presence(frozenset([condition])) is not None for condition in conditions)
    is_summed = is_of_number or any(statistic.name in ("sum", "avg") for statistic in table_query.aggregates.statistics)
    plans: list[Prepared] = []
    refused: Exception = NotOffered(OTHERWISE)
    for by_keys in (False, True) if is_summed else (False,):
        try:
            plans.append(Prepared(context, table_query, preparation, by_keys=by_keys))
        except REFUSALS as no:
            refused = no
    if not plans:
        raise refused
    return min(plans, key=lambda plan: plan.variance)


def _written(context: RuleContext, table_query: TableQuery, parts: Parts) -> Following:
    """The query over the answers to its parts. Raises REFUSALS."""
    return _over(context, table_query, [plan for _, plan in parts], _side_by_side(table_query.grouped, parts))


def _set_by_set(context: RuleContext, table_query: TableQuery, parts_by_set: Sequence[Parts]) -> Following:
    """The query over the answers to the parts of each of its grouping sets. Raises REFUSALS."""
    starts = accumulate((len(parts) for parts in parts_by_set), initial=0)
    answers = [_side_by_side(table_query.grouped, parts, at) for parts, at in zip(parts_by_set, starts, strict=False)]
    plans = [plan for parts in parts_by_set for _, plan in parts]
    return _over(context, table_query, plans, SetBySet(table_query.grouped, answers))


def _side_by_side(grouped: Grouped, parts: Parts, start: int = 0) -> SideBySide:
    return SideBySide(grouped, [Part(start + at, plan, tuple(own)) for at, (own, plan) in enumerate(parts)])


def _over(
    context: RuleContext, table_query: TableQuery, plans: Sequence[Prepared], answers: SideBySide | SetBySet
) -> Following:
    stored = {fold(column): column for column in context.columns(table_query.aggregates.table)}
    query = table_query.grouped.over(answers.over, lambda name: stored.get(fold(name), name))
    return Following(query, table_query.read.name, plans, answers)


def _step(
    context: RuleContext, table: TableName, plan: Prepared, noisy: Sequence[tuple[int, float]], note: str | None
) -> Step:
    question, day = plan.question, plan.preparation.day
    widest = max((noise.records(cells) for noise, cells in plan.counted), default=None)
    reason = f"Free: it follows from what was prepared on {day.isoformat()}. {plan.words}{plan.cut}"
    return Step(
        plan.kind,
        context.label(table),
        Verdict.REWRITTEN,
        reason,
        question.epsilon,
        context.protected(table).remaining,
        question.edition,
        drawn=day,
        within=widest,
        width=max((noise.fine(cells) for noise, cells in plan.counted), default=None),
        noisy=tuple(noisy),
        note=note,
    )


def _beside(context: RuleContext, preparation: Preparation, read: LookingUp, table: TableName) -> Preparation:
    """As if the table of all columns were prepared: with columns that are looked up, too. table: that has these."""
    design, protected = preparation.design, context.protected(table)
    digests = {column.name: column.digest for column in read.columns.values()}
    numbers = _numbers(Columns(protected, context.types(table), context.today), sorted(digests, key=fold))
    offered = [digest for digest in digests if fold(digest) in protected.domains]
    keys = sorted({*design.keys, *offered}, key=fold)
    prepared = (
        *design.numbers,
        *(PreparedNumber(number.column, number.low, number.step, number.steps) for number in numbers),
    )
    tables = (tuple(range(len(keys) + len(prepared))),)
    sizes = (1,) * len(keys)
    design = replace(design, keys=tuple(keys), sizes=sizes, numbers=prepared, tables=tables, looked_up=digests)
    return replace(preparation, design=design)


def _numbers(columns: Columns, names: Sequence[str]) -> list[Number]:
    """Those of some columns that are numbers with bounds which a sum can have."""
    numbers = []
    for name in names:
        with suppress(NotOffered):
            numbers.append(columns.number(name, MOST_STEPS))
    return numbers


class Prepared(ByKeys):
    """How a query follows from a preparation. Raises NotOffered where it does not."""

    def __init__(
        self, context: RuleContext, table_query: TableQuery, preparation: Preparation, *, by_keys: bool
    ) -> None:
        """asked_of: the preparation.

        by_keys: whether sums of a key's values are added up by keys, and not taken from what is measured of it.
        """
        self._read, self._looked_up, self._by_keys = table_query.read, table_query.read.columns, by_keys
        self._is_part, self.asked_of = table_query.is_part, preparation
        self._computed_types: dict[Number, str] = {}
        if not preparation.design.measured:
            preparation = _beside(context, preparation, table_query.read, table_query.aggregates.table)
        self.preparation = preparation
        keys = frozenset(map(fold, preparation.design.keys))
        numbers = frozenset(fold(number.column) for number in preparation.design.numbers)
        # Of what has a value and what has none: a key's values say it, or what is measured of a number.
        self._told_apart = numbers - keys if by_keys else numbers
        super().__init__(context, of_each(table_query.aggregates, self._told_apart), table_query.grouped, keys)
        self._check()

    def _check(self) -> None:
        """Raises NotOffered unless one prepared table has all columns of the keys and conditions, for each number."""
        design = self.preparation.design
        missing = [base.column for base in self._bases if base.column not in self._columns_of]
        if missing:
            raise self._not_in_a_table(missing)
        if self._where.filters:
            raise NotOffered(OTHERWISE)
        if any(design.looked_up.get(column.name) != column.digest for column in self._looked_up.values()):
            raise NotOffered(OTHERWISE)
        summed = {fold(total.number.column) for total in self._measures.sums.values()}
        if not self._by_keys and {fold(base.column) for base in self._bases} & summed:
            # Of one value or some of them the sum follows from their numbers.
            raise NotOffered(OTHERWISE)
        self._check_named(self.open_ended, self.question.location.database)
        for measure in self._measures.all:
            number = getattr(measure, "number", None)
            # Those without a value are also those that find nothing.
            says = None if number is None or getattr(measure, "missing", False) else number.column
            self._read.check_found([base.column for base in self._bases], says)
            needed = {*self.question.with_number(measure)}
            if not any(needed <= {*table} for table in design.tables):
                names = [*design.keys, *(number.column for number in design.numbers)]
                raise self._not_in_a_table([names[at] for at in sorted(needed)])

    def _not_in_a_table(self, columns: Sequence[str]) -> NotOffered:
        """Why no prepared table will do. columns: those that none has together."""
        if self._context.bound.opened or self._looked_up:
            # The names of columns that are looked up are no names in the statement.
            return NotOffered(OTHERWISE)
        named = f"{', '.join(columns[:_MOST_NAMED])}{' and others' if len(columns) > _MOST_NAMED else ''}"
        return NotOffered(f"No prepared table has {named}{' together' if len(columns) > 1 else ''}.")

    @property
    def open_ended(self) -> dict[str, Key]:
        """The keys that no row shows and whose columns may have values outside of their domains, by folded columns.

        The values of an open table's column are all that records can find there.
        """
        shown = {key for _, _, keys in self._columns for key in keys}
        in_open = {name for name, column in self._looked_up.items() if column.look_up.version is None}
        hidden = {fold(base.column): base for base in self._bases if base not in shown}
        complete = set(map(fold, self.preparation.design.complete))
        return {name: key for name, key in hidden.items() if name not in complete | in_open}

    @property
    def variance(self) -> Fraction:
        """Of a cell of the tables from which it follows, added up."""
        known = self.preparation
        if not known.design.measured:
            return Fraction(0)
        total = Fraction(0)
        for measure in self._measures.all:
            table, number = self.question.with_number(measure), getattr(measure, "number", None)
            if number is not None and number.column in self._of_keys:
                low, ways = Fraction(number.low), self._ways(number)
                values = [Fraction(0) if isnan(way) else low + (number.high - low) * Fraction(way) for way in ways]
                total += known.design.variance(table, known.rows, (self.question.axis(number), values))
            else:
                ends = None if number is None else (Fraction(number.low), number.high)
                total += known.design.variance(table, known.rows, ends=ends)
        return total

    def _ways(self, number: Number) -> list[float]:
        """The values of a key as a number, as ways from its least value to the largest; NaN for NULL."""
        (ways,) = self._context.releases.value(self.question.ways(number))
        return list(ways)

    @property
    def _columns_of(self) -> frozenset[str]:
        return frozenset(self.preparation.design.keys)

    def _families(self) -> tuple[tuple[str, ...], ...]:
        """There are no conditions on records beside those on keys, and whether there is a number."""
        self._places, self._told = {}, []
        for statistic in self._statistics:
            self._wanted(statistic)
        return ()

    def _is_of_keys(self, condition: Expr) -> bool:
        known = presence(frozenset([condition]))
        return (known is None or known[0].name not in self._told_apart) and super()._is_of_keys(condition)

    @property
    def _own_rows(self) -> Sequence[str]:
        return [f"{answer_column(PLACE)} IS NOT NULL"] if self._is_part else []

    # --- measures -----------------------------------------------------------------------------------------------------

    def _part(self, where: frozenset[Expr]) -> tuple[Number | None, PartOf]:
        """The records that conditions leave of a cell, and the number that says which. Raises NotOffered."""
        rest = frozenset(condition for condition in self._of_records(where) if not always_holds(condition))
        if not rest:
            return None, ALL
        known = presence(rest)
        number = None if known is None else self._number(known[0])
        if known is None or number is None:
            raise NotOffered(OTHERWISE)
        return number, known[1]

    def _number(self, column: Column) -> Number | None:
        """A column as a number: one that was measured, or a key with bounds, by its values."""
        if self._by_keys and column.name in map(fold, self.preparation.design.keys):
            columns = Columns(self._protected, self._types, self._context.today)
            try:
                return columns.number(column.name, MOST_STEPS)
            except NotOffered:
                return None
        for number in self.preparation.design.numbers:
            if fold(number.column) == column.name:
                return Number(number.column, number.low, number.step, number.steps)
        return None

    def _computed(self, operand: Expr) -> Wanted | None:
        """What is computed from one column as a number: of a key by its values, else a multiple of what was measured.

        None where it is something else.
        """
        used = {node for node in walk(operand) if isinstance(node, Column)}
        of = self._number(*used) if len(used) == 1 else None
        if of is None:
            return None
        columns = Columns(self._protected, self._types, self._context.today)
        try:
            computed = quantity(columns, operand, self._shown(operand))
            number = computed.number()
        except (NotBounded, NotOffered, NotTotal):
            return None
        assert isinstance(number, Computed)
        is_of_key = of.column in self._key_columns
        multiplied = Wanted(replace(number, column=of.column)) if is_of_key else multiple(of, operand, number)
        if multiplied is not None and multiplied.number is not None:
            self._computed_types[multiplied.number] = computed.type
        return multiplied

    def _type(self, number: Number) -> str:
        """The type of a column, or of sums of what is computed."""
        return self._computed_types.get(number) or self._types[fold(number.column)]

    @cached_property
    def _of_keys(self) -> tuple[str, ...]:
        """The columns of numbers that are added up by the values of keys."""
        return tuple(sorted({total.number.column for total in self._measures.sums.values()} & self._key_columns))

    @property
    def _key_columns(self) -> frozenset[str]:
        """The columns whose values are added up where they are keys."""
        return frozenset(self.preparation.design.keys if self._by_keys else ())

    @property
    def _added_up(self) -> frozenset[str]:
        return frozenset(map(fold, self._of_keys))

    def _wanted(self, statistic: Statistic) -> Wanted:
        """What a statistic is of. Raises NotOffered for one that does not follow."""
        if statistic.name == "records":
            return Wanted(*self._part(statistic.where))
        if statistic.name == "share":
            return share(self._part(statistic.where | statistic.of), self._part(statistic.of))
        of = statistic.operand
        if statistic.name not in ("sum", "avg") or of is None:
            raise NotOffered(OTHERWISE)
        number = self._number(of) if isinstance(of, Column) else None
        wanted = self._computed(of) if not isinstance(of, Column) else None if number is None else Wanted(number)
        if wanted is None or wanted.number is None:
            raise NotOffered(OTHERWISE)
        known, part = self._part(statistic.where)
        if known is not None and (known.column, part, wanted.missing) != (wanted.number.column, VALUES, None):
            # Of some values of the number: of those with a value all are summed anyway.
            raise NotOffered(OTHERWISE)
        return wanted

    @cached_property
    def _quantities(self) -> dict[Expr, Quantity]:
        return {}

    @cached_property
    def _measures(self) -> Measures:
        all_wanted = [self._wanted(statistic) for statistic in self._statistics]
        counted = Records() if any(wanted.number is None for wanted in all_wanted) else None
        by_number: dict[str, list[Wanted]] = {}
        for wanted in all_wanted:
            if wanted.number is not None:
                by_number.setdefault(_identity(wanted.number), []).append(wanted)
        # A sum by the number of all records is a mean in which those without a value count as 0.
        needed = {
            name: counted is not None or any(wanted.needs_missing for wanted in of_number)
            for name, of_number in by_number.items()
        }
        sums = {
            (False, name): Sums(
                of_number[0].number, missing=needed[name] and of_number[0].number.column not in self._key_columns
            )
            for name, of_number in sorted(by_number.items())
            if of_number[0].number is not None
        }
        return Measures(counted, sums=sums)

    @cached_property
    def question(self) -> FollowingQuestion:
        measures: list[Measure] = self._measures.all
        return FollowingQuestion(
            **basis(self._protected, Fraction(0)),
            keys=self._bases,
            domain_filters=self._where.domain_filters,
            grouped=self._cells_by,
            measures=tuple((measure, Fraction(1, len(measures))) for measure in measures),
            preparation=self.preparation,
            looked_up=tuple(column for _, column in sorted(self._looked_up.items())),
            of_keys=self._of_keys,
        )

    # --- the query over the answer ------------------------------------------------------------------------------------

    @property
    def over(self) -> Over:
        return replace(super().over, quotient=lambda rows: divided(self.told[rows.above], self.told[rows.below], rows))

    def places(self, *wheres: frozenset[Expr]) -> str:
        """The places of the cells that a row adds up, as SQL."""
        return f"list({answer_column(PLACE)}){self._filtered(*wheres)}"

    def _follows(self, statistic: Statistic, node: Node) -> Told:
        wanted = self._wanted(statistic)
        number, where = wanted.number, statistic.where - self._of_records(statistic.where)
        if number is None:
            assert self._measures.records is not None
            measure: Measure = self._measures.records
        else:
            measure = self._measures.sums[False, _identity(number)]
        if wanted.whole is not None:
            # How far noise moves it is asked of `noise`, by the cells that are added up.
            above, below = (self._counted(measure, which, _BY_CELLS) for which in (wanted.part, wanted.whole))
            return PreparedShare(statistic, node, self, below, above, self, measure, (wanted.part, wanted.whole))
        if statistic.name == "records":
            moved = self.noise(measure, wanted.part.weights, where)
            counted = self._counted(measure, wanted.part, moved)
            return PreparedCount(statistic, node, self, counted, where, moved, self, measure, wanted.part)
        assert isinstance(measure, Sums)
        measured: Measured[Sums] = Measured(measure, self._measures.all.index(measure), _BY_CELLS)
        prepared_statistic = PreparedSum if statistic.name == "sum" else PreparedMean
        return prepared_statistic(
            replace(statistic, where=where), node, self, measured, self._type(measure.number), self, wanted.missing
        )

    def _counted(self, measure: Measure, part: PartOf, moved: Any) -> Counted:
        """What counts the records of a part of a measure. moved: by its noise."""
        columns = measure.columns(self._measures.all.index(measure))
        return Counted(tuple(columns[name] for name in part.names), moved, False)

    def noise(self, measure: Measure, weights: Sequence[Fraction], *wheres: frozenset[Expr]) -> PreparedNoise:
        """The noise of a linear function of a measure. weights: of what a cell has."""
        table, number = self.question.with_number(measure), getattr(measure, "number", None)
        if number is not None and number.column in self._of_keys and self.preparation.design.measured:
            form = noise_of(self.preparation, table, self.question.axis(number), self._ways(number))
        else:
            form = noise_of(self.preparation, table)
        return PreparedNoise(form, tuple(weights), self.places(*wheres), self._rows(*wheres))

    @cached_property
    def _cells(self) -> pa.Table | None:
        """The combinations of keys of the answer with their places; None where they are too many to look at."""
        return self._context.releases.places(self.question)

    def _rows(self, *wheres: frozenset[Expr]) -> tuple[Any, ...] | None:
        """Of each row of all keys the places of the cells where conditions hold; None where that is not looked at."""
        if not self.preparation.design.measured:
            # It is only asked which tables would do.
            return None
        if not self._is_grouped and not self._of_keys:
            # Each row is a cell of the prepared table, and all cells have the same noise.
            return (np.zeros(1, dtype=np.int64),)
        if self._cells is None:
            return None
        if not self._is_grouped:
            return tuple(np.array(self._cells.column(PLACE))[:, None])
        met = np.ones(len(self._cells), dtype=bool)
        for expression in {condition for where in wheres for condition in where if self._is_of_keys(condition)}:
            column = self._cells.column(layout.key(self._cells_by.index(self._key_conditions[expression])))
            met &= np.array(column.fill_null(False))
        codes = np.zeros(len(self._cells), dtype=np.int64)
        for name in self._row_columns:
            encoded = self._cells.column(name).combine_chunks().dictionary_encode()
            codes = codes * (len(encoded.dictionary) + 1) + np.array(encoded.indices.fill_null(len(encoded.dictionary)))
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        at = np.array(self._cells.column(PLACE))
        of_rows = np.split(order, starts[1:])
        return tuple(at[cells[met[cells]]] for cells in of_rows)

    @property
    def _row_columns(self) -> list[str]:
        """The columns of the answer by which a row of all keys is one."""
        return [layout.key(self._cells_by.index(expression)) for expression in self._expressions]

    # --- what is said of it -------------------------------------------------------------------------------------------

    @property
    def counted(self) -> list[tuple[Any, int]]:
        return [statistic.noise for statistic in self.told if statistic.noise is not None]

    @property
    def _rounded_told(self) -> str:
        numbers = [total.number for total in self._measures.sums.values()]
        found = [number for number in numbers if rounding(number, self._type(number))]
        text = ", ".join(f"{one.column} to steps of {abs(float(Fraction(one.step))):.6g}" for one in found)
        return f" Values are rounded: {text}." if text else ""

    @property
    def _split_told(self) -> str:
        """Nothing was split: all follows from one draw."""
        return ""

    @property
    def _finer(self) -> list[str]:
        """The columns with values outside by which prepared tables divide what is told here."""
        design, own = self.preparation.design, set(self.question.table)
        finer = {each for table in design.tables if own < {*table} for each in design.outside(table)}
        return sorted(finer - {key.column for key in self._bases})

    @property
    def cut(self) -> str:
        """What of the records is told, where some of a unit's may be left out, and of conditions on records."""
        said = ""
        if self.question.privacy_unit is not None:
            said = (
                f" Of each {self._policy.unit_in_words} a sample of {self._policy.contributions} counts, picked among "
                "all records and before any condition."
            )
        left_out = left_out_of(self.question)
        hidden = {key.column for key in set(self._bases) - {key for _, _, own in self._columns for key in own}}
        design = self.preparation.design
        if hidden - design.complete:
            said += " Records whose values in a condition or a sum are outside of the columns' domains do not count."
        finer = self._finer
        if finer:
            named = f"{', '.join(finer[:_MOST_NAMED])}{' and others' if len(finer) > _MOST_NAMED else ''}"
            said += (
                f" Records whose {named} is outside of its domain count here, and in no row by it: such rows add up to "
                "this but for these records, and the noise of their number."
            )
        return f"{said} Intervals do not cover {left_out}." if left_out else said


def _identity(number: Number) -> str:
    """Equal for equal numbers."""
    return (
        f"{number.column} as {number.low}, {number.step}, {number.value}"
        if isinstance(number, Computed)
        else number.column
    )
