"""What a k-anonymous table gives away although its classes are large: columns on which a whole class agrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckanon.catalog.names import identifier, literal


def agreed(con: Any, name: str, qi: Sequence[str], columns: Sequence[str]) -> dict[str, int]:
    """By column, in how many records' classes no two values differ, NULL being none; columns without one are left out.

    A column with one value in the whole table gives nothing away. con: a DuckDB connection. name: the table's, as the
    functions take it. qi: the columns that make the classes. Raises duckdb.Error.
    """
    if not columns:
        return {}
    cells = ", ".join(map(identifier, qi))
    same = ", ".join(_same(column, i) for i, column in enumerate(columns))
    sums = ", ".join(f"system.main.sum(records) FILTER (same{i})" for i in range(len(columns)))
    varied = ", ".join(
        f"system.main.count(DISTINCT {identifier(column)}) + "
        f"system.main.count(DISTINCT CASE WHEN {identifier(column)} IS NULL THEN 1 END)"
        for column in columns
    )
    source = f"system.main.query_table({literal(name)})"
    (value,) = con.execute(
        f"SELECT {sums} FROM (SELECT system.main.count(*) AS records, {same} FROM {source} GROUP BY {cells})"  # noqa: S608
    ).fetchall()
    (values,) = con.execute(f"SELECT {varied} FROM {source}").fetchall()  # noqa: S608
    given = zip(columns, value, values, strict=True)
    return {column: int(records) for column, records, many in given if records and many > 1}


def dominated_classes(con: Any, name: str) -> int:
    """In how many classes of means one record has most of a sum, by the column that k_anonymize adds with `dominance`.

    con: a DuckDB connection. name: the table's, as the functions take it. Raises duckdb.Error.
    """
    ((classes,),) = con.execute(
        "SELECT system.main.count(DISTINCT class_id) FILTER (system.main.len(dominated) > 0) "  # noqa: S608 - a literal
        f"FROM system.main.query_table({literal(name)})"
    ).fetchall()
    return int(classes)


def _same(column: str, at: int) -> str:
    """Whether a class has one value, or none."""
    return f"system.main.count(DISTINCT {identifier(column)}) <= 1 AS same{at}"
