"""The functions in Spark's SQL, by the same names and arguments."""

from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from duckanon.integrations import spark as on_spark

ROWS = 60
PEOPLE = pa.table(
    {
        "age": pa.array([20 + i % 13 for i in range(ROWS)], pa.int16()),
        "fee": pa.array([Decimal(i % 7) / 4 for i in range(ROWS)], pa.decimal128(30, 2)),
        "seen": pa.array(
            [datetime(2026, 7, 1 + i % 5, 12, tzinfo=UTC) for i in range(ROWS)], pa.timestamp("us", "UTC")
        ),
        "town": [["Ayr", "Bow", None][i % 3] for i in range(ROWS)],
    }
)


@pytest.fixture
def people(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    con.register("people", PEOPLE)
    spark.createDataFrame(PEOPLE).repartition(2).createOrReplaceTempView("people")
    on_spark.register(spark)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("ours", "sparks"),
    [
        (
            "group_sizes('people', 'age', hierarchy := [])",
            "group_sizes(tbl => TABLE(people), unit => 'age', hierarchy => array())",
        ),
        (
            "cell_bounds('people', ['seen', 'fee'], cols := ['town'])",
            "cell_bounds(TABLE(people), array('seen', 'fee'), cols => array('town'))",
        ),
    ],
)
def test_an_answer_is_duckdbs(con: duckdb.DuckDBPyConnection, spark: SparkSession, ours: str, sparks: str) -> None:
    wanted = con.sql(f"FROM {ours}").to_arrow_table()
    found = spark.sql(f"SELECT * FROM {sparks}")
    assert found.columns == wanted.column_names
    assert sorted(map(str, found.toArrow().cast(wanted.schema).to_pylist())) == sorted(map(str, wanted.to_pylist()))


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("cell_bounds(TABLE(people), array('ag'), array('town'))", 'There is no column "ag" in the DataFrame'),
        ("dp_group_sizes(TABLE(people), 'age', epsilon => 1, max_size => 3)", "dp_group_sizes draws noise, and Spark"),
        ("disclosure_report(TABLE(people), array('age'), array('town'), smal => 3)", 'has no argument "smal"'),
        ("disclosure_report(array('age'), array('town'), array('fee'))", "tbl must be a table, as in tbl => TABLE"),
        ("cell_bounds(TABLE(people), array('age'), array('town'), known => 'x')", "takes one table: for known call"),
    ],
)
def test_a_wrong_call_is_refused_before_a_row_is_read(spark: SparkSession, call: str, says: str) -> None:
    with pytest.raises(Exception, match="TABLE_VALUED_FUNCTION_FAILED_TO_ANALYZE") as told:
        spark.sql(f"SELECT * FROM {call}")
    assert says in str(told.value)
