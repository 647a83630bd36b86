"""Runs the SQL in a page of documentation, and compares what it prints with what it gives.

`python -m tests.documents` prints the words of prose of each page and folder.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(sql|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What is no prose: comments, fenced blocks, tables, command lines (indented below an empty line).
NO_PROSE = re.compile(r"<!--[\s\S]*?-->|^ *(`{3,})[\s\S]*?\n *\1$|^ *\|.*$|(?<=\n\n)(?: {4}.+\n+)+", re.MULTILINE)


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


def prose(text: str) -> int:
    """The words of a page that a reader reads as sentences; a link counts as its text."""
    return len(re.sub(r"\]\([^)]*\)", "]", NO_PROSE.sub("", text)).split())


def words() -> Counter[str]:
    """The words of prose of each page, by its path."""
    return Counter({str(page.relative_to(ROOT)): prose(page.read_text(encoding="utf-8")) for page in PAGES})


def main() -> None:
    """Print them: pages, then folders, then all."""
    pages = words()
    folders: Counter[str] = Counter()
    for page, count in pages.items():
        folders[str(Path(page).parent)] += count
    for name, count in (*sorted(pages.items()), *sorted(folders.items()), ("all", pages.total())):
        print(f"{count:7,} {name}")


if __name__ == "__main__":
    main()
