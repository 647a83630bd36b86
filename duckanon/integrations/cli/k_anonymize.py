"""`duckanon k-anonymize`: writes an anonymous copy of a data file, and prints a summary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.integrations.calls import call
from duckanon.integrations.cli.earlier_release import earlier
from duckanon.integrations.data_files import DataFile, source, target
from duckanon.integrations.results import fetch, figure
from duckanon.integrations.terminal.output import say
from duckanon.integrations.terminal.session import Session

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
    table: str | None,
    given: Mapping[str, Any],
    *,
    within: str | None = None,
    force: bool,
) -> None:
    """Write the k-anonymous copy of `path` to `out` and summarise it on stderr.

    given: the arguments of k_anonymize but for tables; None is left out. within: an earlier release, as for `earlier`.
    Raises InvalidInput, duckdb.Error, OSError or Cancelled; then there is no file.
    """
    qi, sensitive = given["qi"], given["sensitive"] or []
    file = target(out, force=force)

    def work(con: Connection) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        # For a text file only the columns that are generalised or measured need types; others stay text.
        found = source(con, path, table, typed=[*qi, *sensitive] if file.is_delimited else None)
        finer = None
        if within is not None:
            finer = earlier(con, within, found, qi, inside=path, typed=sensitive if file.is_delimited else None)
        before = _row(con, call("k_report", found, qi))
        made = call("k_anonymize", found, within=finer, **given)
        con.execute(f"CREATE TEMP TABLE {_RELEASE} AS {made}").fetchall()
        after = _row(con, _MEASURED)
        file.write(con, _RELEASE)
        return before, after

    with Session(role="steward") as session:
        _summarise(file, *session.run(f"Anonymising {path.name}", work))


def _row(con: Connection, query: str) -> Mapping[str, Any]:
    return fetch(con.execute(query)).records()[0]


def _summarise(file: DataFile, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    dropped = before["records"] - after["records"]
    lost = f" {dropped:,} {'record was' if dropped == 1 else 'records were'} dropped." if dropped else ""
    say(
        f"Wrote {file.path}: {after['records']:,} records in {after['classes']:,} classes, "
        f"the smallest of {after['k']:,}.{lost}"
    )
    risk = figure("max_risk", before["max_risk"]), figure("max_risk", 1 / after["k"])
    alone = before["singletons"]
    stood = f" {alone:,} {'record' if alone == 1 else 'records'} stood alone before, none after." if alone else ""
    say(f"Highest risk of re-identification: {risk[0]} before, {risk[1]} after.{stood}")
