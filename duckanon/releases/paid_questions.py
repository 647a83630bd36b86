"""Questions that are paid for, as data: all that an answer depends on, apart from the records and the noise.

A question is resolved: names are full, constants are typed, `current_date` is written out. Its key does not hold the
database's name, which changes when a file is renamed or copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from math import isqrt, prod
from typing import TYPE_CHECKING, Any, ClassVar

from duckanon.accounting import Charge, written
from duckanon.catalog.names import fold, quoted
from duckanon.catalog.reader import text_for_enum
from duckanon.catalog.snapshot import Owned, Protected
from duckanon.engines.found_keys import threshold
from duckanon.engines.noise import Gaussian, Noise
from duckanon.engines.quantiles import Choice
from duckanon.governance.answers import Purchase
from duckanon.governance.locations import Location
from duckanon.governance.noise_prices import NO_NOISE, Moved, Spent, concentrated, pure
from duckanon.releases import layout
from duckanon.releases.layout import Event, in_words
from duckanon.releases.measures import MOST_CELLS, Computed, Measure, Records
from duckanon.releases.sizes import RECORDS, Among, Size, UnitsTable, Values
from duckanon.renyi import Renyi
from duckanon.units.relation import Answered, OpenRows, Relation
from duckanon.units.relation import Records as UnitRecords

if TYPE_CHECKING:
    from duckanon.engines.groups.request import Request

# The number of what answers mean. It is part of each question's key, so an answer of an older meaning is never given
# again, and asking anew is charged.
# 2: which records of a unit count differs from unit to unit; until then all units lost the same cells. Units, groups
#    and values are compared by their bytes, whatever the collation.
MEANING = 2
# The same for pure noise that a Rényi divergence buys. 2: it is priced as randomised response is, so a price buys less
#    of it.
_PURE = 2
# How far the cost of pure noise may be below a price that is a Rényi divergence.
_ROUNDED = Fraction(1, 10**9)
# The most leaf regions by sizes of an answer about group sizes.
MOST_SIZES = 20_000_000


@dataclass(frozen=True)
class Key:
    """A column by which an answer is grouped: there is a row for each value of its domain.

    domain: the table of the schema duckanon that lists the values. kind: the column's type, VARCHAR for an ENUM, whose
    type would show all its values. columns: of that table, folded; it may have further columns, such as the state in
    which a county lies. path: of an open table that is the domain itself. listed: the names of `columns` in the
    domain's table, where they have others. nullable: whether NULL is a value beside those. sought: the question that
    finds its values with noise, while its answer is not there yet. found: whether its values were found with noise.
    constants: the values as SQL, where no table lists them.
    """

    column: str
    domain: str
    kind: str = "VARCHAR"
    columns: tuple[str, ...] = ()
    path: tuple[str, str, str] | None = None
    listed: tuple[str, ...] = ()
    nullable: bool = False
    sought: KeysQuestion | None = None
    found: bool = False
    constants: tuple[str, ...] = ()

    def named(self, column: str) -> str:
        """The name in the domain's table of one of its columns, folded."""
        return self.listed[self.columns.index(fold(column))] if self.listed else column

    @property
    def resolved(self) -> dict[str, Any]:
        """All that an answer depends on, as plain values; without the database's name, and what is as usual."""
        found = {"column": self.column, "domain": self.domain, "kind": self.kind, "columns": self.columns}
        if self.path is not None:
            found |= {"path": tuple(map(fold, self.path[1:]))}
        if self.listed:
            found |= {"listed": self.listed}
        if self.constants:
            found |= {"constants": self.constants}
        return found | ({"nullable": True} if self.nullable else {})


@dataclass(frozen=True)
class DomainFilter:
    """A condition on the values of keys alone: cells where it is false or NULL are not part of the answer.

    sql: over the values k0, k1, ...; it cannot fail. keys: the positions of the keys that it reads.
    """

    sql: str
    keys: tuple[int, ...]


