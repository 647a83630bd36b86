"""A steward's decisions about tables: policies, open tables and editions. Each decision is a line of the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from duckanon.accounting import written
from duckanon.catalog.names import TableName, fold
from duckanon.catalog.openings import ALL_TABLES, is_like_one_of
from duckanon.catalog.policy import Link, Policy, obstacle
from duckanon.errors import InvalidInput
from duckanon.governance.answers import check_price
from duckanon.governance.budgets import count_width, in_words, left_in_words
from duckanon.governance.domains import Domains
from duckanon.governance.ledger import Ledger, where
from duckanon.governance.ledger_state import LedgerState, Population, TablePolicy
from duckanon.governance.ledger_tables import OURS, SCHEMA
from duckanon.governance.locations import Identity, Location, expected, locate
from duckanon.governance.owners import Owners
from duckanon.governance.policy_changes import changes
from duckanon.governance.view_dependencies import reads
from duckanon.renyi import Renyi, digits, renyi


class Decisions:
    """Stewards' decisions in all databases of one instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def protect(
        self, table: str, lookup: Mapping[str, Any], terms: Mapping[str, Any], types: Mapping[str, str] | None = None
    ) -> str:
        """Set the policy of a table, or change the one that it has in place. Returns a sentence for people.

        The same policy twice changes nothing, but that copies of open tables get values that these have gained.

        terms: fields of Policy; by default, epsilon and population are the current ones. types: of the table's columns,
        by name; None if the table does not exist yet, and then it can have no domains. Raises InvalidInput for a name
        that is not a database's table, for another policy than the one that stands unless all that differs may be
        changed in place (`duckanon.governance.policy_changes`), and for terms that contradict its population.
        """
        location = locate(table, lookup)
        _check_protectable(table, location)
        domains = Domains(location, types or {}, self._ledger)
        owners = Owners(location, lookup, types or {}, self._ledger)
        said: list[str] = []

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            policy = owners.resolved(_settled(location, terms, state), state)
            current = state.tables.get(location.identity)
            changed = None
            if current is not None:
                changed = changes(current, policy, _grown(domains, policy, current, state))
                if changed is None:
                    return None
                said.append(f" {changed.said}")
            _check_population(location, policy, state)
            _check_published(policy, state)
            kind = None if types is None or policy.privacy_unit is None else owners.kind(policy, state)
            _check_kind(location, policy, kind, state)
            if current is None:
                domains.check(policy, state)
            return {
                **where(location),
                "population": policy.population,
                "edition": state.populations.get(policy.population, Population("")).edition,
                "action": "protect",
                "what": f"protect: {policy}",
                "unit": policy.protects,
                "detail": {
                    "policy": policy.dump(),
                    "domains": domains.planned(policy, state.number + 1),
                    **_accounting(policy, state),
                    **({} if types is None else {"kind": kind}),
                    **({} if changed is None else {"changes": changed.dump()}),
                },
            }

        self._ledger.append(location.database, line, domains.copy)
        state = self._ledger.state(location.database)
        population = state.population(location) or Population("")
        policy = state.tables[location.identity].policy
        shared = "" if population.name == location.label else f" (population {population.name})"
        return (
            f"{location.label} is protected{shared}: {_budget(population)} A charge protects "
            f"{policy.protects}.{_before(population)}{_width(policy, population)}{''.join(said[-1:])}"
        )

    def unprotect(self, table: str, lookup: Mapping[str, Any]) -> str:
        """End the policy of a table, which may be gone. Returns a sentence for people."""
        location = expected(table, lookup)

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            if location.identity not in state.tables:
                return None
            return {
                **where(location),
                "population": state.members[location.identity],
                "edition": state.populations[state.members[location.identity]].edition,
                "action": "unprotect",
                "what": "unprotect",
            }

        if self._ledger.append(location.database, line) is None:
            return f"{location.label} is not protected: nothing has changed."
        linked = self._ledger.state(location.database).linked_to(location.identity)
        shut = (
            f" No question about {' or '.join(linked)} is answered until it is protected again, since owners "
            "of records are looked up in it."
            if linked
            else ""
        )
        return (
            f"{location.label} is no longer protected: it is closed to analysts, and what was spent on it and "
            f"published of it stays so.{shut}"
        )

    def open_table(self, table: str, lookup: Mapping[str, Any], columns: Sequence[str]) -> str:
        """Let analysts read a table as it is. table: its name, or a whole schema, as in 'public_data.*'.

        columns: of the table; of a schema its tables. Raises InvalidInput for a protected table, also one that may have
        been renamed, for a view that reads one, and for a name that is not a database's table.
        """
        whole = table.endswith(".*")
        location = _schema(table, lookup) if whole else locate(table, lookup)
        _check_openable(table, location, whole=whole)
        read, there = self._read_by(location), self._there(location.database)
        is_mixed = False

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            nonlocal is_mixed
            is_mixed = any(schema == location.identity[0] for schema, _ in state.members)
            gone = None if whole or location.definition else _gone_like(location, columns, state, there)
            if gone is not None:
                raise InvalidInput(
                    f"{location.label} has all columns that the policy of {gone.label} names, and {gone.label} is not "
                    f"there: it may be that table under another name. Rename it back, or unprotect {gone.label} first."
                )
            if location.identity in state.tables:
                raise InvalidInput(f"{location.label} is protected, so it cannot be opened: publish releases of it.")
            shut = state.protected_among(read)
            if shut is not None:
                raise InvalidInput(
                    f"{location.label} is a view that reads {shut.location.label}, which is protected, so it cannot be "
                    "opened: publish releases of it."
                )
            if _reads_ours(read, state):
                raise InvalidInput(
                    f"{location.label} reads tables of duckanon, so it cannot be opened: publish a release, or make a "
                    "table."
                )
            if state.opened.get(location.identity) == tuple(columns):
                return None
            said = {"columns": list(columns)}
            return {**where(location), "action": "open", "what": f"open_table: {location.label}", "detail": said}

        self._ledger.append(location.database, line)
        if location.name != ALL_TABLES:
            return f"{location.label} is open: analysts read it as it is."
        if is_mixed:
            return (
                f"Every table of {location.schema} that is there now and was never protected is open: analysts read it "
                "as it is. Later ones are closed until they are opened, since the schema has protected tables."
            )
        return f"Every table of {location.schema} that is not protected is open: analysts read it as it is."

    def close_table(self, table: str, lookup: Mapping[str, Any]) -> str:
        """Take back `open_table`. Returns a sentence for people."""
        location = _schema(table, lookup) if table.endswith(".*") else expected(table, lookup)
        whole = (location.identity[0], ALL_TABLES)

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            if location.identity != whole and whole in state.opened and location.identity not in state.members:
                raise InvalidInput(
                    f"{location.label} is open because its schema is: close_table('{location.schema}.*') first, and "
                    "open the schema's other tables by their names."
                )
            if location.identity not in state.opened:
                return None
            return {**where(location), "action": "close", "what": f"close_table: {location.label}"}

        if self._ledger.append(location.database, line) is None:
            return f"{location.label} is not open: nothing has changed."
        text = f"What is in {location.schema}" if location.name == ALL_TABLES else location.label
        return f"{text} is closed: analysts cannot read it any more. They keep what they have read before."

    def new_edition(self, table: str, lookup: Mapping[str, Any]) -> str:
        """Begin the next edition of a table's population. Returns a sentence for people."""
        location = expected(table, lookup)

        def line(state: LedgerState) -> Mapping[str, Any]:
            population = state.population(location)
            if population is None or location.identity not in state.tables:
                raise InvalidInput(f"{location.label} is not protected, so it has no editions: protect it first.")
            return {
                **where(location),
                "population": population.name,
                "edition": population.edition + 1,
                "action": "edition",
                "what": f"new_edition: {population.edition + 1}",
            }

        self._ledger.append(location.database, line)
        found = self._ledger.state(location.database).population(location) or Population("")
        return (
            f"Edition {found.edition} of {found.name} has begun: questions are answered from the records as they are "
            "when they are first asked, and charged once more."
        )

    def allot(self, database: str, user: str, population: str, epsilon: Fraction | None) -> str:
        """Say what a user may spend of a population's budget in all; None takes the limit away.

        Returns a sentence for people.

        Raises InvalidInput for a population that does not exist, and for an epsilon that is not above zero.
        """
        if epsilon is not None and epsilon <= 0:
            raise InvalidInput("An allotment's epsilon is above zero: who may spend nothing needs no name here.")

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            if population not in state.populations:
                raise InvalidInput(f"There is no population {population}: FROM privacy_budget() lists them.")
            if state.allotments.get((user, population)) == epsilon:
                return None
            known = state.populations[population].renyi
            amount = "no limit" if epsilon is None else in_words(epsilon, known)
            return {
                "table_name": population,
                "population": population,
                "edition": state.populations[population].edition,
                "action": "allot",
                "what": f"allot: {amount} to {user}",
                "detail": {"user": user, "epsilon": None if epsilon is None else written(epsilon)},
            }

        self._ledger.append(database, line)
        state = self._ledger.state(database)
        allotment = state.allotment(user, population)
        if allotment is None:
            return (
                f"{user} may spend what is left of the budget of {population}: there is no limit for this user alone."
            )
        amount = in_words(allotment.total, state.populations[population].renyi)
        return (
            f"{user} may spend {amount} of the budget of {population} in all: {written(allotment.spent)} is spent and "
            f"{written(allotment.remaining)} left."
        )

    def _there(self, database: str) -> frozenset[Identity]:
        """The tables that a database has."""
        asked = (
            "SELECT schema_name, table_name FROM system.main.duckdb_tables() "
            "WHERE system.main.lower(database_name) = system.main.lower(?)"
        )
        with self._ledger.cursor() as cursor:
            return frozenset(
                (fold(schema), fold(name)) for schema, name in cursor.execute(asked, [database]).fetchall()
            )

    def _read_by(self, location: Location) -> frozenset[Identity]:
        """The tables that a view reads; none for a table."""
        if not location.definition:
            return frozenset()
        with self._ledger.cursor() as cursor:
            return reads(cursor, location)


