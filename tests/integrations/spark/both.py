"""The same call on DuckDB and on Spark."""

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from duckanon.integrations import spark as on_spark
from duckanon.integrations.calls import call


def on_duckdb(con: duckdb.DuckDBPyConnection, function: str, tables: Mapping[str, pa.Table], **given: Any) -> pa.Table:
    """DuckDB's answer. tables: by argument, the call's own under `tbl`."""
    for name, table in tables.items():
        con.register(name, table)
    return con.sql(call(function, **{name: name for name in tables}, **given)).to_arrow_table()


def frames(spark: SparkSession, tables: Mapping[str, pa.Table]) -> dict[str, DataFrame]:
    """The tables as DataFrames of several partitions."""
    return {name: spark.createDataFrame(table).repartition(3) for name, table in tables.items()}


def agree(
    con: duckdb.DuckDBPyConnection, spark: SparkSession, function: str, tables: Mapping[str, pa.Table], **given: Any
) -> list[dict[str, Any]]:
    """The rows of Spark's answer, which are DuckDB's, in the same order, under the same names."""
    wanted = on_duckdb(con, function, tables, **given)
    found = getattr(on_spark, function)(**frames(spark, tables), **given)
    assert found.columns == wanted.column_names
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    assert rows == wanted.to_pylist()
    return rows
