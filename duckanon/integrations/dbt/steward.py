"""What the macros ask of duckanon during a run: to apply the project's policies, and to judge its models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions.schema import Table
from duckanon.functions.templates import identifier
from duckanon.functions.udf import Instance
from duckanon.governance.books import Books, books_of
from duckanon.governance.policy import Policy
from duckanon.guard import Guard
from duckanon.integrations.catalog import contents
from duckanon.integrations.dbt.judge import Model, Objection, model_of, objections, relation, unfit
from duckanon.integrations.dbt.meta import LISTS, declared, policy
from duckanon.integrations.dbt.settings import Changes, Mode, Settings
from duckanon.rewrite.spot import Schema, TableName, View

# How many lines an error has.
_LONGEST = 8


class Steward:
    """Answers the macros, for one profile.

    run: the invocation of dbt whose policies were applied last. copies: models that were built in spite of an
    objection; what reads one of them reads the protected table.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turn = Lock()
        self._run = ""
        self._copies: dict[TableName, View] = {}

    def attend(self, con: duckdb.DuckDBPyConnection) -> None:
        """Put the functions behind the macros on a database instance that has duckanon's."""
        on = Instance(con)
        books = books_of(on.identity, con)
        on.create(
            "_dk_dbt_policies", _answering(lambda given: self._policies(books, given)), "VARCHAR", side_effects=True
        )
        on.create("_dk_dbt_judge", _answering(lambda given: self._judge(books, given)), "VARCHAR", side_effects=True)

    def _policies(self, books: Books, given: Mapping[str, Any]) -> list[str]:
        """Set the policies that the project declares. Returns what was set; raises InvalidInput for the first bad one.

        given: run, the invocation; nodes, as in dbt's manifest; built, the ids of those that this run has made.
        """
        held = {relation(path): one for *path, one, _ in books.policies()}
        said = [
            one
            for node in given["nodes"]
            for one in self._apply(books, node, held, standing=node["unique_id"] in given["built"])
        ]
        with self._turn:
            self._run = str(given["run"])
        return said

    def _apply(
        self, books: Books, node: Mapping[str, Any], held: Mapping[TableName, Policy], *, standing: bool
    ) -> Iterator[str]:
        """Set one table's policy: the ledger knows a table by its name, so it need not stand yet."""
        said = declared(node)
        if not said.protected:
            return
        label, path = f"The {node['resource_type']} {node['name']}", [str(part or "") for part in node["relation"]]
        if node["file"]:
            raise InvalidInput(f"{label} is a file, which can have no policy: load it into a table, and protect that.")
        if node["ephemeral"]:
            raise InvalidInput(
                f"{label} is ephemeral, and so a part of every model that reads it: make it a view, or protect those."
            )
        wanted = policy(said, self._settings.policy, label)
        if standing or node["resource_type"] == "source":
            _check(books, path, wanted, label)
        known = held.get(relation(path))
        if known == wanted:
            return
        terms = {one.name: getattr(wanted, one.name) for one in fields(Policy)}
        if known is not None:
            differs = ", ".join(name for name, value in terms.items() if getattr(known, name) != value)
            if self._settings.changes is Changes.REFUSE:
                raise InvalidInput(
                    f"{label} is protected already, and the project says another policy ({differs}). End the "
                    f"one that holds: dbt run-operation duckanon_unprotect --args '{{name: {node['name']}}}'. Then run "
                    "again. What was spent stays spent."
                )
            books.unprotect(_quoted(path), _seen(path))
        yield books.protect(_quoted(path), _seen(path), **terms)

    def _judge(self, books: Books, given: Mapping[str, Any]) -> list[str]:
        """Whether a model may be built. Returns warnings; raises InvalidInput if it may not."""
        model = model_of(given, declared(given["node"]).allow)
        wrong = unfit(model)
        if wrong is not None:
            raise InvalidInput(wrong)
        mode = self._settings.guard or Mode.ON
        if mode is Mode.OFF:
            return []
        with self._turn:
            run, copies = self._run, dict(self._copies)
        if run != given["run"]:
            raise InvalidInput(
                "The policies of this project were not applied in this run. In dbt_project.yml, write "
                'on-run-start: "{{ duckanon_policies() }}" and on-run-end: "{{ duckanon_policies() }}".'
            )
        protected = frozenset(relation(path) for *path, _, _ in books.policies())
        found = objections(model, _schema(books, copies), protected, lambda call: _refused(books, call))
        if found and mode is Mode.ON:
            raise InvalidInput(_refusal(model, found))
        with self._turn:
            self._copies.pop(model.name, None)
            if found and model.language == "sql":
                self._copies[model.name] = View(model.code)
        return [f"{model.label} asks protected tables for more than a release: {one.told}" for one in found]


