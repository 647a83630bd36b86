"""`duckanon k-utility`: compares a data file with its release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.integrations.calls import call
from duckanon.integrations.cli.earlier_release import earlier
from duckanon.integrations.data_files import source
from duckanon.integrations.results import Result, fetch
from duckanon.integrations.terminal.session import Session

if TYPE_CHECKING:
    from duckanon.connection import Connection


def compared(con: Connection, before: str, path: Path, after: str, given: Mapping[str, Any]) -> str:
    """The call of k_utility. before: the table's name on `con`, from the file `path`; after: as on the command line.

    given: the other arguments of k_utility; None is left out. Raises InvalidInput if there is no such release.
    """
    columns = [*given["columns"], *([given["target"]] if given["target"] else [])]
    release = earlier(con, after, before, columns, inside=path, called="AFTER")
    return call("k_utility", before=before, after=release, **given)


def utility(path: Path, after: str, table: str | None, given: Mapping[str, Any]) -> Result:
    """The rows of k_utility. Raises InvalidInput, duckdb.Error or Cancelled."""

    def work(con: Connection) -> Result:
        return fetch(con.execute(compared(con, source(con, path, table), path, after, given)))

    with Session(role="steward") as session:
        return session.run(f"Comparing {path.name} with {after}", work)
