"""The functions as table functions of Spark's SQL: `SELECT * FROM k_report(tbl => TABLE(people), qi => array('age'))`.

Spark hands a table function its table as the rows of one task, which cannot start jobs of its own. So a call in SQL
runs DuckDB in one task, and is for tables that one machine can hold; the functions on DataFrames have no such limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from duckanon.catalog.names import identifier
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call as written
from duckanon.integrations.spark import arguments, driver
from duckanon.integrations.spark.call import Call
from duckanon.integrations.spark.families import FUNCTIONS
from duckanon.integrations.spark.types import arrow_schema, spark_schema
from duckanon.specification import functions

# Rows that go to DuckDB at once.
_BATCH = 20_000


def register(spark: SparkSession) -> None:
    """Make the functions table functions of this session's SQL. Calling it again is harmless."""
    for name in FUNCTIONS:
        spark.udtf.register(name, F.udtf(_table_function(name), useArrow=False))


@dataclass
class _Analysed(AnalyzeResult):
    """What a task must know of a call. call: its text in DuckDB's SQL. table: the columns of its table."""

    call: str = ""
    table: pa.Schema = field(default_factory=lambda: pa.schema([]))


def _analysed(
    name: str, analyze_arguments: tuple[AnalyzeArgument, ...], named: Mapping[str, AnalyzeArgument]
) -> _Analysed:
    """The answer's columns. Spark asks for them before any row is read."""
    if not FUNCTIONS[name].in_sql:
        raise InvalidInput(
            f"{name} draws noise, and Spark may run a task of its SQL twice: call duckanon.integrations.spark.{name} "
            "on a DataFrame, and make its answer a view."
        )
    bound = arguments.bound(name, analyze_arguments, named)
    if not bound["tbl"].isTable:
        raise InvalidInput("tbl must be a table, as in tbl => TABLE(people).")
    schema = bound.pop("tbl").dataType
    values = {text: _constant(name, text, value) for text, value in bound.items()}
    kinds = arrow_schema(schema)
    with driver.connection() as con:
        call = Call(con, arguments.complete(con, name, {"tbl": arguments.TABLE, **values}), {"tbl": schema})
        FUNCTIONS[name].check(call)
        text = written(name, arguments.TABLE, **{text: value for text, value in values.items() if value is not None})
        con.register(arguments.TABLE, kinds.empty_table())
        columns = driver.answer_columns(con, text)
    return _Analysed(spark_schema(columns, schema), withSinglePartition=True, call=text, table=kinds)


def _constant(function: str, name: str, analyze_argument: AnalyzeArgument) -> Any:
    """An argument's value. Raises InvalidInput for a second table, and for what is no constant."""
    if name in arguments.OWN.get(function, ()):
        raise InvalidInput(f"{name} is an argument of duckanon.integrations.spark.{function}: leave it out of SQL.")
    if analyze_argument.isTable or name in functions()[function].tables:
        raise InvalidInput(
            f"In Spark's SQL {function} takes one table: for {name} call duckanon.integrations.spark.{function}."
        )
    if not analyze_argument.isConstantExpression:
        raise InvalidInput(f"{name} must be a constant.")
    return arguments.plain(analyze_argument.value)


def _table_function(name: str) -> type:
    """The class that Spark calls: once a row, and at the end of its only task."""

    class TableFunction:
        @staticmethod
        def analyze(*analyze_argument: AnalyzeArgument, **named: AnalyzeArgument) -> AnalyzeResult:
            return _analysed(name, analyze_argument, named)

        def __init__(self, analysed: _Analysed) -> None:
            self._rows = _Rows(analysed)

        def eval(self, *given: Any, **named: Any) -> None:
            self._rows.add(arguments.bound(name, given, named)["tbl"])

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            return self._rows.answer()

    return TableFunction


class _Rows:
    """The rows of one task, in a temporary table of DuckDB's, which may be larger than memory."""

    def __init__(self, analysed: _Analysed) -> None:
        self._analysed = analysed
        self._waiting: list[Row] = []
        self._opened = driver.connection()
        self._con = self._opened.__enter__()
        self._name = identifier(arguments.TABLE)
        self._con.register("_dk_columns", analysed.table.empty_table())
        self._con.execute(f"CREATE OR REPLACE TEMP TABLE {self._name} AS FROM _dk_columns")

    def add(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) >= _BATCH:
            self._write()

    def _write(self) -> None:
        columns = zip(*self._waiting, strict=True) if self._waiting else ([] for _ in self._analysed.table)
        arrays = [
            pa.array([_zoned(value) for value in values] if _has_zone(one.type) else list(values), one.type)
            for one, values in zip(self._analysed.table, columns, strict=True)
        ]
        self._con.register("_dk_batch", pa.Table.from_arrays(arrays, schema=self._analysed.table))
        self._con.execute(f"INSERT INTO {self._name} FROM _dk_batch")
        self._waiting = []

    def answer(self) -> Iterator[tuple[Any, ...]]:
        self._write()
        found = driver.run(self._con, self._analysed.call)
        self._con.execute(f"DROP TABLE {self._name}")
        self._opened.__exit__(None, None, None)
        for batch in found.to_batches(_BATCH):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _has_zone(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz)


def _zoned(value: datetime | None) -> datetime | None:
    """A time as Arrow takes it: Spark hands it to Python in the machine's own zone, without saying so."""
    return None if value is None else value.astimezone(UTC)
