"""The SQL functions behind the dbt macros: one applies the project's policies, one checks a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions.udf import Instance
from duckanon.governance.instance import Governance, governance_of
from duckanon.guard import Guard, SharedCatalog
from duckanon.integrations.catalog import contents
from duckanon.integrations.copied_columns import Copied
from duckanon.integrations.dbt.model_checks import Model, Objection, anonymises, model_of, objections, unfit
from duckanon.integrations.dbt.policies import Declaration, Policies, declarations, population_budgets
from duckanon.integrations.dbt.settings import Mode, Settings
from duckanon.integrations.dbt_meta import declared
from duckanon.rewrite.recognize import Schema, View

# How many lines an error has.
_LONGEST = 8


class MacroFunctions:
    """The functions for one dbt profile, with their state between calls.

    run: the invocation of dbt whose policies were applied last. waiting: declarations that cannot be applied yet.
    applied: what was said of those that were applied while the run was building, until the run's end tells it.
    copies: models that were built in spite of an objection. A model that reads one of them reads the protected table.
    anonymous: models of the run that call k_anonymize, by the names of their tables.
    """

    def __init__(self, settings: Settings, now: Callable[[], datetime] | None = None) -> None:
        self._settings, self._now = settings, now
        self._lock = Lock()
        self._run = ""
        self._budgets: Mapping[str, Any] = {}
        self._waiting: list[Declaration] = []
        self._applied: list[str] = []
        self._copies: dict[TableName, View] = {}
        self._anonymous: dict[TableName, str] = {}

    def register(self, con: duckdb.DuckDBPyConnection) -> None:
        """Register the functions on a database instance that has duckanon's functions."""
        on = Instance(con)
        governance = governance_of(on.identity, con)
        on.create(
            "_dk_dbt_policies",
            _answering(lambda given: self._policies(governance, given)),
            "VARCHAR",
            side_effects=True,
        )
        on.create(
            "_dk_dbt_judge",
            _answering(lambda given: self._check_model(governance, given)),
            "VARCHAR",
            side_effects=True,
        )
        on.create(
            "_dk_dbt_copied",
            _answering(lambda _: self._copied(governance)),
            "VARCHAR",
            side_effects=True,
        )

    def _copied(self, governance: Governance) -> list[dict[str, Any]]:
        """What the k-anonymous tables that were built copy as it is: a sentence for each, and whether it warns."""
        with self._lock:
            built, self._anonymous = self._anonymous, {}
        values = []
        with governance.cursors.cursor() as cursor:
            # The macro policies() is not known to this cursor.
            policies = [policy.policy for _, policy, _ in governance.policies()] if built else []
            units = {name for policy in policies for name in (policy.privacy_unit, policy.unit) if name is not None}
            for name, label in built.items():
                table = quoted((name.catalog, name.schema, name.object))
                # A table that is not there was not built: dbt says so.
                with suppress(duckdb.CatalogException):
                    copied = Copied.of(cursor, table, units=units)
                    text = f"{label}: {copied.sentences[0].lower()}{copied.sentences[1:]}"
                    values.append({"text": text, "warns": copied.warns})
        return values

    def _policies(self, governance: Governance, arguments: Mapping[str, Any]) -> list[str]:
        """Apply what the project declares. Returns what has changed; raises InvalidInput for the first bad declaration.

        arguments: run, the invocation; nodes, as in dbt's manifest; built, the ids of those that this run made; ended,
        whether it is over; builds, whether it is one that builds. (dbt runs its hooks around tests, too.)
        """
        ended, found = bool(arguments["ended"]), declarations(arguments["nodes"], arguments["built"])
        with self._lock:
            self._budgets = population_budgets(found)
            policies = Policies(governance, self._settings, self._budgets, self._now)
            said, self._waiting = policies.apply(found, last=ended)
            said, self._applied = (self._applied if ended else []) + said, []
            if ended and arguments["builds"]:
                said += policies.editions(found)
            self._run = str(arguments["run"])
        return said

    def _caught_up(self, governance: Governance, reads: Sequence[TableName]) -> frozenset[TableName]:
        """Apply the waiting declarations that can be applied now. Returns tables that still wait for protection.

        reads: what a model refers to. Raises InvalidInput where one of them still has no policy.
        """
        with self._lock:
            if self._waiting:
                policies = Policies(governance, self._settings, self._budgets, self._now)
                said, self._waiting = policies.apply(self._waiting, last=False)
                self._applied += said
            waiting = {declaration.table: declaration for declaration in self._waiting if declaration.said.protected}
        for name in reads:
            if name in waiting:
                raise InvalidInput(
                    f"{waiting[name].label} has no policy yet, since a domain's table is not built, or has not its "
                    "columns. Have the model depend on that table too: -- depends_on: {{ ref('...') }}."
                )
        return frozenset(waiting)

    def _check_model(self, governance: Governance, arguments: Mapping[str, Any]) -> list[str]:
        """Check a model before it is built. Returns warnings; raises InvalidInput if it may not be built."""
        model = model_of(arguments, declared(arguments["node"]))
        wrong = unfit(model)
        if wrong is not None:
            raise InvalidInput(wrong)
        if anonymises(model):
            with self._lock:
                self._anonymous[model.name] = model.label
        mode = self._settings.guard or Mode.ON
        if mode is Mode.OFF:
            return []
        with self._lock:
            run, copies = self._run, dict(self._copies)
        if run != arguments["run"]:
            raise InvalidInput(
                "The policies of this project were not applied in this run. In dbt_project.yml, write "
                'on-run-start: "{{ duckanon_policies() }}" and on-run-end: "{{ duckanon_policies() }}".'
            )
        waiting = self._caught_up(governance, model.reads)
        # Afterwards, since a policy that was waiting may just have been set.
        protected = _protected(governance) | waiting
        found = objections(model, _schema(governance, copies), protected, lambda call: _refused(governance, call))
        if found and mode is Mode.ON:
            raise InvalidInput(_refusal(model, found))
        with self._lock:
            self._copies.pop(model.name, None)
            if found and model.language == "sql":
                self._copies[model.name] = View(sql=model.code)
        return [f"{model.label} asks protected tables for more than a release: {one.told}" for one in found]