@dataclass(frozen=True)
class Form:
    """Which cells an answer has: all combinations of keys that the filters leave, and of events.

    grouped: expressions over the keys' values by which cells are made instead of the keys themselves.
    """

    keys: tuple[Key, ...]
    filters: tuple[DomainFilter, ...] = ()
    grouped: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def outcomes(self) -> int:
        """How many cells each combination of keys has."""
        return prod(len(event) + 1 for event in self.events)

    @property
    def cell(self) -> list[str]:
        """The columns that identify a cell: what it is shown by, and events."""
        shown = [layout.key(at) for at in range(len(self.grouped or self.keys))]
        return shown + [layout.event(at) for at in range(len(self.events))]


@dataclass(frozen=True, kw_only=True)
class PaidQuestion:
    """What every paid question has in common.

    location: the protected table. version, edition: of its policy and its population. privacy_unit: the column that
    identifies one; None: each record is one. contributions: how many records of a unit count. epsilon: what it costs.
    protects: what that protects, in words. filter: conditions on records, as SQL that cannot fail. definitions: the
    names of the views and macros by which an analyst asked it, whose text is not shown; the question is what it says.
    owned: how the records of a linked table get their owners; the version stands for it in the key. renyi: how the
    population accounts if it has a delta; what it costs is then in the unit of its ledger. changed: the newest
    change of a policy in place that was known; what it changed is in the question's other parts, as far as it matters.
    """

    kind: ClassVar[str] = ""
    # Whether it buys the keys of other questions.
    is_of_keys: ClassVar[bool] = False

    location: Location
    version: int
    edition: int
    privacy_unit: str | None
    contributions: int
    epsilon: Fraction
    protects: str
    filter: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    owned: Owned | None = None
    renyi: Renyi | None = None
    changed: int = 0

    def __post_init__(self) -> None:
        # The epsilon of pure noise that a Rényi divergence buys is a root, which is rounded down.
        rounded = 0 if self.renyi is None else _ROUNDED
        if not 0 <= self.epsilon - self.loss <= rounded:
            raise AssertionError("A question's charge is not what its noise costs: this is a bug in duckanon.")

    @property
    def resolved(self) -> dict[str, Any]:
        """All that the answer depends on, as plain values."""
        found = asdict(self)
        for name in ("location", "owned", "protects", "epsilon", "definitions", "changed"):
            found.pop(name)
        if self.renyi is None:
            found.pop("renyi")
        elif self.spent.epsilon:
            found["pure"] = _PURE
        table, epsilon = self.location.identity, written(self.epsilon)
        return {**found, "kind": self.kind, "table": table, "epsilon": epsilon, "meaning": MEANING}

    @cached_property
    def key(self) -> str:
        """A hash: equal for the same question under one policy and in one edition, however it is written."""
        return sha256(json.dumps(self.resolved, sort_keys=True, default=str).encode()).hexdigest()[:32]

    @property
    def path(self) -> tuple[str, str, str]:
        """The full name of the table that holds the answer."""
        return self.purchase.path

    @property
    def what(self) -> str:
        """The question in words, for the ledger, which analysts read: made of what stands in the statement itself.

        Which parts come from a view or macro is not known any more, so where there are some, their names are all that
        is said.
        """
        if not self.definitions:
            return self.words
        return f"{self.kind} of {self.location.label}, asked by way of {' and '.join(self.definitions)}"

    @property
    def words(self) -> str:
        """The whole question in words."""
        raise NotImplementedError

    @property
    def spent(self) -> Spent:
        """What its noise costs, computed from what the mechanism is given."""
        raise NotImplementedError

    @property
    def loss(self) -> Fraction:
        """The same in the unit of the ledger: as much as it charges."""
        return self.spent.price

    @property
    def follows(self) -> date | None:
        """The day of what was charged before and it follows from, so that it is free; None where it is charged."""
        return None

    @property
    def looks_up(self) -> tuple[Values, ...]:
        """Conditions by what open tables hold, which may change from one asking to the next."""
        return ()

    @property
    def needs(self) -> frozenset[str]:
        """The tables of the answers to other questions that its draw reads."""
        return frozenset()

    @property
    def form(self) -> Form:
        """Which cells, or leaf regions, the answer has."""
        raise NotImplementedError

    @property
    def most_cells(self) -> int:
        """How many it may have."""
        return MOST_CELLS

    @property
    def values(self) -> list[tuple[str, str]]:
        """What is taken of each record, as SQL that cannot fail, with the name of its column."""
        raise NotImplementedError

    @property
    def row(self) -> list[str]:
        """The columns of a record that make a difference: records that are equal in them are interchangeable."""
        return ["cell", *(name for name, _ in self.values)]

    @property
    def is_cut(self) -> bool:
        """Whether some records of a unit may be left out."""
        return self.privacy_unit is not None

    @property
    def leaves_out(self) -> bool:
        """Whether some may be, here or before they are put together."""
        return self.is_cut

    @property
    def is_of_one_cell(self) -> bool:
        """Whether that is so of those outside the cell of one record, not of those beyond `contributions`."""
        return False

    @property
    def clamps(self) -> bool:
        """Whether values are clamped to bounds."""
        raise NotImplementedError

    def types(self, cells: Mapping[str, str]) -> dict[str, str]:
        """The columns of an answer with their types. cells: those of the columns that identify a cell."""
        raise NotImplementedError

    @property
    def records(self) -> str:
        """What stands after FROM to read the table's records with their privacy unit."""
        return f"({self.owned.records()})" if self.owned else quoted(self.location.path)

    @cached_property
    def charge(self) -> Charge:
        """What it costs, and for what."""
        relation = f"{self.protects}, added or removed"
        return Charge(self.epsilon, self.what, relation, self.protects, self.noise_words, self.is_of_keys)

    @cached_property
    def purchase(self) -> Purchase:
        return Purchase(
            self.location, self.key, self.version, self.edition, self.charge, self.beside, self.detail, self.changed
        )

    @property
    def beside(self) -> tuple[tuple[Location, int], ...]:
        """The other protected tables that are read, with their policies' versions."""
        return ()

    @property
    def detail(self) -> Mapping[str, Any] | None:
        """What the ledger's line has besides."""
        return None

    @property
    def noise_words(self) -> str:
        """What noise it pays for, in words; empty in a population without a delta, which has one kind alone."""
        return "" if self.renyi is None else self.spent.words

    @property
    def _filtered(self) -> str:
        return f" where {' and '.join(self.filter)}" if self.filter else ""


