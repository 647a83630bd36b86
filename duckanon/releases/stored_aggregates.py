"""Counts, sums and means that are cells of an answer which was paid for before: they are free.

With the answer by county and sex, `WHERE sex = 'f' GROUP BY county` is a part of it. A new answer would have the same
noise, so nothing is bought twice. Rows that add up several cells would have wider intervals than a new answer, and are
asked anew; so are shares. Which questions were answered is public, and all that is compared is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations, product

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.releases import layout
from duckanon.releases.aggregates_plan import Plan
from duckanon.releases.key_filters import Filtered, filtered, placed
from duckanon.releases.keyed_aggregates import OTHERWISE, ByKeys, asked_of, is_named
from duckanon.releases.measures import Measure, Sums, shared
from duckanon.releases.mechanisms import forms
from duckanon.releases.noise import NotOffered, columns_of, settle
from duckanon.releases.noisy_aggregates import REFUSALS
from duckanon.releases.paid_questions import AggregatesQuestion, basis
from duckanon.releases.paid_questions import key as key_of
from duckanon.releases.statistics import answer_column
from duckanon.rewrite.algebra.expressions import Expr, rebuilt
from duckanon.rewrite.algebra.filters import scalar, written
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.normalize.grouped import Grouped, Over
from duckanon.rewrite.recognize.findings import Aggregates
from duckanon.rewrite.rule_context import RuleContext
from duckanon.units.relation import Relation

# With more conditions on keys the stored answer has none or all of them itself.
_MOST_SPLIT = 4


def follows(context: RuleContext, node: Node) -> bool:
    """Replace a SELECT by the same over an answer that is stored. Returns whether there is one."""
    query = asked_of(context, node)
    if query is None or context.protected(query[1].table).renyi is None:
        return False
    grouped, aggregates, relation = query
    stored = {fold(column): column for column in context.columns(aggregates.table)}
    for before, counted in product(_splits(context, aggregates), (False, True)):
        try:
            plan = Part(context, aggregates, grouped, relation, before, counted=counted)
            day = context.releases.drawn(plan.question)
            if day is None or not plan.is_part or _is_stored(context, aggregates, grouped, relation):
                continue
            new = grouped.over(plan.over, lambda name: stored.get(fold(name), name))
        except REFUSALS:
            continue
        _settle(context, node, plan, new, day)
        return True
    return False


def _splits(context: RuleContext, aggregates: Aggregates) -> Iterator[frozenset[Expr]]:
    """Which of the conditions on keys the stored answer may have itself: none, or some, or all where they are many."""
    known = _known(context, aggregates)
    on_keys = [condition for condition in in_order(aggregates.filter) if columns_of(condition) <= known]
    for many in range(len(on_keys) + 1) if len(on_keys) <= _MOST_SPLIT else (0, len(on_keys)):
        yield from map(frozenset, combinations(on_keys, many))


def _known(context: RuleContext, aggregates: Aggregates) -> frozenset[str]:
    """The folded columns whose values are known, by a domain or since they were found."""
    protected = context.protected(aggregates.table)
    public = {fold(column) for column in (*protected.policy.public, *protected.policy.hierarchy)}
    keys = {column: key for column in public if (key := key_of(protected, column)) is not None}
    return frozenset(column for column, key in keys.items() if key.sought is None)


def _is_stored(context: RuleContext, aggregates: Aggregates, grouped: Grouped, relation: Relation | None) -> bool:
    """Whether a query was answered by itself: then it gets that answer again, not a part of a later one."""
    try:
        return context.releases.drawn(Plan(context, aggregates, grouped, relation).question) is not None
    except REFUSALS:
        return False


def _settle(context: RuleContext, node: Node, plan: Part, new: Node, day: date) -> None:
    """Replace a SELECT by the same over a stored answer. day: on which that was drawn."""
    table = plan.table
    is_result = node is context.bound.query
    noisy, note = (plan.noisy, plan.note(new)) if is_result else ([], None)
    context.replace(node, new)
    settle(context, table, plan.question, plan.kind, plan.words, plan.counted, noisy, note)
    whole = "an answer that is stored" if context.bound.opened else f"the answer to: {plan.question.words}"
    free = f"Free: it is a part of {whole}, drawn on {day.isoformat()}. "
    context.steps[-1] = replace(context.steps[-1], reason=free + context.steps[-1].reason + plan.cut)


def _shown(at: int) -> str:
    """The answer's column of a key."""
    return f"_dk_{layout.key(at)}"


