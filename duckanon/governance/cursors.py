"""The way back into a database from inside its own functions."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from duckanon.errors import InvalidInput


class Cursors:
    """Opens cursors on a database instance, and keeps none: a cursor held would keep the file open after its last user.

    A cursor has a transaction of its own, so what it commits outlives the caller's ROLLBACK.
    """

    def __init__(self) -> None:
        self._known: list[weakref.ref[duckdb.DuckDBPyConnection]] = []

    def add(self, con: duckdb.DuckDBPyConnection) -> None:
        """Take note of a connection to the instance."""
        self._known = [one for one in self._known if one() not in (None, con)] + [weakref.ref(con)]

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of its own, closed at the end. Raises InvalidInput once every connection admitted is gone."""
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
            _alone(found)
            yield found
        finally:
            found.close()


def _alone(con: duckdb.DuckDBPyConnection) -> None:
    """No progress bar, and no variable of Python's called `ledger` that stands in for a table.

    A locked configuration stays as it is: an analyst's instance looks at no variables anyway.
    """
    try:
        con.execute("SET enable_progress_bar = false; SET SESSION python_enable_replacements = false").fetchall()
    except duckdb.InvalidInputException:
        if con.execute("SELECT system.main.current_setting('python_enable_replacements')").fetchall() != [(False,)]:
            raise
