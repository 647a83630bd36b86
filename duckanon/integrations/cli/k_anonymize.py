"""`duckanon k-anonymize`: writes an anonymous copy of a data file, and prints a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.catalog.names import literal
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import as_options, call, ordered, policy_units, privacy_unit
from duckanon.integrations.cli.earlier_release import earlier
from duckanon.integrations.cli.in_options import InOptions
from duckanon.integrations.cli.risk_tables import of_units
from duckanon.integrations.copied_columns import ENDS, Copied
from duckanon.integrations.data_files import DataFile, target
from duckanon.integrations.empty_records import empty_records
from duckanon.integrations.equal_records import equal_records
from duckanon.integrations.results import fetch, figure
from duckanon.integrations.terminal.output import say
from duckanon.integrations.terminal.session import Session
from duckanon.specification import functions

if TYPE_CHECKING:
    from duckanon.connection import Connection

_RELEASE = '"duckanon.release"'
# Grouping by class_id gives the same classes as grouping by the released columns.
_MEASURED = """
SELECT count(*) AS classes, min(size) AS k, sum(size)::BIGINT AS records
FROM (SELECT count(*) AS size FROM "duckanon.release" GROUP BY class_id)
"""


def release(
    path: Path,
    out: Path,
    reads: InOptions,
    arguments: Mapping[str, Any],
    *,
    within: str | None = None,
    force: bool,
) -> None:
    """Write the k-anonymous copy of `path` to `out` and summarise it on stderr.

    reads: how `path` is read. arguments: those of k_anonymize but for tables; None is left out. within: an earlier
    release, as for `earlier`.
    Raises InvalidInput, duckdb.Error, OSError or Cancelled; then there is no file.
    """
    qi, sensitive = arguments["qi"], arguments["sensitive"] or []
    if out.exists() and path.exists() and out.samefile(path):
        raise InvalidInput(f"{out} is the file to be anonymised: write the copy to another one.")
    file = target(out, force=force)

    def work(con: Connection) -> tuple[Mapping[str, Any], Mapping[str, Any], Copied, str | None, list[str]]:
        # For a text file only the columns that are generalised or measured need types; others stay text.
        typed = [*qi, *sensitive] if file.is_delimited else None
        source = reads.source(con, path, typed=typed, ordered=ordered(arguments))
        finer = None
        if within is not None:
            finer = earlier(con, within, source, qi, inside=path, typed=sensitive if file.is_delimited else None)
        unit = arguments["unit"] if arguments["unit"] is not None or within is not None else privacy_unit(con, source)
        counted = _row(con, f"SELECT count(*) AS records FROM query_table({literal(source)})")  # noqa: S608
        if not counted["records"]:
            raise InvalidInput("The table has no rows: there is nothing to anonymise.")
        before = {**_row(con, call("k_report", source, qi, unit=arguments["unit"])), **counted}
        made = call("k_anonymize", source, within=finer, **arguments)
        con.execute(f"CREATE TEMP TABLE {_RELEASE} AS {made}").fetchall()
        changed = [*qi, *(f"{name}_{end}" for name in qi for end in ENDS)]
        after = _row(con, _MEASURED)
        copied = Copied.of(con, _RELEASE, changed, [*([unit] if unit else []), *policy_units(con)])
        file.write(con, _RELEASE, DataFile.of(path).labels)
        warnings = [text for text in (empty_records(con, source), equal_records(con, source)) if text]
        return before, after, copied, unit or None, warnings

    with Session(role="steward") as session:
        before, after, copied, unit, warnings = session.run(f"Anonymising {path.name}", work)
    if unit is None:
        size, stood = f"the smallest of {after['k']:,}", _counted(before["singletons"], "record", "records")
    else:
        # The unit may have been dropped, so its values are not counted again.
        k = _k(arguments)
        after = {**after, "k": k}
        size, stood = f"each of {k:,} or more values of {unit}", ""
        if before["units"] is not None:
            stood = of_units(before["units_alone"], before["units"], unit)
    _summarise(file, before, after, copied, qi, (size, stood if before["singletons"] else ""))
    for warning in warnings:
        say(warning)


def _k(arguments: Mapping[str, Any]) -> int:
    """The k that is asked for, or the function's default."""
    return int(
        arguments["k"]
        or next(argument.default for argument in functions()["k_anonymize"].arguments if argument.name == "k")
        or 0
    )


def _row(con: Connection, query: str) -> Mapping[str, Any]:
    return fetch(con.execute(query)).records()[0]


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _summarise(
    file: DataFile,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    copied: Copied,
    qi: Sequence[str],
    words: tuple[str, str],
) -> None:
    """words: the size of the classes, and what stood alone before, if anything did."""
    size, alone = words
    dropped = before["records"] - after["records"]
    lost = f" {_counted(dropped, 'record was', 'records were')} dropped." if dropped else ""
    say(
        f"Wrote {file.path}: {_counted(after['records'], 'record', 'records')} in "
        f"{_counted(after['classes'], 'class', 'classes')}, {size}.{lost}"
    )
    risk = figure("max_risk", before["max_risk"]), figure("max_risk", 1 / after["k"])
    stood = f" {alone} stood alone before, none after." if alone else ""
    unseen = f" for who does not see {', '.join(copied.units)}" if copied.units else ""
    say(f"Highest risk of re-identification by {', '.join(qi)}{unseen}: {risk[0]} before, {risk[1]} after.{stood}")
    say(as_options(copied.sentences))
