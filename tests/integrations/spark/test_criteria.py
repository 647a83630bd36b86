"""Conditions of k_anonymize beside k on Spark: DuckDB's release where there is one block, and kept by several."""

import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from duckanon.errors import InvalidInput
from duckanon.integrations.spark import k_anonymize
from duckanon.integrations.spark.curve import Cuts
from tests.integrations.spark.both import on_duckdb

ROWS = 420
CALL: dict[str, Any] = {"qi": ["age", "area"], "k": 4, "method": "order", "drop": ["ssn"]}
CONDITIONS: dict[str, dict[str, Any]] = {
    "units": {"unit": "Person"},
    "units that are dropped": {"unit": "person", "drop": ["person", "ssn"]},
    "suppression": {"max_suppression": 0.05},
    "suppression of units": {"max_suppression": 0.07, "unit": "person"},
    "distinct": {"sensitive": ["illness", "pay"], "l": 3},
    "NULL as a value": {"sensitive": ["illness"], "l": 4, "null_sensitive": "value"},
    "entropy": {"sensitive": ["illness"], "l": 2.2, "diversity": "entropy"},
    "recursive": {"sensitive": ["illness"], "l": 2, "diversity": "recursive", "c": 1.5},
    "closeness": {"sensitive": ["Illness", "pay"], "t": 0.4},
    # So unlike that some classes fail, whatever the search tries.
    "suppression of classes": {
        "sensitive": ["illness"],
        "l": 3,
        "diversity": "recursive",
        "c": 3,
        "max_suppression": 0.1,
    },
    "all of them": {"sensitive": ["illness", "pay"], "l": 3, "t": 0.45, "unit": "person"},
}
TOGETHER = {"sensitive": ["illness"], "t": 0.1, "max_suppression": 0.1}


def table(rows: int = ROWS) -> pa.Table:
    """Stays in hospital: no two with the same quasi-identifiers, so that no hash decides between any."""
    return pa.table(
        {
            "age": [i * 7919 % 1009 for i in range(rows)],
            "area": [i * i * 31 % 997 / 4 for i in range(rows)],
            "Person": [None if i % 29 == 0 else i * i % 151 for i in range(rows)],
            "illness": [["flu", "cold", "cold", None, "gout", "flu"][i * i % 13 % 6] for i in range(rows)],
            "pay": [i * 17 % 23 for i in range(rows)],
            "ssn": [str(i) for i in range(rows)],
        }
    )


