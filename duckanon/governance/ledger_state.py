"""The state after the lines of a ledger: policies, populations and their budgets, publications, open tables.

Nothing else is stored: the state is computed from the lines, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from typing import Any

from duckanon.accounting import Budget
from duckanon.catalog import openings
from duckanon.catalog.domain_sources import ENUM, WithNull, is_found
from duckanon.catalog.names import fold
from duckanon.catalog.policy import Domain, Link, Policy
from duckanon.catalog.publication import Codes, Perturbation
from duckanon.errors import InvalidInput
from duckanon.governance.locations import Identity, Location
from duckanon.governance.preparations import Preparation, recorded
from duckanon.renyi import KEYS_QUESTIONS, Renyi, holds

# The unit of a charge where none was named, in words.
_RECORD = "one record"


@dataclass(frozen=True)
class Line:
    """One line of a ledger. recorded_at is UTC; schema_name is None for files, data frames and CTEs.

    action: 'charge', 'perturb' (a draw of metric privacy, recorded beside the budget), 'protect', 'unprotect',
    'publish', 'unpublish', 'open', 'close', 'edition' or 'allot' (what a user may spend of a population). population:
    whose budget a charge spends; None for a table that was never protected. edition: of the population, when the line
    was written. epsilon: exact, of a charge. unit: what a charge protects, in words. release: the key of the release
    that was charged. detail: JSON, with what the state needs besides. In a population with a delta epsilon is a Rényi
    divergence, and the detail of a charge says which noise it paid for.
    """

    number: int
    recorded_at: datetime
    who: str
    schema_name: str | None
    table_name: str
    population: str | None
    edition: int | None
    action: str
    epsilon: str | None
    what: str
    unit: str | None
    neighbours: str | None
    release: str | None
    detail: str | None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Line:
        """The line with these values, and None for what they do not name."""
        every: dict[str, Any] = {one.name: values.get(one.name) for one in fields(cls)}
        return cls(**every)

    @property
    def location(self) -> Location:
        return Location("", self.schema_name, self.table_name)

    @property
    def charge(self) -> Fraction:
        """The epsilon that the line spends; zero for everything but a charge."""
        return Fraction(self.epsilon) if self.action == "charge" and self.epsilon is not None else Fraction(0)

    @property
    def has_invariants(self) -> bool:
        """Whether the charge's neighbours have to agree in exact numbers too, such as the number of all groups."""
        return self.charge > 0 and "is public" in (self.neighbours or "")

    @property
    def noise(self) -> str | None:
        """What noise a charge paid for, in words; None in a population without a delta."""
        text: str | None = self.details.get("noise")
        return text

    @cached_property
    def details(self) -> Mapping[str, Any]:
        """The detail, parsed."""
        found: Mapping[str, Any] = json.loads(self.detail) if self.detail else {}
        return found


@dataclass(frozen=True)
class Population:
    """A population, to which a budget belongs.

    epsilon: the budget; None if there is none yet. column: whether a column of each table identifies the privacy unit;
    if not, it is a record of its only table. edition: the current one, counted from 1. began: when it began. spent,
    in_edition: in all, and in the current edition. with_invariants: what was spent by releases whose neighbours have to
    agree in exact numbers too. renyi: how it accounts if it has a delta; its budget, and all that is spent, are then
    Rényi divergences at one order. keys: how many questions for keys found with noise were charged. of_records: what
    was spent before a unit of several records was named, which protects one record alone.
    """

    name: str
    epsilon: Fraction | None = None
    column: bool = False
    edition: int = 1
    began: datetime | None = None
    spent: Fraction = Fraction(0)
    in_edition: Fraction = Fraction(0)
    charges: int = 0
    with_invariants: Fraction = Fraction(0)
    renyi: Renyi | None = None
    keys: int = 0
    of_records: Fraction = Fraction(0)

    @property
    def keys_left(self) -> int:
        """How many more questions for keys found with noise there may be."""
        return 0 if self.renyi is None else KEYS_QUESTIONS - self.keys

    @property
    def budget(self) -> Budget | None:
        if self.renyi is not None:
            return Budget(self.renyi.capacity, self.spent)
        return None if self.epsilon is None else Budget(self.epsilon, self.spent)

    def of_earlier(self, epsilon: Fraction) -> Fraction:
        """What charges of a table before it was a member, an epsilon in all, are in the unit of the ledger."""
        return epsilon if self.renyi is None else self.renyi.of_earlier(epsilon)

    def charged(self, epsilon: Fraction, *, invariants: bool = False, keys: bool = False) -> Population:
        return replace(
            self,
            spent=self.spent + epsilon,
            in_edition=self.in_edition + epsilon,
            charges=self.charges + 1,
            with_invariants=self.with_invariants + (epsilon if invariants else 0),
            keys=self.keys + keys,
        )


