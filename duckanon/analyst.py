"""An analyst's connection: it runs what the guard admits, and nothing else.

It protects against mistakes, not against attacks from the same process: anyone who can run Python here, or can open the
file, has access to the data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial, wraps
from threading import RLock
from types import TracebackType
from typing import Any
from weakref import finalize

import duckdb

from duckanon.cancellation import Statements, interruptible
from duckanon.catalog.names import TableName
from duckanon.catalog.reader import temporary
from duckanon.catalog.snapshot import Protected, Stored, View
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.functions.udf import make_macros
from duckanon.guard import Guard, SharedCatalog, Trial, statement_text
from duckanon.releases import margins
from duckanon.releases.margins import Noise
from duckanon.rewrite.column_texts import with_texts
from duckanon.rewrite.decision import Decision, Verdict
from duckanon.rewrite.normalize.desugar import with_values
from duckanon.rewrite.normalize.eager_aggregation import NOT_FINITE
from duckanon.rewrite.rule_context import Refused

# Settings of an analyst's instance. They hold for the whole instance, in DuckDB 1.4 and 2.0 alike, so no other
# connection of the same process can have the file open with other ones.
LOCKED: dict[str, Any] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "python_scan_all_frames": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    # Text is compared by its bytes, whatever collation the database is used with elsewhere.
    "default_collation": "",
    # What is written means the same to everybody, and an answer is given again to all who ask.
    "default_order": "ASC",
    "default_null_order": "NULLS_LAST",
    "integer_division": False,
    "ieee_floating_point_ops": True,
    "scalar_subquery_error_on_multiple_rows": True,
    "order_by_non_integer_literal": False,
    "lock_configuration": True,
}


class Errors(Enum):
    """What of DuckDB's errors about a statement is shown.

    SHOWN: all. COMPUTED: not those about a value of a key or a noisy number, which the statement does not name. HIDDEN:
    none, since they may quote the text of a view or macro.
    """

    SHOWN = "shown"
    COMPUTED = "computed"
    HIDDEN = "hidden"


class NotAvailable(UnsupportedQuery, AttributeError):
    """An attribute that an analyst's connection or result does not have; `hasattr` works as usual."""


