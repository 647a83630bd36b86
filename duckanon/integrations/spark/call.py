"""One call of a function on Spark, as the functions of this package get it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql import types as spark_types

from duckanon.errors import InvalidInput
from duckanon.integrations.spark import arguments, driver
from duckanon.integrations.spark.types import arrow_schema, spark_schema


@dataclass(frozen=True)
class Call:
    """A call with all its arguments.

    con: a connection of the driver's DuckDB, for this call alone. given: the arguments as DuckDB hands them to a
    request, tables by name. schemas: the columns of its tables, by argument. tables: its DataFrames by argument; none
    while a call in SQL is analysed. own: arguments that DuckDB's function does not have.
    """

    con: duckdb.DuckDBPyConnection
    given: Mapping[str, Any]
    schemas: Mapping[str, spark_types.StructType]
    tables: Mapping[str, DataFrame] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def read(con: duckdb.DuckDBPyConnection, function: str, given: Sequence[Any], named: Mapping[str, Any]) -> Call:
        """Raises InvalidInput for arguments that do not fit the function's signature."""
        bound = arguments.bound(function, given, named)
        own = {name: bound.pop(name) for name in arguments.OWN.get(function, ()) if name in bound}
        tables = arguments.tables(function, bound)
        schemas = {name: table.schema for name, table in tables.items()}
        return Call(con, arguments.complete(con, function, bound), schemas, tables, own)

    @property
    def table(self) -> DataFrame:
        """The table that the call is about."""
        return self.tables["tbl"]

    @property
    def spark(self) -> SparkSession:
        return self.table.sparkSession

    def described(self, argument: str = "tbl") -> tuple[list[str], list[str]]:
        """Names and types of a table's columns, as DuckDB calls them."""
        return driver.described(self.con, arrow_schema(self.schemas[argument]))

    def check_groups(self, names: Sequence[str], *, lists: bool = False) -> None:
        """Check that Spark groups by these columns as DuckDB does. Raises InvalidInput for one that it cannot.

        lists: whether lists of plain values will do, such as the sets of a release.
        """
        kinds = {one.name.lower(): one for one in self.schemas["tbl"].fields}
        for name in names:
            kind = kinds[name.lower()].dataType
            if lists and isinstance(kind, spark_types.ArrayType):
                kind = kind.elementType
            if isinstance(kind, spark_types.StringType) and not kind.isUTF8BinaryCollation():
                raise InvalidInput(
                    f'Column "{name}" has a collation, to which texts that differ are equal: cast it to STRING.'
                )
            (crossed,) = arrow_schema(spark_types.StructType([spark_types.StructField(name, kind)])).types
            if pa.types.is_nested(crossed):
                raise InvalidInput(f'Column "{name}" is nested, or of a type that cannot be compared: cast it.')

    def answer(self, query: str, **tables: pa.Table) -> DataFrame:
        """The answer of a query on the driver, as a DataFrame. tables: what it reads, by argument."""
        named = [(arguments.TABLE if name == "tbl" else name, table) for name, table in tables.items()]
        driver.register_all(self.con, named)
        found = driver.run(self.con, query)
        return self.spark.createDataFrame(found, spark_schema(found.schema))


def column(table: DataFrame, name: str) -> Column:
    """A column that a call names."""
    return F.col(quoted(own_name(table, name)))


def own_name(table: DataFrame, name: str) -> str:
    """A column's name as the table writes it. DuckDB's names ignore case, whatever Spark is set to."""
    return {one.lower(): one for one in table.columns}[name.lower()]


def quoted(name: str) -> str:
    """A column's name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"
