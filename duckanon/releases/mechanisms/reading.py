"""Queries for the records of a question: those that its filter leaves, with what is taken of each, and their cells.

Keys, units and texts are compared by their bytes, whatever the collation.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from duckanon.catalog.names import quoted
from duckanon.releases import layout
from duckanon.releases.layout import outcome
from duckanon.releases.measures import Computed, Number, Quantiles, Sums
from duckanon.releases.paid_questions import AggregatesQuestion, Key, PaidQuestion

RECORD = '"duckanon.row"'


def placed(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion) -> str:
    """A query for the records that may count, each with its unit `u`, its numbers and its cell."""
    columns = [*_unit_of(question), "cell", *(name for name, _ in question.values)]
    records = records_of(con, question)
    return f"SELECT {', '.join(columns)} FROM ({records}) JOIN _dk_form ON {in_its_cell(question)}"


def _unit_of(question: AggregatesQuestion) -> list[str]:
    return ["u"] if question.privacy_unit is not None else []


def records_of(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion) -> str:
    """A query for the records that the filter leaves, each with its unit `u`, its keys, its events and its numbers."""
    return _records(con, question, own_keys(question))


def grouped_records(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, totals: Sequence[str]) -> str:
    """A query for totals over records with the same keys and events, in the columns of `records_of`.

    Text is grouped in the collation that compares bytes, and turned into bytes afterwards, once for each group.
    """
    keys = question.form.keys
    text_columns = [layout.own_key(at) for at, key in enumerate(keys) if key.kind == "VARCHAR"]
    shown = [
        f"CAST({quoted([key.column])} AS VARCHAR) COLLATE C AS {layout.own_key(at)}" if key.kind == "VARCHAR" else own
        for at, (key, own) in enumerate(zip(keys, own_keys(question), strict=True))
    ]
    by = [layout.own_key(at) for at in range(len(keys))]
    by += [layout.own_event(at) for at in range(len(question.events))]
    grouped = f"SELECT {', '.join([*by, *totals])} FROM ({_records(con, question, shown)}) AS _dk_records"
    grouped += f" GROUP BY {', '.join(by)}" if by else ""
    return _with_bytes(text_columns, grouped)


def _records(con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, keys: Sequence[str]) -> str:
    shown = [*keys, *(f"{outcome(event)} AS {layout.own_event(at)}" for at, event in enumerate(question.events))]
    shown += [f"{value} AS {name}" for name, value in question.values]
    records = filtered(con, question, shown, [*_unit_of(question), *(name for name, _ in question.values)])
    measures = [(layout.value(at), measure) for at, (measure, _) in enumerate(question.measures)]
    return within_steps([(name, one.number) for name, one in measures if isinstance(one, Sums | Quantiles)], records)


def within_steps(numbers: Sequence[tuple[str, Number]], records: str) -> str:
    """A query for records, whose computed numbers are kept between their first step and their last.

    They are already, by the bounds of all that they are computed from. If one of these were wrong, privacy would not
    depend on it. numbers: with the names of their columns.
    """
    kept = [
        f"CASE WHEN {name} IS NOT NULL THEN system.main.least(system.main.greatest({name}, 0), {number.steps}) END "
        f"AS {name}"
        for name, number in numbers
        if isinstance(number, Computed)
    ]
    return f"SELECT * REPLACE ({', '.join(kept)}) FROM ({records}) AS _dk_kept" if kept else records


def filtered(
    con: duckdb.DuckDBPyConnection, question: AggregatesQuestion, shown: Sequence[str], texts: Sequence[str]
) -> str:
    """A query for the records that the filter leaves: their unit `u`, and columns. texts: those to be told by bytes."""
    tests, unit = [*question.filter, *question.of_keys], question.privacy_unit
    if unit is not None:
        shown = [f"{quoted([unit])} AS u", *shown]
        tests.append(f"{quoted([unit])} IS NOT NULL")
    where = f" WHERE {' AND '.join(f'({test})' for test in tests)}" if tests else ""
    return by_bytes(con, f"SELECT {', '.join(shown) or '0 AS whole'} FROM {question.records} AS {RECORD}{where}", texts)


def in_its_cell(question: AggregatesQuestion) -> str:
    """That a record has the keys and events of a cell, as a condition."""
    met = keys_met(question)
    met += [f"{layout.own_event(at)} = {layout.event(at)}" for at in range(len(question.events))]
    return " AND ".join(met) or "true"


def own_keys(question: PaidQuestion) -> list[str]:
    """A record's keys, as they are compared."""
    keys = question.form.keys
    return [f"{compared(quoted([key.column]), key)} AS {layout.own_key(at)}" for at, key in enumerate(keys)]


def keys_met(question: PaidQuestion) -> list[str]:
    """That a record has the keys of a cell, as conditions."""
    return [
        f"{layout.own_key(at)} IS NOT DISTINCT FROM {compared(layout.base(at), key)}"
        for at, key in enumerate(question.form.keys)
    ]


def compared(name: str, key: Key) -> str:
    """A key as it is compared with its domain: text by its bytes, so that each record lies in one cell.

    Under a collation that ignores case, a record with 'a' would lie in the cells of 'a' and of 'A', and count twice.
    """
    return bytes_of(name) if key.kind == "VARCHAR" else name


def bytes_of(text: str) -> str:
    """A text as its bytes, as SQL."""
    return f"system.main.encode(CAST({text} AS VARCHAR))"


def by_bytes(con: duckdb.DuckDBPyConnection, query: str, names: Sequence[str]) -> str:
    """The query, with bytes for text in those of its columns that are among `names`.

    A collation, which may be the connection's, takes different texts for equal. Two units would be one then, until one
    of them leaves; and their hashes would differ.
    """
    relation = con.sql(query)
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    texts = [name for name in names if name in kinds and kinds[name].id in ("varchar", "enum")]
    return _with_bytes(texts, query)


def _with_bytes(texts: Sequence[str], query: str) -> str:
    replaced = ", ".join(f"{bytes_of(text)} AS {text}" for text in texts)
    return f"SELECT * REPLACE ({replaced}) FROM ({query})" if texts else query
