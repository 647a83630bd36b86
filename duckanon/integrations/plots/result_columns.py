"""Results of SQL in any form that Python programs use, as columns of Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from duckanon.errors import InvalidInput


@dataclass(frozen=True)
class ResultColumns:
    """A result: its columns by name, each a list of as many values as there are rows."""

    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Sequence[Any]:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def names(self) -> list[str]:
        return list(self.columns)

    def rows(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The rows, as tuples of those columns; of no columns, empty ones."""
        return list(zip(*(self.columns[name] for name in names), strict=True)) if names else [()] * len(self)


def result_columns(data: Any, con: Any = None) -> ResultColumns:
    """The result that `data` holds: a DuckDB relation, an Arrow table, a data frame, or SQL to run on `con`.

    Raises InvalidInput for anything else.
    """
    if isinstance(data, ResultColumns):
        return data
    if isinstance(data, str):
        if con is None:
            raise InvalidInput("SQL needs a connection to run on: plot(sql, con=con), or plot(con.sql(sql)).")
        data = con.sql(data)
    table = _table(data)
    return ResultColumns({name: _plain(column) for name, column in zip(table.column_names, table.columns, strict=True)})


def _table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    # DuckDB's relations have both methods; an analyst's answers have only this one.
    if hasattr(data, "to_arrow_table"):
        return data.to_arrow_table()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise InvalidInput(
        "There is nothing to draw in this: give a DuckDB relation such as con.sql('FROM k_compare(...)'), an Arrow "
        "table, a data frame, or SQL with con=."
    )


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """The values. DuckDB returns sums as decimals; whole ones become int."""
    return [
        int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
        for value in column.to_pylist()
    ]
