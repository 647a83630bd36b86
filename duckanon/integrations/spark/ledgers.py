"""The ledger that a release on Spark is charged in: a DuckDB file on the driver, for one writer at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb

import duckanon
from duckanon.errors import InvalidInput


@contextmanager
def opened(own: Mapping[str, Any]) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """A connection to the ledger's database, and the table's name there, from the arguments `ledger` and `name`.

    ledger: the path of a DuckDB database, or an open connection to one. name: the charge is made to the budget of the
    table that has this name there, if it is protected; it may be an empty copy of the table on Spark. Raises
    InvalidInput without them, and for a file that cannot be opened.
    """
    ledger, name = own.get("ledger"), own.get("name")
    if not isinstance(ledger, str | os.PathLike | duckdb.DuckDBPyConnection):
        raise InvalidInput(
            "What is drawn is recorded in a ledger before: say which DuckDB database keeps it, as in "
            "ledger='budget.duckdb'."
        )
    if not isinstance(name, str) or not name:
        raise InvalidInput("name must say what the ledger calls the table, as in name='people'.")
    if isinstance(ledger, duckdb.DuckDBPyConnection):
        with ledger.cursor() as con:
            yield duckanon.register(con), name
        return
    try:
        file = duckdb.connect(os.fspath(ledger))
    except duckdb.Error:
        raise InvalidInput(
            "The ledger cannot be opened: it must be a DuckDB database that no other program has open."
        ) from None
    with file as con:
        yield duckanon.register(con), name