@pytest.fixture(scope="module")
def stays(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(table()).repartition(3)


def rows(released: pa.Table) -> list[str]:
    return sorted(str(list(row.values())[1:]) for row in released.to_pylist())


def holds(con: duckdb.DuckDBPyConnection, released: pa.Table, call: dict[str, Any]) -> bool:
    """Whether a release meets the conditions of the call, by DuckDB's k_report."""
    shown = [name for name in released.column_names if name.endswith(("_lo", "_hi", "_set"))]
    given = {"sensitive": call.get("sensitive", []), "l": 2, "unit": call.get("unit")}
    given["null_sensitive"] = call.get("null_sensitive", "ignored")
    (found,) = on_duckdb(con, "k_report", {"tbl": released}, qi=shown, **given).to_pylist()
    met = found["k"] >= call["k"]
    if call.get("l") is not None:
        kind = call.get("diversity", "distinct")
        met &= kind != "distinct" or found["l"] >= call["l"]
        met &= kind != "entropy" or found["entropy_l"] >= call["l"]
        met &= kind != "recursive" or found["recursive_c"] < call["c"]
    return bool(met and (call.get("t") is None or found["t"] <= call["t"] + 1e-9))


@pytest.mark.parametrize("condition", [*CONDITIONS, "t with suppression"])
def test_one_block_is_duckdbs_release(con: duckdb.DuckDBPyConnection, stays: DataFrame, condition: str) -> None:
    call = CALL | CONDITIONS.get(condition, TOGETHER)
    wanted = on_duckdb(con, "k_anonymize", {"tbl": table()}, **call)
    found = k_anonymize(stays, **call)
    assert found.columns == wanted.column_names
    assert rows(found.toArrow().cast(wanted.schema)) == rows(wanted)
    assert ("max_suppression" in call) == (len(wanted) < ROWS)


# (Each takes some ten seconds; the other conditions have the same way through the blocks.)
@pytest.mark.parametrize(
    "condition", ["suppression of units", "suppression of classes", "closeness", "recursive", "all of them"]
)
def test_several_blocks_meet_the_conditions_however_the_rows_are_spread(
    con: duckdb.DuckDBPyConnection, stays: DataFrame, condition: str
) -> None:
    call = CALL | CONDITIONS[condition] | {"drop": ["ssn"]}
    found = k_anonymize(stays, **call, block=80).toArrow()
    assert holds(con, found, call)
    assert ROWS >= len(found) >= ROWS - int(call.get("max_suppression", 0) * ROWS)
    assert ("max_suppression" in call) == (len(found) < ROWS)
    again = k_anonymize(stays.orderBy("pay").repartition(5), **call, block=80).toArrow()
    assert rows(again) == rows(found)


@pytest.mark.parametrize("condition", [{"l": 3}, {"t": 0.4}])
def test_blocks_of_like_records_are_joined_until_they_are_unlike(
    con: duckdb.DuckDBPyConnection,
    stays: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    condition: dict[str, Any],
) -> None:
    """Ages alone, and an illness that comes with the age: near records have the same one."""
    like = stays.selectExpr("age", "CAST(age / 130 AS INT) AS illness")
    call = {"qi": ["age"], "k": 4, "method": "order", "sensitive": ["illness"], **condition}
    made, joined = list[Cuts](), Cuts.joined

    def noted(self: Cuts, blocks: set[int]) -> Cuts:
        made.append(joined(self, blocks))
        return made[-1]

    monkeypatch.setattr(Cuts, "joined", noted)
    found = k_anonymize(like, **call, block=40).toArrow()
    assert holds(con, found, call)
    assert 1 < len(made[-1].ends) < ROWS // 40
    assert rows(k_anonymize(like.repartition(1), **call, block=40).toArrow()) == rows(found)
    monkeypatch.setattr("duckanon.integrations.spark.planning._MOST", 60)
    with pytest.raises(InvalidInput, match=r"^Near records are so much alike that one task would have to hold more "):
        k_anonymize(like, **call, block=40)


def test_units_with_many_records_join_blocks(con: duckdb.DuckDBPyConnection, stays: DataFrame) -> None:
    few = stays.selectExpr("age", "CAST(age / 130 AS INT) AS ward")
    call = {"qi": ["age"], "k": 3, "method": "order", "unit": "ward"}
    found = k_anonymize(few, **call, block=40).toArrow()
    assert holds(con, found, call)
    assert len(set(found["age_lo"].to_pylist())) > 1


def refusal(con: duckdb.DuckDBPyConnection, table: pa.Table, call: dict[str, Any]) -> str | None:
    """What DuckDB says of a call that it refuses."""
    try:
        on_duckdb(con, "k_anonymize", {"tbl": table}, **call)
    except duckdb.InvalidInputException as told:
        return str(told).removeprefix("Invalid Input Error: ")
    return None


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_small_tables(con: duckdb.DuckDBPyConnection, spark: SparkSession, data: st.DataObject) -> None:
    """With values that many records share."""
    n = data.draw(st.integers(12, 50))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(values, min_size=n, max_size=n))

    small = pa.table(
        {
            "a": pa.array(column(st.none() | st.integers(0, 30)), pa.int32()),
            "b": pa.array(column(st.sampled_from(["x", "y", None])), pa.string()),
            "s": pa.array(column(st.none() | st.integers(0, 3)), pa.int64()),
            "u": pa.array(column(st.none() | st.integers(0, 8)), pa.int64()),
        }
    )
    call: dict[str, Any] = {"qi": ["a", "b"], "categorical": ["b"], "k": 2, "method": "order"}
    if data.draw(st.booleans()):
        call["unit"] = "u"
    call |= data.draw(st.sampled_from([{}, {"sensitive": ["s"], "l": 2}, {"sensitive": ["s"], "t": 0.3}]))
    if "t" not in call:
        call["max_suppression"] = data.draw(st.sampled_from([0, 0.1]))
    frame, block = spark.createDataFrame(small).repartition(2), data.draw(st.sampled_from([8, 20, 100]))
    refused = refusal(con, small, call)
    if refused is not None:
        with pytest.raises(InvalidInput, match=f"^{re.escape(refused)}$"):
            k_anonymize(frame, **call, block=block)
        return
    found = k_anonymize(frame, **call, block=block).toArrow()
    assert holds(con, found, call)
    assert n >= len(found) >= n - int(call.get("max_suppression", 0) * n)
    assert rows(k_anonymize(frame.repartition(1), **call, block=block).toArrow()) == rows(found)


def test_a_time_limit_is_shared_out(stays: DataFrame) -> None:
    call = CALL | {"method": "auto", "seconds": 1, "block": 150}
    assert k_anonymize(stays, **call).groupBy("class_id").count().agg({"count": "min"}).collect()[0][0] >= CALL["k"]


@pytest.mark.parametrize(
    "call",
    [
        {"unit": "few"},
        {"sensitive": ["illness"], "l": 9},
        {"sensitive": ["illness"], "l": 4.9, "diversity": "entropy"},
        {"sensitive": ["illness"], "l": 2, "diversity": "recursive", "c": 0.01},
        {"sensitive": ["share"], "t": 0.2},
        {"seconds": 3},
        {"max_suppression": 1},
        {"sensitive": ["illness"]},
        {"unit": "age"},
    ],
)
def test_refusals_are_duckdbs(con: duckdb.DuckDBPyConnection, stays: DataFrame, call: dict[str, Any]) -> None:
    wider = stays.selectExpr("*", "age % 3 AS few", "IF(age > 900, DOUBLE('NaN'), age) AS share")
    refused = refusal(con, wider.toArrow(), CALL | call)
    assert refused is not None
    with pytest.raises(InvalidInput, match=f"^{re.escape(refused)}$"):
        k_anonymize(wider, **CALL | call)


def test_what_the_driver_or_one_task_cannot_hold(stays: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckanon.integrations.spark.planning._MOST", 300)
    with pytest.raises(InvalidInput, match=r"^With t and max_suppression together one task holds the whole table, at "):
        k_anonymize(stays, **CALL | TOGETHER, block=100)
    monkeypatch.setattr("duckanon.integrations.spark.distribution._MOST", 10)
    with pytest.raises(InvalidInput, match=r'^Column "pay" has more than 10 distinct values, and Spark\'s driver'):
        k_anonymize(stays, **CALL, sensitive=["pay"], l=2)