@dataclass(frozen=True)
class TablePolicy:
    """A table's current policy. domains: by folded column.

    version: the number of the line that protected the table; changes in place leave it. changed: by folded column the
    number of the newest line that changed its domain or its bounds in place; by '' of one that changed how many records
    of a unit count.
    """

    location: Location
    policy: Policy
    version: int
    since: datetime
    domains: Mapping[str, Domain] = field(default_factory=dict)
    changed: Mapping[str, int] = field(default_factory=dict)

    @property
    def looked_up(self) -> dict[str, tuple[tuple[str, str], str]]:
        """By column, folded, the open table that its domain is a copy of, and the column of that.

        Earlier versions did not note the table, which the policy names.
        """
        found = {}
        for column, source in self.policy.domains.items():
            domain = self.domains.get(fold(column))
            if domain is not None and domain.copied is not None:
                table, columns = domain.copied
                found[fold(column)] = (table, columns[-1])
            elif isinstance(source, str) and source != ENUM and not (domain is not None and domain.found):
                found[fold(column)] = (("", fold(source)), fold(column))
        return found


@dataclass(frozen=True)
class Publication:
    """A publication. of: the protected table. kind: 'records', 'counts', 'shares', 'suppressed' or 'perturbed'.

    name: of the immutable copy in the schema duckanon. columns, types: of the copy. variables, given: of a table of
    counts or shares, by the names of the protected table. value: the column that holds them. digits, base: how it was
    rounded. edition: of the population, when it was published. day: when. content: a hash of the copy. records: a hash
    of the protected table as it was then, which analysts never see. totals: whether it is safe for readers who know all
    totals too: the number of records behind each row of shares, and what a suppressed table hides of them. changes:
    whether the steward accepted that the records had changed since an earlier publication. withdrawn: whether it can no
    longer be read; later audits still count it. suppressed, perturbation, width, sum, weight, count,
    magnitude: as in Terms.
    hierarchies: by column that is released as labels or codes, the open table that says what they stand for. codes: by
    column of codes, folded, what that table said then.
    """

    name: str
    of: Location
    kind: str
    columns: tuple[str, ...]
    types: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    value: str | None = None
    digits: int | None = None
    base: int | None = None
    edition: int = 1
    day: str = ""
    content: str = ""
    records: str = ""
    totals: bool = True
    changes: bool = False
    number: int = 0
    withdrawn: bool = False
    suppressed: str | None = None
    perturbation: Perturbation | None = None
    width: int = 1
    sum: str | None = None
    hierarchies: Mapping[str, str] = field(default_factory=dict)
    weight: str | None = None
    count: str | None = None
    magnitude: float | None = None
    codes: Mapping[str, Codes] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether its numbers are not rounded."""
        return self.digits is None and self.base is None


@dataclass(frozen=True)
class LedgerState:
    """The state of one database after line `number`.

    tables: the current policies. members: the population of every table that ever had a policy. units: its privacy
    unit's column. links: of a linked table. A table keeps these for good. kinds: by what a table's unit was identified
    when it was last protected, as `links.canonical` has it, where the ledger says that. before_policy: what was spent
    on a table before it had a policy, as of a population without a name. publications: by folded name. preparations: by
    the key of what was measured. opened: the columns of each open table; of (schema, ALL_TABLES) its tables.
    allotments: what a user may spend of a population's budget. spent_by: what a user has spent of it; both by user and
    population. changed: the number of the newest line that changed a policy in place. decided: that of the newest line
    that is a steward's decision, and no charge.
    """

    number: int = 0
    decided: int = 0
    changed: int = 0
    tables: Mapping[Identity, TablePolicy] = field(default_factory=dict)
    members: Mapping[Identity, str] = field(default_factory=dict)
    units: Mapping[Identity, str | None] = field(default_factory=dict)
    links: Mapping[Identity, tuple[Link, ...]] = field(default_factory=dict)
    kinds: Mapping[Identity, str | None] = field(default_factory=dict)
    populations: Mapping[str, Population] = field(default_factory=dict)
    before_policy: Mapping[Identity, Population] = field(default_factory=dict)
    publications: Mapping[str, Publication] = field(default_factory=dict)
    opened: Mapping[Identity, tuple[str, ...]] = field(default_factory=dict)
    preparations: Mapping[str, Preparation] = field(default_factory=dict)
    allotments: Mapping[tuple[str, str], Fraction] = field(default_factory=dict)
    spent_by: Mapping[tuple[str, str], Fraction] = field(default_factory=dict)

    def policies_of(self, population: str) -> list[Policy]:
        """The policies of a population's protected tables."""
        return [table.policy for table in self.tables.values() if table.policy.population == population]

    def allotment(self, who: str, population: str) -> Budget | None:
        """What a user may spend of a population's budget, and has spent; None if the user has no such limit."""
        total = self.allotments.get((who, population))
        return None if total is None else Budget(total, self.spent_by.get((who, population), Fraction(0)))

    def charged(
        self, population: str, epsilon: Fraction, who: str, *, invariants: bool = False, keys: bool = False
    ) -> LedgerState:
        """The state after a charge to a population. invariants: as in `Line.has_invariants`. keys: for finding keys."""
        spent = self.spent_by.get((who, population), Fraction(0)) + epsilon
        known = self.populations[population].charged(epsilon, invariants=invariants, keys=keys)
        return replace(_with(self, known), spent_by={**self.spent_by, (who, population): spent})

    def population(self, location: Location) -> Population | None:
        """The population that a table spends from; None if it was never protected."""
        name = self.members.get(location.identity)
        return None if name is None else self.populations[name]

    def spent(self, location: Location) -> tuple[Fraction, int]:
        """What was spent on a table's population, or on the table if it has none, and in how many charges."""
        population = self.population(location)
        if population is not None:
            return population.spent, population.charges
        alone = self.before_policy.get(location.identity, Population(""))
        return alone.spent, alone.charges

    def version(self, identity: Identity) -> int | None:
        """The number of the newest line that set a policy of the table, or of one on the way to its unit's column.

        So a linked table's version changes when a parent is protected anew. None where one of them is not protected.
        """
        numbers: dict[Identity, int] = {}
        while identity in self.tables and identity not in numbers:
            standing = self.tables[identity]
            numbers[identity] = standing.version
            if not standing.policy.links:
                return max(numbers.values())
            (link,) = standing.policy.links
            identity = link.parent.schema, link.parent.object
        return None

    def is_current(self, preparation: Preparation) -> bool:
        """Whether questions follow from a preparation: the edition and the policy are still those.

        Of a policy that was changed in place, as far as the prepared columns and the number of records that count go.
        """
        population, standing = self.population(preparation.of), self.tables.get(preparation.of.identity)
        if population is None or standing is None or self.version(preparation.of.identity) != preparation.version:
            return False
        used = ("", *map(fold, preparation.design.columns))
        is_same = all(standing.changed.get(column, 0) < preparation.number for column in used)
        return is_same and population.edition == preparation.edition

    def linked_to(self, parent: Identity) -> list[str]:
        """The protected tables whose links lead to a table, in order."""
        ends = {table.location.label: table.policy.links for table in self.tables.values()}
        return sorted(
            label
            for label, links in ends.items()
            if any((link.parent.schema, link.parent.object) == parent for link in links)
        )

    def protected_among(self, read: Iterable[Identity]) -> TablePolicy | None:
        """The policy of a protected table among those that a view reads; None if none is protected.

        read: the tables' identities, or (None, name) where only the name is known.
        """
        found = frozenset(read)
        return next(
            (policy for table, policy in self.tables.items() if table in found or (None, table[1]) in found), None
        )

    def is_open(self, identity: Identity, columns: Sequence[str]) -> bool:
        """Whether analysts may read a table as it is. columns: those that it has now."""
        return identity not in self.tables and openings.is_open(identity, columns, self.opened, self.members)

    def after(self, line: Line) -> LedgerState:
        """The state after one more line."""
        decided = self.decided if line.action == "charge" else line.number
        return replace(_AFTER[line.action](self, line), number=line.number, decided=decided)


