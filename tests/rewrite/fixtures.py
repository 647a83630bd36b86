"""Reads the fixtures of the recognisers: titles, queries and what is found in them, in files of SQL."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb

from duckanon.rewrite.recognize import Schema, Stored, TableName, View

FIXTURES = Path(__file__).parents[2] / "fixtures"


@dataclass(frozen=True)
class Entry:
    """`-- title`, the query, and a line `--> ...` for each finding; `--> nothing` for none."""

    title: str
    sql: str
    found: tuple[str, ...]


def entries(name: str) -> list[Entry]:
    """The entries of a file, named by its path under `fixtures` without its suffix."""
    read = []
    for part in re.split(r"\n\s*\n(?=-- )", (FIXTURES / f"{name}.sql").read_text(encoding="utf-8").strip()):
        title, *lines = part.splitlines()
        sql = "\n".join(line for line in lines if not line.startswith("-->"))
        found = tuple(line.removeprefix("--> ") for line in lines if line.startswith("-->"))
        read.append(Entry(title.removeprefix("-- "), sql.strip(), () if found == ("nothing",) else found))
    return read


def database(script: str = "rewrite/database") -> duckdb.DuckDBPyConnection:
    """A database made by a script under `fixtures`."""
    con = duckdb.connect()
    con.execute((FIXTURES / f"{script}.sql").read_text(encoding="utf-8")).fetchall()
    return con


@cache
def schema(*protected: str, script: str = "rewrite/database") -> Schema:
    """What the database of a script holds; `persons` and `visits` are protected unless others are named."""
    with database(script) as con:
        tables: dict[TableName, dict[str, str]] = {}
        for table, column, kind in con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal "
            "AND table_name NOT IN (SELECT view_name FROM duckdb_views()) ORDER BY table_name, column_index"
        ).fetchall():
            tables.setdefault(TableName("memory", "main", table), {})[column] = kind
        views = con.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
        keys = con.execute(
            "SELECT table_name, constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
        ).fetchall()
    unique: dict[str, tuple[frozenset[str], ...]] = {}
    for table, columns in keys:
        unique[table] = (*unique.get(table, ()), frozenset(columns))
    watched = [TableName("memory", "main", name) for name in protected or ("persons", "visits")]
    return Schema(
        tables={name: Stored(columns=columns, keys=unique.get(name.object, ())) for name, columns in tables.items()},
        views={TableName("memory", "main", name): View(sql=sql) for name, sql in views},
        protected=frozenset(watched),
        home=TableName("memory", "main", ""),
    )
