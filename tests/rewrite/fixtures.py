"""Reads `fixtures/rewrite`: a title, a query, and what is found in it, one after the other in a file of SQL."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb

from duckanon.rewrite.spot import Schema, Stored, TableName, View

ROOT = Path(__file__).parents[2] / "fixtures" / "rewrite"


@dataclass(frozen=True)
class Entry:
    """`-- title`, the query, and a line `--> ...` for each finding; `--> nothing` for none."""

    title: str
    sql: str
    found: tuple[str, ...]


def entries(name: str) -> list[Entry]:
    read = []
    for part in re.split(r"\n\s*\n(?=-- )", (ROOT / f"{name}.sql").read_text(encoding="utf-8").strip()):
        title, *lines = part.splitlines()
        sql = "\n".join(line for line in lines if not line.startswith("-->"))
        found = tuple(line.removeprefix("--> ") for line in lines if line.startswith("-->"))
        read.append(Entry(title.removeprefix("-- "), sql.strip(), () if found == ("nothing",) else found))
    return read


def database() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute((ROOT / "database.sql").read_text(encoding="utf-8")).fetchall()
    return con


@cache
def schema(*protected: str) -> Schema:
    """The schema of the small database; `persons` and `visits` are protected unless others are named."""
    with database() as con:
        tables: dict[TableName, dict[str, str]] = {}
        for table, column, kind in con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal "
            "AND table_name NOT IN (SELECT view_name FROM duckdb_views()) ORDER BY table_name, column_index"
        ).fetchall():
            tables.setdefault(TableName("memory", "main", table), {})[column] = kind
        views = con.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
    watched = [TableName("memory", "main", name) for name in protected or ("persons", "visits")]
    return Schema(
        tables={name: Stored(columns, _keys(name.object)) for name, columns in tables.items()},
        views={TableName("memory", "main", name): View.of(sql) for name, sql in views},
        protected=frozenset(watched),
        home=TableName("memory", "main", ""),
    )


def _keys(table: str) -> tuple[frozenset[str], ...]:
    return (frozenset(["hid"]),) if table == "households" else ()
