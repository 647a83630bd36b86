"""What holds after the lines of a ledger: policies, populations and their budgets, publications, open tables.

The ledger is the only truth; everything here is a fold over its lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from typing import Any

from duckanon.accounting import Budget
from duckanon.catalog.names import fold
from duckanon.catalog.policy import Domain, Policy
from duckanon.governance.locations import Identity, Location

# In the place of a table's name: every table of the schema.
ALL_TABLES = "*"


@dataclass(frozen=True)
class Line:
    """One line of a ledger. recorded_at is UTC; schema_name is None for files, data frames and CTEs.

    action: 'charge', 'perturb' (a draw of metric privacy, recorded beside the budget), 'protect', 'unprotect',
    'publish', 'unpublish', 'open', 'close' or 'edition'. population: whose budget a charge spends; None for a table
    that was never protected. edition: of the population, when the line was written. epsilon: exact, of a charge. unit:
    what a charge protects, in words. release: the key of what a charge was for. detail: JSON, what else later lines
    depend on.
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

    @property
    def location(self) -> Location:
        return Location("", self.schema_name, self.table_name)

    @property
    def charge(self) -> Fraction:
        """What the line cost a budget; zero for everything but a charge."""
        return Fraction(self.epsilon) if self.action == "charge" and self.epsilon is not None else Fraction(0)

    @cached_property
    def said(self) -> Mapping[str, Any]:
        """The detail, read."""
        found: Mapping[str, Any] = json.loads(self.detail) if self.detail else {}
        return found


@dataclass(frozen=True)
class Population:
    """Whom a budget belongs to.

    epsilon: the budget; None before there was one. column: whether the privacy unit is identified by a column of each
    table; else it is a record, of one table. edition: the current one, from 1, which began at `began`. spent,
    in_edition: ever, and in the current edition.
    """

    name: str
    epsilon: Fraction | None = None
    column: bool = False
    edition: int = 1
    began: datetime | None = None
    spent: Fraction = Fraction(0)
    in_edition: Fraction = Fraction(0)
    charges: int = 0

    @property
    def budget(self) -> Budget | None:
        return None if self.epsilon is None else Budget(self.epsilon, self.spent)

    def charged(self, epsilon: Fraction) -> Population:
        return replace(self, spent=self.spent + epsilon, in_edition=self.in_edition + epsilon, charges=self.charges + 1)


@dataclass(frozen=True)
class TablePolicy:
    """A table's policy as it stands. version: the number of the line that set it. domains: by folded column."""

    location: Location
    policy: Policy
    version: int
    since: datetime
    domains: Mapping[str, Domain] = field(default_factory=dict)


@dataclass(frozen=True)
class Publication:
    """What was published, for good. of: the protected table. kind: 'records', 'counts' or 'shares'.

    name: of the immutable copy in the schema duckanon. columns, types: of the copy. variables, given: of a table of
    counts or shares, by the names of the protected table. value: the column that holds them. digits, base: how it was
    rounded. edition: of the population, when it was published. day: when. content: a hash of the copy. records: a hash
    of the protected table as it was then, which is for no analyst's eyes. totals: whether it was audited for readers
    who know how many records each row of shares stands for. changes: whether the steward accepted that the records had
    changed since an earlier publication. withdrawn: whether it is no longer readable; it stays in every later audit.
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

    @property
    def exact(self) -> bool:
        """Whether its numbers are not rounded."""
        return self.digits is None and self.base is None


@dataclass(frozen=True)
class LedgerState:
    """All that holds in one database after line `number`.

    tables: policies that stand. members: the population of every table that ever had a policy. units: the column of its
    privacy unit; a table keeps both for good. loose: what was spent on tables before they had one. publications: by
    folded name. opened: what was opened: a table by its identity, with its columns; a schema by (schema, EVERY).
    """

    number: int = 0
    tables: Mapping[Identity, TablePolicy] = field(default_factory=dict)
    members: Mapping[Identity, str] = field(default_factory=dict)
    units: Mapping[Identity, str | None] = field(default_factory=dict)
    populations: Mapping[str, Population] = field(default_factory=dict)
    loose: Mapping[Identity, tuple[Fraction, int]] = field(default_factory=dict)
    publications: Mapping[str, Publication] = field(default_factory=dict)
    opened: Mapping[Identity, tuple[str, ...]] = field(default_factory=dict)

    def population(self, location: Location) -> Population | None:
        """The population that a table spends from; None if it was never protected."""
        name = self.members.get(location.identity)
        return None if name is None else self.populations[name]

    def spent(self, location: Location) -> tuple[Fraction, int]:
        """What was spent on a table's population, or on a table that never had one, and in how many charges."""
        population = self.population(location)
        if population is not None:
            return population.spent, population.charges
        return self.loose.get(location.identity, (Fraction(0), 0))

    def shut(self, read: Iterable[Identity]) -> TablePolicy | None:
        """A protected table among those that a view reads, by their identities or, as (None, name), by their names."""
        found = frozenset(read)
        return next((held for one, held in self.tables.items() if one in found or (None, one[1]) in found), None)

    def is_open(self, identity: Identity, columns: Sequence[str]) -> bool:
        """Whether analysts may read a table as it is. columns: those that it has now.

        A table that was opened by its name is open while it has the columns that it had then. One that was ever
        protected is not open because its schema is.
        """
        if identity in self.tables:
            return False
        named = self.opened.get(identity)
        if named is not None and list(map(fold, named)) == list(map(fold, columns)):
            return True
        return identity not in self.members and (identity[0], ALL_TABLES) in self.opened

    def then(self, line: Line) -> LedgerState:
        """What holds after one more line."""
        return replace(_AFTER[line.action](self, line), number=line.number)