def _answering(work: Callable[[Mapping[str, Any]], list[str]]) -> Callable[[pa.Array], pa.Array]:
    """A function of JSON that gives JSON: what `work` says, and the sentence of what it raises of duckanon's own."""

    def answer(given: pa.Array) -> pa.Array:
        try:
            found: dict[str, Any] = {"said": work(json.loads(given[0].as_py())), "problem": None}
        except DuckanonError as error:
            found = {"said": [], "problem": str(error)}
        return pa.array([json.dumps(found)] * len(given))

    return answer


def _check(books: Books, path: Sequence[str], wanted: Policy, label: str) -> None:
    """Check that the table stands and has the columns that its policy names."""
    with books.door.cursor() as cursor:
        try:
            found = cursor.execute(f"DESCRIBE {_quoted(path)}").fetchall()
        except duckdb.CatalogException:
            raise InvalidInput(
                f"{label} has a policy, and there is no table {'.'.join(path)}: load it first."
            ) from None
    named = [
        *([wanted.unit] if wanted.unit is not None else []),
        *(one for part in LISTS for one in getattr(wanted, part)),
    ]
    Table(label[0].lower() + label[1:], [row[0] for row in found], [row[1] for row in found]).has(named)


def _schema(books: Books, copies: Mapping[TableName, View]) -> Schema:
    """What stands in the databases. Tables that are copies of protected ones are read like views."""
    with books.door.cursor() as cursor:
        found = contents(lambda query: cursor.execute(query).fetchall()).schema
    tables = {name: one for name, one in found.tables.items() if name not in copies}
    return replace(found, tables=tables, views={**found.views, **copies})


def _refused(books: Books, call: str) -> str | None:
    """Why an analyst would not get the answer to a query; None if one would."""
    with books.door.cursor() as cursor:
        refusal = Guard(cursor, cursor, books).explain(call).refusal
    return None if refusal is None else refusal.reason


def _refusal(model: Model, found: Sequence[Objection]) -> str:
    more = [f"  and {len(found) - _LONGEST} more"] if len(found) > _LONGEST else []
    kinds = ", ".join(sorted({one.kind for one in found if one.kind is not None}))
    allowed = f" Or allow it what it asks: meta: {{duckanon: {{allow: [{kinds}]}}}}." if kinds else ""
    return "\n".join(
        [
            f"{model.label} asks protected tables for more than a release:",
            *(f"  {one.told}" for one in found[:_LONGEST]),
            *more,
            "Ask for a release instead. Or keep the model inside, protected as well: "
            "meta: {duckanon: {protected: true}}." + allowed,
        ]
    )


def _quoted(path: Sequence[str]) -> str:
    return ".".join(identifier(part) for part in path)


def _seen(path: Sequence[str]) -> dict[str, Any]:
    """What a connection would see of a table that stands under this full name."""
    database, schema, name = path
    one = {"database": database, "schema": schema, "name": name, "definition": ""}
    return {"database": database, "schema": schema, "path": "", "found": [one]}
