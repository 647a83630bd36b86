"""Releases that are kept as tables of the schema `duckanon`: made once for each content of a table, and given to all.

Two k-anonymous copies of the same records under different settings can be intersected, which may leave less than k
candidates. So the first that is admitted stands until the table's content changes. Tables of shares are looked at
together with those that were released before. Counts with noise that are asked for
again are the same counts, and cost nothing more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

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

    def keep(
        self, con: duckdb.DuckDBPyConnection, table: Path, call: str, copy: Path, columns: Sequence[str] = ()
    ) -> None:
        """Make a k-anonymous copy, unless it stands. con: a connection with duckanon's functions, in no transaction.

        table, copy: full names. call: makes the copy, fully qualified. columns: what it shows of. Raises PolicyRefusal
        if another copy of the same content was given out, or shares of its columns, and InvalidInput if the database
        cannot be written.
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
            self._alone(table, content, columns)
            # The line first, as a charge before its noise: a release that nobody recorded must not be.
            seen = json.dumps({"copy": list(columns), "content": content})
            self._ledger.note(Place(*table), f"release: {_plain(call)}", seen)
            _make(con, copy, content, call, f"FROM {call}")

    def _alone(self, table: Path, content: str, columns: Sequence[str]) -> None:
        """Raises PolicyRefusal where shares of a copy's columns were released: they and exact counts say more."""
        for one in self._before(table, content):
            if _lower(one.get("used", ())) & _lower(columns):
                raise PolicyRefusal(
                    "Shares of these records were released before, and the copy would say more together with them: "
                    "ask the steward."
                )

    def _before(self, table: Path, content: str) -> list[dict[str, Any]]:
        """What was released of a table with this content, without noise."""
        found = [json.loads(one) for one in self._ledger.noted(Place(*table))]
        return [one for one in found if one["content"] == content]

    def share(
        self,
        con: duckdb.DuckDBPyConnection,
        tables: Sequence[tuple[Path, Path, Mapping[str, Any], str, str]],
        audit: Callable[[int, Sequence[str]], None],
        *,
        make: bool,
    ) -> None:
        """Have tables of shares stand, if they are safe together with what was released before.

        tables: for each its table, the name of the release, the description of it (`rows`, `cells`, `used`, as SQL and
        as names), what it is in words, and the query that makes it. audit: is told the number of one, and what told
        cells apart in the shares of its rows that were released before; raises if it is not safe. make: whether they
        are recorded and made, or only audited. Raises PolicyRefusal where two could be put together.
        """
        with self._turn:
            pending: list[tuple[str, dict[str, Any], int]] = []
            for number, (table, copy, seen, _, _) in enumerate(tables):
                content = _content(con, table)
                if _stored(con, copy) == (content, copy[2]) and _stands(con, copy):
                    continue
                asked_now = [one for place, one, _ in pending if place == ".".join(table)]
                audit(number, _together(seen, [*self._before(table, content), *asked_now]))
                pending.append((".".join(table), {**seen, "content": content}, number))
            for _, seen, number in pending if make else ():
                table, copy, _, what, query = tables[number]
                self._ledger.note(Place(*table), f"release: {what}", json.dumps(seen))
                _make(con, copy, seen["content"], copy[2], query)

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


def _together(seen: Mapping[str, Any], before: Sequence[Mapping[str, Any]]) -> list[str]:
    """What told cells apart in earlier shares of the same rows.

    Shares of the same rows are a larger table of shares. Tables without a common column do not narrow each other: any
    table that fits the one can be filled together with any that fits the other. All else might be combined.
    """
    found: list[str] = []
    for one in before:
        if "rows" in one and sorted(_lower(one["rows"])) == sorted(_lower(seen["rows"])):
            found += one["cells"]
        elif _lower(one.get("used", one.get("copy", ()))) & _lower(seen["used"]):
            if "copy" in one:
                raise PolicyRefusal(
                    "A k-anonymous copy of these records was released before, and shares of its columns would say more "
                    "together with it: count in the copy."
                )
            rows = ", ".join(one["rows"]) or "none"
            raise PolicyRefusal(
                f"Shares by other rows ({rows}) were released before, which have a column in common with these, and "
                "the two could be put together: ask for shares with the same rows."
            )
    return list(dict.fromkeys(found))


def _lower(names: Sequence[str]) -> set[str]:
    return {name.lower() for name in names}


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
