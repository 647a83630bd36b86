"""Spark counts groups as DuckDB does; noise is drawn once, after the charge."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import duckanon
from duckanon.errors import InvalidInput
from duckanon.integrations.spark import dp_group_sizes, group_sizes
from tests.integrations.spark.both import agree, frames

PERSONS = pa.table(
    {
        "household": [i % 31 for i in range(120)],
        "State": [["GA", "NY"][i % 31 % 2] for i in range(120)],
        "county": [f"{i % 31 % 2}/{i % 31 % 6}" for i in range(120)],
        "cars": pa.array([i % 3 for i in range(120)], pa.int16()),
        "ssn": [str(i) for i in range(120)],
    }
)
REGIONS = pa.table({"State": ["GA", "NY", "NY"], "county": ["0/0", "1/1", "1/9"]})


def test_group_sizes(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    agree(con, spark, "group_sizes", {"tbl": PERSONS}, unit="household", hierarchy=["state", "county"])


def test_group_sizes_by_a_quantity(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    agree(con, spark, "group_sizes", {"tbl": PERSONS}, unit="household", quantity="cars")


FLAWED: dict[str, tuple[dict[str, list[Any]], dict[str, str]]] = {
    "a group in two regions": ({"county": ["0/0"] * 119 + ["0/2"], "State": ["GA"] * 120}, {}),
    "a county in two states": ({"household": list(range(120)), "county": ["1"] * 120}, {}),
    "no unit": ({"household": [None, *range(119)]}, {}),
    "no region": ({"household": list(range(120)), "county": [None, *PERSONS["county"].to_pylist()[1:]]}, {}),
    "a negative quantity": ({"cars": [-1, *[0] * 119]}, {"quantity": "cars"}),
    "no quantity": ({"cars": [None, *[0] * 119]}, {"quantity": "cars"}),
}


@pytest.mark.parametrize("flaw", FLAWED)
def test_flaws_are_told_as_in_duckdb(con: duckdb.DuckDBPyConnection, spark: SparkSession, flaw: str) -> None:
    replaced, given = FLAWED[flaw]
    table = pa.table({name: replaced.get(name, PERSONS[name]) for name in PERSONS.column_names})
    con.register("persons", table)
    options = "".join(f", {name} := '{value}'" for name, value in given.items())
    with pytest.raises(duckdb.InvalidInputException) as told:
        con.sql(f"FROM group_sizes('persons', 'household', ['state', 'county']{options})").fetchall()
    with pytest.raises(InvalidInput) as found:
        group_sizes(spark.createDataFrame(table), "household", ["state", "county"], **given)
    assert str(told.value) == f"Invalid Input Error: {found.value}"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A database whose table `persons` has a budget. It is empty: the persons are on Spark."""
    path = tmp_path / "ledger.duckdb"
    with duckdb.connect(str(path)) as con:
        duckanon.register(con)
        con.execute("CREATE TABLE persons (household BIGINT, State VARCHAR, county VARCHAR, cars INT, ssn VARCHAR)")
        con.execute("SELECT protect('persons', epsilon := 3)").fetchall()
    return path


def spent(ledger: Path) -> list[tuple[str, float]]:
    with duckdb.connect(str(ledger)) as con:
        duckanon.register(con)
        return con.execute("SELECT tbl, epsilon FROM privacy_ledger() WHERE action = 'charge'").fetchall()


def test_a_release_is_charged_once_and_drawn_once(spark: SparkSession, ledger: Path) -> None:
    tables = frames(spark, {"tbl": PERSONS})
    given = {"unit": "household", "hierarchy": ["State"], "epsilon": "1/2", "max_size": 6, "ledger": ledger}
    first = dp_group_sizes(**tables, **given, name="persons", person="ssn")
    assert first.columns == ["level", "State", "size", "groups", "low", "high"]
    again = dp_group_sizes(tables["tbl"].repartition(1), **given, name="persons", person="ssn")
    assert first.collect() == first.collect() == again.collect()
    assert spent(ledger) == [("main.persons", 0.5)]
    counts = first.where("level = 1").groupBy("State").sum("groups").toArrow().to_pylist()
    assert {one["State"]: one["sum(groups)"] for one in counts} == {"GA": 16, "NY": 15}
    with pytest.raises(InvalidInput, match=r"^The privacy budget of main.persons does not suffice: epsilon 9 is"):
        dp_group_sizes(**tables, **given | {"epsilon": 9}, name="persons")
    assert len(spent(ledger)) == 1


def test_with_so_large_an_epsilon_that_no_noise_is_left_the_counts_are_duckdbs(
    con: duckdb.DuckDBPyConnection, spark: SparkSession, tmp_path: Path
) -> None:
    listed = PERSONS.slice(0, 0).select(["State", "county"])
    regions = pa.concat_tables([listed, PERSONS.select(["State", "county"]), REGIONS.slice(2)])
    given = {"unit": "household", "hierarchy": ["State", "county"], "quantity": "cars", "bound": 2}
    given |= {"epsilon": 10**6, "max_size": 4, "mechanism": "auto"}
    for name, table in {"tbl": PERSONS, "regions": regions}.items():
        con.register(name, table)
    text = (
        "SELECT * EXCLUDE (low, high) FROM dp_group_sizes('tbl', 'household', ['State', 'county'], epsilon := 1000000"
    )
    wanted = con.sql(f"{text}, max_size := 4, quantity := 'cars', bound := 2, regions := 'regions')").fetchall()
    found = dp_group_sizes(
        **frames(spark, {"tbl": PERSONS, "regions": regions}), **given, ledger=tmp_path / "new.duckdb", name="persons"
    )
    assert [tuple(row) for row in found.drop("low", "high").collect()] == wanted


def test_refusals(spark: SparkSession, ledger: Path) -> None:
    table = spark.createDataFrame(PERSONS)
    given = {"unit": "household", "epsilon": 1, "max_size": 3}
    with pytest.raises(InvalidInput, match=r"^What is drawn is recorded in a ledger before: say which "):
        dp_group_sizes(table, **given)
    with pytest.raises(InvalidInput, match=r"^name must say what the ledger calls the table, as in name='people'\.$"):
        dp_group_sizes(table, **given, ledger=ledger)
    twice = pa.table({**{name: PERSONS[name] for name in PERSONS.column_names}, "ssn": ["1"] * 120})
    with pytest.raises(InvalidInput, match=r'^Column "ssn" holds NULL, or a person in more than one row'):
        dp_group_sizes(spark.createDataFrame(twice), **given, ledger=ledger, name="persons", person="ssn")
    other = spark.sql("SELECT 1 AS State")
    with pytest.raises(InvalidInput, match=r'^Column "State" has one type in the DataFrame and another in regions'):
        dp_group_sizes(table, **given, hierarchy=["State"], regions=other, ledger=ledger, name="persons")
    broken = ledger.with_name("broken.duckdb")
    broken.write_text("no database")
    with pytest.raises(InvalidInput, match=r"^The ledger cannot be opened: it must be a DuckDB database that no other"):
        dp_group_sizes(table, **given, ledger=broken, name="persons")
    assert spent(ledger) == []
