"""What a user's statements run on: an analyst's guarded connection, or a steward's own. Called from worker threads."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

import duckdb

from duckanon.analyst import MOST_SHOWN, Admitted, Analyst
from duckanon.catalog.names import fold
from duckanon.connection import Connection
from duckanon.governance.concurrency import Asker, Askers, asking
from duckanon.rewrite.column_texts import has_texts, with_texts
from duckanon.rewrite.decision import Decision
from duckanon.server import types
from duckanon.server.catalog_names import as_postgresql
from duckanon.server.commands import CopyIn
from duckanon.server.errors import PgError
from duckanon.server.interval_columns import with_intervals
from duckanon.server.lexer import parameters, tokens, with_parameters
from duckanon.server.loading import Loading
from duckanon.server.noise_comments import Comment, comments
from duckanon.server.parameter_types import Columns, parameter_types
from duckanon.server.recorded import DEFINED, names, recording
from duckanon.server.returning import is_change, returned
from duckanon.server.turns import Turns
from duckanon.server.types import BY_OID, PgType, pg_type

T = TypeVar("T")
# Names and DuckDB's types of columns.
Described: TypeAlias = Sequence[tuple[str, str]]
_QUERIES = {"select", "with", "from", "values", "table", "("}
# Statements about tables and queries. They read no record of a protected table, so they may run to get their columns.
_ABOUT = {"show", "describe", "desc", "explain", "pragma"}
_CHUNK = 2_000
# Of how many queries a connection keeps the columns.
_MOST_KNOWN = 100
# How often a decision is made again because something changed.
_TRIES = 3
# The most rows of unfinished results that a connection keeps in memory when another statement runs.
_MOST_KEPT = 200_000
# What pools of connections ask to see whether one is alive. It runs once in a session, as nothing can change its rows.
_LITERAL = re.compile(r"select\s+(\d{1,9}|'[\w ]*')(\s+as\s+\w+)?\s*", re.IGNORECASE | re.ASCII)
_MOST_LITERALS = 20
_COLUMNS = """
SELECT table_catalog, table_schema, table_name, column_name, data_type, is_nullable
FROM information_schema.columns ORDER BY table_catalog, table_schema, table_name, ordinal_position
"""
_TABLES = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables ORDER BY ALL"
# DuckDB's names of the types that a parameter may have, by oid.
_NAMES = {
    types.BOOL.oid: "BOOLEAN",
    types.BYTEA.oid: "BLOB",
    types.INT8.oid: "BIGINT",
    types.INT2.oid: "SMALLINT",
    types.INT4.oid: "INTEGER",
    types.OID.oid: "BIGINT",
    types.FLOAT4.oid: "FLOAT",
    types.FLOAT8.oid: "DOUBLE",
    types.DATE.oid: "DATE",
    types.TIME.oid: "TIME",
    types.TIMESTAMP.oid: "TIMESTAMP",
    types.TIMESTAMPTZ.oid: "TIMESTAMPTZ",
    types.INTERVAL.oid: "INTERVAL",
    types.TIMETZ.oid: "TIMETZ",
    types.NUMERIC.oid: "DECIMAL(38, 10)",
    types.UUID.oid: "UUID",
}


@dataclass(frozen=True)
class Column:
    """A column of a result."""

    name: str
    type: PgType


@dataclass(frozen=True)
class Visible:
    """Names and types. columns: database, schema, table, column, type, is_nullable. tables: the first three, kind.

    comments: on tables and columns whose numbers get noise.
    """

    columns: Sequence[tuple[Any, ...]]
    tables: Sequence[tuple[Any, ...]]
    comments: Sequence[Comment] = ()


@dataclass
class Result:
    """The result of a statement. columns: None for a statement without rows. tag: without the number of rows.

    changed: the number of rows that the statement wrote, if it did. fetch: gives the next rows, none at the end.
    decision: of the guard, for an analyst's statement. spent: what was charged. noise: what is said of its noise.
    """

    tag: str
    columns: Sequence[Column] | None = None
    fetch: Callable[[int], list[Any]] = field(default=lambda _: [])
    changed: int | None = None
    decision: Decision | None = None
    spent: Fraction = Fraction(0)
    noise: str | None = None


class Catalogs(Protocol):
    """Answers a user's statements about the catalog, from names and types that the user may see.

    process: the number of the session that asks.
    """

    process: int

    def fill(
        self,
        columns: Iterable[Sequence[Any]],
        tables: Iterable[Sequence[Any]],
        comments: Iterable[Comment] = (),
    ) -> None:
        """What the user may see, as Backend.visible gives it."""
        ...

    def answers(self, text: str) -> bool:
        """Whether a statement reads catalogs only."""
        ...

    def parameters(self, text: str) -> Sequence[PgType]: ...

    def describe(self, text: str) -> Any:
        """An object with the names and types of the columns: names, shown."""
        ...

    def run(self, text: str, parameters: Sequence[Any], seconds: float) -> Any:
        """As `describe`, with rows."""
        ...

    def close(self) -> None: ...


class Gate:
    """What all users of one server share: the turns of statements and changes.

    epoch: grows with each change of the catalog or of a policy. forget: called after each, and after rows were written,
    which may be duckanon's own.
    """

    def __init__(self, askers: Askers, forget: Callable[[], None]) -> None:
        self.turns, self.askers, self.forget, self.epoch = Turns(), askers, forget, 0
        self._lock = Lock()
        self._writers = self._written = 0

    @property
    def rows_stamp(self) -> int | None:
        """A stamp that changes whenever a user has written rows; None while one writes."""
        with self._lock:
            return None if self._writers else self._written

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A context in which rows are written."""
        with self._lock:
            self._writers += 1
        try:
            yield
        finally:
            self.forget()
            with self._lock:
                self._writers -= 1
                self._written += 1

    @contextmanager
    def change(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """A context in which something changes that decisions about statements depend on."""
        with self.turns.change(check):
            try:
                with self.writing():
                    yield
            finally:
                # Only after the catalog was forgotten: who reads this epoch must not decide by the catalog before.
                with self._lock:
                    self.epoch += 1


class Backend:
    """A user's connection. One statement runs at a time; only `cancel` may be called meanwhile.

    interrupt: stops what DuckDB runs on it. check: called where a statement waits, and before it runs; raises what ends
    it.
    """

    role = ""

    def __init__(
        self, con: Analyst | Connection, gate: Gate, user: str, interrupt: Callable[[], None] = lambda: None
    ) -> None:
        self._con, self._gate, self._user, self._interrupt = con, gate, user, interrupt
        self._open: _Rows | None = None
        self._kept: WeakSet[_Rows] = WeakSet()
        self.check: Callable[[], None] = lambda: None
        self._own_changes = 0
        # Whether the ends of intervals are shown beside noisy numbers.
        self.has_intervals = False
        self._visible: tuple[tuple[int, int], Visible] | None = None
        # What DESCRIBE said of the queries that ran last, and the stamp at which it did.
        self._described_at, self._known = self.stamp, OrderedDict[str, Described]()

    @property
    def stamp(self) -> tuple[int, int]:
        """A value that changes whenever what this user may see of the catalog may have changed."""
        return self._gate.epoch, self._own_changes

    def visible(self) -> Visible:
        """What this user may see of the catalog."""
        if self._visible is None or self._visible[0] != self.stamp:
            self._keep_open()
            self._visible = self._settled(self._seen)
        return self._visible[1]

    def _seen(self) -> tuple[tuple[int, int], Visible]:
        stamp = self.stamp
        columns, tables = (self._con.execute(text).fetchall() for text in (_COLUMNS, _TABLES))
        return stamp, Visible(columns, tables, tuple(self._comments(columns)))

    def _settled(self, decide: Callable[[], T], begin: Callable[[], None] = lambda: None) -> T:
        """What `decide` returns, called again if something changed meanwhile that decisions depend on.

        begin: called afterwards, before anything else changes. Changes wait for no more than that, as a rule.
        """
        for _ in range(_TRIES):
            epoch = self._gate.epoch
            found = decide()
            with self._gate.turns.statement(self.check):
                if self._gate.epoch == epoch:
                    begin()
                    return found
        # Changes follow each other faster than the statement is decided about: now they wait for it.
        with self._gate.turns.statement(self.check):
            found = decide()
            begin()
            return found

    def _comments(self, columns: Sequence[tuple[Any, ...]]) -> Iterable[Comment]:  # noqa: ARG002
        """The comments on columns that the user sees, and on their tables."""
        return ()

    def parameter_types(self, text: str, declared: Sequence[int]) -> list[int]:
        """The oids of a statement's parameters. declared: those that the client chose, 0 where it did not."""
        count = max(parameters(text), len(declared))
        numbers = [*declared, *[0] * (count - len(declared))]
        if all(numbers):
            return numbers
        oids = [pg_type(parameter_kind).oid for parameter_kind in parameter_types(text, self._columns())]
        oids += [types.TEXT.oid] * (count - len(oids))
        return [chosen or guessed for chosen, guessed in zip(numbers, oids, strict=True)]

    def _columns(self) -> Columns:
        tables: dict[str, dict[str, str]] = {}
        for _, _, table, column, kind, _ in self.visible().columns:
            tables.setdefault(fold(table), {}).setdefault(fold(column), kind)
        return tables

    def describe(self, text: str, oids: Sequence[int]) -> Sequence[Column] | None:
        """The columns of a statement's result, which does not run and costs nothing. None: it has no rows.

        oids: of its parameters.
        """
        text = self._with_intervals(text)
        filled = with_parameters(text, [f"CAST(NULL AS {_name(oid)})" for oid in oids])
        if is_change(filled):
            filled = returned(filled) or ""
        first = _first(filled)
        if first not in _QUERIES | _ABOUT | {"summarize"}:
            return None
        self._keep_open()
        if first in _QUERIES:
            rows = self._settled(lambda: self._columns_of(filled))
            shown = as_postgresql(text, [name for name, *_ in rows])
            return [Column(name, pg_type(kind)) for name, (_, kind, *_) in zip(shown, rows, strict=True)]
        return self._settled(lambda: self._columns_like(text, self._like(first) or filled))

    def _columns_like(self, text: str, like: str) -> list[Column]:
        """The columns of a statement that one with the same columns has, which runs."""
        self._con.execute(like)
        columns = self._described(text)
        self._con.fetchall()
        return columns

    def _columns_of(self, query: str) -> list[Any]:
        """What DESCRIBE says of a query."""
        return list(self._con.execute(f"DESCRIBE {query}").fetchall())

    def run(self, text: str, values: Sequence[Any]) -> Result:
        """Run a statement. Rows that are not fetched before the next statement runs are kept in memory.

        Raises what the guard and DuckDB raise.
        """
        raise NotImplementedError

    def run_at_once(self, text: str, values: Sequence[Any]) -> Result | None:  # noqa: ARG002
        """As `run`, called from the event loop; None for a statement that could wait or take long."""
        return None

    def at_hand(self, text: str) -> Result | None:  # noqa: ARG002
        """The result of a statement that ran before, if nothing can change it."""
        return None

    def load(self, command: CopyIn) -> Loading:  # noqa: ARG002
        """Begin to take rows in bulk. Raises PgError for those who may not."""
        raise PgError("42501", "COPY ... FROM STDIN is for stewards: INSERT the rows into a temporary table.")

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def cancel(self) -> None:
        """Interrupt what DuckDB runs on the connection."""
        self._interrupt()

    def close(self) -> None:
        self._con.close()

    def _with_intervals(self, text: str) -> str:
        """The statement that runs in place of one: with the ends of intervals, if they are to be shown."""
        return text

    def _like(self, first: str) -> str:
        """A statement with the same columns as one with this first word; '' if the statement itself may run."""
        return "SUMMARIZE SELECT 1 AS one" if first == "summarize" else ""

    def _described(self, text: str, described: Described = ()) -> list[Column]:
        """The columns of the last result. described: their names and types, where it has texts in place of values."""
        described = described or [(str(value[0]), str(value[1])) for value in self._con.description or ()]
        shown = as_postgresql(text, [name for name, _ in described])
        return [Column(name, pg_type(kind)) for name, (_, kind) in zip(shown, described, strict=True)]

    def _to_be_texts(self, query: str, has_values: bool, describe: Callable[[], list[Any]]) -> Described:
        """The columns of a query if some are to come as texts, which lose nothing; else none.

        has_values: whether parameters are beside it, on whose types its columns depend. describe: gives what DESCRIBE
        says of it.
        """
        if self._described_at != self.stamp:
            self._described_at, self._known = self.stamp, OrderedDict()
        found = None if has_values else self._known.get(query)
        if found is None:
            try:
                found = [(str(name), str(kind)) for name, kind, *_ in describe()]
            except duckdb.InterruptException:
                raise
            except duckdb.Error:
                # The query will fail of the same.
                return ()
        if not has_values:
            self._known[query] = found
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return found if has_texts([kind for _, kind in found]) else ()

    def _keep_open(self) -> None:
        """Keep the rest of the last result, since the next statement on the connection would discard it."""
        if self._open is not None:
            self._open.keep(_MOST_KEPT - sum(rows.kept for rows in self._kept))
            self._open = None
        self._end_reading()

    def _end_reading(self) -> None:
        """End what the last statement reads, all of which was fetched."""

    def _rows(self) -> _Rows:
        self._open = _Rows(self._con, self._end_reading)
        self._kept.add(self._open)
        return self._open


class _Rows:
    """The rows of a result on a connection. ended: called when all were fetched."""

    def __init__(self, con: Analyst | Connection, ended: Callable[[], None]) -> None:
        self._con: Analyst | Connection | None = con
        self._ended = ended
        self._kept: list[Any] = []
        self._is_cut = False

    def fetch(self, count: int) -> list[Any]:
        """The next rows, at most so many; none at the end."""
        values, self._kept = self._kept[:count], self._kept[count:]
        if self._con is not None and len(values) < count:
            more: list[Any] = self._con.fetchmany(count - len(values))
            if len(more) < count - len(values):
                self._con = None
                self._ended()
            values += more
        if not values and self._is_cut:
            raise PgError("54000", "The result is too long to be kept beside another statement: fetch it first.")
        return values

    def first(self, count: int) -> Iterator[Any]:
        """The first rows, at most so many, which are fetched afterwards all the same. Called before any was."""
        self._kept = self.fetch(count)
        yield from self._kept

    @property
    def is_over(self) -> bool:
        """Whether all rows were fetched."""
        return self._con is None and not self._kept

    @property
    def kept(self) -> int:
        """How many rows are kept in memory."""
        return len(self._kept)

    def keep(self, most: int) -> None:
        """Fetch the remaining rows, so that another statement can run. At most `most` rows are kept in memory."""
        con, self._con = self._con, None
        while con is not None and len(self._kept) < most:
            rows = con.fetchmany(_CHUNK)
            self._kept += rows
            if len(rows) < _CHUNK:
                return
        self._is_cut = True


class AnalystBackend(Backend):
    """The guard checks each statement. BEGIN, COMMIT and ROLLBACK are handled by the session and never reach DuckDB."""

    role = "analyst"

    def __init__(self, con: Analyst, gate: Gate, user: str, interrupt: Callable[[], None] = lambda: None) -> None:
        super().__init__(con, gate, user, interrupt)
        self._analyst = con
        # The results of literals, with their rows.
        self._literals: dict[str, tuple[Result, list[Any]]] = {}

    def _comments(self, columns: Sequence[tuple[Any, ...]]) -> Iterable[Comment]:
        return comments(self._analyst.protected(), columns)

    def _with_intervals(self, text: str) -> str:
        if not self.has_intervals or _first(text) not in _QUERIES:
            return text
        with asking(Asker(self._user)):
            return with_intervals(text, self._has_noise)

    def _end_reading(self) -> None:
        self._analyst.end_reading()

    def _columns_of(self, query: str) -> list[Any]:
        # These are known where the answer is read, and DESCRIBE reads none.
        if names(query) & {"low", "high"}:
            return self._analyst.columns_of(query)
        return super()._columns_of(query)

    def _has_noise(self, text: str) -> bool:
        """Whether a query would be answered with noise; its parameters do not matter for that."""
        decision = self._analyst.explain(text, [None] * parameters(text) or None)
        return decision.refusal is None and any(step.epsilon is not None for step in decision.steps)

    def run(self, text: str, values: Sequence[Any]) -> Result:
        self._keep_open()
        text = self._with_intervals(text)
        asker = Asker(self._user)
        # It reads what was committed when it began: what is changed later makes no difference to it.
        with asking(asker):
            try:
                statement = self._settled(
                    lambda: self._analyst.admitted(text, list(values) or None), self._analyst.begin_reading
                )
                texts = self._texts_of(statement)
                self._analyst.run(statement, [kind for _, kind in texts])
            except Exception as error:
                # A charge remains although the statement failed, so the log records it.
                error.spent = asker.spent  # type: ignore[attr-defined]
                raise
        return self._result(text, asker.spent, texts)

    def _texts_of(self, statement: Admitted) -> Described:
        if _first(statement.text) not in _QUERIES:
            return ()
        has_values = statement.parameters is not None
        return self._to_be_texts(statement.text, has_values, lambda: self._analyst.described(statement))

    def run_at_once(self, text: str, values: Sequence[Any]) -> Result | None:
        # Its decision does not depend on the catalog, so it need not wait for changes.
        if (self._open is not None and not self._open.is_over) or not self._analyst.is_constant(
            text, list(values) or None
        ):
            return None
        self._analyst.end_reading()
        self._analyst.execute(text, list(values) or None)
        if has_texts([str(value[1]) for value in self._analyst.description or ()]):
            return None
        result = self._result(text, Fraction(0))
        if not values and _LITERAL.fullmatch(text) and len(self._literals) < _MOST_LITERALS:
            self._literals[text] = result, result.fetch(_CHUNK)
        return self.at_hand(text) or result

    def at_hand(self, text: str) -> Result | None:
        known = self._literals.get(text)
        if known is None:
            return None
        result, rows = known
        return Result(result.tag, result.columns, _Listed(rows).fetch, decision=result.decision)

    def _result(self, text: str, spent: Fraction, described: Described = ()) -> Result:
        """The result of the statement that was just run. described: its columns, where some came as texts."""
        decision, first = self._analyst.decision, _first(text)
        if first in ("create", "insert", "drop"):
            self._own_changes += 1
            rows = self._analyst.fetchall()
            self._analyst.end_reading()
            return replace(_done(text, _count(rows), decision, spent), noise=self._noise(spent))
        columns, found = self._described(text, described), self._rows()
        noise = self._noise(spent, [column.name for column in columns], found)
        return Result(_tag(first), columns, found.fetch, None, decision, spent, noise)

    def _noise(self, spent: Fraction, columns: Sequence[str] = (), of: _Rows | None = None) -> str | None:
        """What is said of the noise of the last result: from the first of its rows, if it has any."""
        noise = self._analyst.noise
        if noise is None:
            return None
        if of is None:
            return noise.in_words(None, spent)
        beside = self._analyst.noise_beside(columns, of.first(MOST_SHOWN), small_first=True)
        return noise.in_words(beside, spent, MOST_SHOWN if of.kept == MOST_SHOWN else None)


class StewardBackend(Backend):
    """Statements run as they are written. One that changes more than rows waits until no analyst's statement runs."""

    role = "steward"

    def __init__(self, con: Connection, gate: Gate, user: str, interrupt: Callable[[], None] = lambda: None) -> None:
        super().__init__(con, gate, user, interrupt)
        self._steward = con
        # The names of what may write to the ledger, and the gate's epoch when they were read.
        self._recorded: tuple[int, set[str]] | None = None
        self._is_in_transaction = False

    def run(self, text: str, values: Sequence[Any]) -> Result:
        self._keep_open()
        found = self._steward.extract_statements(text)
        if len(found) != 1:
            raise PgError("42601", "The statement cannot be told from the one after it: send each of them alone.")
        asker, kind = Asker(self._user), found[0].type
        if names(text) & self._recording():
            # Its rows are fetched before other statements may run, since the functions run while rows are fetched.
            with self._gate.askers.turn(asker, self.check), self._around(kind):
                return replace(_fetched(self._run(text, values)), spent=asker.spent)
        with asking(asker):
            if kind in _TRANSACTIONAL:
                # What is not committed yet changes nothing for others.
                return _fetched(self._run(text, values)) if self._is_in_transaction else self._changed(text, values)
            with self._around(kind):
                result = self._run(text, values)
                return result if kind in _READ_ONLY else _fetched(result)

    def _around(self, kind: duckdb.StatementType) -> AbstractContextManager[None]:
        """What a statement of a kind runs in."""
        if kind in _READ_ONLY:
            return nullcontext()
        return self._gate.writing() if kind in _ROWS_ONLY else self._gate.change(self.check)

    def _changed(self, text: str, values: Sequence[Any]) -> Result:
        """The result of a change, in a transaction of its own: others wait for its end alone."""
        self._steward.execute("BEGIN")
        try:
            result = _fetched(self._run(text, values))
        except BaseException:
            self._steward.execute("ROLLBACK")
            raise
        with self._gate.change(self.check):
            self._steward.execute("COMMIT")
        return result

    def _recording(self) -> set[str]:
        """The names of what may write to the ledger, which change with each change of the catalog."""
        if self._recorded is None or self._recorded[0] != self._gate.epoch:
            epoch = self._gate.epoch
            self._recorded = epoch, recording(self._steward.execute(DEFINED).fetchall())
        return self._recorded[1]

    def _like(self, first: str) -> str:
        # EXPLAIN ANALYZE runs what it explains, and a PRAGMA may do anything.
        if first == "pragma":
            raise PgError("0A000", "A PRAGMA is not described before it runs: send it without preparing it.")
        return "EXPLAIN SELECT 1" if first == "explain" else super()._like(first)

    def _run(self, text: str, values: Sequence[Any]) -> Result:
        first, given = _first(text), [list(values)] if values else []
        query = text.rstrip().removesuffix(";")
        is_read = first in _QUERIES and not is_change(text)
        described: Described = ()
        if is_read:
            described = self._to_be_texts(
                query, bool(given), lambda: list(self._steward.execute(f"DESCRIBE {query}", *given).fetchall())
            )
        con = self._steward.execute(with_texts(query, [kind for _, kind in described]) if described else text, *given)
        self._own_changes += not is_read
        columns = self._described(text, described)
        kind = found[0] if (found := [(column.name, column.type.name) for column in columns]) else None
        is_query = is_read or first in _ABOUT
        if not is_query and len(columns) == 1 and kind in (("Count", "int8"), ("Success", "bool")):
            return _done(text, _count(con.fetchall()), None, Fraction(0))
        return Result(_tag(first), columns, self._rows().fetch)

    def load(self, command: CopyIn) -> Loading:
        self._keep_open()
        self._own_changes += 1
        return Loading(self._steward, command, begins=not self._is_in_transaction, writing=self._gate.writing)

    def begin(self) -> None:
        self._keep_open()
        self._steward.execute("BEGIN")
        self._is_in_transaction = True

    def commit(self) -> None:
        self._keep_open()
        self._is_in_transaction = False
        with self._gate.change(self.check):
            self._steward.execute("COMMIT")

    def rollback(self) -> None:
        self._keep_open()
        self._is_in_transaction = False
        self._steward.execute("ROLLBACK")


# These can change rows, but no name, type or policy, so decisions about analysts' statements do not depend on them.
_ROWS_ONLY = {
    duckdb.StatementType.SELECT,
    duckdb.StatementType.INSERT,
    duckdb.StatementType.UPDATE,
    duckdb.StatementType.DELETE,
    duckdb.StatementType.EXPLAIN,
}
# Changes that a transaction may hold.
_TRANSACTIONAL = {
    duckdb.StatementType.CREATE,
    duckdb.StatementType.CREATE_FUNC,
    duckdb.StatementType.ALTER,
    duckdb.StatementType.DROP,
}
_READ_ONLY = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}


