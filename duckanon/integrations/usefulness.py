"""What a released table still tells of the table that it was made from: one definition for all programs.

Compared are the columns of the table that the release has, as they are, as intervals or as sets, but for those in which
almost every record has a value of its own or which link records; in the table's order, up to a number. The random
counts are those that k_utility asks by default. So equal releases have equal figures in the command line, on the page
of choices and in the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from duckanon.catalog.names import identifier, literal
from duckanon.catalog.types import WITHIN_BIGINT
from duckanon.integrations.calls import call
from duckanon.integrations.results import fetch

if TYPE_CHECKING:
    from duckanon.connection import Connection

# By name, the types of a table's columns by their names in lower case.
Tables = Mapping[str, Mapping[str, str]]

# The types whose intervals hold as many values as they are wide, or one more.
_COUNTED = WITHIN_BIGINT | {"UBIGINT", "DATE"}
_MOST_COLUMNS = 15


@dataclass(frozen=True)
class Usefulness:
    """Figures of k_utility. columns: those that were compared.

    moved: the column whose distribution moved most, and by which share.
    association: the greatest change of a correlation or of Cramer's V, None without a pair of columns. median, most:
    the errors of random counts, half of which and 95 % of which are no larger; None where there are none.
    """

    columns: Sequence[str]
    moved: tuple[str, float]
    association: float | None
    median: float | None
    most: float | None


@dataclass(frozen=True)
class Compared:
    """What is compared: columns of the table, and those of them that the release has in bands."""

    columns: Sequence[str]
    bands: Sequence[str]

    @classmethod
    def of(
        cls,
        con: Connection,
        source: Sequence[str],
        name: str,
        release: Mapping[str, str],
        apart: Sequence[str] = (),
        labelled: Sequence[str] = (),
    ) -> Compared:
        """source: the table's columns, in its order. name: the release's. release: its columns in lower case, by type.

        apart: columns that are not compared. labelled: columns that the release has as labels of known hierarchies.
        """
        left = {text.lower() for text in apart}
        held = {*columns_before(release), *(text.lower() for text in labelled)}
        columns = [text for text in source if text.lower() in held and text.lower() not in left][:_MOST_COLUMNS]
        return cls(columns, [column for column in columns if _has_bands(con, name, column, release)])

    def call(self, before: str, after: str) -> str:
        """The call of k_utility."""
        return call("k_utility", before, after, self.columns, bands=self.bands)


def possible_sources(con: Connection, tables: Tables, name: str) -> list[str]:
    """The tables that a release may have been made from, by its columns, types and rows.

    name: of the release, as the tables are named.
    """
    wanted = columns_before(tables[name])
    rows = _rows(con, name)
    return [
        other
        for other, columns in tables.items()
        if other != name
        and "class_id" not in columns
        and all(columns.get(column) == kind for column, kind in wanted.items())
        and _rows(con, other) >= rows
    ]


def usefulness(con: Connection, source: str, name: str, leave_out: Sequence[str], tables: Tables) -> Usefulness | None:
    """Compare a release with its source. leave_out: columns that are not compared. None if no column is left."""
    # `tables` folds names; a page tells them as the table has them.
    described = con.execute(f"DESCRIBE FROM system.main.query_table({literal(source)})").fetchall()
    compared = Compared.of(con, [column for column, *_ in described], name, tables[name], leave_out)
    if not compared.columns:
        return None
    rows = fetch(con.execute(compared.call(source, name))).records()
    moved = [(row["columns"][0], row["difference"]) for row in rows if row["measure"] == "total_variation"]
    changes = [
        abs(row["difference"])
        for row in rows
        if row["measure"] in ("correlation", "cramers_v") and row["difference"] is not None
    ]
    errors = {row["value"]: row["difference"] for row in rows if row["measure"] == "query_error"}
    most = max(moved, key=lambda item: item[1])
    changed = max(changes, default=None)
    return Usefulness(compared.columns, most, changed, errors.get("median"), errors.get("95 %"))


def columns_before(release: Mapping[str, str]) -> dict[str, str]:
    """The columns that the source of a release must have, with their types."""
    columns = {}
    for name, kind in release.items():
        base, _, end = name.rpartition("_")
        if end == "set" and kind.endswith("[]"):
            columns[base] = kind.removesuffix("[]")
        elif end in ("lo", "hi") and {f"{base}_lo", f"{base}_hi"} <= release.keys():
            columns[base] = kind
        elif name != "class_id":
            columns[name] = kind
    return columns


def _has_bands(con: Connection, name: str, column: str, release: Mapping[str, str]) -> bool:
    """Whether a release has a column in bands: an end is open, or all intervals are multiples of a width above 1."""
    column = column.lower()
    low, high = (identifier(f"{column}_{end}") for end in ("lo", "hi"))
    if f"{column}_lo" not in release or f"{column}_hi" not in release:
        return False
    source = f"FROM system.main.query_table({literal(name)})"
    ((is_open,),) = con.execute(f"SELECT system.main.bool_or(({low} IS NULL) <> ({high} IS NULL)) {source}").fetchall()
    if is_open or release[f"{column}_lo"] not in _COUNTED:
        return bool(is_open)
    widths = con.execute(f"SELECT DISTINCT CAST({high} - {low} AS HUGEINT) {source} WHERE {low} IS NOT NULL").fetchall()
    return gcd(*(width for (width,) in widths)) > 1 and (0,) not in widths


def _rows(con: Connection, name: str) -> int:
    query = f"SELECT system.main.count(*) FROM system.main.query_table({literal(name)})"  # noqa: S608 - a literal
    ((rows,),) = con.execute(query).fetchall()
    return int(rows)
