"""The form of an answer: its cells and columns, which follow from domains and bounds alone. No record is read."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from duckanon.catalog.arrow_texts import sent
from duckanon.catalog.names import quoted
from duckanon.releases import layout
from duckanon.releases.key_domains import components
from duckanon.releases.measures import MOST_CELLS
from duckanon.releases.paid_questions import AggregatesQuestion, DomainFilter, GroupSizesQuestion, PaidQuestion


def form(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> pa.Table:
    """The columns that identify the answer's cells or leaf regions, in order: k0, k1, ..., then e0, ... for events."""
    cell = question.form.cell
    distinct = f"SELECT DISTINCT {', '.join(['cell', *cell]) if cell else '*'} FROM ({cells_of(question)})"
    return to_send(con, f"SELECT * EXCLUDE (cell) FROM ({distinct})", f"({distinct}) ORDER BY cell ASC")


def to_send(con: duckdb.DuckDBPyConnection, columns: str, rows: str) -> pa.Table:
    """The columns of a query as Arrow is given them. rows: what stands after FROM, with these columns, in order."""
    shown = ", ".join(sent(name, kind) for name, kind in _types(con, columns).items())
    table: pa.Table = con.sql(f"SELECT {shown} FROM {rows}").to_arrow_table()
    return table


def columns(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> dict[str, str]:
    """The columns of an answer with their types in DuckDB, by name. They follow from the domains: no record is read."""
    return question.types(_types(con, f"SELECT * EXCLUDE (cell) FROM ({cells_of(question)})"))


def _types(con: duckdb.DuckDBPyConnection, query: str) -> dict[str, str]:
    """The columns of a query with their types, by name."""
    result = con.sql(query)
    return dict(zip(result.columns, map(str, result.types), strict=True))


def invented(con: duckdb.DuckDBPyConnection, question: PaidQuestion, number: str) -> str:
    """A query for an answer with its cells, in all of which each number is the same. It reads domains alone."""
    if isinstance(question, GroupSizesQuestion):
        return " UNION ALL ".join(
            _invented_level(con, question, level, number) for level in range(len(question.hierarchy) + 1)
        )
    names = [
        name if name in question.form.cell else f"CAST({number} AS {kind}) AS {quoted([name])}"
        for name, kind in columns(con, question).items()
    ]
    return f"SELECT DISTINCT {', '.join(names)} FROM ({cells_of(question)}) AS _dk_cells"


def _invented_level(con: duckdb.DuckDBPyConnection, question: GroupSizesQuestion, level: int, number: str) -> str:
    """A query for the regions of a level, with one size each."""
    kinds = columns(con, question)
    regions = {key.column: name for key, name in zip(question.hierarchy, question.form.cell, strict=True)}
    shown = {**dict.fromkeys(kinds, number), "level": str(level), **dict.fromkeys(regions, "NULL")}
    shown |= dict([*regions.items()][:level])
    casts = ", ".join(f"CAST({shown[name]} AS {kind}) AS {quoted([name])}" for name, kind in kinds.items())
    return f"SELECT DISTINCT {casts} FROM ({cells_of(question)}) AS _dk_cells"


def cells(con: duckdb.DuckDBPyConnection, question: PaidQuestion, most: int = MOST_CELLS) -> int:
    """The number of cells, or of leaf regions, that the conditions on keys leave.

    It follows from the domains alone. Of more than `most` only that there are more is sure. Raises UnsupportedQuery for
    conditions on keys that would be tried on too many combinations.
    """
    of = question.form
    product = of.outcomes
    if not of.keys:
        product *= len(con.execute(f"SELECT 1{_constants(of.filters)}").fetchall())
    for component in components(question.location.database, of.keys, of.filters):
        product *= component.size(con, most)
    return len(form(con, question)) if of.grouped and product <= most else product


def shows_nothing(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> bool:
    """Whether the conditions on keys leave no cell of an answer. It follows from the domains alone."""
    if not isinstance(question, AggregatesQuestion) or not question.domain_filters:
        return False
    if any(key.sought is not None for key in question.keys):
        return False
    return cells(con, question, 1) == 0


def cells_of(question: PaidQuestion) -> str:
    """A query for all combinations of keys (b0, ...) that the conditions on keys leave, and events (e0, ...), each with
    the number of its cell and what that is shown by (k0, ...).
    """
    of = question.form
    events = list(map(layout.event, range(len(of.events))))
    parts = [component.query for component in components(question.location.database, of.keys, of.filters)]
    parts += [
        f"(SELECT CAST(range AS INTEGER) AS {name} FROM system.main.range({len(event) + 1})) AS _dk_event_{name}"
        for name, event in zip(events, of.events, strict=True)
    ]
    where = "" if of.keys else _constants(of.filters)
    if not parts:
        return f"SELECT 0 AS cell, 0 AS whole{where}"
    keys = list(map(layout.key, range(len(of.keys))))
    base = [f"{key} AS {layout.base(at)}" for at, key in enumerate(keys)]
    shown = [f"{column} AS {layout.key(at)}" for at, column in enumerate(of.grouped)] or keys
    order = ", ".join(f"{column} ASC NULLS LAST" for column in of.cell)
    numbered = f"SELECT system.main.dense_rank() OVER (ORDER BY {order}) - 1 AS cell, *"
    columns = ", ".join([*base, *shown, *events])
    return f"{numbered} FROM (SELECT {columns} FROM {' CROSS JOIN '.join(parts)}{where}) AS _dk_combinations"


def _constants(filters: Sequence[DomainFilter]) -> str:
    """The WHERE of a question without keys: its conditions that read no column, such as `1 = 0`."""
    tests = " AND ".join(f"({domain_filter.sql})" for domain_filter in filters)
    return f" WHERE {tests}" if tests else ""
