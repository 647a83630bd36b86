"""Puts duckanon's functions on a DuckDB connection, and opens connections that have them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import duckdb

from duckanon.cancellation import Statements, check
from duckanon.catalog.database_files import misconfigured, unattached, unopened
from duckanon.catalog.names import literal
from duckanon.errors import InvalidInput
from duckanon.functions import noise_widths, prepared_widths
from duckanon.functions.udf import Host, Instance, Progress, make_macros
from duckanon.governance.instance import Governance, governance_of
from duckanon.governance.locations import locate
from duckanon.specification import functions

if TYPE_CHECKING:
    from duckanon.analyst import Analyst


def _silent(step: str, share: float) -> None:
    """Do not report progress."""


def _stopping(progress: Progress) -> Progress:
    """A report of progress that also stops the engine that reports, if its statement is to end."""

    def report(step: str, share: float) -> None:
        check()
        progress(step, share)

    return report


def register(con: duckdb.DuckDBPyConnection, *, progress: Progress | None = None) -> duckdb.DuckDBPyConnection:
    """Put duckanon's SQL functions on a DuckDB connection, and return it.

    The functions are temporary: nothing is written to the database file before the first charge or policy. Other
    cursors of the same database need a `register` of their own. progress: called with what runs and the share done (0
    to 1), from the thread that runs it; the first `register` of a database decides. Calling it again is harmless.
    """
    _complete(con, progress)
    make_macros(con)
    return con


def _complete(con: duckdb.DuckDBPyConnection, progress: Progress | None) -> None:
    """Give a connection's instance what the functions call, once; and remember the connection."""
    own = _own(con)
    on = Instance(own)
    # Every connection is remembered: charges are recorded by any that is still open.
    governance = governance_of(on.identity, own)
    if not on.is_complete:
        host = Host(
            _stopping(progress or _silent),
            governance,
            lambda text, path: _explained(text, path, governance),
            lambda request, texts, seen: _prepared(request, texts, seen, governance),
        )
        for module in dict.fromkeys(function.module for function in functions().values()):
            import_module(f"duckanon.functions.{module}").register(on, host)
        noise_widths.register(on)
        prepared_widths.register(on)
        on.finish(governance.privacy_unit)


