"""Columns and rows between DuckDB and the engines: one list of many values, and rows of an answer's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckanon.catalog.names import identifier
from duckanon.specification import functions

TYPES = {
    "VARCHAR[]": pa.list_(pa.string()),
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "BOOLEAN": pa.bool_(),
    # Wider than 64 bits: between Arrow and DuckDB such numbers travel as decimals.
    "DECIMAL(38, 0)": pa.decimal128(38, 0),
}
# Names of columns and their types in SQL.
Columns = Mapping[str, str]


def columns_of(function: str) -> Columns:
    """The columns that a function's specification lists."""
    return {column.name: column.type for column in functions()[function].columns}


def row_type(columns: Columns) -> str:
    """The type of a row with these columns, in SQL."""
    return f"STRUCT({', '.join(f'{identifier(name)} {kind}' for name, kind in columns.items())})"


def rows(mappings: Iterable[Mapping[str, Any]], columns: Columns) -> pa.Array:
    """All rows as the one value of a list column."""
    kind = pa.struct([(name, TYPES[kind]) for name, kind in columns.items()])
    return pa.array([list(mappings)], pa.list_(kind))


def one_row(answer: Mapping[str, Any], columns: Columns) -> pa.Array:
    """A row as the one value of a column; what `columns` do not name is left out."""
    return struct({name: pa.array([answer[name]], TYPES[kind]) for name, kind in columns.items()})


def struct(fields: Mapping[str, pa.Array]) -> pa.Array:
    """Arrays of the same length, side by side."""
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


def one_list(column: npt.NDArray[Any] | pa.Array) -> pa.Array:
    """The whole array as the one value of a list column."""
    flat = column if isinstance(column, pa.Array) else pa.array(np.ascontiguousarray(column))
    return pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)


def lists(names: Sequence[str], columns: Sequence[npt.NDArray[Any] | pa.Array]) -> pa.Array:
    """One row with a whole array in each column."""
    return struct(dict(zip(names, map(one_list, columns), strict=True)))


def integers(column: pa.Array) -> npt.NDArray[np.int64]:
    """A column of whole numbers without NULL."""
    return np.asarray(column.to_numpy().astype(np.int64))
