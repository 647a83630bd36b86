"""Writes what a project's `meta` declares into the ledger: open tables, policies, editions.

A declaration that holds already adds no line, however often it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import duckdb

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.policy import Policy
from duckanon.errors import InvalidInput
from duckanon.functions.schema import Table
from duckanon.governance.instance import Governance
from duckanon.governance.ledger_state import LedgerState
from duckanon.governance.locations import Identity, Location
from duckanon.integrations.dbt.settings import Changes, Settings
from duckanon.integrations.dbt_meta import Declared, declared, is_due, policy_fields

_VIEW = """
SELECT "sql" FROM system.main.duckdb_views()
WHERE lower(database_name) = lower(?) AND lower(schema_name) = lower(?) AND lower(view_name) = lower(?)
"""
# Models that are no tables in the database, and why they cannot be protected.
_NO_TABLES = {
    "ephemeral": "is ephemeral, and so a part of every model that reads it: make it a table, or {} those.",
    "view": "is a view, which is computed at each read: make it a table, {{{{ config(materialized='table') }}}}.",
}


@dataclass(frozen=True)
class Declaration:
    """A node with a declaration. settled: whether this run has built it, or will not build it: then it must exist."""

    label: str
    name: str
    path: tuple[str, str, str]
    said: Declared
    settled: bool

    @property
    def table(self) -> TableName:
        return TableName(*(fold(part) for part in self.path))

    @property
    def identity(self) -> Identity:
        return fold(self.path[1]), fold(self.path[2])

    @property
    def quoted(self) -> str:
        return quoted(self.path)


@dataclass(frozen=True)
class TableState:
    """A table as it is now: its columns with their types. definition: the SQL of a view, else empty."""

    types: Mapping[str, str]
    definition: str

    def seen(self, path: Sequence[str]) -> dict[str, Any]:
        return _seen(path, self.definition)


class Policies:
    """Applies declarations. budgets: of populations, from the declarations of their tables."""

    def __init__(
        self,
        governance: Governance,
        settings: Settings,
        budgets: Mapping[str, Any],
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._governance, self._settings, self._budgets = governance, settings, budgets
        self._now = now or (lambda: datetime.now(UTC).replace(tzinfo=None))

    def apply(self, found: Sequence[Declaration], *, last: bool) -> tuple[list[str], list[Declaration]]:
        """Apply declarations. Returns what changed, and the declarations that wait for a table that is not built yet.

        last: whether the run is over. Raises InvalidInput for the first declaration that cannot be applied.
        """
        # Open tables come first, since domains may be copied from them.
        said: list[str] = []
        waiting = [
            declaration
            for declaration in found
            if declaration.said.open is not None and not self._opened(declaration, said)
        ]
        opens = bool(waiting)
        changed = [
            (declaration, terms)
            for declaration in found
            if declaration.said.protected
            for terms in self._changed(declaration)
        ]
        waiting += [declaration for declaration, terms in changed if not self._fits(declaration, terms)]
        ready = [(declaration, terms) for declaration, terms in changed if declaration not in waiting]
        # Unprotect all first: a budget can change only while none of the population's tables is protected.
        for one, _ in ready:
            if one.identity in self._state(one).tables:
                self._governance.decisions.unprotect(one.quoted, _seen(one.path))
        for one, terms in ready:
            if not terms["link"]:
                try:
                    said.append(self._protect(one, terms))
                except InvalidInput:
                    # Its domain's table may be built later in the run.
                    if last or not (opens and terms["domains"]):
                        raise
                    waiting.append(one)
        linked = [(declaration, terms) for declaration, terms in ready if terms["link"]]
        return said, waiting + self._link(linked, said, last=last)

    def _link(
        self, linked: Sequence[tuple[Declaration, dict[str, Any]]], said: list[str], *, last: bool
    ) -> list[Declaration]:
        """Protect linked tables, each after the one that its link leads to. Returns those that wait for another.

        A link's table, and its key, may be there later in the run.
        """
        rest = list(linked)
        while rest:
            refused: list[tuple[Declaration, dict[str, Any]]] = []
            for declaration, terms in rest:
                try:
                    said.append(self._protect(declaration, terms))
                except InvalidInput as error:
                    refused.append((declaration, terms))
                    why = error
            if len(refused) == len(rest):
                if last:
                    raise why
                break
            rest = refused
        return [one for one, _ in rest]

    def _protect(self, declaration: Declaration, terms: Mapping[str, Any]) -> str:
        stands = self._standing(declaration)
        seen = _seen(declaration.path) if stands is None else stands.seen(declaration.path)
        types = None if stands is None else stands.types
        return self._governance.decisions.protect(declaration.quoted, seen, terms, types)

    def editions(self, found: Sequence[Declaration]) -> Iterator[str]:
        """Begin the next edition of each population whose current one began in an earlier period."""
        asked: dict[tuple[str, str], Declaration] = {}
        for declaration in found:
            state = self._state(declaration)
            if declaration.said.new_edition is None or declaration.identity not in state.tables:
                continue
            population = state.populations[state.members[declaration.identity]]
            first = asked.setdefault((fold(declaration.path[0]), population.name), declaration)
            if first.said.new_edition != declaration.said.new_edition:
                raise InvalidInput(
                    f"{declaration.label} and {first.name} are of one population, and say different things of "
                    "new_edition."
                )
            began = population.began
            if first is declaration and began is not None and is_due(declaration.said.new_edition, began, self._now()):
                yield self._governance.decisions.new_edition(declaration.quoted, _seen(declaration.path))

    def _opened(self, declaration: Declaration, said: list[str]) -> bool:
        """Open or close a table. Returns whether the declaration is applied; False: the table does not exist yet."""
        decisions, opened = self._governance.decisions, self._state(declaration).opened
        if declaration.said.open is False:
            if declaration.identity in opened:
                said.append(decisions.close_table(declaration.quoted, _seen(declaration.path)))
            return True
        stands = self._standing(declaration)
        if stands is None:
            if declaration.settled:
                raise _missing(declaration)
            return False
        if list(opened.get(declaration.identity, ())) != list(stands.types):
            said.append(decisions.open_table(declaration.quoted, stands.seen(declaration.path), list(stands.types)))
        return True

    def _changed(self, declaration: Declaration) -> Iterator[dict[str, Any]]:
        """The fields of a table's policy, if the ledger has another one or none.

        Raises InvalidInput where the policy must not change, and where a settled table lacks columns of the policy.
        """
        terms = policy_fields(declaration.said, self._settings.policy, declaration.label, self._budgets)
        state, stands = self._state(declaration), self._standing(declaration)
        held = state.tables.get(declaration.identity)
        location = Location(declaration.path[0], *declaration.path[1:])
        population = terms.get("population") or state.members.get(declaration.identity) or location.label
        wanted = Policy(**{**terms, "population": population})
        if stands is None and declaration.settled and (held is None or held.policy.declared != wanted):
            raise _missing(declaration)
        if stands is not None and declaration.settled:
            label = declaration.label[0].lower() + declaration.label[1:]
            Table(label, list(stands.types), list(stands.types.values())).has(list(wanted.columns))
        if held is None:
            yield terms
        elif held.policy.declared != wanted:
            self._check_change(declaration, held.policy.declared, wanted)
            yield terms

    def _check_change(self, declaration: Declaration, held: Policy, wanted: Policy) -> None:
        names = [field.name for field in fields(Policy)]
        differs = [name for name in names if getattr(held, name) != getattr(wanted, name)]
        for name in ("population", "privacy_unit", "link"):
            if fold(str(getattr(held, name))) != fold(str(getattr(wanted, name))):
                raise InvalidInput(
                    f"{declaration.label} has {getattr(held, name) or 'a record'} as its {name}, which never changes: "
                    "say it in meta.duckanon as it was, or give the table another name."
                )
        if self._settings.changes is Changes.REFUSE:
            raise InvalidInput(
                f"{declaration.label} is protected already, and the project says another policy "
                f"({', '.join(differs)}). End "
                f"the one that holds: dbt run-operation duckanon_unprotect --args '{{name: {declaration.name}}}'. Then "
                "run again. What was spent stays spent."
            )

    def _fits(self, declaration: Declaration, terms: Mapping[str, Any]) -> bool:
        """Whether the policy can be set now: columns with domains must exist."""
        stands = self._standing(declaration)
        columns = {fold(name) for name in stands.types} if stands is not None else set()
        return declaration.settled or all(fold(name) in columns for name in (*terms["domains"], *terms["link"]))

    def _state(self, declaration: Declaration) -> LedgerState:
        return self._governance.ledger.state(declaration.path[0])

    def _standing(self, declaration: Declaration) -> TableState | None:
        with self._governance.cursors.cursor() as cursor:
            try:
                rows = cursor.execute(f"DESCRIBE {declaration.quoted}").fetchall()
            except duckdb.CatalogException:
                return None
            view = cursor.execute(_VIEW, list(declaration.path)).fetchall()
            return TableState({row[0]: row[1] for row in rows}, view[0][0] if view else "")


def declarations(nodes: Sequence[Mapping[str, Any]], built: Sequence[str]) -> list[Declaration]:
    """The declarations of a project. nodes: as in dbt's manifest. built: the ids of those that this run has built.

    Raises InvalidInput for the first bad declaration.
    """
    return [declaration for declaration in (_declaration(node, built) for node in nodes) if declaration is not None]


def population_budgets(found: Sequence[Declaration]) -> dict[str, dict[str, Any]]:
    """What the declarations say of the budget of each population: epsilon, and delta where there is one."""
    budgets: dict[str, dict[str, Any]] = {}
    for declaration in found:
        terms = {name: declaration.said.terms[name] for name in ("epsilon", "delta") if name in declaration.said.terms}
        if declaration.said.terms.get("population"):
            budgets.setdefault(declaration.said.terms["population"], {}).update(terms)
    return budgets


def _declaration(node: Mapping[str, Any], built: Sequence[str]) -> Declaration | None:
    """The declaration of a node; None if it has none for the ledger."""
    said = declared(node)
    if not said.protected and said.open is None:
        return None
    label = f"The {node['resource_type']} {node['name']}"
    text = "protect" if said.protected else "open"
    if node["file"]:
        raise InvalidInput(f"{label} is a file, which can have no policy: load it into a table, and {text} that.")
    kind = node.get("materialized")
    if kind in _NO_TABLES and (said.protected or kind == "ephemeral"):
        raise InvalidInput(f"{label} {_NO_TABLES[kind].format(text)}")
    database, schema, name = (str(part or "") for part in node["relation"])
    settled = node["resource_type"] == "source" or node["unique_id"] in built
    return Declaration(label, str(node["name"]), (database, schema, name), said, settled)


def _missing(declaration: Declaration) -> InvalidInput:
    path = ".".join(declaration.path)
    return InvalidInput(f"{declaration.label} is named in meta.duckanon, and there is no table {path}: load it first.")


def _seen(path: Sequence[str], definition: str = "") -> dict[str, Any]:
    """The catalog entry of a table of this full name, in the form that governance takes."""
    database, schema, name = path
    one = {"database": database, "schema": schema, "name": name, "definition": definition}
    return {"database": database, "schema": schema, "path": "", "found": [one]}