def _charge(state: LedgerState, line: Line) -> LedgerState:
    if "prepared" in line.details:
        state = replace(state, preparations={**state.preparations, line.release or "": recorded(line)})
    if line.population is None:
        alone = state.before_policy.get(line.location.identity, Population(""))
        alone = alone.charged(line.charge, invariants=line.has_invariants)
        if line.unit in (None, _RECORD):
            alone = replace(alone, of_records=alone.of_records + line.charge)
        return replace(state, before_policy={**state.before_policy, line.location.identity: alone})
    return state.charged(
        line.population, line.charge, line.who, invariants=line.has_invariants, keys=bool(line.details.get("keys"))
    )


def _with(state: LedgerState, population: Population) -> LedgerState:
    return replace(state, populations={**state.populations, population.name: population})


def _protect(state: LedgerState, line: Line) -> LedgerState:
    policy = Policy.load(line.details["policy"])
    domains = {name: _domain(*value) for name, value in line.details["domains"].items()}
    if policy.delta is not None:
        domains |= {
            fold(name): Domain("", (name,), True, nullable=isinstance(source, WithNull), found=True)
            for name, source in policy.domains.items()
            if is_found(source)
        }
    identity = line.location.identity
    found = TablePolicy(line.location, policy, line.number, line.recorded_at, domains)
    if "changes" in line.details and identity in state.tables:
        found = _changed(state.tables[identity], found, line)
        state = replace(state, changed=line.number)
    known = state.populations.get(policy.population, Population(policy.population, began=line.recorded_at))
    known = replace(known, renyi=_renyi(policy, line))
    if identity not in state.members:
        # What was spent on the table before it had a policy counts too.
        alone = state.before_policy.get(identity, Population(""))
        known = replace(
            known,
            spent=known.spent + known.of_earlier(alone.spent),
            charges=known.charges + alone.charges,
            with_invariants=known.with_invariants + known.of_earlier(alone.with_invariants),
            of_records=known.of_records + (0 if policy.protects == _RECORD else known.of_earlier(alone.of_records)),
        )
    known = replace(known, epsilon=policy.epsilon, column=policy.privacy_unit is not None)
    return replace(
        _with(state, known),
        tables={**state.tables, identity: found},
        members={**state.members, identity: policy.population},
        units={**state.units, identity: policy.privacy_unit},
        links={**state.links, identity: policy.links},
        kinds={**state.kinds, identity: line.details["kind"]} if "kind" in line.details else state.kinds,
        opened=_without(state.opened, identity),
    )