class Part(ByKeys):
    """How a query is a part of an answer by all its keys and the columns of its conditions.

    before: the conditions of WHERE that the answer has itself. counted: whether it has counts of records beside sums.
    They cost nothing: all come from the same totals.
    """

    def __init__(
        self,
        context: RuleContext,
        aggregates: Aggregates,
        grouped: Grouped,
        relation: Relation | None,
        before: frozenset[Expr],
        *,
        counted: bool,
    ) -> None:
        self._before, self._counted_too = before, counted
        super().__init__(context, aggregates, grouped, _known(context, aggregates), relation)
        self._check_found()
        if any(statistic.name not in ("records", "sum", "avg") for statistic in self._statistics):
            raise NotOffered(OTHERWISE)
        if not (self._is_as_exact if counted else self._hidden):
            raise NotOffered(OTHERWISE)
        # What is written over the answer runs as an analyst's text, which has no functions by their full names.
        sql_texts = [*map(self._key, aggregates.keys), *self._tests, *self._key_conditions.values()]
        if any("system.main." in sql for sql in sql_texts):
            raise NotOffered(OTHERWISE)

    def _check_found(self) -> None:
        """Raises NotOffered where a condition on a key that is not shown may be met by values that are in no cell.

        Of a key that was found, all but those that a condition names one by one may be.
        """
        shown = {fold(key.column) for _, _, keys in self._columns for key in keys}
        hidden = {name: base for base in self._bases if (name := fold(base.column)) not in shown}
        names = {name for name, key in hidden.items() if key.found}
        conditions = {
            *self._where.on_keys,
            *(condition for statistic in self._statistics for condition in (*statistic.where, *statistic.of)),
        }
        if any(columns_of(condition) & names and not is_named(condition) for condition in conditions):
            raise NotOffered(OTHERWISE)
        assert self._protected.stored is not None
        self._check_named(hidden, self._protected.stored.path[0])

    @property
    def table(self) -> TableName:
        """Of the records."""
        return self._table

    @property
    def _counts_beside(self) -> bool:
        return self._counted_too

    @property
    def _is_as_exact(self) -> bool:
        """Whether the sums have the noise that they would have without the counts."""
        beside = [measure for measure, _ in self.question.measures if isinstance(measure, Sums) and measure.missing]
        if len(beside) != 1 or any(
            statistic.name == "records" and not self._is_of_values(statistic) for statistic in self._statistics
        ):
            return False
        alone = [
            Sums(measure.number, measure.squares) if isinstance(measure, Sums) else measure
            for measure in self._measures.all
        ]
        fresh = replace(self.question, measures=self._shared(alone))
        pairs = zip(self.question.measures, fresh.measures, strict=True)
        return all(self.question.noise(stored) == fresh.noise(other) for (stored, _), (other, _) in pairs)

    @property
    def _hidden(self) -> bool:
        """Whether it is another question than the one that would be asked anew."""
        shown = {key for _, _, keys in self._columns for key in keys}
        return shown != set(self._bases) or bool(self._where.on_keys)

    @cached_property
    def _where(self) -> Filtered:
        """The conditions that the answer has itself, and as `on_keys` those that say which of its cells are meant."""
        context, table, conditions = self._context, self._table, self._found.filter
        after = filtered(
            context, table, self._asked_keys, [condition for condition in conditions if condition not in self._before]
        )
        before = filtered(
            context, table, after.keys, [condition for condition in conditions if condition in self._before]
        )
        return replace(before, filters=[*before.filters, *after.filters], on_keys=after.on_keys)

    @cached_property
    def _is_grouped(self) -> bool:
        """The answer has its cells by the keys themselves."""
        return False

    def _is_of_keys(self, condition: Expr) -> bool:
        return condition not in self._before and super()._is_of_keys(condition)

    def _families(self) -> tuple[tuple[str, ...], ...]:
        """There are no conditions on records but those that all statistics have."""
        self._places, self._told = {}, []
        if any(
            self._of_records(statistic.where) and not self._is_of_values(statistic) for statistic in self._statistics
        ):
            raise NotOffered(OTHERWISE)
        return ()

    @cached_property
    def question(self) -> AggregatesQuestion:
        assert self._policy.per_query is not None
        return AggregatesQuestion(
            **basis(self._protected, self._policy.per_query, self._where.filters),
            keys=self._bases,
            domain_filters=self._where.domain_filters,
            measures=self._shared(self._measures.all),
            relation=self._relation,
            of_keys=self._where.of_keys,
            called=self._called_so,
        )

    def _shared(self, measures: Sequence[Measure]) -> tuple[tuple[Measure, Fraction], ...]:
        """Measures with their shares of the price."""
        rows, renyi = self._policy.contributions, self._protected.renyi
        return shared(measures, rows, is_alone=self._is_alone, renyi=renyi)

    def _key(self, expr: Expr) -> str:
        """Over the answer's own columns."""
        places = {fold(key.column): at for at, key in enumerate(self._bases)}
        types = {_shown(at): key.kind for at, key in enumerate(self._bases)}
        return scalar(rebuilt(expr, partial(placed, places, name=_shown)), types, self._context.today)[0]

    @property
    def over(self) -> Over:
        """The cells that WHERE leaves."""
        names = ", ".join(map(answer_column, self.question.columns))
        cells = f"SELECT * FROM {quoted(self.question.path)} AS _dk_stored({names})"
        tests = " AND ".join(f"({test})" for test in self._tests)
        where = f" WHERE {tests}" if tests else ""
        return replace(super().over, source=f'({cells}{where}) AS "_dk_answer"')

    @property
    def _tests(self) -> list[str]:
        """The conditions of WHERE that are none on records, over the answer's columns."""
        return [self._over_answer(condition) for condition in self._where.on_keys]

    def _over_answer(self, condition: Expr) -> str:
        places = {fold(key.column): at for at, key in enumerate(self._bases)}
        types = {_shown(at): self._types[column] for column, at in places.items()}
        return written(rebuilt(condition, partial(placed, places, name=_shown)), types, self._context.today)

    @property
    def is_part(self) -> bool:
        """Whether each number of each row is that of one cell at most. It follows from the domains alone."""
        cells = ", ".join(f"{layout.key(at)} AS {answer_column(layout.key(at))}" for at in range(len(self._bases)))
        by = [f"{self._key(key)} AS g{at}" for at, key in enumerate(self._found.keys)]
        tests = " AND ".join(f"({test})" for test in self._tests)
        many = [
            f"system.main.count(*){self._filtered(statistic.where)}" for statistic in dict.fromkeys(self._statistics)
        ]
        counted = ", ".join([*by, f"system.main.greatest({', '.join([*many, '0'])}) AS n"])
        form = f"SELECT {cells or '0 AS whole'} FROM ({forms.cells_of(self.question)}) AS _dk_form"
        where = f" WHERE {tests}" if tests else ""
        (most,) = self._context.releases.value(
            f"SELECT system.main.max(n) FROM (SELECT {counted} FROM ({form}) AS _dk_cells{where} GROUP BY ALL)"
        )
        return most is not None and most <= 1

    @property
    def cut(self) -> str:
        """Where the conditions come after a sample of a unit's records."""
        if not self._hidden:
            return ""
        outside = " Records whose values in a condition are outside of the columns' domains do not count."
        if not self.question.is_cut:
            return outside
        picked = f"a sample of {self._policy.contributions} counts, picked before the conditions on {self._asked_of}."
        return f" Of each {self._policy.unit_in_words} {picked}{outside}"

    @property
    def _asked_of(self) -> str:
        """The columns whose conditions say which cells are meant, in words; nothing of the text of a view or macro."""
        columns = frozenset().union(*map(columns_of, (*self._where.on_keys, *self._key_conditions)))
        named = [key.column for key in self._bases if fold(key.column) in columns]
        return "keys" if self._context.bound.opened else " and ".join(named)
