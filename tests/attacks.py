"""Reads `fixtures/attacks`, and makes the database that they are aimed at."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tests.rewrite.fixtures import FIXTURES, entries

FAMILIES = tuple(sorted(path.stem for path in (FIXTURES / "attacks").glob("*.sql") if path.stem != "database"))


@dataclass(frozen=True)
class Attack:
    """Statements that are run in order, what kind of attack they are and what it tries.

    parsed: whether DuckDB itself parses it.
    """

    family: str
    kind: str
    tries: str
    sql: str
    parsed: bool

    def placed(self, home: Path) -> str:
        """The statements, aimed at the database in a folder."""
        return self.sql.replace("{file}", str(home / "people.duckdb")).replace("{folder}", str(home / "out"))


def attacks() -> Iterator[Attack]:
    for family in FAMILIES:
        for entry in entries(f"attacks/{family}"):
            kind, colon, tries = entry.title.partition(": ")
            assert colon, entry.title
            yield Attack(family, kind, tries, entry.sql, entry.found != ("unparsed",))


def split(sql: str) -> list[str]:
    """The statements of a text one by one; the text itself where DuckDB cannot tell them apart."""
    try:
        return [one.query.strip() for one in duckdb.extract_statements(sql)]
    except (duckdb.Error, IndexError):  # DuckDB 1.4 raises IndexError for some texts.
        return [sql]


def besieged(home: Path) -> duckdb.DuckDBPyConnection:
    """A new database `people` in a folder, unprotected."""
    (home / "out").mkdir()
    con = duckdb.connect(str(home / "people.duckdb"))
    con.execute((FIXTURES / "attacks" / "database.sql").read_text(encoding="utf-8")).fetchall()
    return con


def canaries(text: str) -> bool:
    """Whether a value of the protected table stands in a text."""
    return "canary" in text or "7001" in text