def _gone_like(
    location: Location, columns: Sequence[str], state: LedgerState, there: frozenset[Identity]
) -> Location | None:
    """A protected table of the schema that is not there, of whose policy a table has all columns; None without one."""
    policies = (table for table in state.tables.values() if table.location.identity[0] == location.identity[0])
    gone = (policy for policy in policies if policy.location.identity not in there)
    return next((policy.location for policy in gone if is_like_one_of(columns, [policy.policy.columns])), None)


def _grown(domains: Domains, policy: Policy, standing: TablePolicy, state: LedgerState) -> dict[str, int]:
    """By column how many values its domain gains.

    Where the policy is the one that stands, its copies stay, whatever has become of the tables that they were made of.
    """
    try:
        return domains.grown(policy, standing, state)
    except InvalidInput:
        if standing.policy == policy:
            return {}
        raise


def _before(population: Population) -> str:
    """What charges from before a unit was named protect, as a sentence; empty where there are none."""
    amount = population.of_records
    return f" Charges of {written(amount)} from before it was named protect one record alone." if amount else ""


def _reads_ours(read: frozenset[Identity], state: LedgerState) -> bool:
    """Whether a view reads internal tables of duckanon, such as the ledger. It may read publications."""
    ours = {name for schema, name in read if schema in (None, SCHEMA)} - set(state.publications)
    return any((SCHEMA, name) in read or ((None, name) in read and OURS.fullmatch(name)) for name in ours)


