"""`duckanon suppress`: writes a table with totals from a data file, without sensitive cells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.integrations.calls import call
from duckanon.integrations.cli.in_options import InOptions
from duckanon.integrations.data_files import DataFile, target
from duckanon.integrations.results import fetch
from duckanon.integrations.terminal.output import say
from duckanon.integrations.terminal.session import Session

if TYPE_CHECKING:
    from duckanon.connection import Connection

_TABLE = '"duckanon.suppressed"'
_COUNTED = 'SELECT count(*) AS cells, count(*) FILTER (WHERE suppressed) AS gone FROM "duckanon.suppressed"'


def suppressed(
    path: Path,
    out: Path,
    reads: InOptions,
    arguments: Mapping[str, object],
    *,
    force: bool,
) -> None:
    """Write the table of `path` to `out` and say on stderr how much of it is suppressed.

    reads: how `path` is read. arguments: the arguments of suppress but for the table; None is left out.
    Raises InvalidInput, duckdb.Error, OSError or Cancelled; then there is no file.
    """
    file = target(out, force=force)

    def work(con: Connection) -> Mapping[str, Any]:
        # In a text file the columns of rows and cols stay text: 007 is not 7.
        typed = [str(arguments["value"])] if arguments["value"] is not None else []
        made = call("suppress", reads.source(con, path, typed=typed), **arguments)
        con.execute(f"CREATE TEMP TABLE {_TABLE} AS {made}").fetchall()
        file.write(con, _TABLE, DataFile.of(path).labels)
        return fetch(con.execute(_COUNTED)).records()[0]

    with Session(role="steward") as session:
        made = session.run(f"Suppressing cells of {path.name}", work)
    say(f"Wrote {file.path}: {made['cells']:,} cells, {made['gone']:,} of them suppressed.")
    if arguments["audit"]:
        say("It holds the audit's columns, which undo the suppression: publish no more than value and suppressed.")