def _changed(standing: TablePolicy, policy: TablePolicy, line: Line) -> TablePolicy:
    """A policy that was changed in place: it is still the one that the earlier line set."""
    columns, terms = line.details["changes"]["columns"], line.details["changes"]["terms"]
    named = [*columns, *([""] if "rows_per_unit" in terms else [])]
    changed = {**standing.changed, **dict.fromkeys(named, line.number)}
    return replace(policy, version=standing.version, since=standing.since, changed=changed)


def _renyi(policy: Policy, line: Line) -> Renyi | None:
    """How the population of a policy accounts. Raises InvalidInput for a line whose capacity is too large."""
    if policy.delta is None:
        return None
    order, capacity = (Fraction(line.details["renyi"][name]) for name in ("order", "capacity"))
    renyi = Renyi(policy.epsilon, policy.delta, order, capacity)
    if not holds(renyi):
        raise InvalidInput(
            f"Line {line.number} of the ledger gives {policy.population} more than {renyi.promise} allows: the file "
            "was changed by another program, so nothing is answered from it."
        )
    return renyi


def _domain(table: str, columns: Sequence[str], checked: bool = False, copied: Sequence[Any] | None = None) -> Domain:
    """A domain as governance.domains plans it. The last two were not there in earlier versions."""
    if copied is None:
        return Domain(table, tuple(columns), checked)
    (schema, name), theirs = copied
    return Domain(table, tuple(columns), checked, copied=((schema, name), tuple(theirs)))


def _without(found: Mapping[Identity, Any], identity: Identity) -> Mapping[Identity, Any]:
    return {table: kept for table, kept in found.items() if table != identity}


def _unprotect(state: LedgerState, line: Line) -> LedgerState:
    return replace(state, tables=_without(state.tables, line.location.identity))


def _publish(state: LedgerState, line: Line) -> LedgerState:
    details = {**line.details, "of": line.location, "number": line.number}
    for name in ("columns", "types", "variables", "given"):
        details[name] = tuple(details.get(name, ()))
    if details.get("perturbation") is not None:
        details["perturbation"] = Perturbation(**details["perturbation"])
    codes = details.get("codes", {})
    details["codes"] = {column: tuple((code, parent) for code, parent in lines) for column, lines in codes.items()}
    publication = Publication(**details)
    return replace(state, publications={**state.publications, fold(line.details["name"]): publication})


def _unpublish(state: LedgerState, line: Line) -> LedgerState:
    name = fold(line.details["name"])
    gone = replace(state.publications[name], withdrawn=True)
    return replace(state, publications={**state.publications, name: gone})


def _open(state: LedgerState, line: Line) -> LedgerState:
    return replace(state, opened={**state.opened, line.location.identity: tuple(line.details["columns"])})


def _close(state: LedgerState, line: Line) -> LedgerState:
    return replace(state, opened=_without(state.opened, line.location.identity))


def _edition(state: LedgerState, line: Line) -> LedgerState:
    known = state.populations[line.population or ""]
    return _with(state, replace(known, edition=line.edition or 1, began=line.recorded_at, in_edition=Fraction(0)))


def _allot(state: LedgerState, line: Line) -> LedgerState:
    user, total = line.details["user"], line.details["epsilon"]
    kept = {key: value for key, value in state.allotments.items() if key != (user, line.population)}
    if total is not None:
        kept[user, line.population or ""] = Fraction(total)
    return replace(state, allotments=kept)


_AFTER: Mapping[str, Callable[[LedgerState, Line], LedgerState]] = {
    "charge": _charge,
    "perturb": lambda state, _: state,
    "protect": _protect,
    "unprotect": _unprotect,
    "publish": _publish,
    "unpublish": _unpublish,
    "open": _open,
    "close": _close,
    "edition": _edition,
    "allot": _allot,
}