def _accounting(policy: Policy, state: LedgerState) -> dict[str, Any]:
    """What a line notes of how the population accounts; nothing without a delta."""
    accounts = _accounts(policy, state)
    if accounts is None:
        return {}
    return {"renyi": {"order": written(accounts.order), "capacity": written(accounts.capacity)}}


def _budget(population: Population) -> str:
    """What there is to spend, as a sentence."""
    assert population.budget is not None
    spent, left = written(population.spent), written(population.budget.remaining)
    if population.renyi is None:
        return f"of epsilon {written(population.budget.total)} in all, {spent} is spent and {left} left."
    return (
        f"all paid answers together are differentially private with {population.renyi.promise}. Of "
        f"{in_words(population.budget.total, population.renyi)} in all, {spent} is spent and {left} left."
    )


def _width(policy: Policy, population: Population) -> str:
    """How near to the truth the counts are that the policy offers, as a sentence; empty where it offers none."""
    if policy.per_query is None:
        return ""
    width, price = count_width(policy, population.renyi), in_words(policy.per_query, population.renyi)
    room = "" if population.renyi is None else f" What is left suffices for {left_in_words(population, [policy])}."
    return f" For {price}, a count is within {width:,} of the truth in 95 % of cases.{room}"


def _check_protectable(table: str, location: Location) -> None:
    if not location.lasting or fold(location.schema or "") == SCHEMA:
        raise InvalidInput(f"{table} is no table that lasts, so it cannot be protected: make it a table of a database.")
    if location.definition:
        raise InvalidInput(
            f"{location.label} is a view, and what a view computes may fail on a record, which would tell about it: "
            "protect the table that it reads, or make it a table."
        )
    wrong = obstacle(location.made)
    if wrong is not None:
        raise InvalidInput(f"{location.label} {wrong}")