@dataclass(frozen=True, kw_only=True)
class AggregatesQuestion(PaidQuestion):
    """Counts, sums and quantiles of records, for every combination of keys and events.

    keys: columns with a domain. domain_filters: conditions on the keys' values. They decide which cells there are, and
    a record in no cell does not count. grouped: expressions over the keys' values k0, k1, ... by which cells are made;
    none: the keys themselves. events: what divides cells further, by a record's place. measures: what is measured in
    each cell, with its share of epsilon. A unit's records lie in at most `contributions` cells. relation: what stands
    for the table's records, where they are computed within each unit; None: the table as it stands. of_keys: the domain
    filters as conditions on records, which leave out what is in no cell before it is put into one. called: the
    statement's names of what is computed, by its names in the relation or its SQL; the same question may have others.
    """

    kind: ClassVar[str] = "aggregates"

    keys: tuple[Key, ...] = ()
    domain_filters: tuple[DomainFilter, ...] = ()
    grouped: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    measures: tuple[tuple[Measure, Fraction], ...] = ((Records(), Fraction(1)),)
    relation: Relation | None = None
    of_keys: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def resolved(self) -> dict[str, Any]:
        found = {
            **super().resolved,
            "measures": [(measure.kind, _fields(measure), written(share)) for measure, share in self.measures],
        }
        found["keys"] = [one.resolved for one in self.keys]
        found.pop("relation")
        found.pop("of_keys")
        found.pop("called")
        if self.relation is not None:
            found["relation"] = self.relation.sql(lambda location: repr(location.identity))
            found["beside"] = [[location.identity, version] for location, version in self.beside]
            found["contents"] = [values.content for values in self.looks_up]
        if not self.domain_filters:
            found.pop("domain_filters")
        return found

    @property
    def looks_up(self) -> tuple[Values, ...]:
        leaves = () if self.relation is None else self.relation.leaves()
        return tuple(leaf for leaf in leaves if isinstance(leaf, OpenRows))

    @property
    def needs(self) -> frozenset[str]:
        leaves = () if self.relation is None else self.relation.leaves()
        return frozenset(leaf.location.name for leaf in leaves if isinstance(leaf, Answered))

    @property
    def is_cut(self) -> bool:
        return super().is_cut and (self.relation is None or not self.relation.has_one_row)

    @property
    def leaves_out(self) -> bool:
        return self.is_cut or (self.relation is not None and self.relation.leaves_rows_out)

    @cached_property
    def beside(self) -> tuple[tuple[Location, int], ...]:
        """The protected tables that a relation reads, with their policies' versions."""
        leaves = (
            [] if self.relation is None else [leaf for leaf in self.relation.leaves() if isinstance(leaf, UnitRecords)]
        )
        locations = [
            each
            for leaf in leaves
            for each in ((leaf.location, leaf.version), *((s.location, s.version) for s in leaf.steps))
        ]
        return tuple(dict.fromkeys(locations))

    @property
    def records(self) -> str:
        if self.relation is None:
            return super().records
        return f"({self.relation.sql(lambda location: quoted(location.path))})"

    @property
    def of(self) -> str:
        """What is counted, in words."""
        if self.relation is None:
            return self.location.label
        read = [leaf.location.label for leaf in self.relation.leaves() if isinstance(leaf, UnitRecords | OpenRows)]
        return " and ".join(dict.fromkeys(read))

    @property
    def form(self) -> Form:
        return Form(self.keys, self.domain_filters, self.grouped, self.events)

    @property
    def most_cells(self) -> int:
        return min(measure.most_cells for measure, _ in self.measures)

    @property
    def values(self) -> list[tuple[str, str]]:
        measures = [measure for measure, _ in self.measures]
        return [(layout.value(at), measure.value) for at, measure in enumerate(measures) if measure.value is not None]

    @property
    def clamps(self) -> bool:
        return any(measure.clamps for measure, _ in self.measures)

    @property
    def columns(self) -> list[str]:
        """The answer's columns, in order: keys, events, and those of each measure."""
        return self.form.cell + [
            name for at, (measure, _) in enumerate(self.measures) for name in measure.columns(at).values()
        ]

    def types(self, cells: Mapping[str, str]) -> dict[str, str]:
        found = {text: cells[text] for text in self.form.cell}
        for at, (measure, _) in enumerate(self.measures):
            found |= measure.types(at)
        return found

    @property
    def outcomes(self) -> int:
        """How many cells each combination of keys has."""
        return self.form.outcomes

    def moved(self, measure: Measure) -> Moved:
        """How much one unit changes a measure in all cells together, in records."""
        return measure.moved(self.contributions, is_alone=not self.keys and not self.events)

    def noise(self, measure: Measure) -> Noise | Choice:
        """A measure's noise, in records; of quantiles, how they are chosen."""
        (found,) = (noise for one, noise in self._noises if one == measure)
        return found

    @cached_property
    def _noises(self) -> list[tuple[Measure, Noise | Choice]]:
        """The noise of each measure."""
        return [
            (measure, measure.bought(self.epsilon * share, self.moved(measure), self.renyi))
            for measure, share in self.measures
        ]

    @property
    def counts_noise(self) -> Noise:
        """The noise of a question for nothing but the number of records."""
        ((measure, _),) = self.measures
        noise = self.noise(measure)
        assert isinstance(noise, Noise)
        return noise

    @cached_property
    def spent(self) -> Spent:
        return sum(
            (measure.spent(self.noise(measure), self.moved(measure), self.renyi) for measure, _ in self.measures),
            NO_NOISE,
        )

    @cached_property
    def words(self) -> str:
        told = [measure.words(self.privacy_unit, self._name_of) for measure, _ in self.measures]
        by = list(self.grouped_by) if self.grouped else [self._name_of(one.column) for one in self.keys]
        by += [in_words(event, self._name_of) for event in self.events]
        filters = (*self._told_filters, *(self._named(domain_filter.sql) for domain_filter in self.domain_filters))
        where = f" where {' and '.join(filters)}" if filters else ""
        return f"{' and '.join(told)} of {self.of} by {', '.join(by) or 'nothing'}{where}"

    @property
    def _told_filters(self) -> list[str]:
        """The conditions on records for people. Those on what is computed within each unit are only said to be there:
        their columns have names that nobody wrote.
        """
        if self.relation is None:
            return list(self.filter)
        columns = {
            shown.name
            for leaf in self.relation.leaves()
            if isinstance(leaf, UnitRecords | OpenRows)
            for shown in leaf.columns
        }
        told = [_with_plain_names(text, columns) for text in self.filter]
        computed = told.count(None)
        within = f"{'a condition' if computed == 1 else f'{computed} conditions'} on what is computed within each unit"
        return [text for text in told if text is not None] + ([within] if computed else [])

    def _name_of(self, computed: str) -> str:
        """The statement's name of what is computed, by its name in the relation or its SQL; if none, that itself."""
        return self.called.get(computed, computed)

    @property
    def grouped_by(self) -> list[str]:
        """The expressions by which it is grouped, with the columns' names in them."""
        return [self._named(text) for text in self.grouped]

    def _named(self, expression: str) -> str:
        """An expression over the keys' values, with the columns' names in it. A text in it stays as it is."""

        def name(match: re.Match[str]) -> str:
            return match[0] if match[1] is None else quoted([self._name_of(self.keys[int(match[1])].column)])

        return _PLACE.sub(name, expression)


