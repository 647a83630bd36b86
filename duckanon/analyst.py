"""An analyst's connection: it answers what the guard admits, and has no other door.

It keeps honest people from mistakes. Python hides nothing from who looks for it: whoever may run Python here, or may
open the file, holds the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from threading import RLock
from types import TracebackType
from typing import Any
from weakref import finalize

import duckdb

from duckanon.catalog.names import TableName
from duckanon.catalog.reader import temporary
from duckanon.catalog.snapshot import Stored
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.guard import Guard, SharedCatalog
from duckanon.rewrite.decision import Decision
from duckanon.rewrite.rule_context import Refused
from duckanon.specification import macros

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
    "lock_configuration": True,
}


class NoDoor(UnsupportedQuery, AttributeError):
    """What an analyst's connection or result does not have. Programs that ask with `hasattr` get an answer."""


class Answer:
    """The result of a query, run each time it is shown or fetched, as DuckDB's relations are. It only gives rows.

    holds: raises where what was decided about the query does not hold any more.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation | None, lock: RLock, holds: Callable[[], None]) -> None:
        self._relation, self._lock, self._holds = relation, lock, holds

    def __getattr__(self, name: str) -> Any:
        if name not in _GIVES:
            raise NoDoor(
                f"An analyst's result has no {name}: it is shown and fetched. To go on from it, write another query."
            )
        if self._relation is None:
            raise UnsupportedQuery("The statement has no result.")
        self._holds()
        return _in_turn(self._lock, self._relation, name)

    def __repr__(self) -> str:
        with self._lock:
            self._holds()
            return str(_unnamed(lambda: repr(self._relation)))

    def __str__(self) -> str:
        with self._lock:
            self._holds()
            return str(_unnamed(lambda: str(self._relation)))

    def __len__(self) -> int:
        return len(self.fetchall())


_GIVES = frozenset(
    """alias arrow columns description df dtypes fetch_arrow_reader fetch_arrow_table fetch_df_chunk fetch_record_batch
    fetchall fetchdf fetchmany fetchnumpy fetchone pl shape show to_arrow_table to_df torch tf types""".split()
)
_PASSES = frozenset(
    """arrow description df fetch_arrow_table fetch_df fetch_df_chunk fetch_record_batch fetchall fetchdf fetchmany
    fetchnumpy fetchone extract_statements pl rowcount""".split()
)


class Analyst:
    """A guarded connection. decision: what was decided about the last statement; None before the first.

    Every statement is decided about on its way in, and what runs is the guard's own text. Refusals are PolicyRefusal,
    UnsupportedQuery or BudgetExhausted. Threads take turns: a connection does one thing at a time.
    """

    role = "analyst"

    def __init__(self, con: duckdb.DuckDBPyConnection, shared: SharedCatalog) -> None:
        self._con, self._shared = con, shared
        # Once, by `close` or when nobody holds this any more.
        self._leave = finalize(self, shared.leave)
        self._leave.atexit = False  # type: ignore[misc] # its stub forgets the property
        self._guard = Guard(shared, self._temporary)
        self._lock = RLock()
        self._in_transaction = False
        self._has_functions = False
        # The temporary tables as they were last read; None where a statement may have changed them.
        self._own: Mapping[TableName, Stored] | None = {}
        self.decision: Decision | None = None

    def sql(self, query: Any, *, params: Any = None) -> Answer:
        """The answer to a query. It is lazy: it runs when it is shown or fetched."""
        with self._lock:
            text = self._admitted(query)
            named = {} if params is None else {"params": params}
            relation = _unnamed(lambda: self._con.sql(text, **named))
            return Answer(relation, self._lock, self._guard.holding(query, text))

    def query(self, query: Any, *, params: Any = None) -> Answer:
        """Another name for `sql`."""
        return self.sql(query, params=params)

    def execute(self, query: Any, parameters: Any = None) -> Analyst:
        """Run a statement, and return this connection to fetch from."""
        with self._lock:
            text = self._admitted(query)
            given = () if parameters is None else (parameters,)
            _unnamed(lambda: self._con.execute(text, *given))
        return self

    def executemany(self, query: Any, parameters: Any = None) -> Analyst:
        """Run a statement once for each set of parameters."""
        with self._lock:
            text = self._admitted(query)
            _unnamed(lambda: self._con.executemany(text, parameters))
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

    def explain(self, query: Any) -> Decision:
        """What would become of a statement; nothing runs."""
        with self._lock:
            return self._guard.explain(query)

    def cursor(self) -> Analyst:
        """A second connection to the same database, guarded too."""
        with self._lock:
            return Analyst(self._con.cursor(), self._shared.join())

    def interrupt(self) -> None:
        """Stop what runs."""
        self._con.interrupt()

    def close(self) -> None:
        with self._lock:
            self._con.close()
            self._leave()

    def _admitted(self, query: Any) -> str:
        self.decision = None
        try:
            self.decision = self._guard.admit(query, in_transaction=self._in_transaction)
        except Refused as refused:
            self.decision = Decision([refused.step], None)
            raise PolicyRefusal(str(refused)) from None
        text = self.decision.sql
        if text is None:
            raise UnsupportedQuery("The guard wrote nothing to run: this is a bug in duckanon, nothing ran.")
        if self.decision.calls and not self._has_functions:
            self._con.execute(macros()).fetchall()
            self._has_functions = True
        if self.decision.target is not None:
            # A temporary table comes or goes, or a transaction that made one.
            self._own = None
            word = self.decision.target.split(maxsplit=1)[0].upper()
            self._in_transaction = word == "BEGIN" or (self._in_transaction and word not in ("COMMIT", "ROLLBACK"))
        return text

    def _temporary(self) -> Mapping[TableName, Stored]:
        """The temporary tables, read where they may have changed: what was open to be fetched then has been."""
        if self._own is None:
            self._own = temporary(self._con)
        return self._own

    def __enter__(self) -> Analyst:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name not in _PASSES:
            raise NoDoor(
                f"An analyst's connection has no {name}: it runs SQL with sql() and execute(), and gives results."
            )
        return _in_turn(self._lock, self._con, name)


def _unnamed(run: Callable[[], Any]) -> Any:
    """What DuckDB gives; where it misses something, an error that names no closed table.

    A result is lazy, so its temporary table may be dropped before it runs. DuckDB would say which tables have a name
    like it.
    """
    try:
        return run()
    except duckdb.CatalogException as error:
        if "already exists" in str(error):
            raise
    # Raised here, so that DuckDB's own error is not its context either.
    raise UnsupportedQuery(
        "The statement reads or calls what is not there, or was dropped since it was sent: send it again."
    )


def _in_turn(lock: RLock, of: Any, name: str) -> Any:
    """An attribute of DuckDB's, read or called while no other thread uses the connection."""
    with lock:
        found = _unnamed(lambda: getattr(of, name))
    if not callable(found):
        return found

    @wraps(found)
    def called(*arguments: Any, **named: Any) -> Any:
        with lock:
            return _unnamed(lambda: found(*arguments, **named))

    return called
