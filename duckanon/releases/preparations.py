"""What is prepared, and what follows from it, as questions.

A preparation is charged once, and measures marginals with noise. Answers that are linear functions of these follow from
them: they cost nothing, and agree with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from duckanon.catalog.names import quoted
from duckanon.governance.answers import Purchase
from duckanon.governance.locations import Location
from duckanon.governance.noise_prices import NO_NOISE, Spent, concentrated
from duckanon.governance.preparations import Design, Preparation, detail
from duckanon.releases import layout
from duckanon.releases.key_domains import numbered
from duckanon.releases.looked_up import LookedUp, with_columns
from duckanon.releases.measures import Measure, Number
from duckanon.releases.paid_questions import AggregatesQuestion, Form, Key, PaidQuestion
from duckanon.units.relation import OpenRows

# The most steps of a number: the totals of all records fit into 64 bits.
MOST_STEPS = 10**8
# The column of an answer that numbers its cells among those of the prepared table.
PLACE = "place"


@dataclass(frozen=True, kw_only=True)
class PreparationQuestion(PaidQuestion):
    """Marginals of a protected table, measured with Gaussian noise of planned scales.

    keys: with a domain each. numbers: with bounds. A unit's records are picked once, by all keys and numbers, so that
    all marginals count the same records. asked: what was asked for, which says with the tables how they are planned.
    looked_up: the columns of keys and numbers that are looked up for each record.
    """

    kind: ClassVar[str] = "preparation"

    keys: tuple[Key, ...]
    numbers: tuple[Number, ...]
    design: Design
    asked: tuple[str, ...]
    looked_up: tuple[LookedUp, ...] = ()

    @property
    def resolved(self) -> dict[str, Any]:
        """Not how it is planned, which follows from the rest: a later version may plan it better."""
        values = {
            name: value for name, value in super().resolved.items() if name not in ("design", "epsilon", "looked_up")
        }
        values["keys"] = [key.resolved for key in self.keys]
        if self.looked_up:
            values["looked_up"] = [lookup.resolved for lookup in self.looked_up]
        return values | {"tables": self.design.tables}

    @property
    def looks_up(self) -> tuple[OpenRows, ...]:
        return tuple(values for lookup in self.looked_up for values in lookup.contents)

    @property
    def records(self) -> str:
        return with_columns(super().records, self.looked_up)

    @property
    def form(self) -> Form:
        return Form(self.keys)

    @property
    def values(self) -> list[tuple[str, str]]:
        return [(layout.value(at), number.sql) for at, number in enumerate(self.numbers)]

    @property
    def row(self) -> list[str]:
        return [*(layout.key(at) for at in range(len(self.keys))), *(name for name, _ in self.values)]

    @property
    def clamps(self) -> bool:
        return bool(self.numbers)

    def types(self, cells: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG002 # as of all questions
        return {"marginal": "INTEGER", "cell": "BIGINT", "n": "BIGINT"}

    @property
    def variances(self) -> dict[tuple[int, ...], Fraction]:
        """The noise of each measured marginal, in the whole numbers that it is told in.

        The records of one unit change a marginal by the sum of so many vectors of length one at most.
        """
        return {table: self.design.plan.noise(table, self.contributions) for table in self.design.measured}

    @property
    def spent(self) -> Spent:
        most = {table: self.contributions * self.design.workload.whole(table) for table in self.design.measured}
        rho = sum((most[table] ** 2 / (2 * variance) for table, variance in self.variances.items()), Fraction(0))
        return concentrated(rho, self.renyi)

    @property
    def scale(self) -> Fraction:
        return max(self.variances.values())

    @property
    def words(self) -> str:
        """Tables of one column are not named where they are part of others."""
        tables = [[self.design.columns[at] for at in table] for table in self.design.tables]
        shown = " and ".join(" x ".join(table) or "all" for table in tables[:_MOST_NAMED])
        more = f" and {len(tables) - _MOST_NAMED} more" if len(tables) > _MOST_NAMED else ""
        return f"preparation of {self.location.label}: {shown}{more}"

    @property
    def beside(self) -> tuple[tuple[Location, int], ...]:
        chains = (step for lookup in self.looked_up for step in lookup.look_up.chain)
        return tuple(dict.fromkeys((step.location, step.version) for step in chains if step.version is not None))

    @property
    def detail(self) -> Mapping[str, Any]:
        return detail(self.version, self.contributions, self.design)


_MOST_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class FollowingQuestion(AggregatesQuestion):
    """Counts and sums that follow from a preparation: its numbers are computed from the stored measurements.

    A row of the answer is a combination of the keys' values. It has, besides the numbers, its place among the cells of
    the prepared table, from which the widths of intervals are computed. looked_up: the columns that it looks up.
    of_keys: the columns of numbers that are added up by the values of keys, each times the count of its records.
    """

    kind: ClassVar[str] = "following"

    preparation: Preparation
    looked_up: tuple[LookedUp, ...] = ()
    of_keys: tuple[str, ...] = ()

    @property
    def resolved(self) -> dict[str, Any]:
        """Of one draw: what was dropped and bought again is another one."""
        values = {name: value for name, value in super().resolved.items() if name not in ("looked_up", "of_keys")}
        values |= {"of_keys": self.of_keys} if self.of_keys else {}
        digests = {"looked_up": [lookup.digest for lookup in self.looked_up]} if self.looked_up else {}
        return values | digests | {"preparation": [self.preparation.key, self.preparation.number]}

    @property
    def looks_up(self) -> tuple[OpenRows, ...]:
        """Its keys' values are those of open tables as they were."""
        return tuple(values for lookup in self.looked_up for values in lookup.contents)

    @property
    def follows(self) -> date:
        return self.preparation.day

    @property
    def spent(self) -> Spent:
        return NO_NOISE

    @property
    def scale(self) -> Fraction:
        return Fraction(0)

    @property
    def table(self) -> tuple[int, ...]:
        """The keys' places among the attributes, in their order."""
        return tuple(self.preparation.design.keys.index(key.column) for key in self.keys)

    def with_number(self, measure: Measure) -> tuple[int, ...]:
        """The table from which a measure follows: that of the keys, and the number that is summed."""
        number = getattr(measure, "number", None)
        if number is None or number.column in self.of_keys:
            return self.table
        columns = [number.column for number in self.preparation.design.numbers]
        return (*self.table, len(self.preparation.design.keys) + columns.index(number.column))

    def axis(self, number: Number) -> int:
        """The place in `table` of the key whose values are those of a number."""
        return next(at for at, key in enumerate(self.keys) if key.column == number.column)

    def ways(self, number: Number) -> str:
        """A query for the list of that key's values, as ways from the least value of the number to the largest."""
        listed = numbered(self.location.database, self.keys[self.axis(number)])
        value = f"SELECT k0 AS {quoted([number.column])}, place FROM {listed} AS _dk_numbered"
        way = f"coalesce(CAST({number.sql} AS DOUBLE) / {number.steps}, CAST('nan' AS DOUBLE))"
        return f"SELECT system.main.list({way} ORDER BY place ASC) FROM ({value}) AS _dk_values"

    @property
    def columns(self) -> list[str]:
        return [*super().columns, PLACE]

    def types(self, cells: Mapping[str, str]) -> dict[str, str]:
        numbers = [name for at, (measure, _) in enumerate(self.measures) for name in measure.columns(at).values()]
        return {**{text: cells[text] for text in self.form.cell}, **dict.fromkeys(numbers, "DOUBLE"), PLACE: "BIGINT"}

    @cached_property
    def purchase(self) -> Purchase:
        return Purchase(self.location, self.key, self.version, self.edition, None)