def _fields(measure: Measure) -> dict[str, Any]:
    """What makes a measure; parts that it does not have are left out."""
    values = {name: value for name, value in asdict(measure).items() if value is not None}
    if "number" in values:
        # The policy's version stands for it.
        values["number"].pop("type")
    if values.get("squares"):
        # Answers of older versions have the squares of values.
        values["squares"] = "centred"
    if isinstance(getattr(measure, "number", None), Computed):
        # However it is written, its steps are computed alike.
        values["number"].pop("column")
    return values


def _with_plain_names(condition: str, columns: set[str]) -> str | None:
    """A condition on a relation with its columns named as in their tables; None where it reads others.

    columns: those of tables. A number tells apart columns of one name: `day#2`.
    """
    names = [match[1] for match in _NAME.finditer(condition) if match[1] is not None]
    if any(name.partition("#")[0] not in columns and name not in columns for name in names):
        return None
    return _NAME.sub(
        lambda item: item[0] if item[1] is None or item[1] in columns else quoted([item[1].partition("#")[0]]),
        condition,
    )


# A text, or the name of a column, not of a function.
_NAME = re.compile(r"""'(?:[^']|'')*'|(?<!main\.)"([^"]+)\"""")
# A text, or a key's value, in an expression.
_PLACE = re.compile(r"""'(?:[^']|'')*'|"k(\d+)\"""")