def _answering(work: Callable[[Mapping[str, Any]], Sequence[Any]]) -> Callable[[pa.Array], pa.Array]:
    """`work` as an Arrow function from JSON to JSON: its result, or the sentence of a DuckanonError."""

    def answer(value: pa.Array) -> pa.Array:
        try:
            found: dict[str, Any] = {"said": work(json.loads(value[0].as_py())), "problem": None}
        except DuckanonError as error:
            found = {"said": [], "problem": str(error)}
        return pa.array([json.dumps(found)] * len(value))

    return answer


def _protected(governance: Governance) -> frozenset[TableName]:
    """The tables that have a policy."""
    return frozenset(
        TableName(fold(database), fold(policy.location.schema or ""), fold(policy.location.name))
        for database, policy, _ in governance.policies()
    )


def _schema(governance: Governance, copies: Mapping[TableName, View]) -> Schema:
    """The tables and views of the databases. Copies of protected tables are treated like views of them."""
    with governance.cursors.cursor() as cursor:
        schema = contents(lambda query: cursor.execute(query).fetchall()).schema
    tables = {name: table for name, table in schema.tables.items() if name not in copies}
    return replace(schema, tables=tables, views={**schema.views, **copies})


def _refused(governance: Governance, call: str) -> str | None:
    """Why an analyst would not get the answer to a query; None if one would."""
    with governance.cursors.cursor() as cursor:
        refusal = Guard(SharedCatalog(cursor, governance)).explain(call).refusal
    return None if refusal is None else refusal.reason


def _refusal(model: Model, found: Sequence[Objection]) -> str:
    more = [f"  and {len(found) - _LONGEST} more"] if len(found) > _LONGEST else []
    kinds = ", ".join(sorted({objection.kind for objection in found if objection.kind is not None}))
    allowed = f" Or allow it what it asks: meta: {{duckanon: {{allow: [{kinds}]}}}}." if kinds else ""
    if model.open:
        allowed = " Analysts are to read it (open: true), so its meta can allow it nothing." if kinds else ""
    how = "{{ config(materialized='table') }} and " if model.kind == "view" else ""
    return "\n".join(
        [
            f"{model.label} asks protected tables for more than a release:",
            *(f"  {one.told}" for one in found[:_LONGEST]),
            *more,
            f"Ask for a release instead. Or keep the model inside, protected as well: {how}"
            "meta: {duckanon: {protected: true}}." + allowed,
        ]
    )
