"""A statement on its way through the rules: what is still open, and what was settled about the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from sqlglot import exp

from duckanon.errors import PolicyRefusal
from duckanon.rewrite.bind import Bound
from duckanon.rewrite.calls import Call
from duckanon.rewrite.catalog import Catalog, Protection
from duckanon.rewrite.decision import Copy, Noisy, Shares, Step, Verdict
from duckanon.rewrite.spot import Finding, Schema, spot
from duckanon.rewrite.spot import Stored as Known
from duckanon.rewrite.spot.expressions import Column
from duckanon.rewrite.spot.findings import Role
from duckanon.rewrite.spot.names import TableName, fold
from duckanon.rewrite.spot.trees import Node, arg

T = TypeVar("T", bound=Finding)


@dataclass
class Question:
    """calls, reads: what no rule has settled yet. Rules take from them, change the bound tree, and add steps.

    findings: what the recognisers say of it. reasons: why something they found was not settled: its kind, its table, a
    sentence. approved: calls in the text that will run, as SQL. copies: what must stand before it runs.
    """

    bound: Bound
    catalog: Catalog
    calls: list[Call]
    reads: list[tuple[TableName, Node]]
    steps: list[Step] = field(default_factory=list)
    approved: list[str] = field(default_factory=list)
    copies: list[Copy | Noisy | Shares] = field(default_factory=list)
    findings: Sequence[Finding] = ()
    reasons: list[tuple[str, TableName, str]] = field(default_factory=list)

    def found(self, kind: type[T]) -> list[T]:
        """The findings of a kind about protected tables."""
        return [one for one in self.findings if isinstance(one, kind) and one.table in self.catalog.protected]

    def asked(self, function: str) -> list[tuple[Call, TableName]]:
        """The calls of a function that still stand, about protected tables, each with its table."""
        found = [(call, call.tables.get("tbl")) for call in self.calls if call.function == function]
        return [(call, name) for call, name in found if name is not None and name in self.catalog.protected]

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
            return spot(query, self.schema)
        except Exception:
            return ()

    @property
    def schema(self) -> Schema:
        """The catalog as the recognisers read it. The query's names are full, and its views are written out."""
        tables = {
            name: Known({fold(column): kind for column, kind in one.columns.items()})
            for name, one in self.catalog.tables.items()
        }
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

    def protection(self, name: TableName) -> Protection:
        return self.catalog.protected[name]

    def path(self, name: TableName) -> tuple[str, str, str]:
        """The name as stored."""
        return (
            self.catalog.tables[name].path if name in self.catalog.tables else (name.catalog, name.schema, name.object)
        )

    def label(self, name: TableName) -> str:
        """The name for people."""
        _, schema, table = self.path(name)
        return table if schema == "main" else f"{schema}.{table}"

    def columns(self, name: TableName) -> list[str]:
        """The table's columns as stored; none where they are not known."""
        return list(self.catalog.tables[name].columns) if name in self.catalog.tables else []

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


def quoted(path: tuple[str, str, str]) -> str:
    """A full name in quotes."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in path)


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
