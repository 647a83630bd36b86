"""Checks what a model reads from protected tables, before dbt builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import identifier, literal
from duckanon.integrations.audit.corpus import Corpus, Script
from duckanon.integrations.audit.findings import RELEASES, AuditFinding, Verdict, audit
from duckanon.integrations.dbt_meta import Declared
from duckanon.rewrite.recognize import Schema, TableName, fold
from duckanon.rewrite.statements import statements
from duckanon.specification import functions

# Materialisations that keep the rows of earlier runs.
_ADDS = ("incremental", "snapshot")
# Materialisations whose SQL runs again at each read.
_LAZY = ("view", "table_function")


@dataclass(frozen=True)
class Model:
    """A node that dbt is about to build.

    code: as compiled. kind: how it is materialised. reads: what it refers to. allow: kinds of findings that its meta
    allows. open: whether analysts will read it as it is.
    """

    label: str
    name: TableName
    language: str
    kind: str
    code: str
    reads: Sequence[TableName] = ()
    allow: frozenset[str] = frozenset()
    open: bool = False


@dataclass(frozen=True)
class Objection:
    """Why a model may not be built. kind: the kind of finding, which `allow` may list; None: it cannot be allowed."""

    kind: str | None
    told: str


def anonymises(model: Model) -> bool:
    """Whether the model's SQL calls k_anonymize."""
    return model.language == "sql" and "k_anonymize" in _called(model.code)


def unfit(model: Model) -> str | None:
    """Why the model cannot be built this way, whatever it reads; None if it can."""
    called = _called(model.code) if model.language == "sql" else []
    if called and model.kind in _LAZY:
        return (
            f"{model.label} is a {model.kind} over {called[0]}: it would be computed anew at each read, and only where "
            "duckanon is loaded. Make it a table: {{ config(materialized='table') }}."
        )
    if "k_anonymize" in called and model.kind in _ADDS:
        return (
            f"{model.label} keeps rows of earlier runs ({model.kind}) beside those of k_anonymize: two k-anonymous "
            "copies of the same records can be intersected. Make it a table: {{ config(materialized='table') }}."
        )
    return None


def objections(
    model: Model, schema: Schema, protected: frozenset[TableName], explain: Callable[[str], str | None]
) -> list[Objection]:
    """What the model reads from protected tables besides releases, without what its meta allows.

    schema: the existing tables and views. explain: why an analyst would be refused a query; None if not refused.
    """
    if model.name in protected or not protected:
        return []
    listed = _reads_beside_releases(model, schema, protected, explain)
    # What is allowed applies only while analysts cannot read the model.
    return [objection for objection in listed if model.open or objection.kind not in model.allow]


def _reads_beside_releases(
    model: Model, schema: Schema, protected: frozenset[TableName], explain: Callable[[str], str | None]
) -> list[Objection]:
    if model.language != "sql" or model.kind == "table_function":
        text = "table_function" if model.language == "sql" else f"{model.language} model"
        return [
            Objection("unknown", f"what a {text} reads of {name} is not followed.")
            for name in model.reads
            if name in protected
        ]
    corpus = Corpus((Script(Path(), model.code, defines=model.name),), schema, protected)
    found = [
        Objection(finding.kind, f"line {finding.line}: {finding.found}. {_advice(finding, explain)}")
        for finding in audit(corpus)
        if finding.verdict is not Verdict.UNREAD
    ]
    return found + [Objection(None, breach) for breach in _breaches(model, schema, protected)]


def _advice(finding: AuditFinding, explain: Callable[[str], str | None]) -> str:
    """What to do instead. For reads of records the guard's refusal says it best: it names the call that is allowed."""
    whole = TableName.of(finding.table)
    quoted = ".".join(identifier(part) for part in (whole.catalog, whole.schema, whole.object) if part)
    return (explain(f"FROM {quoted}") if finding.kind == "row-level" else None) or finding.advice


def _breaches(model: Model, schema: Schema, protected: frozenset[TableName]) -> list[str]:
    """Calls of releases that no policy covers.

    A call on a common table expression or view over a protected table is charged to no budget. A k-anonymous copy
    must be published, not opened.
    """
    try:
        tree: Any = sqlglot.parse_one(model.code, read="duckdb")
    except (SqlglotError, RecursionError):
        return []  # the audit reports it as a statement that cannot be parsed
    inner = {fold(one.alias) for one in tree.find_all(exp.CTE)}
    breaches = []
    for node in tree.find_all(exp.Table):
        function = fold(node.this.name) if isinstance(node.this, exp.Func) else ""
        name = _first(node.this) if function in RELEASES else None
        if name is None:
            continue
        stands = any(name.may_be(table_name) for table_name in protected)
        is_inner = not name.schema and name.object in inner
        through = model.code if is_inner else f"FROM {name}" if schema.view(name) else ""
        passes = not stands and bool(through) and _reads(through, schema, protected)
        if function == "k_anonymize":
            if model.open and (stands or passes):
                breaches.append(
                    "k_anonymize of a protected table is not opened, it is published: leave open out of the meta, and "
                    f"call publish({literal(model.name.object)}, of := {literal(name.object)}) once the model stands."
                )
        elif passes:
            breaches.append(
                f"{function} is called on {name}, which reads a protected table and has no policy itself: call it on "
                "the table, or protect the model that it is."
            )
    return breaches


def _first(call: Any) -> TableName | None:
    """The table that a call names, if its first argument is a name."""
    expression = call.expressions[0] if call.expressions else None
    try:
        return TableName.of(expression.this) if isinstance(expression, exp.Literal) and expression.is_string else None
    except ValueError:
        return None


def _reads(code: str, schema: Schema, protected: frozenset[TableName]) -> bool:
    """Whether a text names a protected table, or a view that reads one."""
    named = {_last(word) for statement in statements(code) for word, _ in statement.words}
    if any(table_name.object in named for table_name in protected):
        return True
    return bool(audit(Corpus((Script(Path(), code),), schema, protected)))


def _last(word: str) -> str:
    """The last part of a name, or of a text that is one."""
    try:
        return TableName.of(word).object
    except ValueError:
        return fold(word)


def _called(code: str) -> list[str]:
    """The names of duckanon's functions that a text calls, in order."""
    names, texts = {name for name, function in functions().items() if function.analysts and function.tables}, []
    for statement in statements(code):
        words = [fold(word) for word, _ in statement.words]
        texts += [word for word, after in pairwise(words) if word in names and after == "("]
    return texts


def model_of(arguments: Mapping[str, Any], said: Declared) -> Model:
    """The model that a macro's argument describes. said: what its meta declares."""
    return Model(
        f"{str(arguments['resource_type']).capitalize()} {arguments['name']}",
        relation(arguments["this"]),
        str(arguments["language"]),
        str(arguments["materialized"]),
        str(arguments["code"]),
        [relation(value) for value in arguments["reads"]],
        frozenset(said.allow),
        bool(said.open),
    )


def relation(given: Sequence[str | None]) -> TableName:
    """The name of a relation: its database, schema and identifier."""
    database, schema, identifier = (fold(str(part or "")) for part in given)
    return TableName(database, schema, identifier)