@dataclass(frozen=True, kw_only=True)
class GroupSizesQuestion(PaidQuestion):
    """How many groups of each size live in each region of a hierarchy; a group is a (group, leaf region) pair.

    group: the column that identifies a group. within: further columns that do, with it. computed: expressions, as SQL,
    that do instead; records without `group` are not counted then either. size: what a group's size is. among:
    conditions by open tables. units: the table of all groups, where they are the privacy units; None: the groups are
    those that have records. hierarchy: the regions' columns, the widest first. max_size: in steps of the size; larger
    groups count as groups of that size. is_unit: whether the group is the privacy unit; then only its records in one
    leaf region count. split: shares of epsilon, one a level.
    """

    kind: ClassVar[str] = "group sizes"

    group: str
    hierarchy: tuple[Key, ...]
    max_size: int
    is_unit: bool = False
    mechanism: str = "auto"
    split: tuple[str, ...] | None = None
    within: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    size: Size = RECORDS
    among: tuple[Among, ...] = ()
    units: UnitsTable | None = None

    @property
    def resolved(self) -> dict[str, Any]:
        """As for all questions; parts that are as usual are left out."""
        found = super().resolved
        found |= {"among": [one.resolved for one in self.among], "units": self.units and self.units.resolved}
        usual: dict[str, Any] = {"within": (), "computed": (), "size": asdict(RECORDS), "among": [], "units": None}
        return {name: value for name, value in found.items() if name not in usual or value != usual[name]}

    @property
    def looks_up(self) -> tuple[Among, ...]:
        return self.among

    @property
    def form(self) -> Form:
        return Form(self.hierarchy)

    @property
    def most_cells(self) -> int:
        return MOST_SIZES // self.max_size

    @property
    def spent(self) -> Spent:
        """The engine divides it over levels and ways, and checks that they add up (`duckanon.engines.groups.split`)."""
        epsilon, rho = self.bought
        return concentrated(rho, self.renyi) if rho is not None else pure(epsilon or Fraction(0), self.renyi)

    @property
    def identifying(self) -> list[tuple[str, str]]:
        """What identifies a record's group, as SQL, with the names of its columns."""
        columns = self.computed or [quoted([name]) for name in (self.group, *self.within)]
        return [(layout.group(at), column) for at, column in enumerate(columns)]

    @property
    def values(self) -> list[tuple[str, str]]:
        return [*self.identifying, ("w", self.size.added)]

    @property
    def is_cut(self) -> bool:
        return super().is_cut and self.units is None

    @property
    def is_of_one_cell(self) -> bool:
        return self.is_unit

    @property
    def clamps(self) -> bool:
        return self.size.clamps

    def types(self, cells: Mapping[str, str]) -> dict[str, str]:
        regions = {one.column: cells[name] for one, name in zip(self.hierarchy, self.form.cell, strict=True)}
        return {"level": "INTEGER", **regions, **dict.fromkeys(("size", "groups", "low", "high"), "BIGINT")}

    @property
    def least(self) -> int:
        """The least size in the answer, 0 or 1."""
        return 0 if self.units is not None else self.size.least

    @property
    def sizes(self) -> int:
        """How many sizes are in the answer: from the least to `max_size`."""
        return self.max_size + 1 - self.least

    @property
    def largest(self) -> int:
        """The largest size that a group can count as. One that is the privacy unit has no more records than count."""
        return min(self.max_size, self.contributions * self.size.high) if self.is_unit else self.max_size

    @property
    def engine(self) -> Request:
        """What the engine is asked, which does not depend on the records."""
        epsilon, rho = self.bought
        return self._engine(epsilon=epsilon, rho=rho)

    def _engine(self, *, epsilon: Fraction | None, rho: Fraction | None) -> Request:
        """What the engine is asked at this price.

        The engine numbers sizes from 1, and 0 means that there is no such group. So where sizes begin with 0, a record
        that adds a group moves that group by one more.
        """
        from duckanon.engines.groups.request import Request

        return Request(
            epsilon=epsilon,
            rho=rho,
            mechanism=self.mechanism,
            totals="private",
            split=None if self.split is None else tuple(map(Fraction, self.split)),
            sensitivity=min(self.size.high, self.max_size) + 1 - self.least,
            contributions=self.contributions,
            unit="group" if self.is_unit else "record",
        )

    @cached_property
    def bought(self) -> tuple[Fraction | None, Fraction | None]:
        """What the price pays for: an epsilon of pure noise or, where that is nearer to the truth, a rho."""
        if self.renyi is None:
            return self.epsilon, None
        epsilon, rho = self.renyi.pure(self.epsilon), self.renyi.rho(self.epsilon)
        pure_noise, depth = self._engine(epsilon=epsilon, rho=None), len(self.hierarchy) + 1
        if epsilon and not pure_noise.is_gaussian_nearer(rho, depth, self.sizes):
            return epsilon, None
        return None, rho

    @property
    def scale(self) -> Fraction:
        """The largest scale of noise that the engine can need for any level; of Gaussian noise, its deviation."""
        from duckanon.engines.groups.loss import Concentrated, Pure
        from duckanon.engines.groups.split import LEAST

        epsilon, rho = self.bought
        least = LEAST[Pure if rho is None else Concentrated] if self.mechanism == "auto" else 1
        smallest = min(map(Fraction, self.split)) if self.split else Fraction(least) / (len(self.hierarchy) + 1)
        if rho is not None:
            return Fraction(isqrt(int(2 * self.contributions**2 / (rho * smallest))) + 1)
        assert epsilon is not None
        return 2 * self.contributions / (epsilon * smallest)

    @property
    def words(self) -> str:
        by = ", ".join(one.column for one in self.hierarchy) or "nothing"
        more = "" if self.mechanism == "auto" else f", mechanism {self.mechanism}"
        groups = ", ".join(self.computed or (self.group, *self.within))
        sizes = f"group sizes of {self.location.label} by {groups}, up to {self.max_size}"
        if self.units is not None:
            of = f" where {' and '.join(self.units.filter)}" if self.units.filter else ""
            sizes += f", of all units of {self.units.location.label}{of}"
        counted = f", size: {self.size.words}" if self.size.words else ""
        among = "".join(f", {one.words}" for one in self.among)
        return f"{sizes}, by {by}{counted}{more}{self._filtered}{among}"

    @property
    def beside(self) -> tuple[tuple[Location, int], ...]:
        return () if self.units is None else ((self.units.location, self.units.version),)