class Answer:
    """The result of a query: lazy like DuckDB's relations, it runs each time it is shown or fetched.

    holds: raises UnsupportedQuery if the decision about the query does not hold any more. behind: what of DuckDB's
    errors is shown. noise: says how wide noise is beside the numbers, from the names of all columns and from some rows,
    which it may ask for; shown below them. running: a context in which it runs, and may be interrupted.
    """

    def __init__(
        self,
        relation: duckdb.DuckDBPyRelation | None,
        lock: RLock,
        holds: Callable[[], None],
        *,
        behind: Errors = Errors.SHOWN,
        noise: Callable[[Sequence[str], Callable[[], list[Any]]], str | None] | None = None,
        running: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._running = running
        self._relation, self._lock, self._holds, self._behind = relation, lock, holds, behind
        self._noise = noise

    def __getattr__(self, name: str) -> Any:
        if name not in _GIVES:
            raise NotAvailable(
                f"An analyst's result has no {name}: it is shown and fetched. To go on from it, write another query."
            )
        if self._relation is None:
            raise UnsupportedQuery("The statement has no result.")
        self._holds()
        return _in_turn(self._lock, self._relation, name, self._behind, self._running)

    def __repr__(self) -> str:
        with self._lock, self._running():
            self._holds()
            return str(_unnamed(lambda: repr(self._relation), self._behind)) + self._note()

    def __str__(self) -> str:
        with self._lock, self._running():
            self._holds()
            return str(_unnamed(lambda: str(self._relation), self._behind)) + self._note()

    def _note(self) -> str:
        """How wide noise is beside the numbers shown, as a line; empty where there is none."""
        relation = self._relation
        if relation is None or self._noise is None:
            return ""
        rows = partial(_unnamed, lambda: relation.limit(MOST_SHOWN).fetchall(), self._behind)
        said = self._noise(relation.columns, rows)
        return f"{said}\n" if said is not None else ""

    def __len__(self) -> int:
        return len(self.fetchall())


@dataclass(frozen=True, eq=False)
class Admitted:
    """A statement that a connection was admitted to run: its text, with the values of its parameters.

    Only the one that the connection made last runs on it, whatever another one says.
    """

    text: str
    parameters: Any = None
    # Whether it reads stored answers alone, which never change: so it need not say of which moment.
    is_timeless: bool = False


# The most rows of which DuckDB shows any.
MOST_SHOWN = 10_000
_PIVOT = re.compile(r"\bPIVOT", re.IGNORECASE)
_GIVES = frozenset(
    """alias arrow columns description df dtypes fetch_arrow_reader fetch_arrow_table fetch_df_chunk fetch_record_batch
    fetchall fetchdf fetchmany fetchnumpy fetchone pl shape show to_arrow_table to_df torch tf types""".split()
)
_PASSES = frozenset(
    """arrow description df fetch_arrow_table fetch_df fetch_df_chunk fetch_record_batch fetchall fetchdf fetchmany
    fetchnumpy fetchone extract_statements pl rowcount""".split()
)


class Analyst:
    """A guarded connection.

    decision: about the last statement, without what is not shown; None before the first. noise: of its numbers.

    The guard decides about every statement, and only its own text runs. Refusals are PolicyRefusal, UnsupportedQuery or
    BudgetExhausted. Several threads may use it; they wait for each other.
    """

    role = "analyst"

    def __init__(self, con: duckdb.DuckDBPyConnection, shared: SharedCatalog) -> None:
        self._con, self._shared = con, shared
        self._statements = Statements(con.interrupt, duckdb.InterruptException)
        # Called once: by `close`, or when this object is collected.
        self._leave = finalize(self, shared.leave)
        self._leave.atexit = False  # type: ignore[misc, unused-ignore] # its stub forgets the property
        self._guard = Guard(shared, self._temporary)
        self._lock = RLock()
        self._in_transaction = False
        self._is_reading = False
        self._waiting: Admitted | None = None
        self._has_functions = False
        # The temporary tables as last read; None if a statement may have changed them since.
        self._own: Mapping[TableName, Stored] | None = {}
        self._views: dict[TableName, View] = {}
        self.decision: Decision | None = None
        self.noise: Noise | None = None
        self._note: str | None = None

    def sql(self, query: Any, *, params: Any = None) -> Answer:
        """The answer to a query. It is lazy: it runs when it is shown or fetched."""
        with self._lock, self._statements.running():
            query = self._with_values(query, params)
            text = self._admitted(query, params)
            named = {} if params is None or self._is_filled else {"params": params}
            relation = _unnamed(lambda: self._con.sql(text, **named), self._behind)
            holds = self._guard.holding(query, text, params)
            noise = partial(self._noise_of, self.decision, self._note)
            return Answer(
                relation, self._lock, holds, behind=self._behind, noise=noise, running=self._statements.running
            )

    def noise_beside(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, small_first: bool = False
    ) -> str | None:
        """How wide noise is beside the numbers of the last result, in sentences; None if there is none.

        columns, rows: of that result. small_first: whether numbers that may be noise alone are said first.
        """
        with self._lock:
            return self._noise_of(self.decision, self._note, columns, lambda: rows, small_first=small_first)

    def _noise_of(
        self,
        decision: Decision | None,
        note: str | None,
        columns: Sequence[str],
        rows: Callable[[], Iterable[Sequence[Any]]],
        *,
        small_first: bool = False,
    ) -> str | None:
        """As `noise_beside`, of a decision. note: its query, which is not in what is shown of the decision."""
        # (What a statement without rows gives has other columns.)
        if decision is None or decision.target is not None:
            return None
        if note is None:
            found = margins.of_rows(decision.noisy, rows()) if decision.noisy else []
        else:
            with self._con.cursor() as con, interruptible(con.interrupt):
                (row,) = _unnamed(lambda: con.execute(note).fetchall(), _errors_of(decision))
            found = margins.of_answer(row)
        said = margins.in_words(found, columns, small_first=small_first)
        compares = any(answer.needs for answer in decision.answers)
        return f"{said} {margins.OF_OTHERS}" if said and compares else said

    def query(self, query: Any, *, params: Any = None) -> Answer:
        """Another name for `sql`."""
        return self.sql(query, params=params)

    def execute(self, query: Any, parameters: Any = None) -> Analyst:
        """Run a statement, and return this connection to fetch from."""
        with self._lock, self._statements.running():
            query = self._with_values(query, parameters)
            text = self._admitted(query, parameters)
            given = () if parameters is None or self._is_filled else (parameters,)
            _unnamed(lambda: self._con.execute(text, *given), self._behind)
        return self

    def admitted(self, query: Any, parameters: Any = None) -> Admitted:
        """A statement that was decided about, with its answers charged and made: what `run` takes.

        Between the two `begin_reading` may be called.
        """
        with self._lock, self._statements.running():
            self.end_reading()
            query = self._with_values(query, parameters)
            text = self._admitted(query, parameters)
            self._waiting = Admitted(text, None if self._is_filled else parameters, self._is_timeless)
            return self._waiting

    def begin_reading(self) -> None:
        """Begin what the statement admitted last reads: all that is committed by now, and nothing later, until it ends.

        What reads stored answers alone reads the same at any moment.
        """
        with self._lock:
            if self._waiting is not None and self._waiting.is_timeless:
                return
            self._con.execute("BEGIN")
            self._is_reading = True
            # DuckDB begins a transaction in a database with the first access, as by a name that it looks up there.
            self._con.execute("SELECT txid_current()").fetchall()

    def end_reading(self) -> None:
        """End what `begin_reading` began, if anything; what is not fetched yet is lost."""
        with self._lock:
            if not self._is_reading:
                return
            self._is_reading = False
            try:
                self._con.execute("COMMIT")
            except duckdb.Error:
                with suppress(duckdb.Error):
                    self._con.execute("ROLLBACK")

    def described(self, statement: Admitted) -> list[Any]:
        """What DESCRIBE says of a query that was admitted. Raises what the query would fail of."""
        with self._lock, self._statements.running():
            given = () if statement.parameters is None else (statement.parameters,)
            return list(self._con.execute(f"DESCRIBE {statement.text}", *given).fetchall())

    def run(self, statement: Admitted, types: Sequence[str] = ()) -> Analyst:
        """Run the statement that was admitted last, once. What was begun to be read is ended if it fails.

        types: of a query's columns, where dates, timestamps and intervals are to come as texts, which lose nothing.
        Raises PolicyRefusal for any other, and what the statement fails of.
        """
        with self._lock, self._statements.running():
            if statement is not self._waiting:
                raise PolicyRefusal("Only the statement that was admitted last on this connection runs: use execute().")
            self._waiting = None
            given = () if statement.parameters is None else (statement.parameters,)
            try:
                text = with_texts(statement.text, types)
                _unnamed(lambda: self._con.execute(text, *given), self._behind)
            except BaseException:
                self.end_reading()
                raise
        return self

    def executemany(self, query: Any, parameters: Any = None) -> Analyst:
        """Run a statement once for each set of parameters."""
        with self._lock, self._statements.running():
            sets = list(parameters or ())
            text = self._admitted(query, sets[0] if sets else None)
            if self._is_filled:
                for value in sets:
                    self.execute(query, value)
            else:
                _unnamed(lambda: self._con.executemany(text, parameters), self._behind)
        return self

    def begin(self) -> Analyst:
        """Begin a transaction, in which protected tables do not answer."""
        return self.execute("BEGIN")

    def commit(self) -> Analyst:
        """End a transaction, and keep what it did."""
        return self.execute("COMMIT")

    def rollback(self) -> Analyst:
        """End a transaction, and undo what it did."""
        return self.execute("ROLLBACK")

    def explain(self, query: Any, parameters: Any = None) -> Decision:
        """What would be decided about a statement; nothing is charged."""
        with self._lock:
            text = statement_text(query)
            if _PIVOT.search(text) and not parameters:
                with suppress(UnsupportedQuery):
                    query = with_values(text, self._free_values, self._free_values)
            return self._guard.explain(query, parameters).shown

    def protected(self) -> Mapping[TableName, Protected]:
        """The protected tables with their policies, which are public."""
        with self._lock:
            return self._guard.protected()

    def columns_of(self, query: str) -> list[Any]:
        """What DESCRIBE says of a query as it would run: also of one with low and high. Nothing is charged."""
        with self._lock:
            decision = self._guard.decide(query)
            self._prepare(decision)
            text = self._guard.without_answers(decision)
            return list(_unnamed(lambda: self._con.execute(f"DESCRIBE {text}").fetchall(), _errors_of(decision)))

    def is_constant(self, query: str, parameters: Any = None) -> bool:
        """Whether a statement has run before, and reads and calls nothing: `SELECT 1`."""
        return self._guard.is_constant(query, parameters)

    def cursor(self) -> Analyst:
        """A second connection to the same database, guarded too."""
        with self._lock:
            return Analyst(self._con.cursor(), self._shared.join())

    def interrupt(self) -> None:
        """Stop what runs: in DuckDB and in duckanon's engines. An answer that was charged is made all the same."""
        self._statements.interrupt()

    def close(self) -> None:
        with self._lock:
            self._con.close()
            self._leave()

    @property
    def _is_filled(self) -> bool:
        """Whether the last statement's parameters are written out in its text."""
        return self.decision is not None and self.decision.filled

    @property
    def _is_timeless(self) -> bool:
        """Whether the last statement reads stored answers alone."""
        decision = self.decision
        return (
            decision is not None
            and bool(decision.answers)
            and decision.target is None
            and not (decision.tables or decision.calls)
        )

    @property
    def _behind(self) -> Errors:
        """What of DuckDB's errors is shown about what runs for the last statement."""
        return Errors.SHOWN if self.decision is None else _errors_of(self.decision)

    def _admitted(self, query: Any, parameters: Any = None) -> str:
        self.decision = self.noise = None
        try:
            decision = self._guard.admit(query, parameters, in_transaction=self._in_transaction, bind=self._bind)
        except Refused as refused:
            self.decision = Decision([refused.step], None)
            raise PolicyRefusal(str(refused)) from None
        self.decision, self._note, text = decision.shown, decision.note, decision.sql
        self.noise = Noise.of(decision)
        if text is None:
            raise UnsupportedQuery("The guard wrote nothing to run: this is a bug in duckanon, nothing ran.")
        self._prepare(decision)
        if decision.view is not None:
            self._view(*decision.view)
        if decision.target is not None:
            # It may create or drop a temporary table, also by the end of a transaction.
            self._own = None
            word = decision.target.split(maxsplit=1)[0].upper()
            self._in_transaction = word == "BEGIN" or (self._in_transaction and word not in ("COMMIT", "ROLLBACK"))
        return text

    def _prepare(self, decision: Decision) -> None:
        """Put the SQL functions on the connection before the first statement that calls one: they take 25 ms."""
        if decision.calls and not self._has_functions:
            make_macros(self._con)
            self._has_functions = True

    def _with_values(self, query: Any, parameters: Any) -> Any:
        """The statement with the values of its PIVOTs, which are asked for as by any other statement."""
        text = statement_text(query)
        if not _PIVOT.search(text) or parameters:
            return query
        return with_values(text, self._values, self._free_values)

    def _values(self, query: str) -> list[object]:
        """The values of a query of one column."""
        return [value for (value,) in self.execute(query).fetchall()]

    def _free_values(self, query: str) -> list[object]:
        """As `_values`. Raises UnsupportedQuery for those that would be charged."""
        if any(step.epsilon is not None and step.drawn is None for step in self._guard.explain(query, None).steps):
            raise UnsupportedQuery(
                "The values of this PIVOT's column are charged, and explaining charges nothing: ask for them first, or "
                "write them out."
            )
        return self._values(query)

    def _bind(self, trial: Trial) -> None:
        """Let DuckDB plan a query that has no rows, and run it with invented numbers. What fails is not charged for."""
        errors = Errors.HIDDEN if trial.hidden else Errors.COMPUTED
        _unnamed(lambda: self._con.execute(f"EXPLAIN {trial.empty}").fetchall(), errors)
        failing = self._failing(trial)
        if failing is not None:
            _unnamed(lambda: _tried(self._con, failing), errors)

    def _failing(self, trial: Trial) -> str | None:
        """A query with invented numbers for whose failure the statement is refused; None if it may be charged for."""
        failing, ran = None, False
        for text in trial.invented:
            try:
                _tried(self._con, text)
            except duckdb.InterruptException:
                raise
            except duckdb.Error as error:
                failing = text
                if trial.looks_up and _SEVERAL_ROWS in str(error):
                    return failing
            else:
                ran = True
                if not trial.looks_up:
                    break
        return None if ran else failing

    def _view(self, name: TableName, view: View | None) -> None:
        """Keep or forget a temporary view."""
        if self._in_transaction:
            raise UnsupportedQuery("Temporary views are made and dropped outside of transactions: COMMIT or ROLLBACK.")
        self._views.pop(name, None)
        if view is not None:
            self._views[name] = view

    def _temporary(self) -> Mapping[TableName, Stored | View]:
        """The temporary tables and views.

        The tables are read again if they may have changed; reading ends a result that is being fetched.
        """
        if self._own is None:
            self._own = temporary(self._con)
        return {**self._own, **self._views}

    def __enter__(self) -> Analyst:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name not in _PASSES:
            raise NotAvailable(
                f"An analyst's connection has no {name}: it runs SQL with sql() and execute(), and gives results."
            )
        return _in_turn(self._lock, self._con, name, self._behind, self._statements.running)


_GONE = "The statement reads or calls what is not there, or was dropped since it was sent: send it again."
_BEHIND = (
    "The statement failed while it ran, and it uses a view or macro, whose text or tables an error could quote, so "
    "what it failed on is not told: cast with TRY_CAST, and divide by nullif(x, 0)."
)
_COMPUTED = (
    "What the statement computes fails for a value of its keys or for a noisy number: cast with TRY_CAST, divide by "
    "nullif(x, 0), and compute in a wider type, such as x::BIGINT."
)
# How DuckDB begins to say it, and we.
_SEVERAL_ROWS = "More than one row returned by a subquery"
_SERIES = (
    "range and generate_series take whole numbers within BIGINT, or dates and an INTERVAL, and a step other than 0, of "
    "at most 2^32 values: round and cast a noisy number, as in range(round(x)::BIGINT), and write the step out."
)
_NO_SERIES = ("interval cannot be 0", "Lists larger than 2^32", "infinite bounds", "mix of negative/positive entries")
_NO_SERIES_OF = re.compile(r"argument types '(range|generate_series)\(")
_INFINITE = (
    "What is added up is infinite or NaN in some row of a table that is not protected, and so would the sum be: leave "
    "such rows out, by WHERE isfinite(x)."
)
_SEVERAL = (
    "A subquery that stands for one value has several rows: let it compute one, as in (SELECT max(x) FROM t), or keep "
    "one by WHERE."
)
_UNBOUND = (
    "The statement does not fit a view or macro that it uses, by the name or the type of a column, and the error could "
    "quote the text of that: DESCRIBE shows the columns of a view."
)


# The most rows of a query with invented numbers that are looked at: joined with open tables it may have any number.
_TRIED_ROWS = 100_000


def _tried(con: duckdb.DuckDBPyConnection, text: str) -> None:
    """Run a query as far as its first rows. They come in parts, and none is kept. Raises DuckDB's error."""
    found, rows = con.execute(text), 0
    while rows < _TRIED_ROWS and (some := len(found.fetchmany(2048))):
        rows += some


def _errors_of(decision: Decision) -> Errors:
    """What of DuckDB's errors is shown about what runs for a statement."""
    if decision.has_definitions:
        return Errors.HIDDEN
    is_written = any(step.verdict is not Verdict.RUNS or step.object is not None for step in decision.steps)
    return Errors.COMPUTED if is_written else Errors.SHOWN


def _unnamed(run: Callable[[], Any], behind: Errors = Errors.SHOWN) -> Any:
    """The result of `run`. DuckDB's error about a missing table is replaced, since it may name closed tables.

    A result is lazy, so its temporary table may be dropped before it runs, and DuckDB would suggest tables with similar
    names. behind: which errors are replaced too. Those that may quote the text of a view or macro may also quote rows
    of a closed table that an open view leaves out: DuckDB may compute an expression before the view's conditions.
    """
    try:
        return run()
    except duckdb.InterruptException:
        raise
    except Exception as error:  # Arrow has errors of its own.
        said: str | Exception
        if isinstance(error, duckdb.CatalogException) and "already exists" not in str(error):
            said = _GONE
        elif NOT_FINITE in str(error):
            said = _INFINITE
        elif behind is Errors.HIDDEN:
            said = _UNBOUND if isinstance(error, duckdb.BinderException) else _BEHIND
        elif behind is Errors.COMPUTED and _SEVERAL_ROWS in str(error):
            said = _SEVERAL
        elif behind is Errors.COMPUTED and _is_of_a_series(str(error)):
            said = _SERIES
        elif behind is Errors.COMPUTED and _is_of_a_value(error):
            said = _COMPUTED
        elif behind is Errors.COMPUTED and isinstance(error, duckdb.BinderException):
            said = duckdb.BinderException(_without_its_line(error))
        else:
            raise
    # Raised outside of `except`, so that DuckDB's error is not its context.
    raise UnsupportedQuery(said) if isinstance(said, str) else said


def _is_of_a_series(error: str) -> bool:
    """Whether DuckDB failed to make a series of numbers. Of its words one would see the text that the guard wrote."""
    return any(text in error for text in _NO_SERIES) or _NO_SERIES_OF.search(error) is not None


def _is_of_a_value(error: Exception) -> bool:
    """Whether DuckDB failed on a value: of a key, or a noisy number under a name that the guard gave it.

    A sentence that the guard wrote with `error()` is none of these.
    """
    is_of_a_value = isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException)
    return is_of_a_value or "_dk_" in _without_its_line(error)


def _without_its_line(error: Exception) -> str:
    """DuckDB's words; where it did not bind, without the line that it quotes: this is not what was written."""
    return str(error).split("\n\nLINE ")[0] if isinstance(error, duckdb.BinderException) else str(error)


def _in_turn(
    lock: RLock,
    of: Any,
    name: str,
    behind: Errors = Errors.SHOWN,
    running: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Any:
    """An attribute of a DuckDB object, which is read and called under the lock, where it may be interrupted."""
    with lock:
        found = _unnamed(lambda: getattr(of, name), behind)
    if not callable(found):
        return found

    is_read = behind is not Errors.SHOWN

    @wraps(found)
    def called(*arguments: Any, **named: Any) -> Any:
        with lock, running():
            return _unnamed(
                lambda: _read(found(*arguments, **named)) if is_read else found(*arguments, **named), behind
            )

    return called


def _read(found: Any) -> Any:
    """A result; what would be read later is read now, so that it fails here."""
    return found.read_all().to_reader() if hasattr(found, "read_all") else found
