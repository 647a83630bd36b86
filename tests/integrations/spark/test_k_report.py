"""k_report on Spark measures what DuckDB's does."""

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from duckanon.errors import InvalidInput
from duckanon.integrations.spark import k_report
from tests.integrations.spark.both import frames, on_duckdb

PEOPLE = pa.table(
    {
        "age": [20 + i * i % 4 for i in range(200)],
        "Town": [["Ayr", None][i % 2] for i in range(200)],
        "illness": [["flu", "cold", "none", None][i * 7 % 11 % 4] for i in range(200)],
        "fee": [i * i % 13 for i in range(200)],
    }
)


def test_all_measures(con: duckdb.DuckDBPyConnection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several parts, too: DuckDB measures all classes at once."""
    monkeypatch.setattr("duckanon.integrations.spark.report._PART", 40)
    population = pa.concat_tables([PEOPLE.select(["Town", "age"])] * 3)
    tables = {"tbl": PEOPLE, "population": population}
    given = {"qi": ["AGE", "town"], "sensitive": ["illness", "fee"], "l": 3}
    (wanted,) = on_duckdb(con, "k_report", tables, **given).to_pylist()
    (found,) = k_report(**frames(spark, tables), **given).toArrow().to_pylist()
    assert found == pytest.approx(wanted, rel=1e-12)
    assert None not in wanted.values()


def test_a_fraction(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    given = {"qi": ["age"], "fraction": 0.25}
    (wanted,) = on_duckdb(con, "k_report", {"tbl": PEOPLE}, **given).to_pylist()
    (found,) = k_report(spark.createDataFrame(PEOPLE), **given).toArrow().to_pylist()
    assert {name for name, value in found.items() if value is None} == {"l", "entropy_l", "t", "recursive_c", "k_map"}
    known = [{name: value for name, value in row.items() if value is not None} for row in (found, wanted)]
    assert known[0] == pytest.approx(known[1], rel=1e-12)


def test_weights(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    weighed = PEOPLE.append_column("w", pa.array([1.5 + i % 7 for i in range(200)]))
    given = {"qi": ["age", "town", "fee"], "weight": "w"}
    (wanted,) = on_duckdb(con, "k_report", {"tbl": weighed}, **given).to_pylist()
    (found,) = k_report(spark.createDataFrame(weighed), **given).toArrow().to_pylist()
    known = [{name: value for name, value in row.items() if value is not None} for row in (found, wanted)]
    assert known[0] == pytest.approx(known[1], rel=1e-9)
    assert found["journalist_max"] is not None
    missing = weighed.set_column(4, "w", pa.array([None, *weighed["w"].to_pylist()[1:]]))
    with pytest.raises(InvalidInput, match=r'^Column "w" has weights that are missing or not above 0'):
        k_report(spark.createDataFrame(missing), **given)


def test_refusals(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match=r"^The table has no rows: there is nothing to report\.$"):
        k_report(spark.createDataFrame(PEOPLE).limit(0), ["age"])
    other = spark.sql("SELECT 'x' AS age")
    with pytest.raises(InvalidInput, match=r'^Column "age" has one type in the DataFrame and another in population'):
        k_report(spark.createDataFrame(PEOPLE), ["age"], population=other)
