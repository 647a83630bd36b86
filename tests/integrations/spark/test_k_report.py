"""k_report on Spark measures what DuckDB's does."""

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from duckanon.errors import InvalidInput
from duckanon.integrations.spark import k_anonymize, k_report
from tests.integrations.spark.both import frames, on_duckdb

PEOPLE = pa.table(
    {
        "age": [20 + i * i % 4 for i in range(200)],
        "Town": [["Ayr", None][i % 2] for i in range(200)],
        "illness": [["flu", "cold", "none", None][i * 7 % 11 % 4] for i in range(200)],
        "fee": [i * i % 13 for i in range(200)],
    }
)
CONTAINMENT = {"k_containment", "singletons_containment"}


def test_all_measures(con: duckdb.DuckDBPyConnection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several parts, too: DuckDB measures all classes at once."""
    monkeypatch.setattr("duckanon.integrations.spark.report._PART", 40)
    population = pa.concat_tables([PEOPLE.select(["Town", "age"])] * 3)
    tables = {"tbl": PEOPLE, "population": population}
    given = {"qi": ["AGE", "town"], "sensitive": ["illness", "fee"], "l": 3}
    (wanted,) = on_duckdb(con, "k_report", tables, **given).to_pylist()
    (found,) = k_report(**frames(spark, tables), **given).toArrow().to_pylist()
    others = {"units", "units_alone", *CONTAINMENT}
    assert {name for name, value in wanted.items() if value is None} == others
    assert others <= found.keys()
    known = [{name: one for name, one in row.items() if name not in others} for row in (found, wanted)]
    assert known[0] == pytest.approx(known[1], rel=1e-12)


def test_a_release_with_sets(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    released = k_anonymize(spark.createDataFrame(PEOPLE), ["age", "Town"], k=9, categorical=["Town"], method="order")
    given = {"qi": ["age_lo", "age_hi", "TOWN_set"], "sensitive": ["illness"], "null_sensitive": "value"}
    (wanted,) = on_duckdb(con, "k_report", {"tbl": released.toArrow()}, **given).to_pylist()
    (found,) = k_report(released, **given).toArrow().to_pylist()
    known = [{name: value for name, value in row.items() if value is not None} for row in (found, wanted)]
    assert known[0] == pytest.approx(known[1], rel=1e-12)
    assert found["k"] >= 9


def test_a_fraction(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    given = {"qi": ["age"], "fraction": 0.25}
    (wanted,) = on_duckdb(con, "k_report", {"tbl": PEOPLE}, **given).to_pylist()
    (found,) = k_report(spark.createDataFrame(PEOPLE), **given).toArrow().to_pylist()
    missing = {"l", "entropy_l", "t", "recursive_c", "k_map", "units", "units_alone", *CONTAINMENT}
    assert {name for name, value in found.items() if value is None} == missing
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


@pytest.mark.parametrize("with_population", [False, True])
@pytest.mark.parametrize("sensitive", [[], ["illness", "fee"]])
def test_units(
    con: duckdb.DuckDBPyConnection,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    sensitive: list[str],
    with_population: bool,
) -> None:
    """Persons with several records, a class without any person, and a value that nobody with a name has."""
    monkeypatch.setattr("duckanon.integrations.spark.report._PART", 40)
    person = [None if i < 12 else i * i % 37 for i in range(200)]
    place = ["Cork" if i < 3 else town for i, town in enumerate(PEOPLE["Town"].to_pylist())]
    fee = [99 if i == 5 else x for i, x in enumerate(PEOPLE["fee"].to_pylist())]
    stays = PEOPLE.set_column(1, "Town", pa.array(place)).set_column(3, "fee", pa.array(fee))
    stays = stays.append_column("Person", pa.array(person))
    tables = {"tbl": stays}
    if with_population:
        others = stays.select(["Person", "age", "Town"])
        moved = others.set_column(0, "Person", pa.array([None if x is None else x + 20 for x in person]))
        tables["population"] = pa.concat_tables([others, moved, moved])
    given = {"qi": ["age", "town"], "sensitive": sensitive, "unit": "person"}
    (wanted,) = on_duckdb(con, "k_report", tables, **given).to_pylist()
    (found,) = k_report(**frames(spark, tables), **given).toArrow().to_pylist()
    known = [{name: value for name, value in row.items() if value is not None} for row in (found, wanted)]
    assert known[0] == pytest.approx(known[1], rel=1e-12)
    assert wanted["records"] == 188
    with pytest.raises(InvalidInput, match=r"^The table has no rows, or none with a unit: there is nothing to report"):
        k_report(spark.createDataFrame(stays).where("person IS NULL"), ["age"], unit="person")


def test_refusals(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match=r"^The table has no rows: there is nothing to report\.$"):
        k_report(spark.createDataFrame(PEOPLE).limit(0), ["age"])
    other = spark.sql("SELECT 'x' AS age")
    with pytest.raises(InvalidInput, match=r'^Column "age" has one type in the DataFrame and another in population'):
        k_report(spark.createDataFrame(PEOPLE), ["age"], population=other)
    with pytest.raises(InvalidInput, match=r"^containment compares all classes on one machine: leave it out on Spark"):
        k_report(spark.createDataFrame(PEOPLE), ["age"], containment=True)
