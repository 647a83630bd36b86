"""The facade: puts duckanon on a DuckDB connection, and opens connections that have it."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

import duckdb

from duckanon.functions import budgets, cells, conditionals, designs, groups, kanon, metric, perturb
from duckanon.functions.templates import macros
from duckanon.functions.udf import Instance
from duckanon.governance.books import books_of

Progress = Callable[[str, float], None]


def _silent(step: str, share: float) -> None:
    """Report progress to nobody."""


def register(con: duckdb.DuckDBPyConnection, *, progress: Progress | None = None) -> duckdb.DuckDBPyConnection:
    """Put duckanon's SQL functions on a DuckDB connection, and return it.

    The functions are temporary: nothing is written into the database file, until the first charge or budget is. Other
    cursors of the same database need their own `register`. progress: told what runs and the share done (0 to 1), from
    the thread that runs it; the first `register` of a database decides. Calling it again is harmless.
    """
    on, told = Instance(con), progress or _silent
    kanon.register(on, told)
    cells.register(on)
    conditionals.register(on)
    designs.register(on, told)
    books = books_of(on.identity, con)
    groups.register(on, books.once)
    budgets.register(on, books)
    metric.register(on, told)
    perturb.register(on, books)
    con.execute(macros()).fetchall()
    return con


class Connection:
    """A DuckDB connection with duckanon's functions, on it and on each of its cursors.

    `sql`, `execute`, `cursor`, `close` and the context manager are DuckDB's own; so is every other attribute. Each
    statement passes `_admit` on its way in.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con

    def _admit(self, statement: Any) -> Any:
        """The statement that runs in place of the one that came in: for now itself."""
        return statement

    def sql(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """DuckDB's `sql`: a lazy relation, run each time it is shown or fetched."""
        return self._con.sql(self._admit(query), *args, **kwargs)

    def query(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """DuckDB's `query`: another name for `sql`."""
        return self.sql(query, *args, **kwargs)

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Connection:
        """DuckDB's `execute`: runs the statement and returns this connection, to fetch from."""
        self._con.execute(self._admit(query), *args, **kwargs)
        return self

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> Connection:
        """DuckDB's `executemany`: runs the statement once for each set of parameters."""
        self._con.executemany(self._admit(query), *args, **kwargs)
        return self

    def cursor(self) -> Connection:
        """A second connection to the same database, with the functions too."""
        return Connection(register(self._con.cursor()))

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


def connect(
    database: str | os.PathLike[str] = ":memory:",
    *,
    read_only: bool = False,
    config: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Connection:
    """Open a DuckDB database with duckanon's functions. The arguments are those of `duckdb.connect`.

    progress: as for `register`. DuckDB finds a data frame by its variable's name in the frame that calls it; here that
    frame is ours, so all frames are searched (setting `python_scan_all_frames`).
    """
    settings = {"python_scan_all_frames": True, **(config or {})}
    con = duckdb.connect(os.fspath(database), read_only=read_only, config=settings)
    return Connection(register(con, progress=progress))
