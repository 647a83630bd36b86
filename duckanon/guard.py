"""The guard of an analyst's connection: it decides which text runs in place of a statement.

It reads the catalog and the policies, lets `rewrite` decide, verifies the result in DuckDB's own tree, and makes sure
that paid answers are stored before the text runs. No decision reads a record of a protected table.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from threading import Lock, RLock
from typing import Any

import duckdb
from sqlglot import exp

from duckanon.accounting import Charge
from duckanon.cancellation import LOOK, acquired, check, interruptible
from duckanon.catalog.names import TableName, fold
from duckanon.catalog.reader import Everything, Governed, read, visible
from duckanon.catalog.snapshot import Catalog, Protected, Stored, View
from duckanon.errors import DuckanonError, PolicyRefusal, UnsupportedQuery
from duckanon.functions.sqltext import exactly
from duckanon.governance.answers import Stale, day_charged, has_failed, is_answered, is_stored
from duckanon.governance.budgets import left_of_edition
from duckanon.governance.content_hash import described, fingerprint
from duckanon.governance.instance import Governance
from duckanon.governance.ledger import affordable
from duckanon.governance.ledger_state import LedgerState, Publication
from duckanon.governance.preparations import Preparation
from duckanon.releases import layout, mechanisms
from duckanon.releases.available import AvailableReleases
from duckanon.releases.mechanisms import forms, marginals
from duckanon.releases.paid_questions import AggregatesQuestion, GroupSizesQuestion, KeysQuestion, PaidQuestion, sought
from duckanon.releases.preparations import FollowingQuestion
from duckanon.releases.sizes import Values
from duckanon.rewrite import column_names
from duckanon.rewrite.admit import Kind, Statement, admit
from duckanon.rewrite.algebra.moments import Now
from duckanon.rewrite.algebra.nodes import Node, name_of
from duckanon.rewrite.bind import bind as bind_names
from duckanon.rewrite.decide import decide
from duckanon.rewrite.decision import Decision, Step, Verdict
from duckanon.rewrite.dialect import Reading
from duckanon.rewrite.empty import with_relations, without_rows
from duckanon.rewrite.parameters import Parameters, is_given
from duckanon.rewrite.quote import let_quote, quote
from duckanon.rewrite.rule_context import Refused
from duckanon.rewrite.same_meaning import difference
from duckanon.rewrite.single_values import looks_up_values
from duckanon.rewrite.verify import Allowed, call, verify
from duckanon.specification import table_functions

_SETTINGS = "SELECT system.main.current_setting('lock_configuration'), system.main.current_setting('TimeZone')"
_SERIALIZED = "system.main.json_serialize_sql(?::VARCHAR)"
# Positions in a tree, which most often are all that differs between two texts; and what is in the tree of no query.
# In a text inside the tree quotes are escaped, so these are found outside of texts only.
_PLACES = re.compile(r'"query_location(_length)?":\d+,?', re.ASCII)
_FAILED = '"error":true'
# The most characters of a statement that an error quotes.
_QUOTED = 60
# The reason of a step whose answer has no cell: which are left follows from the text and the domains alone.
_NO_CELL = "No values of its keys meet the conditions, so there is nothing to count: no record is read."
# The most cells on which a query is tried before it is charged.
_TRIED_CELLS = 10_000
# If values are looked up by keys in it, each of them must have one.
_LOOKED_UP_CELLS = 100_000
# Numbers in place of those of an answer, when it is tried.
_INVENTED = ("NULL", "7", "1000003")
# Further ones, so that conditions on numbers leave rows.
_FURTHER = ("-3", "150")
# How often a decision is made again because a policy changed before the charge.
_TRIES = 5
# Of the values of a relation, in any order.
_QUICK_HASH = (
    f"SELECT system.main.count(*), system.main.sum({exactly('COLUMNS(*)')}), "
    f"system.main.sum(system.main.hash({exactly('COLUMNS(*)')}, 1)) FROM {{}}"
)
_NOT_READ = "An open table in the statement cannot be read at this moment: ask again."
# How many of the contents of open tables are kept.
_MOST_CONTENTS = 500
# How many decisions are kept, and the longest text of one, in characters.
_MOST_DECISIONS, _LONGEST_KEPT = 500, 5_000
# The node classes of a statement of constants, such as `SELECT 1 AS one`.
_CONSTANTS = (exp.Select, exp.Alias, exp.Identifier, exp.Literal, exp.Boolean, exp.Null)

# Of a decision that depends on no catalog.
_NO_STATES: Mapping[str, LedgerState] = {}

Temporary = Callable[[], Mapping[TableName, Stored | View]]


@dataclass(frozen=True)
class Trial:
    """A query as it is tried before anything is charged.

    empty: with empty answers: DuckDB must bind it. invented: with invented ones, of which one must run. looks_up:
    whether in none of them a subquery for one value may have several rows: they are those of open tables. hidden:
    whether it holds the text of views or macros, which an error must not show.
    """

    empty: str
    invented: Sequence[str]
    looks_up: bool
    hidden: bool


def _not_bound(trial: Trial) -> None:
    """Where nothing is run, nothing needs to be bound."""


def none() -> Mapping[TableName, Stored | View]:
    """No temporary tables or views."""
    return {}


@dataclass
class Decided:
    """A decision, and the states of the ledgers that it was made from. stands: whether all its answers are stored."""

    decision: Decision
    states: Mapping[str, LedgerState]
    stands: bool = False


@dataclass(frozen=True)
class Content:
    """The content of an open table. stamp: when it was read. quick: a hash that is fast. hash: that of questions."""

    stamp: int | None
    quick: object
    hash: str


_NO_TABLE = "It does not follow from counts and sums of the table that is prepared."


class SharedCatalog:
    """What all guards of one instance share: a connection, and the catalog as it was last read on it.

    locked: whether the instance's configuration is locked, as an analyst's is. Then only stewards' decisions change
    what an analyst may see of the catalog, which is read again when the ledger has another one.
    """

    def __init__(self, own: duckdb.DuckDBPyConnection, governance: Governance) -> None:
        self.own, self.governance = own, governance
        # Threads must not use one connection at the same time.
        self.lock = RLock()
        ((self.locked, self._zone),) = own.execute(_SETTINGS).fetchall()
        self._guards = 1
        self._databases: list[str] = []
        # The catalog, and the number of each database's newest decision when it was read.
        self._everything: tuple[Mapping[str, int], Everything] | None = None
        self._known: tuple[Mapping[str, int], Mapping[str, Governed], AvailableReleases] | None = None
        self._states: tuple[int, Mapping[str, LedgerState]] | None = None
        # Decisions of guards without temporary tables, by statement, parameters and day; the oldest first.
        self._decided: dict[Hashable, Decided] = {}
        # Of the values of open tables, the oldest first, and the locks of those who read them.
        self._contents: dict[str, Content] = {}
        self._reading: dict[str, Lock] = {}
        # What queries over open tables gave, and when.
        self._values: dict[str, tuple[int | None, Any]] = {}
        # A stamp that changes whenever rows may have changed; None where that is not known.
        self.rows_stamp: Callable[[], int | None] = lambda: None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A context in which this thread alone uses the connection. Raises Stopped if its statement is to end."""
        while not self.lock.acquire(timeout=LOOK):
            check()
        try:
            with interruptible(self.own.interrupt):
                yield
        finally:
            self.lock.release()

    def join(self) -> SharedCatalog:
        """Count one more guard, and return this object."""
        with self.lock:
            self._guards += 1
        return self

    def leave(self) -> None:
        """A guard ends; the last one closes the connection."""
        with self.lock:
            self._guards -= 1
            if self._guards == 0:
                self.own.close()

    def forget(self) -> None:
        """Read the catalog again for the next statement: it was changed without a line in a ledger."""
        with self.lock:
            self._everything, self._known, self._states, self._databases = None, None, None, []

    def now(self) -> Now:
        """The present moment in the time zone of the instance's sessions, which none of an analyst can change."""
        if not self.locked:
            with self.turn():
                ((_, self._zone),) = self.own.execute(_SETTINGS).fetchall()
        return Now.in_zone(str(self._zone))

    def numbers(self) -> dict[str, int]:
        """The number of the last line of each database's ledger. Decisions hold while these do not change."""
        return {database: state.number for database, state in self.states().items()}

    def states(self) -> Mapping[str, LedgerState]:
        """The state of each database's ledger: the same object while nothing changes in a locked instance."""
        with self.turn():
            added = self.governance.ledger.added
            if not self.locked or self._states is None or self._states[0] != added:
                if not self.locked or not self._databases:
                    self._databases = self.governance.ledger.databases()
                found = {
                    fold(database): self.governance.ledger.state(database, self.own) for database in self._databases
                }
                self._states = added, found
            return self._states[1]

    def decided(self, key: Hashable) -> Decided | None:
        """The decision that was kept under a key, if it still holds."""
        with self.turn():
            found = self._decided.get(key)
            if found is None or found.states is _NO_STATES or found.states is self.states():
                return found
            return None

    def is_constant(self, key: Hashable) -> bool:
        """Whether a decision is kept under a key that depends on no catalog. It does not wait for other threads."""
        found = self._decided.get(key)
        return found is not None and found.states is _NO_STATES

    def keep(self, key: Hashable, decided: Decided) -> None:
        """Keep a decision."""
        with self.turn():
            self._decided.pop(key, None)
            self._decided[key] = decided
            if len(self._decided) > _MOST_DECISIONS:
                del self._decided[next(iter(self._decided))]

    def content(self, values: Values) -> str:
        """A hash of the values of an open table by which records are looked up.

        Their order makes no difference. They are read again where rows may have changed since, which stands nowhere
        but in a server; DuckDB's own hash, which is fast and may be another one in the next version, says whether they
        are as before. Others decide meanwhile.
        """
        relation = f"({values.values})"
        if len(self._reading) > _MOST_CONTENTS:
            self._reading = {}
        lock = self._reading.setdefault(relation, Lock())
        acquired(lock)
        try:
            stamp, known = self.rows_stamp(), self._contents.get(relation)
            if known is not None and stamp is not None and known.stamp == stamp:
                return known.hash
            with self._aside() as con:
                (quick,) = con.execute(_QUICK_HASH.format(relation)).fetchall()
                if known is None or known.quick != quick:
                    found = fingerprint(con, relation, described(con, relation))
                    known = Content(stamp, quick, found)
                self._contents[relation] = replace(known, stamp=stamp)
                if len(self._contents) > _MOST_CONTENTS:
                    with suppress(StopIteration, KeyError, RuntimeError):
                        del self._contents[next(iter(self._contents))]
                return known.hash
        except duckdb.Error:
            pass
        finally:
            lock.release()
        # DuckDB's error may hold the name of a closed table behind a view, so it is not even the context of this one.
        raise UnsupportedQuery(_NOT_READ)

    @contextmanager
    def _aside(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection beside the shared one, for what takes long: nobody waits for it."""
        with self.turn():
            con = self.own.cursor()
        with con, interruptible(con.interrupt):
            yield con

    def value(self, query: str) -> Any:
        """The first row that a query over open tables alone gives; their contents are public."""
        stamp, known = self.rows_stamp(), self._values.get(query)
        if known is not None and stamp is not None and known[0] == stamp:
            return known[1]
        try:
            with self._aside() as con:
                row = con.execute(query).fetchone()
            if len(self._values) > _MOST_CONTENTS:
                self._values = {}
            self._values[query] = stamp, row
            return row
        except duckdb.Error:
            pass
        raise UnsupportedQuery(_NOT_READ)

    def catalog(
        self, own: Mapping[TableName, Stored | View]
    ) -> tuple[Catalog, AvailableReleases, Mapping[str, LedgerState]]:
        """What an analyst may see now, the available releases, and the state of each database's ledger."""
        with self.turn():
            states = self.states()
            numbers = {database: state.number for database, state in states.items()}
            decisions = {database: state.decided for database, state in states.items()}
            if self._everything is None or self._everything[0] != decisions or not self.locked:
                self._everything = (decisions, read(self.own))
            if self._known is None or self._known[0] != numbers or not self.locked:
                decided = {database: _governed(state) for database, state in states.items()}
                taken = tuple(
                    publication.name for state in states.values() for publication in state.publications.values()
                )
                releases = AvailableReleases(
                    _publications(states),
                    taken,
                    self.content,
                    self.value,
                    self._cells,
                    self._preparations(states),
                    self._places,
                    self._drawn,
                )
                self._known = (numbers, decided, releases)
            _, governed, releases = self._known
            seen = visible(self._everything[1], governed, own)
            protected = {name: self._with_found(one) for name, one in seen.protected.items()}
            return replace(seen, protected=protected), releases, states

    def _with_found(self, protected: Protected) -> Protected:
        """A protected table with the answers that have the values of its columns which are found with noise."""
        domains = dict(protected.domains)
        for column, domain in protected.domains.items():
            question = sought(protected, column) if domain.found else None
            if question is not None and is_stored(self.own, question.purchase):
                domains[column] = replace(domain, table=question.path[2], listed=(layout.key(0),))
        return replace(protected, domains=domains) if domains != protected.domains else protected

    def _cells(self, question: PaidQuestion) -> int | None:
        """The number of cells of an answer, from the domains alone: no record is read. None if there are many."""
        with self.turn():
            cells = forms.cells(self.own, question, _TRIED_CELLS)
        return cells if cells <= _TRIED_CELLS else None

    def _preparations(self, states: Mapping[str, LedgerState]) -> dict[TableName, list[Preparation]]:
        """What is prepared and stored of each protected table, under its current policy and in the current edition."""
        preparations: dict[TableName, list[Preparation]] = {}
        for database, state in states.items():
            for preparation in sorted(state.preparations.values(), key=lambda one: one.number):
                schema, table = preparation.of.identity
                if state.is_current(preparation) and is_answered(self.own, database, preparation.key):
                    preparations.setdefault(TableName(database, schema or "", table), []).append(preparation)
        return preparations

    def _drawn(self, question: PaidQuestion) -> date | None:
        """The day on which a question was charged, if its answer is free; None for one that could not be made."""
        with self.lock:
            purchase = question.purchase
            return None if has_failed(self.own, purchase) else day_charged(self.own, purchase)

    def _places(self, question: FollowingQuestion) -> Any:
        """The cells of an answer that follows from what is prepared, from the domains alone. None if there are many."""
        if self._cells(question) is None:
            return None
        with self.lock:
            return marginals.places(self.own, question)


class Guard:
    """Decides about the statements of one connection.

    shared: with all guards of the instance. temporary: gives the connection's temporary tables and views.
    """

    def __init__(self, shared: SharedCatalog, temporary: Temporary = none) -> None:
        self._shared, self._temporary = shared, temporary
        self._functions = table_functions()

    def decide(self, statement: object, parameters: Parameters = None) -> Decision:
        """The decision about a statement. Nothing is run or charged, and no record is read.

        statement: text, or what DuckDB's `extract_statements` gives. parameters: the values of its parameters. Raises
        UnsupportedQuery and PolicyRefusal.
        """
        return self._decided(statement, parameters).decision

    def admit(
        self,
        statement: object,
        parameters: Parameters = None,
        *,
        in_transaction: bool = False,
        bind: Callable[[Trial], object] = _not_bound,
    ) -> Decision:
        """As `decide`; and charge and make the answers that the statement needs.

        in_transaction: whether the analyst began a transaction, in which new answers would not be visible. bind: tries
        the query, and raises DuckDB's error; called before anything is charged. Raises BudgetExhausted, and
        MachineFailure for an answer that cannot be made.
        """
        for _ in range(_TRIES):
            decided = self._decided(statement, parameters)
            decision = decided.decision
            if decision.answers and in_transaction:
                raise UnsupportedQuery(
                    "A protected table answers outside of transactions only: COMMIT or ROLLBACK, and ask again."
                )
            if not decided.stands:
                self._affordable(decision, decided.states)
                if self._unpaid(decision):
                    self._bind_draws(decision)
                    bind(self._trial(decision))
                try:
                    keys = [answer for answer in decision.answers if isinstance(answer, KeysQuestion)]
                    for question in keys or decision.answers:
                        self._stand(question)
                except Stale:
                    continue
                if keys:
                    # Which cells the others have follows from what was found.
                    continue
                # Nothing is charged for an answer that stands, and only a change takes it away.
                decided.stands = all(step.drawn is not None for step in decision.steps if step.epsilon is not None)
            return decision
        raise UnsupportedQuery("The policy changes faster than the statement is decided about: try again later.")

    def following(self, statement: str, table: TableName, whole: Preparation) -> list[FollowingQuestion]:
        """The questions by which a statement would be answered, if all tables of a protected table were prepared.

        There is none for a statement that does not read it. Raises UnsupportedQuery for one that also asks something
        else.
        """
        shared = self._shared
        catalog, releases, _ = shared.catalog({})
        admitted = admit(statement)
        if admitted.query is not None:
            bound = bind_names(admitted.query, catalog, frozenset(self._functions), statement)
            if table not in {name for name, _ in bound.protected}:
                return []
        refused: list[Callable[[], str]] = []
        known = replace(
            releases,
            preparations={table: [whole]},
            placed=lambda _: None,
            publications={},
            charged=lambda _: None,
            unprepared=refused.append,
        )
        decision = decide(admitted, catalog, self._functions, known, shared.now(), None)
        answers = [answer for answer in decision.answers if isinstance(answer, FollowingQuestion)]
        if not answers or len(answers) < len(decision.answers):
            raise UnsupportedQuery(refused[0]() if refused else _NO_TABLE)
        return answers

    def without_answers(self, decision: Decision) -> str:
        """The query of a decision with empty answers: it has the same columns, and nothing needs to be paid for it."""
        with self._shared.turn():
            known = {
                TableName(*map(fold, answer.path)): forms.columns(self._shared.own, answer)
                for answer in decision.answers
            }
        return without_rows(decision.query or "", known)

    def _trial(self, decision: Decision) -> Trial:
        """The query of a decision, as it is tried before anything is charged.

        If it fails whatever the numbers of its answers are, values of keys are why.
        """
        answers = {TableName(*map(fold, answer.path)) for answer in decision.answers}
        looks_up = looks_up_values(decision.query or "", answers)
        numbers = (*_INVENTED, *_FURTHER) if looks_up else _INVENTED
        kinds = (AggregatesQuestion, GroupSizesQuestion) if looks_up else (AggregatesQuestion,)
        most = _LOOKED_UP_CELLS if looks_up else _TRIED_CELLS
        is_tried = all(isinstance(answer, kinds) for answer in decision.answers)
        invented = self._with_invented_answers(decision, numbers, most) if is_tried else []
        return Trial(self.without_answers(decision), invented, looks_up, decision.has_definitions)

    def _with_invented_answers(self, decision: Decision, numbers: Sequence[str], most: int) -> list[str]:
        """The query of a decision with invented answers: their cells, with one of some numbers in all of them.

        None where there are more than `most` cells.
        """
        con = self._shared.own
        with self._shared.turn():
            for one in decision.answers:
                if forms.cells(con, one, most) > most:
                    return []
            known = [
                {TableName(*map(fold, answer.path)): forms.invented(con, answer, number) for answer in decision.answers}
                for number in numbers
            ]
        return with_relations(decision.query or "", known)

    def protected(self) -> Mapping[TableName, Protected]:
        """The protected tables that may be asked about, with their policies."""
        catalog, _, _ = self._shared.catalog(self._temporary())
        return {name: one for name, one in catalog.protected.items() if one.stands}

    def is_constant(self, statement: str, parameters: Parameters = None) -> bool:
        """Whether a statement was decided about before, and reads and calls nothing (`SELECT 1`). Waits for nobody."""
        key = _key(statement, parameters, self._shared.now()) if self._shared.locked else None
        return self._shared.locked and key is not None and self._shared.is_constant(key)

    def holding(self, statement: object, text: str, parameters: Parameters = None) -> Callable[[], None]:
        """A check, to be called later, that a statement would still be admitted as `text`.

        A steward may close, protect or unpublish what the statement reads before its lazy result runs. Then the check
        raises UnsupportedQuery.
        """
        seen = [self._shared.numbers()]

        def check() -> None:
            now = self._shared.numbers()
            if now == seen[0]:
                return
            try:
                same = self.decide(statement, parameters).sql == text
            except DuckanonError:
                same = False
            if not same:
                raise UnsupportedQuery("What the statement reads has changed since it was sent: send it again.")
            seen[0] = now

        return check

    def explain(self, statement: object, parameters: Parameters = None) -> Decision:
        """As `decide`, but a refusal is returned as a decision, not raised."""
        try:
            decided = self._decided(statement, parameters)
            self._affordable(decided.decision, decided.states)
            return self._with_unprepared(decided.decision, statement, parameters)
        except Refused as refused:
            return Decision([refused.step], None)
        except DuckanonError as error:
            return Decision([Step("statement", None, Verdict.REFUSED, str(error))], None)

    def _with_unprepared(self, decision: Decision, statement: object, parameters: Parameters) -> Decision:
        """The decision with a sentence why what is prepared does not answer what is charged, where something is."""
        charged = [step for _, step in self._unpaid(decision)]
        if not charged:
            return decision
        admitted = admit(statement_text(statement))
        catalog, releases, _ = self._catalog(admitted)
        if not releases.preparations:
            return decision
        reasons: list[Callable[[], str]] = []
        noting = replace(releases, unprepared=reasons.append)
        decide(admitted, catalog, self._functions, noting, self._shared.now(), parameters)
        text = " ".join(dict.fromkeys(reason() for reason in reasons))
        if not text:
            return decision
        step = replace(charged[0], reason=f"{charged[0].reason} Not from prepared tables: {text}")
        return replace(decision, steps=[step if one is charged[0] else one for one in decision.steps])

    def _decided(self, statement: object, parameters: Parameters) -> Decided:
        """As `_decide`; a decision that was made before and still holds is not made again.

        The decisions of all guards without temporary tables are the same.
        """
        now = self._shared.now()
        key = _key(statement, parameters, now) if self._shared.locked else None
        known = None if key is None else self._shared.decided(key)
        if known is not None and not self._temporary():
            return known
        made = Decided(*self._decide(statement, parameters, now))
        # ROLLBACK, which has no query, is decided about even where temporary tables cannot be read.
        # That keys are found is noted in no line of a ledger.
        changes = any(answer.looks_up or isinstance(answer, KeysQuestion) for answer in made.decision.answers)
        changes |= now.is_read
        if key is not None and made.decision.query is not None and not changes and not self._temporary():
            self._shared.keep(key, made)
        return made

    def _decide(
        self, statement: object, parameters: Parameters, now: Now
    ) -> tuple[Decision, Mapping[str, LedgerState]]:
        admitted = admit(statement_text(statement))
        try:
            catalog, releases, states = self._catalog(admitted)
            self._as_written(admitted.readings)
            if catalog.protected and admitted.query is not None and admitted.query.find(exp.Table) is not None:
                self._name_columns(admitted.query)
            decision = decide(admitted, catalog, self._functions, releases, now, parameters)
            self._as_written(decision.readings, of_definitions=True)
            if decision.query is not None:
                self._verify(admitted, decision, catalog)
        except RecursionError:
            raise UnsupportedQuery("The statement is nested too deeply: split it with temporary tables.") from None
        return self._priced(decision), states

    def _catalog(self, admitted: Statement) -> tuple[Catalog, AvailableReleases, Mapping[str, LedgerState]]:
        """What the analyst may see. It is not read for a statement made of constants alone.

        All others need it: any function or operator, also a built-in one, could be the name of a macro.
        """
        if admitted.kind is Kind.TRANSACTION or (
            admitted.kind is Kind.QUERY and all(isinstance(node, _CONSTANTS) for node in admitted.tree.walk())
        ):
            return Catalog(), AvailableReleases(), _NO_STATES
        return self._shared.catalog(self._temporary())

    def _priced(self, decision: Decision) -> Decision:
        """The decision with stored answers marked as free, and without answers that have no cell.

        Raises UnsupportedQuery for answers with too many cells.
        """
        if not decision.answers:
            return decision
        days = {}
        nothing: set[str] = set()
        something: set[str] = set()
        with self._shared.turn():
            for question in decision.answers:
                days[question.key] = question.follows or day_charged(self._shared.own, question.purchase)
                if days[question.key] is not None:
                    continue
                most = question.most_cells
                if forms.cells(self._shared.own, question, most) > most:
                    raise UnsupportedQuery(
                        f"The answer would have more than {most:,} combinations of values: ask by fewer columns."
                    )
                is_nothing = forms.shows_nothing(self._shared.own, question)
                (nothing if is_nothing else something).add(question.key)
        # One answer may be shown twice, and a condition around it concern one of them.
        nothing -= something
        # What another question stands on is there for it, though it has no cell.
        needed = {need for question in decision.answers for need in question.needs}
        nothing -= {question.key for question in decision.answers if question.path[2] in needed}
        # The steps with an epsilon and the answers have the same order.
        answers, steps = iter(decision.answers), []
        for step in decision.steps:
            key = None if step.epsilon is None else next(answers).key
            if key in nothing:
                steps.append(Step(step.kind, step.object, Verdict.RUNS, _NO_CELL))
            else:
                steps.append(step if key is None else replace(step, drawn=days[key]))
        return self._without(replace(decision, steps=steps), nothing)

    def _without(self, decision: Decision, nothing: Collection[str]) -> Decision:
        """The decision without the answers of some keys, which have no cell: its query has no rows in their place."""
        empty = [answer for answer in decision.answers if answer.key in nothing]
        if not empty:
            return decision
        query = self.without_answers(replace(decision, answers=empty))
        return replace(
            decision, query=query, answers=[answer for answer in decision.answers if answer.key not in nothing]
        )

    def _affordable(self, decision: Decision, states: Mapping[str, LedgerState]) -> None:
        """Raises BudgetExhausted if the budgets do not suffice for all answers together."""
        due = {question.key: question for question, step in self._unpaid(decision)}
        who = self._shared.governance.ledger.askers.current().name
        beside: defaultdict[tuple[str, str], list[Charge]] = defaultdict(list)
        for question in due.values():
            database, charge = fold(question.location.database), question.purchase.charge
            assert charge is not None, "What follows is free."
            population = states[database].population(question.location)
            assert population is not None
            others = beside[database, population.name]
            affordable(states[database], question.location, charge, who, others)
            others.append(charge)

    def _unpaid(self, decision: Decision) -> list[tuple[PaidQuestion, Step]]:
        steps = [step for step in decision.steps if step.epsilon is not None]
        return [(question, step) for question, step in zip(decision.answers, steps, strict=True) if step.drawn is None]

    def _stand(self, question: PaidQuestion) -> None:
        """Make sure that an answer is stored. Raises Stale if an open table changed since the question was decided."""
        if any(one.content != self._shared.content(one) for one in question.looks_up):
            raise Stale
        self._shared.governance.answers.ensure(question.purchase, lambda con: mechanisms.draw(con, question))

    def _bind_draws(self, decision: Decision) -> None:
        """Raises UnsupportedQuery where DuckDB cannot bind the query of a draw: before anything is charged."""
        with self._shared.turn():
            try:
                for question, _ in self._unpaid(decision):
                    mechanisms.bind(self._shared.own, question)
            except duckdb.Error:
                pass
            else:
                return
        # DuckDB's error may hold names that an analyst does not see, so it is not even the context of this one.
        raise UnsupportedQuery(
            "The statement is not understood as DuckDB would: write its joins and subqueries plainly."
        )

    def _verify(self, admitted: Statement, decision: Decision, catalog: Catalog) -> None:
        answers = frozenset(TableName(*(fold(part) for part in question.path)) for question in decision.answers)
        calls = tuple(call(self._serialized(f"SELECT * FROM {one}")) for one in decision.calls)
        readable = frozenset(catalog.tables) | decision.tables | answers
        may = Allowed(readable - frozenset(catalog.protected), calls, catalog.macros, catalog.objects)
        try:
            for text in (decision.query or "", decision.note):
                if text is not None:
                    verify(self._serialized(text), may)
        except (UnsupportedQuery, PolicyRefusal) as no:
            if no.about is None:
                raise
            called = None if admitted.query is None else _named(admitted.query, no.about)
            part = None if called is None else quote(admitted.text, called, ())
            if part is None and decision.has_definitions:
                # Of views and macros an analyst sees no text, and so no name in it.
                raise type(no)(_BEHIND) from None
            let_quote(no, part)
            raise

    def _as_written(self, readings: Sequence[Reading], *, of_definitions: bool = False) -> None:
        """Raises UnsupportedQuery where what was understood does not mean to DuckDB what was written.

        of_definitions: whether they are of views and macros, whose text is not quoted.
        """
        different = [reading for reading in readings if reading[0] != reading[1]]
        if not different:
            return
        trees = iter(self._trees([text for pair in different for text in pair]))
        for (written, _), tree, other in zip(different, trees, trees, strict=True):
            if _PLACES.sub("", tree) != _PLACES.sub("", other) or _FAILED in tree:
                mine = json.loads(tree)
                found = difference(written, mine, json.loads(other))
                if found is not None:
                    raise UnsupportedQuery(_MISREAD if of_definitions else _misread(mine, found))

    def _name_columns(self, query: exp.Expression) -> None:
        """Columns of the result that have no name get DuckDB's, which follows from how they are written."""
        items = column_names.without_names(query)
        if not items:
            return
        named = ", ".join([f"system.main.json_deserialize_sql({_SERIALIZED})"] * len(items))
        with self._shared.turn():
            try:
                asked = [column_names.text(item) for item in items]
                texts = self._shared.own.execute(f"SELECT {named}", asked).fetchall()[0]
            except duckdb.ParserException:
                raise UnsupportedQuery(_NO_QUERY) from None
        column_names.name(items, texts)

    def _serialized(self, text: str) -> Any:
        """DuckDB's parse tree of a query."""
        return json.loads(self._trees([text])[0])

    def _trees(self, texts: Sequence[str]) -> list[str]:
        """DuckDB's parse trees of queries, as JSON."""
        with self._shared.turn():
            asked = f"SELECT {', '.join([_SERIALIZED] * len(texts))}"
            return list(self._shared.own.execute(asked, list(texts)).fetchall()[0])


_MISREAD = (
    "The guard does not read a view or macro of the statement as DuckDB does, so it does not run it: ask the steward "
    "to write it another way."
)
_NO_QUERY = "DuckDB does not take the statement for a query: look for a mistake, or write it more plainly."


_BEHIND = "A view or macro in the statement uses a function or type that an analyst may not use: ask the steward."


def _named(query: Node, name: str) -> Node | None:
    """The first call of a function, cast to a type or column of a name in a statement; None if there is none."""
    for node in query.walk(bfs=False):
        if isinstance(node, exp.Cast):
            own = node.to.sql("duckdb").strip('"')
        else:
            own = name_of(node) if isinstance(node, exp.Func) else node.name if isinstance(node, exp.Column) else ""
        if fold(own) == name:
            return node
    return None


def _misread(tree: Mapping[str, Any], part: str) -> str:
    """Why a text is not run. tree: DuckDB's tree of it. part: what the guard reads as something else."""
    if tree.get("error"):
        return _NO_QUERY
    said = part if len(part) <= _QUOTED else f"{part[:_QUOTED]} ..."
    return f"The guard does not read this part as DuckDB does, so it does not run it: {said} Write it another way."


def _governed(state: LedgerState) -> Governed:
    protected = {}
    for (schema, table), one in state.tables.items():
        population = state.populations[one.policy.population]
        budget = population.budget
        remaining = budget.remaining if budget is not None else one.policy.epsilon
        version = state.version((schema, table)) or one.version
        protected[schema or "", table] = Protected(
            one.policy,
            None,
            version,
            population.edition,
            remaining,
            left_of_edition(population, state.policies_of(population.name)),
            one.domains,
            renyi=population.renyi,
            changed=state.changed,
        )
    opened = {(schema or "", table): columns for (schema, table), columns in state.opened.items()}
    published = frozenset(name for name, publication in state.publications.items() if not publication.withdrawn)
    ever = frozenset((schema or "", table) for schema, table in state.members)
    return Governed(state.number, protected, opened, published, ever)


def _publications(states: Mapping[str, LedgerState]) -> dict[TableName, list[Publication]]:
    """The publications of each protected table, without withdrawn ones."""
    publications: dict[TableName, list[Publication]] = {}
    for database, state in states.items():
        for publication in state.publications.values():
            schema, table = publication.of.identity
            if not publication.withdrawn:
                publications.setdefault(TableName(database, schema or "", table), []).append(publication)
    return publications


def _key(statement: object, parameters: Parameters, today: date) -> Hashable | None:
    """What a decision depends on, apart from catalog and ledgers; None if the decision is not to be kept."""
    if not isinstance(statement, str) or len(statement) > _LONGEST_KEPT:
        return None
    if parameters is not None and not is_given(parameters):
        return None
    given = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters or ())
    # 1 and TRUE are equal in Python.
    return statement, today.toordinal(), parameters is None, tuple((name, type(one), repr(one)) for name, one in given)


def statement_text(statement: object) -> str:
    """The text of a statement. Raises UnsupportedQuery for what is none."""
    if isinstance(statement, str):
        return statement
    if isinstance(statement, duckdb.Statement):
        return str(statement.query)
    raise UnsupportedQuery("A statement is a text, or what extract_statements gives.")
