"""Where a released table comes from, as far as the database knows: its call, its unit, its source, what was dropped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from duckanon.catalog.names import literal
from duckanon.integrations.calls import privacy_unit

_COMMENT = """
SELECT comment FROM system.main.duckdb_tables()
WHERE database_name = system.main.current_database() AND (
  system.main.concat('"', replace(schema_name, '"', '""'), '"."', replace(table_name, '"', '""'), '"') = ?)
"""
# As a call says which units k counts.
_UNIT = re.compile(r"\bunit\s*:=\s*'((?:[^']|'')+)'", re.IGNORECASE)
# How a comment of ours begins: `duckanon explore` leaves one with the call on a table that it makes.
CALL = "FROM k_anonymize("


@dataclass(frozen=True)
class Origin:
    """What is known of a release. call: that made it, if a comment on the table says so.

    unit: the column whose values k counts; None: it counts records. owner: the privacy unit of the source's policy,
    which the release lacks, so that k cannot be counted by it. source: its label. dropped: records of the source that
    the release lacks. publication: the name of the one that is equal to it, whose k `publish` checked for the unit of
    the policy.
    """

    call: str | None = None
    unit: str | None = None
    owner: str | None = None
    source: str | None = None
    dropped: int | None = None
    publication: str | None = None

    @property
    def unit_of_call(self) -> str | None:
        """The column whose values k counted by the call."""
        found = _UNIT.search(self.call or "")
        return None if found is None else found[1].replace("''", "'")

    @classmethod
    def of(
        cls,
        con: Any,
        name: str,
        unit: str | None,
        sources: Sequence[str],
        label: str | None,
        publication: Mapping[str, Any] | None = None,
    ) -> Self:
        """con: a DuckDB connection. name: in SQL. sources: the tables from which it may have been made. label: of the
        only one, as the page shows it. Where one of several has a privacy unit, that is the owner's: better a warning
        too many. publication: the row of publications() of the one that is equal to it.
        """
        comment = con.execute(_COMMENT, [name]).fetchone()
        call = comment[0] if comment is not None and str(comment[0] or "").startswith(CALL) else None
        published = None if publication is None else str(publication["name"])
        made_of = sources if publication is None else [str(publication["of"])]
        units = (privacy_unit(con, table) for table in made_of if unit is None)
        owner = next((column for column in units if column is not None), None)
        if len(sources) != 1:
            return cls(call, unit, owner, publication=published)
        rows = [_rows(con, table) for table in (sources[0], name)]
        return cls(call, unit, owner, label, rows[0] - rows[1], published)


def _rows(con: Any, name: str) -> int:
    query = f"SELECT system.main.count(*) FROM system.main.query_table({literal(name)})"  # noqa: S608 - a literal
    ((rows,),) = con.execute(query).fetchall()
    return int(rows)
