"""The governance of one database instance: its ledgers, decisions, paid answers, stored releases and publications."""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from hashlib import sha256
from typing import Any

import duckdb
import pyarrow as pa

from duckanon.accounting import Charge, written
from duckanon.catalog.names import fold, literal, parts
from duckanon.catalog.policy import AS_THEY_ARE, Policy, UnitColumn
from duckanon.errors import InvalidInput
from duckanon.governance.answers import Answers, is_answered
from duckanon.governance.budgets import left_in_words
from duckanon.governance.concurrency import Cursors
from duckanon.governance.decisions import Decisions
from duckanon.governance.ledger import Ledger
from duckanon.governance.ledger_state import LedgerState, Line, Population, TablePolicy
from duckanon.governance.locations import Location, locate, seen
from duckanon.governance.owners import records_of
from duckanon.governance.preparations import Preparation
from duckanon.governance.publications import Publications
from duckanon.governance.stored_releases import StoredReleases
from duckanon.renyi import Renyi

_OPEN: dict[str, Governance] = {}


@atexit.register
def _close() -> None:
    """Close what the program left open: DuckDB 1.4 may abort a process that ends while its threads hold our objects."""
    for governance in _OPEN.values():
        governance.cursors.close()


def governance_of(instance: str, con: duckdb.DuckDBPyConnection) -> Governance:
    """The governance of an instance. instance: its identity. con: a connection to it, which is not kept open."""
    governance = _OPEN.setdefault(instance, Governance())
    governance.cursors.add(con)
    return governance


