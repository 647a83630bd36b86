"""k_anonymize on Spark: DuckDB's release where there is one block, the same release however the rows are spread."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions.k_anonymize import KAnonymize
from duckanon.integrations.spark import arguments, driver, k_anonymize
from duckanon.integrations.spark.block import Scale
from duckanon.integrations.spark.facts import Facts
from duckanon.integrations.spark.verification import verify
from tests.integrations.spark.both import on_duckdb

ROWS = 900
CALL: dict[str, Any] = {
    "qi": ["age", "race", "fee", "BORN", "seen"],
    "k": 5,
    "method": "order",
    "categorical": ["race"],
    "drop": ["ssn"],
    "weights": {"age": 2},
}


@pytest.fixture(scope="module")
def people(spark: SparkSession) -> DataFrame:
    """Every type that lies on a line or is text, NULLs, and a place that more records share than a block holds."""
    table = spark.sql(
        f"""
        SELECT IF(id < 500, 7, id * 7919 % {ROWS})::INT AS age, IF(id % 50 = 0, NULL, 'c' || id * 31 % 5) AS race,
          IF(id < 500, 1, id * id % 1000 / 7)::DECIMAL(38, 20) AS fee, DATE '2001-01-01' + INT(id / 500) AS born,
          timestamp_seconds(1e9 + IF(id < 500, 0, id * 13 % 99)) AS seen, id AS `ref no`, array(id) AS visits,
          's' AS ssn
        FROM range({ROWS})
        """
    )
    return spark.createDataFrame(table.toArrow())


def rows(table: pa.Table) -> list[str]:
    return sorted(str(list(row.values())) for row in table.to_pylist())


def test_one_block_is_duckdbs_release(con: duckdb.DuckDBPyConnection, people: DataFrame) -> None:
    """Records with equal quasi-identifiers may change places, because the two hash rows differently: here none have."""
    some = people.where("`ref no` >= 495").withColumn("age", F.col("ref no"))
    wanted = on_duckdb(con, "k_anonymize", {"tbl": some.toArrow()}, **CALL)
    found = k_anonymize(some, **CALL)
    assert [name.lower() for name in found.columns] == [name.lower() for name in wanted.column_names]
    released = found.toArrow().cast(wanted.schema)
    assert rows(released.drop_columns(["class_id"])) == rows(wanted.drop_columns(["class_id"]))
    ids = set(zip(released["class_id"].to_pylist(), map(str, wanted_cells(released)), strict=True))
    assert len(ids) == len(set(wanted["class_id"].to_pylist()))


def wanted_cells(table: pa.Table) -> list[list[Any]]:
    names = [name for name in table.column_names if name.endswith(("_lo", "_hi", "_set"))]
    return [list(row.values()) for row in table.select(names).to_pylist()]


def test_blocks_do_not_depend_on_partitions_orders_or_a_killed_task(people: DataFrame, tmp_path: Path) -> None:
    def dies_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            marker = tmp_path / "died"
            if not marker.exists():
                marker.touch()
                os._exit(1)
            yield batch

    first = k_anonymize(people.repartition(1), **CALL, block=330, staging=tmp_path / "staged")
    other = people.orderBy(F.desc("ref no")).repartition(4).mapInArrow(dies_once, people.schema)
    second = k_anonymize(other, **CALL, block=330)
    assert (tmp_path / "died").exists()
    assert rows(first.toArrow()) == rows(second.toArrow())
    assert first.count() == ROWS
    assert first.groupBy("class_id").count().agg(F.min("count")).collect()[0][0] >= CALL["k"]
    with pytest.raises(InvalidInput, match=r"^The folder of staging exists: name one that does not, or remove it\.$"):
        k_anonymize(people, **CALL, staging=tmp_path / "staged")


@pytest.mark.parametrize("staged", [True, False])
def test_nothing_is_left_of_the_order_of_the_rows(people: DataFrame, staged: bool, tmp_path: Path) -> None:
    """Records of a class stand by what is released of them, also where the table is sorted by a quasi-identifier."""
    table, seen = people.withColumn("fee", F.col("fee") + F.col("ref no")), []
    for n, order in enumerate(["fee", "-`ref no`", "hash(`ref no`)"]):
        given = table.coalesce(1).sortWithinPartitions(F.expr(order))
        staging = tmp_path / str(n) if staged else None
        seen.append(k_anonymize(given, **CALL | {"k": 40}, block=300, staging=staging).toArrow())
    assert seen[0].equals(seen[1])
    assert seen[0].equals(seen[2])
    of_class: dict[int, list[int]] = {}
    for row in seen[0].to_pylist():
        of_class.setdefault(row["class_id"], []).append(row["ref no"])
    assert len(of_class) > 10
    assert all(found == sorted(found) for found in of_class.values())


def test_a_table_that_changes_while_it_is_read_is_not_released(people: DataFrame) -> None:
    @F.arrow_udf("binary")
    def other(values: pa.Array) -> pa.Array:
        return pa.array([os.urandom(8) for _ in values])

    with pytest.raises(DuckanonError, match=r"^The rows that were released are not those that were read"):
        k_anonymize(people.withColumn("noise", other.asNondeterministic()("age")), **CALL)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"k": 1000}, "The table has fewer than k = 1000 rows: choose a smaller k, or anonymise more rows together."),
        ({"method": "best"}, "There is no method 'best'"),
        ({"qi": ["visits"], "categorical": [], "weights": None}, 'Column "visits" is nested and cannot be a quasi-'),
        ({"staging": 3}, "staging must be the path of a folder that does not exist yet"),
        ({"block": "many"}, "block must be a whole number"),
        ({"block": 0}, "block must be 1 or more"),
    ],
)
def test_refusals(people: DataFrame, given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput) as told:
        k_anonymize(people, **CALL | given)
    assert str(told.value).startswith(says)


def test_values_without_a_place_are_refused(people: DataFrame) -> None:
    with pytest.raises(InvalidInput, match=r'^Column "x" holds NaN or infinity: replace them by NULL'):
        k_anonymize(people.withColumn("x", F.expr("IF(age = 7, DOUBLE('NaN'), 1D)")), ["x"])
    with pytest.raises(InvalidInput, match=r'^Column "m" holds a map, a variant or an interval, by which Spark'):
        k_anonymize(people.withColumn("m", F.expr("map(age, age)")), ["age"])


def request(**given: Any) -> KAnonymize:
    with driver.connection() as con:
        found = KAnonymize.read(arguments.complete(con, "k_anonymize", {"tbl": "people", **given}))
    assert isinstance(found, KAnonymize)
    return found


@pytest.mark.parametrize(
    ("rows", "call", "says"),
    [
        ("(1, 2, true, 1), (1, 2, true, 2)", {}, None),
        ("(1, 1, true, 1), (1, 1, true, 2)", {}, "fewer than k"),
        ("(1, 1, true, 1), (2, 2, true, 2)", {}, "fewer than k"),
        ("(1, 2, true, 1), (1, 2, true, 2), (NULL, NULL, false, 3)", {"max_suppression": 0.34}, None),
        ("(1, 2, true, 1), (1, 2, true, 2), (NULL, NULL, false, 3)", {"max_suppression": 0.3}, "dropped too many"),
        ("(NULL, NULL, false, 1), (NULL, NULL, false, 2)", {}, "fewer than k"),
    ],
)
def test_the_check_finds_what_is_wrong(spark: SparkSession, rows: str, call: dict[str, Any], says: str | None) -> None:
    made = spark.sql(f"SELECT * FROM VALUES {rows} AS t (age_lo, age_hi, _dk_kept, age)")
    check(made, ["age"], request(qi=["age"], k=2, **call), says)


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ({"sensitive": ["ill"], "l": 2}, None),
        ({"sensitive": ["ill"], "l": 3}, "fails l or t"),
        ({"sensitive": ["ill"], "l": 2, "diversity": "recursive", "c": 1}, "fails l or t"),
        ({"sensitive": ["ill"], "t": 0.1}, "fails l or t"),
        ({"sensitive": ["ill"], "t": 0.5}, None),
        ({"unit": "who"}, "fewer than k"),
    ],
)
def test_the_check_measures_conditions(spark: SparkSession, condition: dict[str, Any], says: str | None) -> None:
    """Two classes of three; the second has two persons."""
    made = spark.sql(
        """
        SELECT lo AS age_lo, lo AS age_hi, true AS _dk_kept, lo AS age, ill, who
        FROM VALUES (1, 'a', 1), (1, 'a', 2), (1, 'b', 3), (2, 'b', 1), (2, 'b', 1), (2, 'a', 2) AS t (lo, ill, who)
        """
    )
    check(made, ["age", "ill", "who"], request(qi=["age"], k=3, **condition), says)


def check(made: DataFrame, columns: list[str], asked: KAnonymize, says: str | None) -> None:
    content = made.agg(F.sum(F.xxhash64(*columns).cast("decimal(38, 0)"))).collect()[0][0]
    facts = Facts(Scale({}, frozenset(), [], made.count()), content, {})
    if says is None:
        verify(made, columns, asked, facts)
        return
    with pytest.raises(DuckanonError, match=says):
        verify(made, columns, asked, facts)
