"""Runs the SQL in a page of documentation, and compares what it prints with what it gives."""

import re
from dataclasses import dataclass
from pathlib import Path

import duckdb

FENCE = re.compile(r"^```(sql|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A fenced block of SQL, and the table printed below it, if one is."""

    sql: str
    printed: str | None


def examples(page: Path) -> list[Example]:
    blocks = FENCE.findall(page.read_text(encoding="utf-8"))
    found: list[Example] = []
    for i, (kind, body) in enumerate(blocks):
        if kind == "sql":
            below = blocks[i + 1] if i + 1 < len(blocks) else ("", "")
            found.append(Example(body, below[1] if below[0] == "text" else None))
    return found


def cells(drawn: str) -> list[list[str]]:
    """The cells of a table that DuckDB drew: borders and footers differ between its versions."""
    rows = [line.strip().strip("│").split("│") for line in drawn.splitlines() if "│" in line]
    return [[cell.strip() for cell in row] for row in rows if len(row) == len(rows[0])]


def run(con: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Run all statements; the last one's result as DuckDB draws it."""
    *setup, last = con.extract_statements(sql)
    for statement in setup:
        con.execute(statement).fetchall()
    relation = con.sql(last.query)
    return "" if relation is None else str(relation)
