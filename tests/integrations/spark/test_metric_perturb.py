"""metric_perturb on Spark: the same checks as in DuckDB, and a draw that is made once."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import duckanon
from duckanon.errors import InvalidInput
from duckanon.integrations.spark import metric_perturb

NAMES = pa.table({"place": [i % 3 for i in range(3000)], "n": list(range(3000))})
CERTAIN = pa.table({"secret": [2, 0, 1], "output": ["c", "a", "b"], "probability": [1.0, 1.0, 1.0]})
EVEN = pa.table(
    {"secret": [0, 0, 1, 1, 2], "output": ["a", "b", "b", "c", "a"], "probability": [0.5, 0.5, 0.25, 0.75, 1]}
)


@pytest.fixture(scope="module")
def names(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(NAMES).repartition(3)


def test_a_certain_mechanism_gives_what_duckdb_gives(con: duckdb.DuckDBPyConnection, spark: SparkSession) -> None:
    for name, table in {"names": NAMES, "certain": CERTAIN}.items():
        con.register(name, table)
    wanted = con.sql("FROM metric_perturb('names', 'place', 'certain') ORDER BY n").to_arrow_table()
    found = metric_perturb(spark.createDataFrame(NAMES), "place", spark.createDataFrame(CERTAIN)).orderBy("n").toArrow()
    assert found.to_pylist() == wanted.to_pylist()
    assert found.column_names == wanted.column_names


def test_a_draw_is_made_once(spark: SparkSession, names: DataFrame) -> None:
    found = metric_perturb(names, "place", spark.createDataFrame(EVEN)).orderBy("n")
    first = found.toArrow()
    assert first == found.toArrow()
    drawn = first.group_by(["place", "perturbed"]).aggregate([("n", "count")]).to_pylist()
    counts = {(one["place"], one["perturbed"]): one["n_count"] for one in drawn}
    assert set(counts) == {(0, "a"), (0, "b"), (1, "b"), (1, "c"), (2, "a")}
    # Six standard deviations.
    assert abs(counts[0, "a"] - 500) < 95
    assert abs(counts[1, "c"] - 750) < 83


def test_a_draw_with_epsilon_is_recorded_once_and_given_again(
    spark: SparkSession, names: DataFrame, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.duckdb"

    def drawn(staging: str) -> Any:
        given = {"epsilon": 1, "ledger": ledger, "name": "places", "staging": tmp_path / staging}
        return metric_perturb(names, "place", spark.createDataFrame(EVEN), **given).orderBy("n").toArrow()

    assert drawn("first") == drawn("second")
    assert not (tmp_path / "second").exists()
    with duckdb.connect(str(ledger)) as con:
        duckanon.register(con)
        assert con.execute("SELECT action, epsilon, tbl FROM privacy_ledger()").fetchall() == [
            ("perturb", 1.0, "places")
        ]


@pytest.mark.parametrize(
    ("mechanism", "given", "says"),
    [
        (EVEN.slice(0, 4), {}, "1000 records have a name that the mechanism does not have: "),
        (EVEN.slice(0, 0), {}, "The mechanism has no rows."),
        (EVEN.slice(1), {}, "The probabilities of a secret do not add up to 1"),
        (EVEN.rename_columns(["secret", "to", "probability"]), {}, 'There is no column "output" in mechanism'),
        (EVEN, {"epsilon": 1}, "With epsilon the draw is recorded, and must be kept: name a folder"),
        (EVEN.set_column(0, "secret", pa.array(list("aabbc"))), {}, 'Column "place" has another type than the mech'),
    ],
)
def test_refusals(spark: SparkSession, names: DataFrame, mechanism: pa.Table, given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput) as told:
        metric_perturb(names, "place", spark.createDataFrame(mechanism), **given)
    assert str(told.value).startswith(says)