@dataclass(frozen=True, kw_only=True)
class KeysQuestion(PaidQuestion):
    """Which values of a column so many privacy units have that they can be keys; they are found with noise.

    column: as the table has it. type: its type. A unit has at most `contributions` values.
    """

    kind: ClassVar[str] = "keys"
    is_of_keys: ClassVar[bool] = True
    # The most values that are told: those of the most units, by noisy numbers.
    most: ClassVar[int] = 10_000

    column: str
    type: str

    @property
    def noise(self) -> Gaussian:
        """Of the number of units of each value, which one unit changes by one for at most `contributions` values."""
        assert self.renyi is not None
        return Gaussian(self.contributions / (2 * self.renyi.rho(self.epsilon)))

    @property
    def threshold(self) -> int:
        """The least noisy number of units of a value that is told."""
        assert self.renyi is not None
        return threshold(self.noise, self.contributions, self.renyi.of_keys)

    @property
    def spent(self) -> Spent:
        return concentrated(self.noise.loss(self.contributions), self.renyi)

    @property
    def form(self) -> Form:
        return Form(())

    @property
    def values(self) -> list[tuple[str, str]]:
        return []

    @property
    def clamps(self) -> bool:
        return False

    def types(self, cells: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG002 # as all questions
        return {layout.key(0): self.type}

    @property
    def words(self) -> str:
        return f"values of {self.column} of {self.location.label}, found with noise"


def sought(protected: Protected, column: str) -> KeysQuestion | None:
    """The question that finds a column's values with noise, as its policy says; None if it cannot be asked.

    Within units it is that of the table that has the column: what is computed there is no other column.
    """
    protected, column = protected.finders.get(fold(column), (protected, column))
    domain = protected.domains.get(fold(column))
    offered = protected.policy.per_query is not None and protected.renyi is not None and protected.stands
    if domain is None or not domain.found or not offered:
        return None
    assert protected.policy.per_query is not None
    assert protected.stored is not None
    kind = protected.stored.types[fold(column)]
    return KeysQuestion(**basis(protected, protected.policy.per_query), column=_stored(protected, column), type=kind)


def basis(protected: Protected, epsilon: Fraction, filter: Sequence[str] = ()) -> dict[str, Any]:  # noqa: A002 # as the field is called
    """The fields of a question that follow from the protected table and its policy."""
    assert protected.stored is not None
    database, schema, table = protected.stored.path
    return {
        "location": Location(database, schema, table),
        "owned": protected.owned,
        "version": protected.version,
        "edition": protected.edition,
        "privacy_unit": protected.policy.privacy_unit and _stored(protected, protected.policy.privacy_unit),
        "contributions": protected.policy.contributions,
        "epsilon": epsilon,
        "protects": protected.policy.protects,
        "renyi": protected.renyi,
        "changed": protected.changed,
        "filter": tuple(sorted(set(filter))),
    }


def key(protected: Protected, column: str) -> Key | None:
    """The key for a column of a protected table; None if its policy has no domain for it."""
    assert protected.stored is not None
    domain, kind = protected.domains.get(fold(column)), protected.stored.types.get(fold(column))
    if domain is None or kind is None:
        return None
    return Key(
        _stored(protected, column),
        domain.table,
        text_for_enum(kind),
        tuple(map(fold, domain.columns)),
        domain.path,
        domain.listed,
        domain.nullable,
        sought(protected, column) if domain.found and not domain.table else None,
        domain.found,
        domain.constants,
    )


def _stored(protected: Protected, column: str) -> str:
    """The column's name as the table has it."""
    assert protected.stored is not None
    return {fold(name): name for name in protected.stored.columns}.get(fold(column), column)