class Governance:
    """decisions: on policies, open tables and editions. answers: paid by analysts. publications: readable by all.

    cursors: opens connections to the instance.
    """

    def __init__(self) -> None:
        self.cursors = Cursors()
        self.ledger = Ledger(self.cursors)
        self.decisions = Decisions(self.ledger)
        self.answers = Answers(self.ledger)
        self.publications = Publications(self.ledger)
        self._releases = StoredReleases(self.cursors, self.ledger)

    def stored_or_drawn(
        self,
        table: str,
        lookup: Mapping[str, Any],
        content: Mapping[str, Any],
        charge: Charge,
        draw: Callable[[], pa.Array],
        *,
        person: str | None = None,
    ) -> pa.Array:
        """A steward's release of a table: the stored one, or a new one, which is charged before `draw` makes it.

        table: a name as the caller wrote it. lookup: as for `locations.locate`. content: all else that the release
        depends on. person: the column of which it was checked that no value has two rows.
        Raises InvalidInput where the release protects something else than the table's privacy unit.
        """
        location = locate(table, lookup)
        standing = self.ledger.state(location.database).tables.get(location.identity)
        if standing is not None:
            _check_unit(standing, person)
        return self._releases.stored_or_drawn(location, _key(location, content), charge, draw)

    def stored_or_perturbed(
        self,
        table: str,
        lookup: Mapping[str, Any],
        content: Mapping[str, Any],
        charge: Charge,
        draw: Callable[[], pa.Array],
        *,
        exposed: bool = False,
    ) -> pa.Array:
        """A steward's perturbation of a table: the stored one, or a new one, recorded before `draw` makes it.

        Arguments as for `stored_or_drawn`; the charge is recorded beside the budget. exposed: whether `draw` writes
        where others may read it.
        """
        location = locate(table, lookup)
        return self._releases.stored_or_drawn(
            location, _key(location, content), charge, draw, "perturb", exposed=exposed
        )

    def stored(self, table: str, lookup: Mapping[str, Any], content: Mapping[str, Any]) -> pa.Array | None:
        """What is stored of the same release or perturbation; None if that was never drawn."""
        location = locate(table, lookup)
        return self._releases.stored(location.database, _key(location, content))

    def renyi_of(self, table: str, lookup: Mapping[str, Any]) -> Renyi | None:
        """How the population of a table accounts; None where it has no delta."""
        location = locate(table, lookup)
        population = self.ledger.state(location.database).population(location)
        return None if population is None else population.renyi

    def protected(self, table: str, lookup: Mapping[str, Any]) -> bool:
        """Whether the table has a policy."""
        location = locate(table, lookup)
        return location.identity in self.ledger.state(location.database).tables

    def policy_of(self, table: str, lookup: Mapping[str, Any]) -> tuple[Location, Policy | None]:
        """Where a table is, and its policy; None if it has none."""
        location = locate(table, lookup)
        standing = self.ledger.state(location.database).tables.get(location.identity)
        return location, None if standing is None else standing.policy

    def owned_records(self, con: duckdb.DuckDBPyConnection, location: Location) -> str:
        """What stands after FROM to read a protected table's records, with the column of its policy's privacy unit.

        Raises InvalidInput where the owners of a linked table's records cannot be looked up.
        """
        return records_of(con, location, self.ledger.state(location.database), orphans=False)

    def privacy_unit(self, table: str, place: Mapping[str, Any]) -> UnitColumn | None:
        """The column that names the privacy unit of a table, by its policy; None where there is none.

        table: a name as the caller wrote it. place: where the caller looks it up: database, schema and path. Raises
        InvalidInput where the owners of a linked table's records cannot be looked up.
        """
        last = fold(parts(table)[-1])
        named = [
            (database, policy.location)
            for database, policy, _ in self.policies()
            if policy.location.lasting and fold(policy.location.name) == last
        ]
        if not named:
            return None
        with self.cursors.cursor() as cursor:
            known = seen(cursor, table)
        # What the caller's transaction has created is not seen here.
        new = [
            {"database": database, "schema": location.schema, "name": location.name, "definition": ""}
            for database, location in named
        ]
        location = locate(table, {**known, **place, "found": [*new, *(known["found"] or ())]})
        state = self.ledger.state(location.database)
        standing = state.tables.get(location.identity)
        if standing is None or standing.policy.privacy_unit is None:
            return None
        if not standing.policy.is_linked:
            return UnitColumn(standing.policy.privacy_unit)
        with self.cursors.cursor() as cursor:
            return UnitColumn(standing.policy.privacy_unit, f"FROM {records_of(cursor, location, state)}")

    def states(self) -> dict[str, LedgerState]:
        """The state of each database's ledger."""
        return {database: self.ledger.state(database) for database in self.ledger.databases()}

    def policies(self) -> list[tuple[str, TablePolicy, Fraction]]:
        """Every protected table: its database, its policy, and the remaining budget of its population."""
        values = []
        for database, state in self.states().items():
            for table in sorted(state.tables.values(), key=lambda one: one.location.label):
                budget = state.populations[table.policy.population].budget
                values.append((database, table, budget.remaining if budget is not None else Fraction(0)))
        return values

    def lines(self) -> list[dict[str, Any]]:
        """Every line of every ledger, as privacy_ledger shows it."""
        values = []
        for database in self.ledger.databases():
            state = LedgerState()
            for line in self.ledger.lines(database):
                state = state.after(line)
                values.append(_line(database, line, state))
        return values

    def decided(self) -> list[dict[str, Any]]:
        """Every current policy, as policies() shows it."""
        return [
            {
                "database": database,
                "tbl": policy.location.label,
                **{name: getattr(policy.policy, name) for name in ("population", *AS_THEY_ARE)},
                "privacy_unit": policy.policy.unit_in_words,
                "domains": sorted(policy.policy.domains),
                "bounds": sorted(policy.policy.bounds),
                **{name: _number(getattr(policy.policy, name)) for name in ("epsilon", "per_query", "per_edition")},
                "protected_at": policy.since,
                "delta": _number(policy.policy.delta),
            }
            for database, policy, _ in self.policies()
        ]

    def budgets(self) -> list[dict[str, Any]]:
        """Every population that has a budget, as privacy_budget shows it."""
        values = []
        for database, state in self.states().items():
            for name, population in sorted(state.populations.items()):
                standing = [table for table in state.tables.values() if table.policy.population == name]
                tables = sorted(policy.location.label for policy in standing)
                if population.budget is not None and tables:
                    values.append(
                        {
                            "database": database,
                            "population": name,
                            "tables": tables,
                            **_amount("epsilon", population.budget.total),
                            **_amount("spent", population.spent),
                            **_amount("remaining", population.budget.remaining),
                            "charges": population.charges,
                            "neighbours": _neighbours(state, population),
                            "edition": population.edition,
                            **_amount("spent_in_edition", population.in_edition),
                            "left_in_words": left_in_words(population, state.policies_of(name)),
                            **_accounts(population.renyi),
                            "keys_left": None if population.renyi is None else population.keys_left,
                        }
                    )
        return values

    def allotments(self) -> list[dict[str, Any]]:
        """Every allotment and what is left of it, for the function of this name."""
        values = []
        for database, state in self.states().items():
            for who, population in sorted(state.allotments):
                budget = state.allotment(who, population)
                assert budget is not None
                amounts = {"epsilon": budget.total, "spent": budget.spent, "remaining": budget.remaining}
                told = {name: one for amount, value in amounts.items() for name, one in _amount(amount, value).items()}
                words = left_in_words(state.populations[population], state.policies_of(population), budget.remaining)
                values.append(
                    {"database": database, "who": who, "population": population, **told, "left_in_words": words}
                )
        return values

    def prepared(self) -> list[dict[str, Any]]:
        """Every table that was prepared, and is stored."""
        states = self.states()
        with self.ledger.cursor() as con:
            return [
                {"database": database, **row}
                for database, state in states.items()
                for one in sorted(state.preparations.values(), key=lambda preparation: preparation.number)
                if is_answered(con, database, one.key)
                for row in _prepared_tables(one, state)
            ]

    def editions(self) -> list[dict[str, Any]]:
        """Every edition of every population."""
        found = []
        for database in self.ledger.databases():
            state, spent = LedgerState(), {}
            for line in self.ledger.lines(database):
                state = state.after(line)
                if line.population is not None:
                    population = state.populations[line.population]
                    spent[line.population, population.edition] = {
                        "database": database,
                        "population": population.name,
                        "edition": population.edition,
                        "began": population.began,
                        **_amount("spent", population.in_edition),
                    }
            found += [spent[key] for key in sorted(spent)]
        return found


