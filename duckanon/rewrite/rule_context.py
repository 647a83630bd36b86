"""A statement on its way through the rules: what is still open, and what was settled about the rest."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NoReturn, Protocol, TypeVar

from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.policy import Policy
from duckanon.catalog.snapshot import Catalog, Stored
from duckanon.errors import PolicyRefusal
from duckanon.rewrite.algebra.expressions import Column
from duckanon.rewrite.algebra.nodes import Node, arg
from duckanon.rewrite.bind import Bound
from duckanon.rewrite.calls import Call
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.recognize import Finding, Schema, findings_in
from duckanon.rewrite.recognize.findings import Role

T = TypeVar("T", bound=Finding)
_LOG = logging.getLogger("duckanon.guard")
# Under test what a recogniser raises is raised; else it is logged, and nothing is recognised.
STRICT = False


class Releases(Protocol):
    """The kinds of release that an analyst can get. The rules ask them; what they are is not known here."""

    def answer(self, context: RuleContext, found: Sequence[Finding], node: Node) -> str | None:
        """Put a release in the place of a node that asks for `found`; the reason, in a sentence, if there is none."""
        ...

    def call(self, context: RuleContext, call: Call, name: TableName) -> None:
        """Settle a call on a protected table, or refuse it."""
        ...

    def offers(self, context: RuleContext, name: TableName, kind: str) -> str:
        """What may be asked of a table instead, the nearest to a kind of question first, as sentences."""
        ...


@dataclass
class RuleContext:
    """calls, reads: what no rule has settled yet. Rules take from them, change the bound tree, and add steps.

    kinds: the releases that there are. today: what `current_date` stands for. findings: what the recognisers say of it.
    reasons: why something they found was not settled: its kind, its table, a sentence. approved: calls in the text that
    will run, as SQL. answers: what must be paid for, or stand already, before it runs.
    """

    bound: Bound
    catalog: Catalog
    releases: Releases
    today: date
    calls: list[Call]
    reads: list[tuple[TableName, Node]]
    steps: list[Step] = field(default_factory=list)
    approved: list[str] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    findings: Sequence[Finding] = ()
    reasons: list[tuple[str, TableName, str]] = field(default_factory=list)

    def found(self, kind: type[T]) -> list[T]:
        """The findings of a kind about protected tables."""
        return [one for one in self.findings if isinstance(one, kind) and one.table in self.catalog.protected]

    def settle(self, found: Sequence[Finding], node: Node) -> None:
        """Have findings about one protected table answered in the place of a node, or note why they are not."""
        reason = self.releases.answer(self, found, node)
        if reason is not None:
            self.reasons.append((found[0].shown, found[0].table, reason))

    def alone(self, part: Node) -> Sequence[Finding]:
        """What a SELECT inside the query asks by itself."""
        query = part.copy()
        above: list[Node] = []
        holder = part.parent
        while holder is not None:
            given = arg(holder, "with")
            if given is not None and not given.args.get("recursive"):
                above = [one.copy() for one in given.expressions if not within(part, one)] + above
            holder = holder.parent
        if above:
            own = arg(query, "with")
            names = {fold(one.alias) for one in own.expressions} if own is not None else set()
            mine = [*own.expressions] if own is not None else []
            outer = [one for one in above if fold(one.alias) not in names]
            key = "with_" if "with_" in exp.Select.arg_types else "with"
            query.set(key, exp.With(expressions=[*outer, *mine]))
        return self.recognised(query)

    def recognised(self, query: Node) -> Sequence[Finding]:
        """What the recognisers say of a query. Where they give up, nothing is recognised, and so nothing released."""
        try:
            return findings_in(query, self.schema)
        except Exception:
            if STRICT:
                raise
            # No traceback: its last lines could quote the statement.
            _LOG.error("A recogniser failed, so nothing was recognised: please report the shape of this statement.")
            return ()

    @property
    def schema(self) -> Schema:
        """The catalog as the recognisers read it. The query's names are full, and its views are written out."""
        stored = {name: one for name, one in self.catalog.behind.items() if isinstance(one, Stored)}
        held = {name: one.stored for name, one in self.catalog.protected.items() if one.stored is not None}
        tables = {**stored, **self.catalog.tables, **held}
        return Schema(
            tables=tables, macros=dict.fromkeys(self.catalog.macros, ""), protected=frozenset(self.catalog.protected)
        )

    def replace(self, node: Node, by: Node) -> None:
        """Put a release in the place of a part of the query. What nobody reads any more is taken out of WITH."""
        if node is self.bound.query:
            self.bound.query = by
        else:
            node.replace(by)
        self.bound.query = pruned(self.bound.query)
        read = {id(one) for one in self.bound.query.find_all(exp.Table)}
        self.reads = [(name, one) for name, one in self.reads if id(one) in read]

    def policy(self, name: TableName) -> Policy:
        return self.catalog.protected[name].policy

    def path(self, name: TableName) -> tuple[str, str, str]:
        """The name as stored."""
        stored = self.catalog.stored(name)
        return (name.catalog, name.schema, name.object) if stored is None else stored.path

    def written(self, name: TableName) -> str:
        """The name as one writes it in a call, in quotes where it needs them."""
        _, schema, own = self.path(name)
        parts = [own] if schema == "main" else [schema, own]
        return ".".join(one if one.isidentifier() and one.isascii() else quoted([one]) for one in parts)

    def label(self, name: TableName) -> str:
        """The name for people."""
        _, schema, table = self.path(name)
        return table if schema == "main" else f"{schema}.{table}"

    def columns(self, name: TableName) -> list[str]:
        """The table's columns as stored; none where they are not known."""
        stored = self.catalog.stored(name)
        return [] if stored is None else list(stored.columns)

    def types(self, name: TableName) -> dict[str, str]:
        """The types of the table's columns by folded name; none where they are not known."""
        stored = self.catalog.stored(name)
        return {} if stored is None else stored.types

    def names(self, table: TableName, node: Node, roles: Sequence[Role]) -> list[str]:
        """The columns of a result as DuckDB calls them: one that is shown as it stands has the table's own spelling."""
        stored = {fold(one): one for one in self.columns(table)}
        bare = [
            isinstance(one, exp.Column) and not isinstance(one.this, exp.Star) for one in written_columns(node, roles)
        ]
        return [
            stored.get(role.expr.name, role.name)
            if plain and isinstance(role.expr, Column) and fold(role.name) == role.expr.name
            else role.name
            for plain, role in zip(bare, roles, strict=True)
        ]

    def refuse(self, kind: str, name: TableName | None, reason: str) -> NoReturn:
        """End the statement: one part refused is all refused. Raises Refused."""
        raise Refused(Step(kind, None if name is None else self.label(name), Verdict.REFUSED, reason))