class _Listed:
    """Rows that were fetched already."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def fetch(self, count: int) -> list[Any]:
        rows, self._rows = self._rows[:count], self._rows[count:]
        return rows


def _fetched(result: Result) -> Result:
    """A result with all its rows fetched."""
    rows: list[Any] = []
    while chunk := result.fetch(_CHUNK):
        rows += chunk
    return replace(result, fetch=_Listed(rows).fetch)


def listed(tag: str, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Result:
    """A result of rows that are known."""
    return Result(tag, columns, _Listed(list(rows)).fetch)


def catalog_columns(answer: Any) -> list[Column]:
    """The columns of an answer of the catalog instance."""
    return [Column(name, kind) for name, kind in zip(answer.names, answer.shown, strict=True)]


def _first(text: str) -> str:
    """The first word of a statement, in lower case."""
    token = next(iter(tokens(text)), None)
    return "" if token is None else token.word or token.text


def _tag(first: str) -> str:
    return first.upper() if first in ("explain", "show") else "SELECT"


def _count(rows: list[Any]) -> int | None:
    return int(rows[0][0]) if len(rows) == 1 and isinstance(rows[0][0], int) else None


def _done(text: str, count: int | None, decision: Decision | None, spent: Fraction) -> Result:
    """The result of a statement without rows, such as INSERT 0 5, SELECT 5 or CREATE VIEW."""
    words = [token.word for token in tokens(text) if token.word]
    kind = next((word for word in words if word in ("insert", "update", "delete", "merge")), "")
    if words[:1] in (["create"], ["drop"], ["alter"]):
        what = next((word for word in words[1:] if word not in ("or", "replace", "temp", "temporary")), "")
        made = count is not None and "as" in words and what == "table"
        return Result(
            "SELECT" if made else f"{words[0]} {what}".upper(),
            None,
            changed=count if made else None,
            decision=decision,
            spent=spent,
        )
    if kind:
        tag = "INSERT 0" if kind == "insert" else kind.upper()
        return Result(tag, None, changed=count or 0, decision=decision, spent=spent)
    return Result(" ".join(words[:1]).upper(), None, decision=decision, spent=spent)


def _name(oid: int) -> str:
    """DuckDB's name of a type of PostgreSQL's."""
    kind = BY_OID.get(oid)
    if kind is not None and kind.element is not None:
        return f"{_name(kind.element.oid)}[]"
    return _NAMES.get(oid, "VARCHAR")
