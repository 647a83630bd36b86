"""Ledgers of earlier formats, carried over to the one of today.

Format 1 accounted by table, and knew neither populations nor editions. Its charges become charges of tables that have
no policy yet: whoever protects such a table again finds them spent, in the population that it then has. Until then the
table is closed to analysts, as a policy of format 1 says too little. The old ledger stays in a schema of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb

from duckanon.accounting import written
from duckanon.catalog.database_files import unopened
from duckanon.catalog.names import spelled
from duckanon.errors import InvalidInput
from duckanon.governance.journal import Journal, line_entry
from duckanon.governance.ledger_state import Line
from duckanon.governance.ledger_tables import FORMAT, TABLES, add_line, one_moment, schema_of, tables_of

# The schema that keeps the ledger of format 1 as it was.
OLD = "duckanon_format_1"
_COLUMNS = ("recorded_at", "who", "schema_name", "table_name", "epsilon", "what", "neighbours", "release")


@dataclass(frozen=True)
class Upgraded:
    """What was carried over. charges: lines. spent: by table. exact: releases without noise, which later audits do
    not count.
    """

    charges: int
    spent: Mapping[str, Fraction]
    exact: int

    def in_words(self) -> str:
        """The same for people, as sentences."""
        count = f"{self.charges:,} charge{'' if self.charges == 1 else 's'}"
        spent = ", ".join(f"{written(amount)} on {name}" for name, amount in sorted(self.spent.items()))
        said = f"{count} carried over{f', {spent}' if spent else ''}. The old ledger is kept in the schema {OLD}. "
        said += "Protect its tables again: what was spent on them stays spent."
        if self.exact:
            said += (
                f" It has {self.exact:,} of releases without noise, which later audits do not count: look at them "
                "before you publish of the same table."
            )
        return said


def upgrade(path: Path) -> Upgraded | None:
    """Carry a database's ledger over to today's format, in one transaction; None if there is nothing to do.

    Raises InvalidInput for a file that cannot be opened, and for a ledger of an unknown format.
    """
    if not path.is_file():
        raise InvalidInput(f"There is no database {path}: name a DuckDB file that is there.")
    try:
        with duckdb.connect(str(path)) as con:
            ((database,),) = con.execute("SELECT current_database()").fetchall()
            return _upgraded(con, str(database), path)
    except duckdb.Error as error:
        raise unopened(path, error, read_only=False) or InvalidInput(
            f"The ledger of {path} could not be carried over, and is as it was: make room on its disk, and try again."
        ) from error


def _upgraded(con: duckdb.DuckDBPyConnection, database: str, path: Path) -> Upgraded | None:
    tables = tables_of(con, database)
    if "ledger" not in tables:
        return None
    if "meta" in tables:
        found = con.execute(f"SELECT value FROM {schema_of(database)}.meta WHERE name = 'format'").fetchall()
        if found == [(FORMAT,)]:
            return None
        raise InvalidInput(f"A newer version of duckanon wrote the ledger of {path}: use that version.")
    schema, identity = schema_of(database), uuid4().hex
    rows = con.execute(f"SELECT action, {', '.join(_COLUMNS)} FROM {schema}.ledger ORDER BY number ASC").fetchall()
    charges = [dict(zip(_COLUMNS, row[1:], strict=True)) for row in rows if row[0] == "charge"]
    lines = [_charge(number, charge) for number, charge in enumerate(charges, 1)]
    with one_moment(con):
        con.execute(f"CREATE SCHEMA {OLD}")
        for name in sorted(tables):
            con.execute(f"CREATE TABLE {OLD}.{spelled([name])} AS FROM {schema}.{spelled([name])}")
        con.execute(f"DROP SCHEMA {schema} CASCADE")
        con.execute(TABLES.format(schema=schema)).fetchall()
        con.execute(f"INSERT INTO {schema}.meta VALUES ('format', ?), ('identity', ?)", [FORMAT, identity])
        for line in lines:
            add_line(con, database, line)
        Journal(path).add(identity, [line_entry(line) for line in lines])
    spent: dict[str, Fraction] = {}
    for line in lines:
        spent[line.location.label] = spent.get(line.location.label, Fraction(0)) + line.charge
    return Upgraded(len(lines), spent, sum(row[0] == "release" for row in rows))


def _charge(number: int, old: Mapping[str, Any]) -> Line:
    """A charge of format 1 as one of a table without a policy. Each protected one record."""
    return Line.of({"number": number, "action": "charge", "unit": "one record", **old})
