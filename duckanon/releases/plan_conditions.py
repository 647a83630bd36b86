"""The statistics of a query: their conditions, and the numbers that they are of.

Conditions become the question's filter, a statistic's own, or events that divide records. Numbers are columns with
bounds, and what is computed of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import TypeVar

from duckanon.catalog.links import own_unit
from duckanon.releases import layout
from duckanon.releases.exclusions import excludes
from duckanon.releases.layout import Event, combinations
from duckanon.releases.noise import NotOffered, all_of, columns_of, not_dropped
from duckanon.releases.numbers import CentredProduct, Columns, Quantity, product, quantity, ranked
from duckanon.releases.plan_keys import PlannedKeys
from duckanon.releases.statistics import Mean, Spread, Sum, answer_column
from duckanon.releases.within_units import Derived
from duckanon.rewrite.algebra.bounds import NotBounded
from duckanon.rewrite.algebra.expressions import (
    NULL,
    And,
    Branch,
    Case,
    Comparison,
    Constant,
    Expr,
    In,
    Is,
    Not,
    Or,
)
from duckanon.rewrite.algebra.order import in_order, sort_key
from duckanon.rewrite.normalize.grouped import Grouped, NotFollowed
from duckanon.rewrite.recognize.aggregates import present_operand
from duckanon.rewrite.recognize.conditional import follows
from duckanon.rewrite.recognize.findings import Aggregates, Statistic, Unanswered
from duckanon.rewrite.rule_context import RuleContext
from duckanon.units.relation import Relation

SPREADING = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
COVARIANCE = "covar_pop"
# The statistics that are computed from sums.
SUMMED: dict[str, type[Sum | Mean | Spread]] = {"sum": Sum, "avg": Mean, **dict.fromkeys(SPREADING, Spread)}
N = TypeVar("N", Quantity, CentredProduct)
# More cells than that for one combination of keys are too many.
_MOST_OUTCOMES = 64
# The statistics that do not add up over cells.
_OF_WHOLE_ROWS = ("units", "different", "quantile")


class PlannedConditions(PlannedKeys):
    """The statistics of a query with their conditions, and with the numbers that they are of."""

    def __init__(
        self, context: RuleContext, found: Aggregates, grouped: Grouped, relation: Relation | None = None
    ) -> None:
        super().__init__(context, found, grouped, relation)
        statistics = [self._of_present_units(statistic) for statistic in found.statistics]
        self._common = self._of_all(statistics)
        without = [self._without(statistic) for statistic in statistics]
        self._any = self._of_any(without)
        self._statistics = self._by_themselves(without)
        self._events = self._families()

    def _of_all(self, statistics: Sequence[Statistic]) -> frozenset[Expr]:
        """The conditions that all statistics have, or that follow from theirs: they become the question's filter."""
        wheres = [
            where
            for statistic in statistics
            for where in ([statistic.where, statistic.of] if statistic.name == "share" else [statistic.where])
        ]
        # A condition on keys alone leaves rows in the answer, with exact zeros.
        asked = (one for one in frozenset().union(*wheres) if not self._is_of_keys(one))
        return frozenset(one for one in asked if all(follows(one, where) for where in wheres))

    def _of_any(self, statistics: Sequence[Statistic]) -> frozenset[Expr]:
        """Where each statistic has conditions of its own: that those of at least one of them are met.

        A record that meets none is counted nowhere, so what is counted stays the same where all records of a unit
        count, and where they do not, the sample is made of records that are asked for. One more filter on a unit's own
        records leaves at most as many of them, so what a unit can change is as before.

        statistics: without the conditions that all have.
        """
        if self._policy.privacy_unit is None or (self._relation is not None and self._relation.has_one_row):
            # Nothing is left out, so with or without this the answer is the same, and one question has it.
            return frozenset()
        # Conditions on keys are left out: their rows are read from the counts of all rows, which is free after these.
        wheres = {
            self._of_records(statistic.of if statistic.name == "share" else statistic.where) for statistic in statistics
        }
        least = [where for where in wheres if not any(other < where for other in wheres)]
        if frozenset() in wheres or any(_implies(one, least) for one in self._found.filter):
            return frozenset()
        return frozenset([reduce(Or, in_order(map(_all, least)))])

    def _of_present_units(self, one: Statistic) -> Statistic:
        """The number of different units in a column that has NULL for some: that of the units of records that do not.

        So a unit is counted once, however many different values could be.
        """
        of = one.operand
        is_perhaps = isinstance(self._policy, Derived) and one.column in self._policy.units_or_null
        if one.name != "units" or of is None or not is_perhaps:
            return one
        return replace(one, where=one.where | {Not(Is(of, NULL))})

    def _without(self, one: Statistic) -> Statistic:
        """The statistic without the conditions that all have; they become the question's filter."""
        name = one.name
        if name == "units":
            if one.column not in self._units:
                name = "different"
            elif self._policy.contributions == 1:
                # With one record of each unit there are as many records as units.
                name = "records"
        return replace(one, name=name, where=one.where - self._common, of=one.of - self._common)

    def _by_themselves(self, statistics: Sequence[Statistic]) -> list[Statistic]:
        """The statistics, where some do not add up over cells with their conditions on records as their own.

        Then the conditions divide no cells, so these are still numbers of whole rows.
        """
        if all(statistic.name not in _OF_WHOLE_ROWS for statistic in statistics):
            return [*statistics]
        summed = {statistic.operand for statistic in statistics if statistic.name in SUMMED}
        return [self._by_itself(statistic, summed) for statistic in statistics]

    def _by_itself(self, one: Statistic, summed: set[Expr | None]) -> Statistic:
        """A statistic whose conditions on records are its own. summed: what has its values counted beside its sum."""
        own, of = self._of_records(one.where), self._of_records(one.of)
        if not own or (one.name == "records" and present_operand(own) in summed):
            return one
        rest = replace(one, where=one.where - own, of=one.of - of)
        if one.name in ("records", "units", "different"):
            return replace(rest, own=own)
        if one.name == "share":
            part = Case((Branch(_all(one.where - rest.of), Constant("1")),), Constant("0"))
            share = part if not of else Case((Branch(_all(of), part),), NULL)
            return replace(rest, name="avg", operand=share, where=rest.of, of=frozenset())
        values = [None if each is None else Case((Branch(_all(own), each),), NULL) for each in (one.operand, one.other)]
        return replace(rest, operand=values[0], other=values[1])

    @cached_property
    def _units(self) -> frozenset[str]:
        """The folded columns that are the privacy unit, and never NULL where a record has one."""
        if isinstance(self._policy, Derived):
            return self._policy.units | self._policy.units_or_null
        if self._table not in self._context.catalog.protected:
            # What is looked up in prepared tables has no counts of units.
            return frozenset()
        own = own_unit(self._context.catalog.protected, self._table)
        return frozenset() if own is None else frozenset([own])

    # --- events -------------------------------------------------------------------------------------------------------

    def _families(self) -> tuple[Event, ...]:
        """The events: of the keys, and of the aggregates' conditions; those that exclude each other are one event."""
        families: list[list[frozenset[Expr]]] = []
        # The order of a set differs from process to process, and the question must not.
        for where in sorted(self._wheres, key=lambda one: sorted(map(sort_key, one))):
            fitting = (one for one in families if all(excludes(where, other, self._types) for other in one))
            family = next(fitting, None)
            if family is None:
                families.append([where])
            else:
                family.append(where)
        told = [tuple(all_of(self._context, self._table, one) for one in family) for family in families]
        self._places = {where: (at, place) for at, family in enumerate(families) for place, where in enumerate(family)}
        self._told = told
        # A key that WHERE leaves one value needs no condition.
        events: tuple[Event, ...] = tuple(
            dict.fromkeys([*told, *(choice.tests for choice in self._choices.values() if choice.tests)])
        )
        if combinations(events) > _MOST_OUTCOMES:
            raise NotOffered("These are too many conditions for one question: ask for fewer numbers at once.")
        return events

    @property
    def _wheres(self) -> set[frozenset[Expr]]:
        found = {self._event(statistic.where) for statistic in self._statistics if not self._is_of_values(statistic)}
        return {one for one in found | {self._event(statistic.of) for statistic in self._statistics} if one}

    def _event(self, where: frozenset[Expr]) -> frozenset[Expr]:
        """The conditions on records by which cells are divided: without those that follow from others.

        `sick` is one event, and `sick AND sick IS NOT NULL` is no other.
        """
        records = self._of_records(where)
        return frozenset(record for record in records if not follows(record, records - {record}))

    def _of_records(self, where: frozenset[Expr]) -> frozenset[Expr]:
        """The conditions that are not of keys alone."""
        return frozenset(one for one in where if not self._is_of_keys(one))

    def _filtered(self, *wheres: frozenset[Expr]) -> str:
        """The FILTER of an aggregate over the answer: the cells where all of several conditions hold."""
        met = self._events_met(*wheres)
        events = [f"{answer_column(layout.event(self._events.index(self._told[at])))} = {place}" for at, place in met]
        of_keys = sorted({self._key_conditions[one] for where in wheres for one in where if self._is_of_keys(one)})
        if self._is_grouped:
            of_keys = [answer_column(layout.key(self._cells_by.index(one))) for one in of_keys]
        met_all = [*self._own_rows, *(f"({one})" for one in of_keys), *events]
        return f" FILTER (WHERE {' AND '.join(met_all)})" if met_all else ""

    @property
    def _own_rows(self) -> Sequence[str]:
        """Conditions on the answer's own rows, where others stand beside them."""
        return ()

    def _events_met(self, *wheres: frozenset[Expr]) -> list[tuple[int, int]]:
        """The events that hold where all of several conditions do, as their families and their places in these.

        In the other cells of an event that follows there is nothing but noise.
        """
        given = self._of_records(frozenset().union(*wheres))
        return [met for event, met in self._places.items() if all(follows(one, given) for one in event)]

    def _is_of_values(self, one: Statistic) -> bool:
        """Whether it counts the values of a column that is summed, so that this count is there already."""
        return one.name == "records" and self._counted_beside(one) is not None

    def _counted_beside(self, one: Statistic) -> tuple[bool, str] | None:
        """Of a count of the values of what is summed, what that is."""
        operand = present_operand(self._of_records(one.where))
        found = None if operand is None else self._quantities.get(operand)
        return found.identity if found is not None and found.identity in self._summed else None

    # --- numbers ------------------------------------------------------------------------------------------------------

    @cached_property
    def _quantities(self) -> dict[Expr, Quantity]:
        """What statistics of numbers are of."""
        asked = [statistic for statistic in self._statistics if statistic.name in (*SUMMED, COVARIANCE, "quantile")]
        found = {}
        for statistic in asked:
            read = ranked if statistic.name == "quantile" else quantity
            for of in (statistic.operand, statistic.other):
                if of is not None:
                    found[of] = self._made(statistic, of, partial(read, self._numbers_of(of), of, self._shown(of)))
        return found

    @cached_property
    def _products(self) -> dict[tuple[Expr, Expr], CentredProduct]:
        """What covariances are of, beside both numbers."""
        found = {}
        for statistic in self._statistics:
            if statistic.name == COVARIANCE and statistic.operand is not None and statistic.other is not None:
                shown = self._shown(statistic.operand), self._shown(statistic.other)
                columns = self._numbers_of(statistic.operand, statistic.other)
                made = partial(product, columns, statistic.operand, statistic.other, shown)
                found[statistic.operand, statistic.other] = self._made(statistic, statistic.operand, made)
        return found

    def _numbers_of(self, *operands: Expr) -> Columns:
        """What is known of the columns of which numbers are computed, in the records whose numbers these are.

        They meet the conditions that all statistics of such an operand have. Of others, whose numbers are told by no
        row, what is added up is clamped to the same bounds.
        """
        wheres = [
            self._of_records(statistic.where)
            for statistic in self._statistics
            if {statistic.operand, statistic.other}.intersection(operands)
        ]
        columns = Columns(self._protected, self._types, self._context.today)
        return columns.meeting(self._of_cells | frozenset.intersection(*wheres))

    @property
    def _of_cells(self) -> frozenset[Expr]:
        """The conditions that all records meet which are in the answer's cells."""
        return self._found.filter | self._common

    @property
    def _measured_quantities(self) -> list[Quantity]:
        return [*self._quantities.values(), *(one.quantity for one in self._products.values())]

    def _made(self, one: Statistic, operand: Expr, make: Callable[[], N]) -> N:
        """What is made of an operand. Raises NotOffered, NotFollowed and NotTotal."""
        not_dropped(self._context, self._table, columns_of(operand))
        try:
            return make()
        except NotBounded as no:
            told = {"quantile": "quantile_cont", COVARIANCE: "avg"}.get(one.name, one.name)
            further = "" if one.place is None else f", {float(one.place):g}"
            if ": " in str(no):
                # It says what to write instead.
                raise NotFollowed(f"{no}.") from no
            why = Unanswered(
                str(no),
                tuple(sorted(columns_of(operand))),
                (f"{told}({{}}{further})",),
                otherwise="ask the steward for a column with bounds that holds it",
            )
            raise NotFollowed(why.reason, why=why) from no

    def _of(self, one: Statistic) -> Quantity:
        assert one.operand is not None
        return self._quantities[one.operand]

    def _of_covariance(self, one: Statistic) -> tuple[Quantity, Quantity, Quantity]:
        """Both numbers that a covariance is of, and their product."""
        assert one.operand is not None
        assert one.other is not None
        left, right = self._quantities[one.operand], self._quantities[one.other]
        return left, right, self._products[one.operand, one.other].quantity

    @cached_property
    def _summed(self) -> dict[tuple[bool, str], bool]:
        """What is summed, and whether its squares are needed."""
        found: dict[tuple[bool, str], bool] = {}
        for statistic in self._statistics:
            if statistic.name in SUMMED:
                summed = self._of(statistic).identity
                found[summed] = found.get(summed, False) or statistic.name in SPREADING
            elif statistic.name == COVARIANCE:
                for each in self._of_covariance(statistic):
                    found.setdefault(each.identity, False)
        return found


def _implies(condition: Expr, wheres: Sequence[frozenset[Expr]]) -> bool:
    """Whether a record that meets a condition meets all of one of `wheres`, as the text shows."""
    return all(frozenset([one]) in wheres for one in _alternatives(condition))


def _alternatives(condition: Expr) -> frozenset[Expr]:
    """The conditions of which one is met where this one is."""
    match condition:
        case Or(left, right):
            return _alternatives(left) | _alternatives(right)
        case In(operand, values):
            return frozenset(Comparison("=", operand, value) for value in values)
    return frozenset([condition])


def _all(conditions: frozenset[Expr]) -> Expr:
    """Conditions joined by AND, in an order that does not depend on how they are written."""
    return reduce(And, in_order(conditions))
