"""Spark's column types and Arrow's, which DuckDB reads."""

from __future__ import annotations

import inspect

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from duckanon.errors import InvalidInput

# Spark 4.1 gives times in UTC without being asked.
_IN_UTC = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The columns as DuckDB sees them.

    A type that Arrow does not know stands as a list of NULL, which no role of a column allows. Raises InvalidInput for
    two columns whose names differ in case only, which DuckDB does not tell apart.
    """
    names: set[str] = set()
    for field in schema.fields:
        if field.name.lower() in names:
            raise InvalidInput(f'There are two columns "{field.name}": names that differ in case only are one name.')
        names.add(field.name.lower())
    return pa.schema([(field.name, _arrow(field.dataType)) for field in schema.fields])


def _arrow(kind: spark.DataType) -> pa.DataType:
    try:
        return to_arrow_type(kind, **_IN_UTC)
    except PySparkException:
        return pa.list_(pa.null())


def spark_schema(schema: pa.Schema, kept: spark.StructType | None = None) -> spark.StructType:
    """The columns of an answer. kept: columns of the table that keep their own types, by name."""
    own = {} if kept is None else {field.name: field for field in kept.fields}
    return spark.StructType([own.get(one.name) or _field(one) for one in schema])


def _field(field: pa.Field) -> spark.StructField:
    return spark.StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True))
