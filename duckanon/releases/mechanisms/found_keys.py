"""Keys that are found with noise: the values of a column that many privacy units have."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.catalog.names import quoted
from duckanon.engines.found_keys import select
from duckanon.engines.randomness import Source
from duckanon.releases import layout
from duckanon.releases.measures import Ints
from duckanon.releases.mechanisms import contribution, reading
from duckanon.releases.paid_questions import KeysQuestion


def noisy_keys(con: duckdb.DuckDBPyConnection, question: KeysQuestion, source: Source) -> pa.Table:
    """The values that are told, in order."""
    values, units = units_by_value(con, question)
    told = select(units, question.noise, question.threshold, question.most, source)
    keys = values.take(pa.array(told))
    return pa.table({layout.key(0): keys.cast(pa.string()) if question.type == "VARCHAR" else keys})


def units_by_value(con: duckdb.DuckDBPyConnection, question: KeysQuestion) -> tuple[Any, Ints]:
    """The values in order, texts as bytes, and how many privacy units have each, of the records that count."""
    unit, column = question.privacy_unit, quoted([question.column])
    shown = [f"{column} AS cell", *([f"{quoted([unit])} AS u"] if unit is not None else [])]
    tests = [f"{one} IS NOT NULL" for one in (column, *([quoted([unit])] if unit is not None else []))]
    records = f"SELECT {', '.join(shown)} FROM {question.records} AS {reading.RECORD} WHERE {' AND '.join(tests)}"
    counted = "system.main.count(*)" if unit is None else "system.main.count(DISTINCT u)"
    rows: pa.Table = con.sql(
        f"WITH _dk_placed AS ({reading.by_bytes(con, records, ['u', 'cell'])}), {contribution.bounded(question)} "
        f"SELECT cell, {counted} AS n FROM _dk_bounded GROUP BY cell ORDER BY cell ASC"
    ).to_arrow_table()
    return rows.column("cell").combine_chunks(), rows.column("n").to_numpy().astype(np.int64)
