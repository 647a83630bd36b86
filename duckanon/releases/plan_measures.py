"""What is measured for a query in each cell, and the question for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from duckanon.catalog.names import fold
from duckanon.releases.measures import Different, Measure, Quantiles, Records, Sums, Units, shared
from duckanon.releases.noise import AddsUpNothing, NotOffered, all_of, conditions, not_dropped
from duckanon.releases.paid_questions import AggregatesQuestion, basis
from duckanon.releases.plan_conditions import PlannedConditions
from duckanon.releases.within_units import Derived
from duckanon.rewrite.algebra.expressions import Column, Expr
from duckanon.rewrite.algebra.filters import scalar
from duckanon.rewrite.algebra.nodes import Node


@dataclass(frozen=True)
class Measures:
    """The measures of a question, by the folded columns that they are of, or the identities of what they are of.

    parts, units, different: also by the conditions under which they count, which are none for all records.
    """

    records: Records | None = None
    units: Mapping[frozenset[Expr], Units] = field(default_factory=dict)
    different: Mapping[tuple[str, frozenset[Expr]], Different] = field(default_factory=dict)
    sums: Mapping[tuple[bool, str], Sums] = field(default_factory=dict)
    quantiles: Mapping[tuple[bool, str], Quantiles] = field(default_factory=dict)
    parts: Mapping[frozenset[Expr], Records] = field(default_factory=dict)

    @property
    def all(self) -> list[Measure]:
        """In the order in which the question has them."""
        single = [records for records in (self.records,) if records is not None]
        counted = [*single, *self.parts.values(), *self.units.values(), *self.different.values()]
        return [*counted, *self.sums.values(), *self.quantiles.values()]


class PlannedMeasures(PlannedConditions):
    """The measures behind a query's statistics."""

    @cached_property
    def _measures(self) -> Measures:
        counted = self._counts_beside or any(
            statistic.name in ("records", "share") and not statistic.own and not self._is_of_values(statistic)
            for statistic in self._statistics
        )
        own = {name: self._conditions_of(name) for name in ("records", "units", "different")}
        places: dict[tuple[bool, str], set[Fraction]] = {}
        for one in self._statistics:
            if one.name == "quantile" and one.place is not None:
                places.setdefault(self._of(one).identity, set()).add(one.place)
        known = {quantity.identity: quantity for quantity in self._measured_quantities}
        measures = Measures(
            records=Records() if counted and not self._summed else None,
            parts={where: Records(sql) for (_, where), sql in own["records"].items() if where},
            units={where: Units(self._few_cells, sql) for (_, where), sql in own["units"].items()},
            different={
                (column, where): replace(self._different(column), where=sql)
                for (column, where), sql in own["different"].items()
            },
            # The first sum counts records beside, those without a value too.
            sums={
                of: Sums(known[of].number(squares=squares), squares, counted and at == 0)
                for at, (of, squares) in enumerate(sorted(self._summed.items()))
            },
            quantiles={
                of: Quantiles(known[of].number(quantiles=True), tuple(str(number) for number in sorted(at)))
                for of, at in sorted(places.items())
            },
        )
        if not all(measure.adds_up for measure in measures.all):
            self._check_single()
        return measures

    @property
    def _counts_beside(self) -> bool:
        """Whether records are counted though no statistic asks for that."""
        return False

    def _conditions_of(self, name: str) -> dict[tuple[str, frozenset[Expr]], str | None]:
        """The columns and own conditions of all statistics of a name, each with its conditions as SQL."""
        asked = {(statistic.column or "", statistic.own) for statistic in self._statistics if statistic.name == name}
        found = {
            (column, where): all_of(self._context, self._table, where) if where else None for column, where in asked
        }
        return dict(sorted(found.items(), key=lambda item: (item[0][0], item[1] or "")))

    @property
    def _few_cells(self) -> int | None:
        """The number of cells, if it is less than that of the records of a unit that count."""
        if self._policy.contributions == 1 or self._is_alone:
            return None
        cells = self._context.releases.cells(self._asked(((Records(), Fraction(1)),)))
        return cells if cells and cells < self._policy.contributions else None

    def _different(self, column: str) -> Different:
        """The measure of a column's different values. Raises NotTotal for types that are not compared."""
        scalar(Column(0, column), self._types, self._context.today)
        stored = {fold(column): column for column in self._context.columns(self._table)}
        return Different(stored[column])

    def _check_single(self) -> None:
        """Raises NotOffered where numbers that do not add up would have to."""
        repeated = any(choice.most_alike > 1 for choice in self._choices.values())
        of_parts = self._is_grouped and self._key_conditions
        if repeated or of_parts:
            raise NotOffered(
                "Different values and quantiles do not add up: ask for them by keys of which CASE gives no value "
                "twice, and without FILTER on computed keys.",
                self._first_that_does_not_add_up,
            )
        if self._grouped.has_sets:
            raise AddsUpNothing(
                "Different values and quantiles do not add up, so each grouping set is asked by itself, and these are "
                "too many: ask for some of them.",
                self._first_that_does_not_add_up,
            )

    @property
    def _first_that_does_not_add_up(self) -> Node:
        """Of the aggregates as they are written."""
        both = zip(self._statistics, self._grouped.aggregates, strict=True)
        return next(node for statistic, node in both if statistic.name in ("units", "different", "quantile"))

    @cached_property
    def question(self) -> AggregatesQuestion:
        for statistic in self._statistics:
            if statistic.name == "different" and statistic.column is not None:
                not_dropped(self._context, self._table, {statistic.column})
        measures = shared(
            self._measures.all, self._policy.contributions, is_alone=self._is_alone, renyi=self._protected.renyi
        )
        return self._asked(measures)

    @property
    def _is_alone(self) -> bool:
        """Whether there is a single cell."""
        return not self._bases and not self._events

    def _asked(self, measures: tuple[tuple[Measure, Fraction], ...]) -> AggregatesQuestion:
        """A question for measures, in the cells of this one."""
        filters = [*self._where.filters, *conditions(self._context, self._table, [*self._common, *self._any])]
        assert self._policy.per_query is not None
        return AggregatesQuestion(
            **basis(self._protected, self._policy.per_query, filters),
            keys=self._bases,
            domain_filters=self._where.domain_filters,
            grouped=self._cells_by,
            events=self._events,
            measures=measures,
            relation=self._relation,
            of_keys=self._where.of_keys,
            called=self._called_so,
        )

    @property
    def _called_so(self) -> Mapping[str, str]:
        """The statement's names of what is computed; nothing of the text of a view or macro."""
        if self._context.bound.opened:
            return {}
        return {**(self._policy.names if isinstance(self._policy, Derived) else {}), **self._steps_called}
