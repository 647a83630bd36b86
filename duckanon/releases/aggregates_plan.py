"""The question behind a SELECT of statistics with noise: its cells and measures, and how the SELECT follows from both.

Keys and conditions divide records into cells, by domains and bounds alone. In each cell the measures are taken
(`duckanon.releases.measures`), and the statistics are computed of these (`duckanon.releases.statistics`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.releases import margins
from duckanon.releases.divided import divided
from duckanon.releases.exclusions import excludes
from duckanon.releases.intervals import Noisy
from duckanon.releases.measures import Number
from duckanon.releases.noise import columns_of
from duckanon.releases.numbers import rounding, step_in_words
from duckanon.releases.plan_conditions import COVARIANCE, SUMMED
from duckanon.releases.plan_measures import PlannedMeasures
from duckanon.releases.statistics import (
    Count,
    Counted,
    CountOfDifferent,
    Covariance,
    M,
    Mean,
    Measured,
    Quantile,
    Share,
    Told,
    answer_column,
    in_words,
)
from duckanon.releases.within_units import Derived
from duckanon.rewrite.algebra.bounds import truncation
from duckanon.rewrite.algebra.constants import ZONED, literal
from duckanon.rewrite.algebra.expressions import Column, Expr
from duckanon.rewrite.algebra.filters import NotTotal, scalar
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.normalize.grouped import Grouped, NotFollowed, Over
from duckanon.rewrite.recognize.findings import Aggregates, Statistic
from duckanon.rewrite.rule_context import RuleContext
from duckanon.units.relation import Relation

_ANSWER = "_dk_answer"


class Together(Protocol):
    """How a query follows from the answers to several questions."""

    @property
    def over(self) -> Over:
        """What stands for its keys and aggregates."""

    @property
    def noisy(self) -> list[tuple[int, float]]:
        """As of a plan."""

    def note(self, new: Node) -> str | None:
        """As of a plan."""


class Plan(PlannedMeasures):
    """The question behind a query, and how its keys and aggregates follow from the answer."""

    def __init__(
        self, context: RuleContext, aggregates: Aggregates, grouped: Grouped, relation: Relation | None = None
    ) -> None:
        super().__init__(context, aggregates, grouped, relation)
        # Questions whose answers this one needs, or that are beside it, in order.
        self.before: list[tuple[TableName, Plan]] = []
        # What the query is over where this is the last of several questions beside each other.
        self.together: Together | None = None

    # --- the query over the answer ------------------------------------------------------------------------------------

    @cached_property
    def over(self) -> Over:
        names = ", ".join(map(answer_column, self.question.columns))
        source = f"{quoted(self.question.path)} AS {quoted([_ANSWER])}({names})"
        keys = [self._typed_key(key) for key in self._found.keys]
        statistics = self.told
        return Over(
            source,
            keys,
            [statistic.value for statistic in statistics],
            ends=lambda at, side: statistics[at].end(side),
            quotient=lambda rows: divided(statistics[rows.above], statistics[rows.below], rows),
        )

    def _typed_key(self, expr: Expr) -> str:
        """A key over the answer, of DuckDB's type: in later versions starts of days and months are TIMESTAMPs."""
        key, cut = self._key(expr), None if isinstance(expr, Column) else truncation(expr)
        if cut is None or any(self._types.get(column) == ZONED for column in columns_of(expr)):
            return key
        try:
            kind = scalar(expr, self._types, self._context.today)[1]
        except NotTotal:
            return key
        return f"date_trunc({literal(cut[0])}, {key})" if kind == "DATE" else key

    @cached_property
    def told(self) -> list[Told]:
        """The statistics as they follow from the answer, in order."""
        return [
            self._follows(statistic, node)
            for statistic, node in zip(self._statistics, self._grouped.aggregates, strict=True)
        ]

    def _follows(self, statistic: Statistic, node: Node) -> Told:
        """A statistic as it follows from the answer. node: as it is written."""
        measures, column = self._measures, statistic.column or ""
        beside = self._counted_beside(statistic) if statistic.name == "records" else None
        if beside is not None:
            of_values = Counted.by(self._measured(measures.sums[beside]))
            return Count(statistic, node, self, of_values, statistic.where - self._of_records(statistic.where))
        if statistic.name == "records":
            by = Counted.by(self._measured(measures.parts[statistic.own])) if statistic.own else self._records
            return Count(statistic, node, self, by, statistic.where)
        if statistic.name == "share":
            return Share(statistic, node, self, self._records)
        if statistic.name == "units":
            return CountOfDifferent(
                statistic, node, self, Counted.by(self._measured(measures.units[statistic.own])), statistic.where
            )
        if statistic.name == "different":
            of_column = Counted.by(self._measured(measures.different[column, statistic.own]))
            return CountOfDifferent(statistic, node, self, of_column, statistic.where)
        if statistic.name == "quantile":
            of = self._of(statistic)
            return Quantile(statistic, node, self, self._measured(measures.quantiles[of.identity]), of.type)
        if statistic.name == COVARIANCE:
            return self._covariance(statistic, node)
        of = self._of(statistic)
        return SUMMED[statistic.name](statistic, node, self, self._measured(measures.sums[of.identity]), of.type)

    def _covariance(self, statistic: Statistic, node: Node) -> Covariance:
        means = [
            Mean(statistic, node, self, self._measured(self._measures.sums[of.identity]), of.type)
            for of in self._of_covariance(statistic)
        ]
        assert statistic.operand is not None
        assert statistic.other is not None
        middles = self._products[statistic.operand, statistic.other].middles
        return Covariance(statistic, node, self, means[2], (means[0], means[1]), middles)

    def _measured(self, measure: M) -> Measured[M]:
        return Measured(measure, self._measures.all.index(measure), self.question.noise(measure))

    @property
    def _records(self) -> Counted:
        """What counts records."""
        if self._measures.records is not None:
            return Counted.by(self._measured(self._measures.records))
        return Counted.beside(self._measured(next(total for total in self._measures.sums.values() if total.missing)))

    def sum(self, column: str, *wheres: frozenset[Expr]) -> str:
        return f"coalesce(sum({answer_column(column)}){self._filtered(*wheres)}, 0)"

    def count(self, *wheres: frozenset[Expr]) -> str:
        return f"count(*){self._filtered(*wheres)}"

    def in_row(self, *wheres: frozenset[Expr]) -> int:
        met = {self._told[at] for at, _ in self._events_met(*wheres)}
        own = {choice.tests: choice.most_alike for choice in self._choices.values()}
        cells = 1
        for event in self._events:
            cells *= 1 if event in met else own.get(event, len(event) + 1)
        if self._is_grouped:
            # Cells are apart by conditions on keys too.
            cells *= 2 ** len(self._key_conditions.keys() - {condition for where in wheres for condition in where})
        return cells

    def are_apart(self, expressions: frozenset[Expr], other: frozenset[Expr]) -> bool:
        records = [self._of_records(where) for where in (expressions, other)]
        met, others = self._events_met(expressions), self._events_met(other)
        if any(at == other_at and place != other_place for at, place in met for other_at, other_place in others):
            return True
        return excludes(expressions - records[0], other - records[1], self._types)

    def only(self, *wheres: frozenset[Expr]) -> str:
        return self._filtered(*wheres)

    # --- what is said of it -------------------------------------------------------------------------------------------

    @property
    def counted(self) -> list[tuple[Noisy, int]]:
        """The noise of each count, and how many cells it adds up; where no count is told, of those behind the rest."""
        noises = [statistic.noise for statistic in self.told if statistic.noise is not None]
        if noises:
            return noises
        behind = [measure.counted(self.question.noise(measure)) for measure in self._measures.all]
        return [(noisy, self.in_row()) for noisy in behind if noisy is not None]

    @cached_property
    def noisy(self) -> list[tuple[int, float]]:
        """The query's columns that are counts and sums as they stand, and how wide the intervals in a row are.

        Totals of rows have wider ones, so there are none of a query with totals. Where a condition on keys does not
        hold there is no noise.
        """
        shown = [] if self._grouped.has_sets else self._grouped.query.expressions
        by_node = dict(zip(self._grouped.aggregates, self.told, strict=True))
        pairs = [(at, by_node.get(column.unalias())) for at, column in enumerate(shown)]
        same = [
            (at, statistic)
            for at, statistic in pairs
            if statistic is not None and statistic.is_shown and not self._is_in_part(statistic)
        ]
        return [(at, 2 * statistic.half) for at, statistic in same if statistic.half is not None]

    def _is_in_part(self, statistic: Told) -> bool:
        """Whether a condition on keys says that there is nothing to be told in some rows."""
        return any(map(self._is_of_keys, statistic.asked.where))

    def note(self, new: Node) -> str | None:
        """As of the step, of the query over the answer; None where all widths are the same, or there are none."""
        return note(self._grouped, self.over, [width(statistic) for statistic in self.told], self.noisy, new)

    @property
    def kind(self) -> str:
        """What is asked, for people."""
        return "count" if all(statistic.counts for statistic in self.told) else "statistics"

    @property
    def words(self) -> str:
        """The margins of error of the numbers, in words."""
        is_plain = len(self._measures.all) == 1 and not self._events and not self._grouped.has_sets
        halves = [statistic.half for statistic in self.told]
        if self.kind == "count" and is_plain and None not in halves:
            near = f"95 % are within {margins.rounded(max(half for half in halves if half is not None))} of the truth"
            return f"The counts have noise, and may be negative: {near}."
        sentences = in_words(self.told, self._as_written, has_totals=self._grouped.has_sets)
        return sentences + self._outside_told + self._bounds_told + self._rounded_told + self._split_told

    @property
    def _outside_told(self) -> str:
        """Where records count that lie outside of the bounds from which a key is computed."""
        if not self._histograms:
            return ""
        named = "a key" if self._context.bound.opened else " and ".join(self._histograms)
        return f" Values outside of the bounds from which {named} is computed count in the first or the last row of it."

    @property
    def _bounds_told(self) -> str:
        """The bounds and the steps of what is computed; nothing of the text of a view or macro."""
        if self._context.bound.opened:
            return ""
        words = dict.fromkeys(quantity.words for quantity in self._measured_quantities if quantity.words)
        return f" Bounds and step of what is computed follow from its columns: {', '.join(words)}." if words else ""

    @property
    def _rounded_told(self) -> str:
        """Which numbers are rounded, and how."""
        types = {quantity.identity: quantity.type for quantity in self._measured_quantities}
        measured = [*self._measures.sums.items(), *self._measures.quantiles.items()]
        numbers = [(measure.number, types[of]) for of, measure in measured]
        rounded = [(number, kind) for number, kind in numbers if rounding(number, kind)]
        steps = ", ".join(
            f"{self._called(number)} to steps of {step_in_words(number, kind)}" for number, kind in rounded
        )
        return f" Values are rounded: {steps}." if steps else ""

    def _called(self, number: Number) -> str:
        """A number's column, or how it is computed, as the statement has it."""
        names = self._policy.names if isinstance(self._policy, Derived) else {}
        return names.get(fold(number.column), number.column)

    @property
    def _split_told(self) -> str:
        shares = [share for _, share in self.question.measures]
        if len(shares) == 1:
            return ""
        parts = ", ".join(f"{measure.kind} {float(share):.0%}" for measure, share in self.question.measures)
        whole = "Epsilon" if self.question.renyi is None else "The price"
        return f" {whole} is split by how much noise each part needs: {parts}."


def width(statistic: Told) -> str | None:
    """How wide a number's interval is, as SQL; None if it has none."""
    try:
        return statistic.width
    except NotFollowed:
        return None


def note(
    grouped: Grouped, over: Over, widths: Sequence[str | None], noisy: Sequence[tuple[int, float]], new: Node
) -> str | None:
    """As of the step, of a query over an answer. widths: of its aggregates. noisy: as of the plan. new: the query."""
    if new.args.get("distinct") is not None:
        return None
    intervals = grouped.intervals(over, widths)
    if not intervals or {at for at, _ in intervals} == {at for at, _ in noisy}:
        return None
    return margins.query(new, intervals)
