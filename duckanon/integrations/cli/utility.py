"""`duckanon k-utility`: compares a data file with its release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.catalog.names import literal
from duckanon.integrations.calls import call
from duckanon.integrations.cli.earlier_release import earlier
from duckanon.integrations.cli.in_options import InOptions
from duckanon.integrations.copied_columns import Copied
from duckanon.integrations.results import Result, fetch
from duckanon.integrations.terminal.session import Session
from duckanon.integrations.usefulness import Compared

if TYPE_CHECKING:
    from duckanon.connection import Connection


def compared(con: Connection, before: str, path: Path, after: str, arguments: Mapping[str, Any]) -> str:
    """The call of k_utility. before: the table's name on `con`, from the file `path`; after: as on the command line.

    arguments: the others of k_utility; None is left out. Without columns they are those that all programs compare.
    Raises InvalidInput if there is no such release.
    """
    columns = arguments["columns"] or list(_types(con, before))
    named = [*columns, *([arguments["target"]] if arguments["target"] else [])]
    release = earlier(con, after, before, named, inside=path, called="AFTER")
    if arguments["columns"]:
        return call("k_utility", before=before, after=release, **arguments)
    types = {name.lower(): kind for name, kind in _types(con, release).items()}
    apart = Copied.of(con, f"system.main.query_table({literal(release)})").identifying
    compared = Compared.of(con, columns, release, types, apart, list(arguments["hierarchies"] or ()))
    return call(
        "k_utility", before=before, after=release, **{**arguments, "columns": compared.columns, "bands": compared.bands}
    )


def _types(con: Connection, table: str) -> dict[str, str]:
    """A table's columns by name, with their types."""
    connection = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM query_table({literal(table)}))")  # noqa: S608 - a literal
    return dict(connection.fetchall())


def utility(path: Path, after: str, reads: InOptions, arguments: Mapping[str, Any]) -> Result:
    """The rows of k_utility. Raises InvalidInput, duckdb.Error or Cancelled."""

    def work(con: Connection) -> Result:
        return fetch(con.execute(compared(con, reads.source(con, path), path, after, arguments)))

    with Session(role="steward") as session:
        return session.run(f"Comparing {path.name} with {after}", work)
