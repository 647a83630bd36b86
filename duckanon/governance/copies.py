"""Releases that are kept as tables of the schema `duckanon`: made once for each content of a table, and given to all.

Two k-anonymous copies of the same records under different settings can be intersected, which may leave less than k
candidates. So the first that is admitted stands until the table's content changes. Counts with noise that are asked for
again are the same counts, and cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import duckdb

from duckanon.accounting import Charge
from duckanon.errors import InvalidInput, PolicyRefusal
from duckanon.governance.ledger import Ledger, schema_of
from duckanon.governance.places import Place

Path = tuple[str, str, str]
_REGISTER = """
CREATE TABLE IF NOT EXISTS {schema}.copies (
  copy VARCHAR PRIMARY KEY, content VARCHAR NOT NULL, call VARCHAR NOT NULL
)
"""


class Copies:
    """The kept releases of all databases of one instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._turn = Lock()

    def keep(self, con: duckdb.DuckDBPyConnection, table: Path, call: str, copy: Path) -> None:
        """Make a k-anonymous copy, unless it stands. con: a connection with duckanon's functions, in no transaction.

        table, copy: full names. call: makes the copy, fully qualified. Raises PolicyRefusal if another copy of the same
        content was given out, and InvalidInput if the database cannot be written.
        """
        with self._turn:
            content = _content(con, table)
            stored = _stored(con, copy)
            if stored is not None and stored[0] == content:
                if stored[1] != call:
                    raise PolicyRefusal(
                        "Another k-anonymous copy of these records was given out before, and two could be intersected. "
                        f"The one that stands is free: FROM {_plain(stored[1])}."
                    )
                if _stands(con, copy):
                    return
            # The line first, as a charge before its noise: a release that nobody recorded must not be.
            self._ledger.note(Place(*table), f"release: {_plain(call)}")
            _make(con, copy, content, call, f"FROM {call}")

    def draw(
        self,
        con: duckdb.DuckDBPyConnection,
        table: Path,
        copy: Path,
        charge: Charge,
        prepare: Callable[[duckdb.DuckDBPyConnection], None],
        noisy: Callable[[duckdb.DuckDBPyConnection], str],
    ) -> None:
        """Make a release with noise, unless it stands: prepared, charged, and then drawn.

        copy: a name that no other release has. prepare: refuses what may be refused. noisy: draws,
        and returns the query that gives the release.
        """
        with self._turn:
            content = _content(con, table)
            # (Its text holds what the sender wrote, which is nobody's to read; the name tells it apart.)
            if _stored(con, copy) == (content, copy[2]) and _stands(con, copy):
                return
            prepare(con)
            self._ledger.charge(Place(*table), charge, f"{copy[2]} {content}")
            _make(con, copy, content, copy[2], noisy(con))


def _make(con: duckdb.DuckDBPyConnection, copy: Path, content: str, call: str, query: str) -> None:
    schema, name = schema_of(copy[0]), copy[2]
    con.begin()
    try:
        con.execute(_REGISTER.format(schema=schema)).fetchall()
        con.execute(f'CREATE OR REPLACE TABLE {schema}."{name}" AS {query}').fetchall()
        con.execute(f"INSERT OR REPLACE INTO {schema}.copies VALUES (?, ?, ?)", [name, content, call]).fetchall()
        con.commit()
    except duckdb.Error as error:
        con.rollback()
        raise InvalidInput(f"The release cannot be kept. {str(error).splitlines()[0]}") from None


def _content(con: duckdb.DuckDBPyConnection, table: Path) -> str:
    """What tells a table's content from another's, whatever the order of its rows."""
    whole = ".".join(_quoted(part) for part in table)
    columns = con.execute(
        "SELECT system.main.list(column_name || ' ' || data_type ORDER BY column_index)::VARCHAR "
        "FROM system.main.duckdb_columns() WHERE (database_name, schema_name, table_name) = (?, ?, ?)",
        list(table),
    ).fetchall()
    rows = con.execute(
        f'SELECT system.main.count(*), system.main.sum(system.main.hash("duckanon.row")) FROM {whole} AS "duckanon.row"'
    ).fetchall()
    return f"{columns[0][0]} {rows[0]}"


def _stored(con: duckdb.DuckDBPyConnection, copy: Path) -> tuple[str, str] | None:
    """Of what content the release is, and what made it."""
    try:
        found = con.execute(
            f"SELECT content, call FROM {schema_of(copy[0])}.copies WHERE copy = ?", [copy[2]]
        ).fetchall()
    except duckdb.CatalogException:
        return None
    return found[0] if found else None


def _stands(con: duckdb.DuckDBPyConnection, copy: Path) -> bool:
    found = con.execute(
        "SELECT system.main.count(*) FROM system.main.duckdb_tables() "
        "WHERE (database_name, schema_name, table_name) = (?, ?, ?)",
        list(copy),
    ).fetchall()
    return bool(found[0][0])


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'


def _plain(call: str) -> str:
    """The call as one writes it."""
    return call.removeprefix('"temp"."main".').removeprefix("temp.main.")
