"""`duckanon record-risk`: writes the records of a data file with the risk of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call
from duckanon.integrations.data_files import source, target
from duckanon.integrations.results import fetch, figure
from duckanon.integrations.terminal.output import say
from duckanon.integrations.terminal.session import Session

if TYPE_CHECKING:
    from duckanon.connection import Connection

_TABLE = '"duckanon.risks"'
_COUNTED = (
    "SELECT count(*) AS records, max(risk) AS max_risk, avg(risk) AS avg_risk, "
    'count(smallest_unique) AS alone, min(smallest_unique) AS fewest FROM "duckanon.risks"'
)


def write(path: Path, out: Path, table: str | None, given: Mapping[str, Any], *, force: bool) -> None:
    """Write the records of `path` with their risk to `out`, and say on stderr how many are alone by few columns.

    given: the arguments of record_risk but for tables; None is left out. Raises InvalidInput, duckdb.Error, OSError or
    Cancelled; then there is no file.
    """
    if out.exists() and path.exists() and out.samefile(path):
        raise InvalidInput(f"{out} is the file to be measured: write the risks to another one.")
    file = target(out, force=force)

    def work(con: Connection) -> Mapping[str, Any]:
        # In a text file all columns but the weights stay text: 007 is not 7.
        typed = [given["weight"]] if given["weight"] is not None else []
        read = source(con, path, table, typed=typed if file.is_delimited else None, numbers=typed)
        made = call("record_risk", read, **given)
        con.execute(f"CREATE TEMP TABLE {_TABLE} AS {made}").fetchall()
        file.write(con, _TABLE)
        return fetch(con.execute(_COUNTED)).records()[0]

    with Session(role="steward") as session:
        found = session.run(f"Measuring {path.name}", work)
    risk = figure("max_risk", found["max_risk"]), figure("avg_risk", found["avg_risk"])
    say(f"Wrote {file.path}: {found['records']:,} records; the highest risk is {risk[0]}, the average {risk[1]}.")
    if found["alone"]:
        columns = "one column" if found["fewest"] == 1 else f"{found['fewest']} columns"
        say(f"{found['alone']:,} of them are alone by few columns, some by {columns}: see minimal_uniques.")
