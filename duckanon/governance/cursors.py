"""Connections to a database from inside the functions that it calls."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb

from duckanon.errors import InvalidInput


class Cursors:
    """Opens cursors on a database instance. None is kept, since that would keep the file open after its last user.

    A cursor has a transaction of its own, so what it commits outlives the caller's ROLLBACK.
    """

    def __init__(self) -> None:
        self._known: list[weakref.ref[duckdb.DuckDBPyConnection]] = []

    def add(self, con: duckdb.DuckDBPyConnection) -> None:
        """Remember a connection to the instance, as a weak reference."""
        self._known = [one for one in self._known if one() not in (None, con)] + [weakref.ref(con)]

    def close(self) -> None:
        """Close all remembered connections, except those that another thread is using."""
        for reference in self._known:
            con = reference()
            if con is not None:
                with suppress(duckdb.Error):
                    con.close()

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A new cursor, closed at the end. Raises InvalidInput if all remembered connections are closed."""
        found = None
        for reference in self._known:
            con = reference()
            try:
                found = con.cursor() if con is not None else None
            except duckdb.ConnectionException:
                continue
            if found is not None:
                break
        if found is None:
            raise InvalidInput(
                "duckanon has no connection left to record a charge with: keep the connection that was registered open."
            )
        try:
            _prepare(found)
            yield found
        finally:
            found.close()


def _prepare(con: duckdb.DuckDBPyConnection) -> None:
    """Turn off the progress bar, and the use of Python variables as tables: one could be called `ledger`.

    A locked configuration cannot be changed; an analyst's instance has variables turned off already.
    """
    try:
        con.execute("SET enable_progress_bar = false; SET SESSION python_enable_replacements = false").fetchall()
    except duckdb.InvalidInputException:
        if con.execute("SELECT system.main.current_setting('python_enable_replacements')").fetchall() != [(False,)]:
            raise
