"""`duckanon k-anonymize`: writes an anonymous copy of a data file, and prints a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.errors import InvalidInput
from duckanon.functions.sqltext import identifier
from duckanon.integrations.calls import call
from duckanon.integrations.cli.earlier_release import earlier
from duckanon.integrations.data_files import DataFile, source, target
from duckanon.integrations.results import fetch, figure
from duckanon.integrations.terminal.output import say
from duckanon.integrations.terminal.session import Session

if TYPE_CHECKING:
    from duckanon.connection import Connection

_RELEASE = '"duckanon.release"'
# A column with more distinct values than this share of its values is almost an identifier.
_NEAR_UNIQUE = 0.9
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
    if out.exists() and path.exists() and out.samefile(path):
        raise InvalidInput(f"{out} is the file to be anonymised: write the copy to another one.")
    file = target(out, force=force)

    def work(con: Connection) -> tuple[Mapping[str, Any], Mapping[str, Any], Copied]:
        # For a text file only the columns that are generalised or measured need types; others stay text.
        found = source(con, path, table, typed=[*qi, *sensitive] if file.is_delimited else None)
        finer = None
        if within is not None:
            finer = earlier(con, within, found, qi, inside=path, typed=sensitive if file.is_delimited else None)
        before = _row(con, call("k_report", found, qi))
        made = call("k_anonymize", found, within=finer, **given)
        con.execute(f"CREATE TEMP TABLE {_RELEASE} AS {made}").fetchall()
        after, copied = _row(con, _MEASURED), Copied.of(con, qi)
        file.write(con, _RELEASE)
        return before, after, copied

    with Session(role="steward") as session:
        _summarise(file, *session.run(f"Anonymising {path.name}", work), qi)


@dataclass(frozen=True)
class Copied:
    """The columns of a release that are copied as they are, and those of them that could identify on their own."""

    names: Sequence[str]
    near_unique: Sequence[str]

    @classmethod
    def of(cls, con: Connection, qi: Sequence[str]) -> Copied:
        """Those of the release in `con`; `qi` are its quasi-identifiers."""
        generalised = {f"{name.lower()}_{end}" for name in qi for end in ("lo", "hi", "set", "label")} | {"class_id"}
        described = con.execute(f"SELECT column_name FROM (DESCRIBE FROM {_RELEASE})").fetchall()  # noqa: S608
        names = [name for (name,) in described if name.lower() not in generalised]
        if not names:
            return cls([], [])
        shares = ", ".join(f"count(DISTINCT {one}) / greatest(count({one}), 1)" for one in map(identifier, names))
        (found,) = con.execute(f"SELECT {shares} FROM {_RELEASE}").fetchall()  # noqa: S608
        return cls(names, [name for name, share in zip(names, found, strict=True) if share > _NEAR_UNIQUE])

    @property
    def sentences(self) -> str:
        """What to know about them before the release goes out."""
        if not self.names:
            return "No column is copied as it is."
        told = f"Copied as they are: {', '.join(self.names)}."
        if self.near_unique:
            several = len(self.near_unique) > 1
            told += (
                f" Almost every record has a value of its own in {', '.join(self.near_unique)}: whoever knows "
                f"{'these values' if several else 'this value'} finds the record. Leave {'them' if several else 'it'} "
                f"out with --drop {','.join(self.near_unique)}."
            )
        return told


def _row(con: Connection, query: str) -> Mapping[str, Any]:
    return fetch(con.execute(query)).records()[0]


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _summarise(
    file: DataFile, before: Mapping[str, Any], after: Mapping[str, Any], copied: Copied, qi: Sequence[str]
) -> None:
    dropped = before["records"] - after["records"]
    lost = f" {_counted(dropped, 'record was', 'records were')} dropped." if dropped else ""
    say(
        f"Wrote {file.path}: {_counted(after['records'], 'record', 'records')} in "
        f"{_counted(after['classes'], 'class', 'classes')}, the smallest of {after['k']:,}.{lost}"
    )
    risk = figure("max_risk", before["max_risk"]), figure("max_risk", 1 / after["k"])
    alone = before["singletons"]
    stood = f" {_counted(alone, 'record', 'records')} stood alone before, none after." if alone else ""
    say(f"Highest risk of re-identification by {', '.join(qi)}: {risk[0]} before, {risk[1]} after.{stood}")
    say(copied.sentences)