class Refused(PolicyRefusal):
    """A rule's refusal, with the step that says so."""

    def __init__(self, step: Step) -> None:
        super().__init__(step.reason)
        self.step = step


def written_columns(node: Node, roles: Sequence[Role]) -> list[Node | None]:
    """The columns of a SELECT as they are written; None each where that is not known."""
    shown = node.expressions if isinstance(node, exp.Select) else []
    return list(shown) if len(shown) == len(roles) else [None] * len(roles)


def type_of_count(written: Node | None) -> str:
    """The type of something that counts: that of a sum or of a quotient, where it is written as one."""
    if written is not None and written.find(exp.Div) is not None:
        return "DOUBLE"
    return "BIGINT" if written is None or written.find(exp.Sum, exp.CountIf) is None else "HUGEINT"


def has(names: object, column: str) -> bool:
    """Whether a column is among names, as DuckDB compares them."""
    return isinstance(names, list | tuple) and fold(column) in {fold(str(one)) for one in names}


def literal(text: str) -> str:
    """The text as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: object) -> str:
    """A list of strings, as SQL."""
    return "[" + ", ".join(literal(str(one)) for one in (texts if isinstance(texts, list | tuple) else ())) + "]"


def within(node: Node, whole: Node) -> bool:
    """Whether a node stands in a tree."""
    one = node
    while one is not None:
        if one is whole:
            return True
        one = one.parent
    return False


def pruned(query: Node) -> Node:
    """The query without common table expressions that nothing reads."""
    while True:
        read = {fold(one.name) for one in query.find_all(exp.Table) if not one.db}
        idle = [one for one in query.find_all(exp.CTE) if fold(one.alias) not in read]
        if not idle:
            return query
        for one in idle:
            holder = one.parent
            rest = [other for other in holder.expressions if other is not one]
            if rest:
                holder.set("expressions", rest)
            else:
                owner = holder.parent
                owner.set("with_" if arg(owner, "with") is owner.args.get("with_") else "with", None)
