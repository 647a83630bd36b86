"""One connection for many tests, each with a database of its own: to register duckanon takes longer than most tests."""

from __future__ import annotations

from contextlib import suppress

import duckdb

import duckanon

# What a test may leave on a connection beside its database: settings, temporary objects, variables, other databases.
_STATE = """
SELECT 'setting', name, value FROM duckdb_settings() UNION ALL
SELECT 'table', table_name, NULL FROM duckdb_tables() WHERE temporary UNION ALL
SELECT 'view', view_name, NULL FROM duckdb_views() WHERE temporary AND NOT internal UNION ALL
SELECT 'variable', name, NULL FROM duckdb_variables() UNION ALL
SELECT 'database', database_name, NULL FROM duckdb_databases() ORDER BY ALL
"""


class SharedConnection:
    """A connection with duckanon on it, which is made anew when a test has left anything on it."""

    def __init__(self) -> None:
        self._open()

    def begin(self) -> duckdb.DuckDBPyConnection:
        """The connection, in an empty database that is called `memory`, as that of a new one."""
        self._con.execute("ATTACH ':memory:' AS memory; USE memory").fetchall()
        return self._con

    def end(self) -> None:
        """Drop the database, with all that is in it."""
        try:
            self._con.execute("USE base; DETACH memory").fetchall()
            is_clean = self._state() == self._clean
        except duckdb.Error:  # it is closed, in a transaction, or something still reads from it
            is_clean = False
        if not is_clean:
            self.close()
            self._open()

    def close(self) -> None:
        with suppress(duckdb.Error):
            self._con.close()

    def _open(self) -> None:
        self._con = duckdb.connect()
        self._con.execute("ATTACH ':memory:' AS base; USE base; DETACH memory").fetchall()
        duckanon.register(self._con)
        self._clean = self._state()

    def _state(self) -> list[tuple[object, ...]]:
        return self._con.execute(_STATE).fetchall()
