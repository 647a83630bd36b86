"""Hashes of tables' contents: equal for the same rows in any order, and different for other rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256

import duckdb

from duckanon.catalog.names import quoted
from duckanon.errors import InvalidInput

_ENUM = re.compile(r"ENUM\(.*\)(\[\])?", re.DOTALL)


def described(con: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    """The types of a table's columns by name. relation: the table's full name in SQL."""
    return {name: kind for name, kind, *_ in con.execute(f"DESCRIBE FROM {relation}").fetchall()}


def kept(kind: str) -> str:
    """The type that a column has in a copy: text for an ENUM, whose type would show all its values.

    kind: the column's type.

    Raises InvalidInput for a type that holds an ENUM somewhere inside.
    """
    match = _ENUM.fullmatch(kind)
    if match is not None and kind.count("ENUM(") == 1:
        return f"VARCHAR{match.group(1) or ''}"
    if "ENUM(" in kind:
        raise InvalidInput("A column holds an ENUM inside another type, which would show all its values: cast it.")
    return kind


def fingerprint(con: duckdb.DuckDBPyConnection, relation: str, columns: Mapping[str, str]) -> str:
    """A hash of a table's columns, with their types in a copy, and of all its rows.

    It does not depend on DuckDB's version: it adds up the MD5 hashes of the rows' values as text.
    """
    texts = [f"CAST(CAST({quoted([name])} AS {kept(kind)}) AS VARCHAR)" for name, kind in columns.items()]
    # The length before each text keeps the parts of a row apart.
    marked = [f"coalesce(system.main.length({text})::VARCHAR || ':' || {text}, '-')" for text in texts]
    row = f"system.main.concat({', '.join(marked)})" if marked else "''"
    rows = con.execute(
        f"SELECT system.main.count(*), system.main.sum(system.main.md5_number_upper(line))::VARCHAR, "
        f"system.main.sum(system.main.md5_number_lower(line))::VARCHAR FROM (SELECT {row} AS line FROM {relation})"
    ).fetchall()
    whole = [[name, kept(kind)] for name, kind in columns.items()]
    return sha256(json.dumps([whole, *rows[0]]).encode()).hexdigest()
