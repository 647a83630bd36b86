"""`duckanon record-risk`: writes the records of a data file with the risk of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.catalog.names import identifier
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call
from duckanon.integrations.cli.in_options import InOptions
from duckanon.integrations.data_files import target
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
_HOUSEHOLDS = (
    "SELECT count(*) AS households, max(risk) AS max_risk, avg(risk) AS avg_risk, sum(risk) AS found "
    'FROM (SELECT max(household_risk) AS risk FROM "duckanon.risks" WHERE {0} IS NOT NULL GROUP BY {0})'
)


def write(path: Path, out: Path, reads: InOptions, arguments: Mapping[str, Any], *, force: bool) -> None:
    """Write the records of `path` with their risk to `out`, and say on stderr how many are alone by few columns.

    reads: how `path` is read. arguments: the arguments of record_risk but for the table; None is left out.
    Raises InvalidInput, duckdb.Error, OSError or Cancelled; then there is no file.
    """
    if out.exists() and path.exists() and out.samefile(path):
        raise InvalidInput(f"{out} is the file to be measured: write the risks to another one.")
    file = target(out, force=force)

    def work(con: Connection) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
        # In a text file all columns but the weights stay text: 007 is not 7.
        typed = [arguments["weight"]] if arguments["weight"] is not None else []
        read = reads.source(con, path, typed=typed if file.is_delimited else None, ordered=typed)
        people = arguments["population"]
        named = {**arguments, "population": people and reads.other(con, people, "--population", path)}
        made = call("record_risk", read, **named)
        con.execute(f"CREATE TEMP TABLE {_TABLE} AS {made}").fetchall()
        file.write(con, _TABLE)
        home = arguments["household"]
        homes = None if home is None else fetch(con.execute(_HOUSEHOLDS.format(identifier(home)))).records()[0]
        return fetch(con.execute(_COUNTED)).records()[0], homes

    alone = "are alone" if not arguments["unit"] else f"have values that no other {arguments['unit']} has,"
    with Session(role="steward") as session:
        found, homes = session.run(f"Measuring {path.name}", work)
    risk = figure("max_risk", found["max_risk"]), figure("avg_risk", found["avg_risk"])
    say(f"Wrote {file.path}: {found['records']:,} records; the highest risk is {risk[0]}, the average {risk[1]}.")
    if homes is not None and homes["households"]:
        most, mean = figure("max_risk", homes["max_risk"]), figure("avg_risk", homes["avg_risk"])
        whose = f"{homes['households']:,} values of {arguments['household']}"
        say(
            f"The chance that at least one member is found: {most} for the most exposed of {whose}, {mean} on average; "
            f"{homes['found']:,.1f} of them are expected to be found."
        )
    if found["alone"]:
        columns = "one column" if found["fewest"] == 1 else f"{found['fewest']} columns"
        say(f"{found['alone']:,} of them {alone} by few columns, some by {columns}: see minimal_uniques.")
