"""A statement while the rules look at it: which parts are still open, and what was decided about the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, NoReturn, Protocol, TypeVar

from sqlglot import exp

from duckanon.catalog.names import TableName, fold, spelled
from duckanon.catalog.policy import Policy
from duckanon.catalog.snapshot import Catalog, Protected, Stored
from duckanon.errors import PolicyRefusal
from duckanon.rewrite.algebra.expressions import SOMEWHERE, Column, Expr, TooComplex
from duckanon.rewrite.algebra.nodes import ROOT, Node, arg, nodes_of, queries_in, within
from duckanon.rewrite.algebra.relations import Block, Opaque
from duckanon.rewrite.algebra.translate import translate
from duckanon.rewrite.bind import Bound, BoundTables, named
from duckanon.rewrite.calls import Call
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.normalize.decorrelation import decorrelated
from duckanon.rewrite.normalize.grouped import Grouped, NotFollowed
from duckanon.rewrite.normalize.resolve import Resolver
from duckanon.rewrite.quote import takes_over
from duckanon.rewrite.recognize import Finding
from duckanon.rewrite.recognize.aggregates import aggregates
from duckanon.rewrite.recognize.classify import findings
from duckanon.rewrite.recognize.findings import Aggregates, Role, Unanswered, Unknown

T = TypeVar("T", bound=Finding)
R = TypeVar("R")
_LOG = logging.getLogger("duckanon.guard")
# Without a traceback: its last lines could quote the statement.
_FAILED = "A recogniser failed, so nothing was recognised: please report the shape of this statement."
# Tests set it: then an error in a recogniser is raised. Otherwise it is logged, and nothing is recognised.
STRICT = False


class Releases(Protocol):
    """The kinds of release that an analyst can get, as the rules use them; `duckanon.releases` implements them."""

    def answer(self, context: RuleContext, found: Sequence[Finding], node: Node) -> str | None:
        """Replace the node that asks for `found` by a release. Returns why there is none, in a sentence, else None."""
        ...

    def follows(self, context: RuleContext, node: Node) -> bool:
        """Replace a SELECT of counts by what follows from a publication. Returns whether one has them."""
        ...

    def with_noise(self, context: RuleContext, node: Node) -> str | None:
        """Replace a SELECT by the same over noisy numbers. Returns why that cannot be done, else None."""
        ...

    def listed(
        self, context: RuleContext, name: TableName, columns: Sequence[str], node: Node, *, around: bool
    ) -> None:
        """Replace a read of a protected table by the listed values of public columns, if all have domains.

        around: whether there is a query around the one for the values.
        """
        ...

    def call(self, context: RuleContext, call: Call, name: TableName) -> None:
        """Answer a call on a protected table, or refuse it."""
        ...

    def content(self, values: Any) -> str:
        """A hash of the values of an open table by which records are looked up."""
        ...

    def value(self, query: str) -> Any:
        """The first row that a query over open tables alone gives, as a tuple."""
        ...

    def cells(self, question: Any) -> int | None:
        """The number of cells of an answer, which follows from the domains; None if these are not at hand."""
        ...

    def drawn(self, question: Any) -> Any:
        """The day on which a question was charged, if its answer is free now; else None."""
        ...

    def prepared(self, name: TableName) -> Sequence[Any]:
        """What is prepared of a protected table, under its policy as it is and in its edition."""
        ...

    def not_prepared(self, why: Callable[[], str]) -> None:
        """Note why a query does not follow from what is prepared: a sentence, which is made for who reads it."""
        ...

    def places(self, question: Any) -> Any:
        """The cells of an answer that follows from what is prepared, from domains alone; None if they are many."""
        ...

    def offers(self, context: RuleContext, name: TableName, kind: str) -> str:
        """What may be asked of a table instead, in a sentence, what comes nearest to a kind of question first."""
        ...


@dataclass
class RuleContext:
    """A statement and what the rules have decided about it. Rules change the bound tree, and add steps.

    calls, reads: calls of duckanon's functions and reads of protected tables that no rule has settled yet. releases:
    those that are available. today: the value of `current_date`. findings: of the recognisers. reasons: why a finding
    was not answered: its kind, its table, and a sentence. approved: calls in the text that will run, as SQL. answers:
    paid questions whose answers must be stored before it runs.
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
    # Those of the reasons that other rules leave as they are.
    last_reasons: set[str] = field(default_factory=set)
    # What a SELECT reads, where that is computed within each unit: as protected tables, by names that no table has.
    derived: dict[TableName, Protected] = field(default_factory=dict)
    # What queries over open tables gave in this decision.
    public: dict[str, Any] = field(default_factory=dict)
    # As long as the query stays as it is: its resolver, and the findings about its parts by the identity of their
    # nodes, which are kept alive.
    _resolver: Resolver | None = None
    _findings: dict[int, tuple[Node, Sequence[Finding]]] = field(default_factory=dict)

    def found(self, kind: type[T]) -> list[T]:
        """The findings of a kind about protected tables."""
        return [
            finding
            for finding in self.findings
            if isinstance(finding, kind) and finding.table in self.catalog.protected
        ]

    def not_answered(self, node: Node | None, reason: str) -> str:
        """A reason with the part of the statement that it is about, as it was written."""
        return self.bound.not_answered(node, reason)

    def settle(self, about: Sequence[Finding], node: Node) -> None:
        """Replace a node by the answer to findings about one protected table, or note why there is none."""
        reason = self.releases.answer(self, about, node)
        if reason is not None:
            first = about[0]
            reason = reason if reason.startswith("`") else self.not_answered(node, reason)
            self.reasons += [(first.shown, name, reason) for name in dict.fromkeys((first.table, *first.tables))]

    def parts(self) -> Iterator[Node]:
        """The SELECTs that read what no rule has settled yet, the outermost first; not those that a rule cuts off."""
        for part in nodes_of(self.bound.query, exp.Select):
            if within(part, self.bound.query) and any(within(read, part) for _, read in self.reads):
                yield part

    def recognise(self) -> None:
        """Find what the statement asks of protected tables."""
        self.findings = self.recognised(self.bound.query, self.bound.query)

    def alone(self, part: Node) -> Sequence[Finding]:
        """The findings about a SELECT inside the query, taken by itself; none if one is about a part of it only."""
        recognised = self.recognised(part, part)
        return recognised if all(finding.node is part for finding in recognised) else ()

    def shown(self, grouped: Grouped, place: Node) -> Block:
        """The keys and aggregates of a SELECT as a block. place: where it stands in the query. Raises NotFollowed."""
        core = self._resolved(
            lambda resolver: resolver.shown(grouped.query, place, grouped.keys, grouped.aggregates), None
        )
        if isinstance(core, Opaque) and ": " in core.reason:
            # It says what to write instead.
            raise NotFollowed(f"{core.reason}.")
        if not isinstance(core, Block):
            raise NotFollowed("The query is put together in a way that is not followed: write it more plainly.")
        return core

    def aggregates(self, core: Block) -> Aggregates:
        """The aggregates by keys of a block that shows these. Raises NotFollowed."""
        recognised = aggregates(core)
        if isinstance(recognised, Unanswered):
            raise NotFollowed(recognised.reason, why=recognised)
        if isinstance(recognised, str):
            raise NotFollowed(recognised)
        if recognised.table not in self.catalog.protected and recognised.table not in self.derived:
            raise NotFollowed("The query reads no protected table by itself.")
        return recognised

    def grouped(self, query: Node, place: Node) -> Grouped:
        """A SELECT, seen from a place in the query, with its keys and aggregates. Raises NotFollowed."""
        return Grouped(query, lambda name: self._is_column_of(name, query, place) is not False, self._is_apart)

    def _is_apart(self, part: Node) -> bool:
        """Whether a subquery reads open tables and answers alone, and no column of the queries around it."""
        read = nodes_of(part, exp.Table)
        are_open = all(table.args.get("db") and named(table) not in self.catalog.protected for table in read)
        return are_open and all(self.outer_column(node) is None for node in nodes_of(part, exp.Select))

    def outer_column(self, part: Node) -> Node | None:
        """The first column in a subquery that is not its own but one of the queries around it; None if it has none."""
        around = part.find_ancestor(exp.Select)
        if around is None:
            return None
        inside = {id(node) for query in queries_in(part) for node in nodes_of(query, ROOT)}
        for column in part.find_all(exp.Column, bfs=False):
            if id(column) in inside or isinstance(column.this, exp.Star):
                continue
            if not self._is_column_of(column, part, part) and self._is_around(column, around):
                return column
        return None

    def decorrelated(self, part: Node) -> tuple[Node, Node] | None:
        """A subquery for one number that depends on the row around it, as a lookup by keys, and what has these."""
        return decorrelated(part, lambda column: self._is_column_of(column, part, part) is True)

    def _is_around(self, column: Node, query: Node | None) -> bool:
        while query is not None:
            if self._is_column_of(column, query, query):
                return True
            query = query.find_ancestor(exp.Select)
        return False

    def _is_column_of(self, column: Node, query: Node, place: Node) -> bool | None:
        """Whether a column is one of what a SELECT reads; None if that is not known. place: where the SELECT stands."""

        def meant(resolver: Resolver) -> Expr | None:
            scope, where = resolver.opened(query, place)
            return None if where is None else translate(column, scope)

        expr = self._resolved(meant, None)
        return expr.source != SOMEWHERE if isinstance(expr, Column) else None

    def recognised(self, query: Node, place: Node) -> Sequence[Finding]:
        """The findings of the recognisers about a query; none if one of them fails, and then nothing is released.

        place: where it stands, whose common table expressions it sees.
        """
        if id(query) not in self._findings:
            self._findings[id(query)] = (
                query,
                self._resolved(lambda resolver: self._findings_of(resolver, query, place), ()),
            )
        return self._findings[id(query)][1]

    def _findings_of(self, resolver: Resolver, query: Node, place: Node) -> Sequence[Finding]:
        try:
            return findings(resolver.alone(query, place))
        except (TooComplex, RecursionError):
            read = dict.fromkeys(named(node) for node in nodes_of(query, exp.Table))
            return [
                Unknown(table=name, tables=(name,), node=query, reason="the query is too complex to be followed")
                for name in read
                if name in self.catalog.protected
            ]

    @cached_property
    def _tables(self) -> BoundTables:
        return BoundTables(self.catalog)

    def _resolved(self, run: Callable[[Resolver], R], otherwise: R) -> R:
        """What a recogniser finds; otherwise if it fails."""
        try:
            self._resolver = self._resolver or Resolver(self._tables)
            return run(self._resolver)
        except Exception:
            if STRICT:
                raise
            _LOG.error(_FAILED)
            return otherwise

    def changed(self) -> None:
        """Forget what was found in the query, of which a part is changed."""
        self._resolver, self._findings = None, {}

    def put(self, node: Node, by: Node) -> None:
        """Replace a part of the query by another, which stands for the same text."""
        takes_over(by, node)
        self.changed()
        if node is self.bound.query:
            self.bound.query = by
        else:
            node.replace(by)

    def tried(self, node: Node, by: Node) -> Callable[[], None]:
        """Replace a part of the query by another for now. Returns what takes it back: then what was found holds."""
        before = self._resolver, self._findings
        self.put(node, by)

        def take_back() -> None:
            self.put(by, node)
            self._resolver, self._findings = before

        return take_back

    def replace(self, node: Node, by: Node) -> None:
        """Replace a part of the query by a release, and remove what is no longer read from WITH."""
        united = isinstance(node.parent, exp.SetOperation) and by.args.get("order")
        self.put(node, exp.Subquery(this=by) if united else by)
        self.bound.query = pruned(self.bound.query)
        read = {id(node) for node in nodes_of(self.bound.query, exp.Table)}
        self.reads = [(name, reader) for name, reader in self.reads if id(reader) in read]

    def policy(self, name: TableName) -> Policy:
        return self.protected(name).policy

    def protected(self, name: TableName) -> Protected:
        """A protected table, or what is computed within each unit."""
        return self.derived.get(name) or self.catalog.protected[name]

    def _stored(self, name: TableName) -> Stored | None:
        return self.derived[name].stored if name in self.derived else self.catalog.stored(name)

    def path(self, name: TableName) -> tuple[str, str, str]:
        """The name as stored."""
        stored = self._stored(name)
        return (name.catalog, name.schema, name.object) if stored is None else stored.path

    def written(self, name: TableName) -> str:
        """The name as it is written in a call, in quotes where needed."""
        _, schema, own = self.path(name)
        return spelled([own] if schema == "main" else [schema, own])

    def label(self, name: TableName) -> str:
        """The name for people."""
        _, schema, table = self.path(name)
        return table if schema == "main" else f"{schema}.{table}"

    def columns(self, name: TableName) -> list[str]:
        """The table's columns as stored; none where they are not known."""
        stored = self._stored(name)
        return [] if stored is None else list(stored.columns)

    def types(self, name: TableName) -> Mapping[str, str]:
        """The types of the table's columns by folded name; none where they are not known."""
        stored = self._stored(name)
        return {} if stored is None else stored.types

    def names(self, table: TableName, node: Node, roles: Sequence[Role]) -> list[str]:
        """The names that DuckDB gives to a result's columns: a bare column has the table's own spelling."""
        stored = {fold(column): column for column in self.columns(table)}
        bare = [
            isinstance(written_column, exp.Column) and not isinstance(written_column.this, exp.Star)
            for written_column in written_columns(node, roles)
        ]
        return [
            stored.get(role.expr.name, role.name)
            if plain and isinstance(role.expr, Column) and fold(role.name) == role.expr.name
            else role.name
            for plain, role in zip(bare, roles, strict=True)
        ]

    def refuse(self, kind: str, name: TableName | None, reason: str) -> NoReturn:
        """Refuse the whole statement because of one part. Raises Refused."""
        raise Refused(Step(kind, None if name is None else self.label(name), Verdict.REFUSED, reason))