def _check_openable(table: str, location: Location, *, whole: bool) -> None:
    if fold(location.schema or "") == SCHEMA:
        raise InvalidInput(f"{table} belongs to duckanon, so it cannot be opened: publish a release, or make a table.")
    if not location.lasting:
        raise InvalidInput(f"{table} is no table that lasts, so it cannot be opened: make it a table of a database.")
    if location.name == ALL_TABLES and not whole:
        raise InvalidInput(f"{table} has the name of all tables, so it cannot be opened: rename it.")


def _settled(location: Location, terms: Mapping[str, Any], state: LedgerState) -> Policy:
    """The policy that `terms` give, with its population and its budget filled in."""
    name = terms.get("population") or state.members.get(location.identity) or location.label
    # Names that differ in case only are one population, with one budget.
    name = next((population for population in state.populations if fold(population) == fold(name)), name)
    known = state.populations.get(name)
    budget = terms.get("epsilon") or (known.epsilon if known is not None else None)
    if budget is None:
        raise InvalidInput(
            f"The population {name} has no budget yet: say how much may be spent on it in all, as in epsilon := 1."
        )
    values = {key: value for key, value in terms.items() if key not in ("population", "epsilon", "delta")}
    policy = Policy(epsilon=budget, population=name, delta=_delta(name, terms.get("delta"), known), **values)
    _check_per_query(policy, state)
    return policy


def _delta(name: str, number: Fraction | None, known: Population | None) -> Fraction | None:
    """The delta of a population, which it has from when it is first named, or never has."""
    if known is None or known.epsilon is None:
        return number
    has = None if known.renyi is None else known.renyi.delta
    if number is not None and number != has:
        said = "has no delta" if has is None else f"has delta {digits(has)}"
        raise InvalidInput(f"The population {name} {said}, which was settled when it was first named: leave delta out.")
    return has


def _accounts(policy: Policy, state: LedgerState) -> Renyi | None:
    """How the population of a policy accounts; None without a delta."""
    if policy.delta is None:
        return None
    known = state.populations.get(policy.population)
    # What is spent already is at the population's order, which stays for that reason.
    order = known.renyi.order if known is not None and known.renyi is not None else None
    return renyi(policy.epsilon, policy.delta, order)


def _check_per_query(policy: Policy, state: LedgerState) -> None:
    if policy.per_query is None:
        return
    accounts = _accounts(policy, state)
    budget = policy.epsilon if accounts is None else accounts.capacity
    check_price(policy.per_query, budget, accounts)
    if policy.per_query > min(budget, policy.per_edition or budget):
        most = "epsilon" if accounts is None else f"{in_words(budget, accounts)}, which is the budget,"
        raise InvalidInput(
            f"per_query must not be more than {most} or per_edition: it is what one release may cost of them."
        )