def _charge(state: LedgerState, line: Line) -> LedgerState:
    if line.population is None:
        spent, charges = state.loose.get(line.location.identity, (Fraction(0), 0))
        return replace(state, loose={**state.loose, line.location.identity: (spent + line.charge, charges + 1)})
    return _with(state, state.populations[line.population].charged(line.charge))


def _with(state: LedgerState, population: Population) -> LedgerState:
    return replace(state, populations={**state.populations, population.name: population})


def _protect(state: LedgerState, line: Line) -> LedgerState:
    policy = Policy.load(line.said["policy"])
    domains = {name: Domain(one[0], tuple(one[1])) for name, one in line.said["domains"].items()}
    identity = line.location.identity
    known = state.populations.get(policy.population, Population(policy.population, began=line.recorded_at))
    if identity not in state.members:
        # What was spent on the table before counts.
        spent, charges = state.loose.get(identity, (Fraction(0), 0))
        known = replace(known, spent=known.spent + spent, charges=known.charges + charges)
    known = replace(known, epsilon=policy.epsilon, column=policy.privacy_unit is not None)
    return replace(
        _with(state, known),
        tables={**state.tables, identity: TablePolicy(line.location, policy, line.number, line.recorded_at, domains)},
        members={**state.members, identity: policy.population},
        units={**state.units, identity: policy.privacy_unit},
        opened=_without(state.opened, identity),
    )


def _without(found: Mapping[Identity, Any], identity: Identity) -> Mapping[Identity, Any]:
    return {one: held for one, held in found.items() if one != identity}


def _unprotect(state: LedgerState, line: Line) -> LedgerState:
    return replace(state, tables=_without(state.tables, line.location.identity))


def _publish(state: LedgerState, line: Line) -> LedgerState:
    said = {**line.said, "of": line.location, "number": line.number}
    for name in ("columns", "types", "variables", "given"):
        said[name] = tuple(said.get(name, ()))
    found = Publication(**said)
    return replace(state, publications={**state.publications, fold(line.said["name"]): found})


def _unpublish(state: LedgerState, line: Line) -> LedgerState:
    name = fold(line.said["name"])
    gone = replace(state.publications[name], withdrawn=True)
    return replace(state, publications={**state.publications, name: gone})


def _open(state: LedgerState, line: Line) -> LedgerState:
    return replace(state, opened={**state.opened, line.location.identity: tuple(line.said["columns"])})


def _close(state: LedgerState, line: Line) -> LedgerState:
    return replace(state, opened=_without(state.opened, line.location.identity))


def _edition(state: LedgerState, line: Line) -> LedgerState:
    known = state.populations[line.population or ""]
    return _with(state, replace(known, edition=line.edition or 1, began=line.recorded_at, in_edition=Fraction(0)))


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
}
