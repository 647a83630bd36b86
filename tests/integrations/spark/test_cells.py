"""Spark counts cells as DuckDB does, whatever their types."""

from datetime import date
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.errors import InvalidInput
from duckanon.integrations.spark import cell_bounds, disclosure_report, table_designs
from tests.integrations.spark.both import agree

PEOPLE = pa.table(
    {
        "Town": [["Ayr", "Bow", None][i % 3] for i in range(90)],
        "born": [date(1950 + i % 4, 1, 1) for i in range(90)],
        "fee": pa.array([Decimal(i * i % 5) / 4 for i in range(90)], pa.decimal128(9, 2)),
        "vote.of": [i * 7 % 11 % 3 for i in range(90)],
    }
)
COUNTS = pa.table({"a": [1, 1, 2, 2, 3], "b": ["x", "y", "x", "y", "x"], "n": [4, 0, 3, 9, 2]})


def test_disclosure_report(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    agree(con, spark, "disclosure_report", {"tbl": PEOPLE}, rows=["town", "fee"], cols=["VOTE.of"], small=3)


def test_cell_bounds_with_counts_and_known_facts(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    known = pa.table({"a": [1], "b": pa.array([None], pa.string()), "lower": [1], "upper": [8]})
    found = agree(con, spark, "cell_bounds", {"tbl": COUNTS, "known": known}, rows=["a"], cols=["b"], count="n")
    assert len(found) == 6


def test_cell_bounds_of_dates(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    agree(con, spark, "cell_bounds", {"tbl": PEOPLE}, rows=["born"], cols=["Town"])


def test_table_designs(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    agree(con, spark, "table_designs", {"tbl": PEOPLE}, variables=["Town", "born", "vote.of"], merge=["born"])


def test_errors_are_one_sentence_before_a_row_is_read(spark: SparkSession) -> None:
    table = spark.createDataFrame(COUNTS).withColumn("b", F.expr("raise_error('read')"))
    with pytest.raises(InvalidInput, match=r'^There is no column "c" in the DataFrame; its columns are a, b, n\.$'):
        disclosure_report(table, ["a"], ["c"])
    with pytest.raises(InvalidInput, match=r'^Column "a" is in both rows and cols: name it in one of them\.$'):
        cell_bounds(table, ["a"], ["a"])
    with pytest.raises(InvalidInput, match=r'^disclosure_report has no argument "smal": its arguments are tbl, rows, '):
        disclosure_report(table, ["a"], ["b"], smal=3)
    with pytest.raises(InvalidInput, match=r"^disclosure_report needs the argument cols: "):
        disclosure_report(table, ["a"])
    with pytest.raises(InvalidInput, match=r"^known must be a DataFrame, as in spark\.table\('people'\)\.$"):
        cell_bounds(table, ["a"], ["b"], known="facts")
    nested = table.withColumn("m", F.expr("map(a, n)"))
    with pytest.raises(InvalidInput, match=r'^Column "m" is nested, or of a type that cannot be compared: cast it\.$'):
        table_designs(nested, ["a", "m"])
    collated = table.withColumn("c", F.expr("CAST(n AS STRING) COLLATE UNICODE_CI"))
    with pytest.raises(InvalidInput, match=r'^Column "c" has a collation'):
        disclosure_report(collated, ["c"], ["a"])


def test_a_count_that_is_none_is_refused_as_in_duckdb(spark: SparkSession) -> None:
    table = spark.createDataFrame(COUNTS.set_column(2, "n", pa.array([4, 0, -3, 9, 2])))
    with pytest.raises(InvalidInput, match=r'^Column "n" holds a negative count: counts are zero or more\.$'):
        disclosure_report(table, ["a"], ["b"], count="n")
