"""One connection for many tests, each with a database of its own: to register duckanon takes longer than most tests.

What many tests of a file begin with is made once in a process, and copied for each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

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


Make: TypeAlias = Callable[[duckdb.DuckDBPyConnection], object]
Begun: TypeAlias = Callable[[Make], duckdb.DuckDBPyConnection]


class Beginnings:
    """The databases that tests begin with, kept in files. folder: where."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Make, Path] = {}

    def fill(self, con: duckdb.DuckDBPyConnection, make: Make) -> None:
        """Fill the empty database `memory` with what `make` leaves there."""
        file = self._files.get(make)
        if file is not None:
            self._copy(con, file, "kept", "memory")
            return
        make(con)
        file = self._folder / f"{len(self._files)}.duckdb"
        self._copy(con, file, "memory", "kept")
        self._files[make] = file

    @staticmethod
    def _copy(con: duckdb.DuckDBPyConnection, file: Path, old: str, new: str) -> None:
        con.execute(f"ATTACH '{file}' AS kept; COPY FROM DATABASE {old} TO {new}; DETACH kept").fetchall()