class Refused(PolicyRefusal):
    """A rule's refusal, with the step that says so."""

    def __init__(self, step: Step) -> None:
        super().__init__(step.reason)
        self.step = step


def written_columns(node: Node, roles: Sequence[Role]) -> list[Node | None]:
    """The expressions of a SELECT as written; a None for each role if they do not match the roles one to one."""
    shown = node.expressions if isinstance(node, exp.Select) else []
    return list(shown) if len(shown) == len(roles) else [None] * len(roles)


def type_of_count(written: Node | None) -> str:
    """DuckDB's type for a count: that of a sum or of a quotient if it is written as one."""
    if written is not None and written.find(exp.Div) is not None:
        return "DOUBLE"
    return "BIGINT" if written is None or written.find(exp.Sum, exp.CountIf) is None else "HUGEINT"


def has(names: object, column: str) -> bool:
    """Whether a column is among names, as DuckDB compares them."""
    return isinstance(names, list | tuple) and fold(column) in {fold(str(name)) for name in names}


def pruned(query: Node) -> Node:
    """The query without common table expressions that nothing reads."""
    while True:
        read = {fold(node.name) for node in nodes_of(query, exp.Table) if not node.db}
        idle = [node for node in nodes_of(query, exp.CTE) if fold(node.alias) not in read]
        if not idle:
            return query
        for cte in idle:
            holder = cte.parent
            rest = [other for other in holder.expressions if other is not cte]
            if rest:
                holder.set("expressions", rest)
            else:
                owner = holder.parent
                owner.set("with_" if arg(owner, "with") is owner.args.get("with_") else "with", None)