def _own(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """DuckDB's own connection. duckdb-engine wraps it, and its wrapper's `cursor` is no second connection."""
    own: duckdb.DuckDBPyConnection = getattr(con.begin, "__self__", con)
    return own


def _explained(text: str, path: str, governance: Governance) -> list[dict[str, Any]]:
    """What an analyst's connection would decide about a statement, as rows of explain_privacy.

    path: DuckDB's setting search_path where it is asked. A cursor begins with that of the instance.
    """
    from duckanon.guard import Guard, SharedCatalog

    with governance.cursors.cursor() as cursor:
        if path != cursor.execute("SELECT system.main.current_setting('search_path')").fetchall()[0][0]:
            cursor.execute(f"SET search_path = {literal(path)}").fetchall()
        return Guard(SharedCatalog(cursor, governance)).explain(text).rows()


def _prepared(
    request: Any, texts: Sequence[str], lookup: Mapping[str, Any], governance: Governance
) -> list[dict[str, Any]]:
    """The rows of a call of prepare. texts: of its files of queries. lookup: the tables that the caller sees."""
    from duckanon.guard import SharedCatalog
    from duckanon.preparing import prepared

    with governance.cursors.cursor() as cursor:
        return prepared(SharedCatalog(cursor, governance), request, texts, locate(request.tbl, lookup))


class Session(Protocol):
    """What a steward's and an analyst's connection have in common: the type for code that works with both.

    role: 'steward' or 'analyst'. Results are fetched as from a DuckDB connection: `fetchall`, `df` and so on.
    """

    role: str

    def sql(self, query: Any) -> Any:
        """A lazy result, which runs when it is shown or fetched."""
        ...

    def execute(self, query: Any) -> Session:
        """Run a statement, and return this connection to fetch from."""
        ...

    def cursor(self) -> Session:
        """A second connection to the same database, for the same role."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Session: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __getattr__(self, name: str) -> Any: ...


class Connection:
    """A DuckDB connection with duckanon's functions, on it and on each of its cursors.

    `sql`, `execute`, `cursor`, `close` and the context manager are DuckDB's own; so is every other attribute. Each
    statement passes `_admit` on its way in.
    """

    role = "steward"

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._statements = Statements(_own(con).interrupt, duckdb.InterruptException)

    def _admit(self, statement: Any) -> Any:
        """The statement that runs in place of the given one: itself."""
        return statement

    def sql(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """DuckDB's `sql`: a lazy relation, run each time it is shown or fetched."""
        with self._statements.running():
            return self._con.sql(self._admit(query), *args, **kwargs)

    def query(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """DuckDB's `query`: another name for `sql`."""
        return self.sql(query, *args, **kwargs)

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Connection:
        """DuckDB's `execute`: runs the statement and returns this connection, to fetch from."""
        with self._statements.running():
            try:
                self._con.execute(self._admit(query), *args, **kwargs)
            except duckdb.Error as error:
                reason = unattached(query, error)
                if reason is None:
                    raise
                raise reason from error
        return self

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> Connection:
        """DuckDB's `executemany`: runs the statement once for each set of parameters."""
        with self._statements.running():
            self._con.executemany(self._admit(query), *args, **kwargs)
        return self

    def cursor(self) -> Connection:
        """A second connection to the same database, with the functions too."""
        return Connection(register(self._con.cursor()))

    def interrupt(self) -> None:
        """Stop what runs: in DuckDB, and in duckanon's engines."""
        self._statements.interrupt()

    def close(self) -> None:
        self._con.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)


@overload
def connect(
    database: str | os.PathLike[str] = ":memory:",
    *,
    role: Literal["steward"],
    read_only: bool = False,
    config: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Connection: ...


@overload
def connect(
    database: str | os.PathLike[str] = ":memory:",
    *,
    role: Literal["analyst"],
    read_only: bool = False,
    config: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Analyst: ...


@overload
def connect(
    database: str | os.PathLike[str] = ":memory:",
    *,
    role: str | None = None,
    read_only: bool = False,
    config: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Connection | Analyst: ...


def connect(
    database: str | os.PathLike[str] = ":memory:",
    *,
    role: str | None = None,
    read_only: bool = False,
    config: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Connection | Analyst:
    """Open a DuckDB database with duckanon's functions. The arguments are those of `duckdb.connect`, and two more.

    role: 'steward' runs everything as it is written, and sets policies with `protect`. 'analyst' is guarded: protected
    tables answer only through releases, and DuckDB itself is locked down (no files, no settings, no variables). By
    default it is 'analyst' for a database with a protected table, and 'steward' for every other one and in memory. The
    connection's `role` says which. progress: as for `register`. Raises InvalidInput for another role, where this
    process has the database open under the other one, and where its file cannot be opened.

    DuckDB finds a data frame by its variable's name in the frame that calls it; here that frame is ours, so for a
    steward all frames are searched (setting `python_scan_all_frames`).
    """
    if role not in (None, "steward", "analyst"):
        raise InvalidInput("role must be 'steward' or 'analyst', or left out.")
    try:
        path = os.fspath(database)
    except TypeError:
        raise InvalidInput("A database is the path of its file, or ':memory:': give a text or a Path.") from None

    def opened(role: str) -> duckdb.DuckDBPyConnection:
        settings = {"python_scan_all_frames": True, **(config or {}), **_locked(role)}
        return duckdb.connect(path, read_only=read_only, config=settings)

    if role is None and (not path or path.startswith(":memory:")):
        role = "steward"
    try:
        role, con = _opened(opened, role) if role is not None else _fitting(opened)
        if role != "analyst":
            return Connection(register(con, progress=progress))
        _complete(con, progress)
        return _guarded(con)
    except duckdb.Error as error:
        reason = unopened(path, error, read_only=read_only) or misconfigured(error)
        if reason is None:
            raise
        raise reason from error


def _opened(opened: Callable[[str], duckdb.DuckDBPyConnection], role: str) -> tuple[str, duckdb.DuckDBPyConnection]:
    """A connection for a role. Its settings hold for the whole instance, so a process has one role in a database."""
    try:
        return role, opened(role)
    except duckdb.ConnectionException as error:
        if "different configuration" not in str(error):
            raise
        raise InvalidInput(
            f"This process has the database open with other settings than those of role='{role}': close that "
            "connection first, or ask for its role."
        ) from None


def _fitting(opened: Callable[[str], duckdb.DuckDBPyConnection]) -> tuple[str, duckdb.DuckDBPyConnection]:
    """A connection for the default role: an analyst's if a table of the database is protected, else a steward's."""
    try:
        role, con = _opened(opened, "steward")
    except InvalidInput:
        role, con = _opened(opened, "analyst")
    needed = "analyst" if governance_of(Instance(con).identity, con).policies() else "steward"
    if needed == role:
        return role, con
    con.close()
    return _opened(opened, needed)


def _locked(role: str) -> dict[str, Any]:
    """The settings that a role cannot change. The guard is imported for an analyst only."""
    if role != "analyst":
        return {}
    from duckanon.analyst import LOCKED

    return LOCKED


def _guarded(con: duckdb.DuckDBPyConnection) -> Analyst:
    from duckanon.analyst import Analyst
    from duckanon.guard import SharedCatalog

    return Analyst(con, SharedCatalog(con.cursor(), governance_of(Instance(con).identity, con)))