def _check_population(location: Location, policy: Policy, state: LedgerState) -> None:
    """Refuse a policy that changes the table's population or privacy unit, or mixes kinds of unit in a population."""
    before = state.members.get(location.identity)
    if before is not None and before != policy.population:
        raise InvalidInput(
            f"{location.label} spends from the population {before}, and a table never changes its population: leave "
            f"population out, or write population := '{before}'."
        )
    unit, links = state.units.get(location.identity), state.links.get(location.identity, ())
    other_unit = fold(unit or "") != fold(policy.privacy_unit or "") or _folded(links) != _folded(policy.links)
    if before is not None and other_unit:
        raise InvalidInput(
            f"The privacy unit of {location.label} never changes: it is {_unit_in_words(location, state)}."
        )
    known = state.populations.get(policy.population)
    others = [
        table for table, name in state.members.items() if name == policy.population and table != location.identity
    ]
    if others and (policy.privacy_unit is None or known is None or not known.column):
        raise InvalidInput(
            f"The population {policy.population} has another table, and records of two tables are not one privacy "
            "unit: name the column that identifies the unit in each, as in privacy_unit := 'person'."
        )
    _check_budget(policy, known, others, state)


def _folded(links: tuple[Link, ...]) -> list[frozenset[tuple[str, str, TableName]]]:
    """What two links must have in common to be the same, however they are written."""
    return [
        frozenset(
            (fold(own), fold(theirs), link.parent)
            for own, theirs in zip(link.columns, link.parent_columns, strict=True)
        )
        for link in links
    ]


def _unit_in_words(location: Location, state: LedgerState) -> str:
    links = state.links.get(location.identity, ())
    if not links:
        unit = state.units.get(location.identity)
        return "a record" if unit is None else unit
    (link,) = links
    pairs = (
        f"{own} = {link.parent.object}.{theirs}" for own, theirs in zip(link.columns, link.parent_columns, strict=True)
    )
    return f"the owner by the link {' and '.join(pairs)}"


def _check_kind(location: Location, policy: Policy, kind: str | None, state: LedgerState) -> None:
    """Refuse a population whose tables identify units by values of different kinds, which are never the same unit."""
    for table, name in state.members.items():
        if name != policy.population or table == location.identity or table not in state.kinds:
            continue
        if kind is None or state.kinds[table] != kind:
            raise InvalidInput(
                f"The population {policy.population} has another table, and both must identify the unit by the same "
                f"kind of values, whole numbers, UUIDs or text: cast {policy.unit_in_words}, or the other table's "
                "column."
            )


def _check_published(policy: Policy, state: LedgerState) -> None:
    """Refuse noisy counts for a population whose publications are safe only while totals are unknown."""
    if policy.per_query is None:
        return
    for publication in state.publications.values():
        if not publication.totals and state.members[publication.of.identity] == policy.population:
            unknown = (
                "its suppressed totals" if publication.suppressed else "how many records a row of shares stands for"
            )
            raise InvalidInput(
                f"{publication.name} was published for readers who do not know {unknown}, and noisy counts would tell "
                "them: leave per_query out."
            )


def _check_budget(policy: Policy, known: Population | None, others: Sequence[Identity], state: LedgerState) -> None:
    standing = any(table in state.tables for table in others)
    if standing and known is not None and known.epsilon != policy.epsilon:
        raise InvalidInput(
            f"The population {policy.population} has a budget of epsilon {written(known.epsilon or Fraction(0))}: "
            "leave epsilon out, or unprotect its other tables first."
        )


def _schema(table: str, lookup: Mapping[str, Any]) -> Location:
    """The location that stands for all tables of a schema."""
    location = expected(table.removesuffix(".*") + '."*"', lookup)
    return replace(location, name=ALL_TABLES)