def _key(location: Location, content: Mapping[str, Any]) -> str:
    """The key of a release. A view's SQL is part of it, so that equal releases do not show that two filters keep the
    same rows.
    """
    whole = {"table": location.identity, "definition": location.definition, **content}
    return sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _check_unit(standing: TablePolicy, person: str | None) -> None:
    """A steward's call protects one row, so each unit must be known to have only one."""
    unit, label = standing.policy.privacy_unit, standing.location.label
    if standing.policy.is_linked:
        raise InvalidInput(
            f"A charge on {label} protects {standing.policy.protects}, and this call only one row: ask as an analyst, "
            "for whom records are bounded."
        )
    if unit is not None and fold(person or "") != fold(unit):
        raise InvalidInput(
            f"A charge on {label} protects all records of one {unit}, and this call only one row: say person := "
            f"{literal(unit)}, which checks that nobody has two, or ask as an analyst, for whom records are bounded."
        )


def _neighbours(state: LedgerState, population: Population) -> str:
    """The pairs of histories for which what is spent of a budget bounds what all releases together disclose."""
    tables = [table for table in state.tables.values() if table.policy.population == population.name]
    # A linked table's unit is that of the table at the end of its links, which is named already where it is protected.
    named = [table.policy for table in tables if not table.policy.is_linked] or [table.policy for table in tables]
    units = sorted({policy.unit_in_words for policy in named if policy.unit_in_words is not None})
    said = f"all records of one {' or '.join(units)}, added or removed" if units else "one record, added or removed"
    if population.of_records:
        said += (
            f"; {written(population.of_records)} of the {written(population.spent)} spent was charged before that unit "
            "was named, and holds for one record alone"
        )
    if not population.with_invariants:
        return said
    return (
        f"{said}, of a group that keeps another member: releases with public totals cost "
        f"{written(population.with_invariants)} of the {written(population.spent)} spent, and the number of groups of "
        "each region is exact"
    )


def _prepared_tables(preparation: Preparation, state: LedgerState) -> list[dict[str, Any]]:
    """The tables of a preparation, as prepared shows them."""
    told = {
        "tbl": preparation.of.label,
        "edition": preparation.edition,
        "prepared_on": preparation.day,
        "is_current": state.is_current(preparation),
    }
    return [{**told, **row} for row in preparation.design.rows(preparation.rows)]


def _line(database: str, line: Line, state: LedgerState) -> dict[str, Any]:
    population = state.populations.get(line.population or "")
    budget = None if population is None else population.budget
    return {
        "database": database,
        "number": line.number,
        "recorded_at": line.recorded_at,
        "who": line.who,
        "tbl": line.location.label,
        "population": line.population,
        "edition": line.edition,
        "action": line.action,
        **_amount("epsilon", None if line.epsilon is None else Fraction(line.epsilon)),
        **_amount("remaining", None if budget is None else budget.remaining),
        "what": line.what,
        "unit": line.unit,
        "neighbours": line.neighbours,
        "noise": line.noise,
    }


def _accounts(renyi: Renyi | None) -> dict[str, Any]:
    """How a population accounts, as privacy_budget shows it."""
    if renyi is None:
        return {"delta": None, "promise": None, "order_exact": None}
    return {"delta": float(renyi.delta), "promise": renyi.promise, "order_exact": written(renyi.order)}


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _amount(name: str, value: Fraction | None) -> dict[str, Any]:
    """An epsilon in two columns: as a number, and exactly as text."""
    return {name: _number(value), f"{name}_exact": None if value is None else written(value)}
