"""Tasks that are killed, blocks that are lost and disks that are full: the same answer, or one sentence and nothing
half written.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException, PySparkImportError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

import duckanon
from duckanon.errors import DuckanonError, InvalidInput
from duckanon.integrations.spark import anonymize, dp_group_sizes, k_anonymize, metric_perturb
from duckanon.integrations.spark.staging import claimed, missing_package

CALL: dict[str, Any] = {
    "qi": ["age"],
    "k": 4,
    "method": "order",
    "sensitive": ["illness"],
    "l": 2,
    "unit": "person",
    "max_suppression": 0.05,
    "block": 100,
}
# 256 letters that cannot be compressed much.
NOTE = "concat(sha2(string(id), 512), sha2(string(-id), 512))"
# Bytes of a file when a disk is full: more than the largest count needs, and less than any part of a table.
FULL = 12_000


@pytest.fixture(scope="module")
def stays(spark: SparkSession) -> DataFrame:
    columns = ["id * 7919 % 1009 AS age", "id % 7 AS illness", "id * id % 151 AS person", f"{NOTE} AS note"]
    return spark.createDataFrame(spark.range(400).selectExpr(*columns).toArrow()).repartition(3)


def rows(released: DataFrame) -> list[str]:
    return sorted(map(str, released.collect()))


class _Shipped:
    """An object that reaches Python's workers by value, with its class."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __reduce__(self) -> tuple[Any, ...]:
        return cloudpickle.loads, (cloudpickle.dumps(self._inner),)


@pytest.mark.parametrize("death", ["raises", "exits"])
def test_a_killed_task_gives_the_same_answer(
    stays: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: str
) -> None:
    wanted, marker, task = rows(k_anonymize(stays, **CALL)), tmp_path / "died", anonymize._task

    class Mortal:
        """The engine's work on a block, of which the first try fails at its end."""

        def __init__(self, inner: Any) -> None:
            self.inner, self.scale = inner, inner.scale

        def labels(self, *block: Any) -> Any:
            found = self.inner.labels(*block)
            if not marker.exists():
                marker.touch()
                if death == "raises":
                    raise MemoryError
                os._exit(1)
            return found

    def mortal(*given: Any) -> Any:
        return _Shipped(Mortal(task(*given)))

    monkeypatch.setattr(anonymize, "_task", mortal)
    for staging in (None, tmp_path / "staged"):
        marker.unlink(missing_ok=True)
        assert rows(k_anonymize(stays, **CALL, staging=staging)) == wanted
        assert marker.exists()


def test_a_lost_partition_of_the_input_is_computed_again(stays: DataFrame, tmp_path: Path) -> None:
    wanted, cached = rows(k_anonymize(stays, **CALL)), stays.withColumn("twice", F.expr("2 * age")).cache()
    assert cached.count() == 400
    released = k_anonymize(cached, **CALL, staging=tmp_path / "staged")
    cached.unpersist(blocking=True)
    assert rows(released.drop("twice")) == wanted
    assert rows(k_anonymize(cached, **CALL).drop("twice")) == wanted


def test_without_staging_a_lost_block_is_not_computed_again(spark: SparkSession, stays: DataFrame) -> None:
    held = spark.sparkContext._jsc.getPersistentRDDs
    before = set(held())
    released = k_anonymize(stays, **CALL)
    first = rows(released)
    new = {number: block for number, block in held().items() if number not in before}
    assert new
    for block in new.values():
        block.unpersist(True)
    with pytest.raises(Exception, match="Checkpoint block"):
        released.collect()
    assert rows(k_anonymize(stays, **CALL)) == first


@contextmanager
def full(spark: SparkSession) -> Iterator[None]:
    """Let every file that Spark writes end early, as on a full disk."""
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    soft, hard = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (FULL, hard))
    try:
        yield
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, (soft, hard))


def test_k_anonymize_on_a_full_disk(spark: SparkSession, stays: DataFrame, tmp_path: Path) -> None:
    wanted, folder = rows(k_anonymize(stays, **CALL)), tmp_path / "staged"
    for staging in (folder, None):
        with (
            full(spark),
            pytest.raises(DuckanonError, match=r"^Spark could not read the table or write the answer: [^\n]*$"),
        ):
            k_anonymize(stays, **CALL, staging=staging)
    assert not folder.exists()
    assert rows(k_anonymize(stays, **CALL, staging=folder)) == wanted


def test_a_check_that_fails_leaves_no_folder(stays: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise DuckanonError("no")

    monkeypatch.setattr(anonymize, "verify", fails)
    with pytest.raises(DuckanonError, match=r"^no$"):
        k_anonymize(stays, **CALL, staging=tmp_path / "staged")
    assert not (tmp_path / "staged").exists()


def test_a_folder_that_cannot_be_made_is_refused_before_any_work(spark: SparkSession, tmp_path: Path) -> None:
    unread = spark.range(50).selectExpr("IF(id < 0, 1, raise_error('read')) AS age", "id")
    places = spark.range(50).selectExpr("INT(id % 2) AS place")
    (tmp_path / "file").touch()
    (tmp_path / "old").mkdir()
    for name, says in {"file/staged": "cannot be made: name one where Spark may write.", "old": "exists: "}.items():
        with pytest.raises(InvalidInput, match=f"^The folder of staging {says}"):
            k_anonymize(unread, ["age"], staging=tmp_path / name)
        with pytest.raises(InvalidInput, match=f"^The folder of staging {says}"):
            metric_perturb(places, "place", mechanism(spark), staging=tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "old"]


def mechanism(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT * FROM VALUES (0, 'a', 0.5D), (0, 'b', 0.5D), (1, 'a', 1D) AS t (secret, output, probability)"
    )


def charges(ledger: Path) -> int:
    with duckdb.connect(str(ledger)) as con:
        duckanon.register(con)
        found = con.execute("SELECT count(*) FROM privacy_ledger() WHERE action IN ('charge', 'perturb')").fetchall()
    return int(found[0][0])


def test_metric_perturb_charges_nothing_for_a_folder_that_cannot_be_made(spark: SparkSession, tmp_path: Path) -> None:
    names, ledger = spark.range(90).selectExpr("INT(id % 2) AS place", "id"), tmp_path / "ledger.duckdb"
    given = {"epsilon": 1, "ledger": ledger, "name": "places"}
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match=r"^The folder of staging cannot be made"):
        metric_perturb(names, "place", mechanism(spark), **given, staging=tmp_path / "file" / "draw")
    first = metric_perturb(names, "place", mechanism(spark), **given, staging=tmp_path / "draw")
    for folder in ("draw", "other"):
        again = metric_perturb(names, "place", mechanism(spark), **given, staging=tmp_path / folder)
        assert rows(first) == rows(again)
    assert not (tmp_path / "other").exists()
    assert charges(ledger) == 1


def test_metric_perturb_on_a_full_disk_is_recorded_and_leaves_no_draw(spark: SparkSession, tmp_path: Path) -> None:
    names, ledger = spark.range(400).selectExpr("INT(id % 2) AS place", f"{NOTE} AS note"), tmp_path / "ledger.duckdb"
    given = {"epsilon": 1, "ledger": ledger, "name": "places", "staging": tmp_path / "draw"}
    with full(spark), pytest.raises(DuckanonError, match=r"^Spark could not read the table or write"):
        metric_perturb(names, "place", mechanism(spark), **given)
    assert not (tmp_path / "draw").exists()
    # Somebody may have read what was drawn: another draw is recorded as another one.
    assert metric_perturb(names, "place", mechanism(spark), **given).count() == 400
    assert metric_perturb(names, "place", mechanism(spark), **given | {"staging": tmp_path / "new"}).count() == 400
    assert charges(ledger) == 2


def test_dp_group_sizes_charges_nothing_for_a_count_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    ledger, failing = tmp_path / "ledger.duckdb", tmp_path / "failing"
    with duckdb.connect(str(ledger)) as con:
        duckanon.register(con)
        con.execute("CREATE TABLE persons (household BIGINT)")
        con.execute("SELECT protect('persons', epsilon := 3)").fetchall()

    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if failing.exists():
                raise OSError
            yield batch

    persons = spark.range(60).selectExpr("id % 20 AS household").mapInArrow(fails, "household bigint")
    given = {"unit": "household", "epsilon": 1, "max_size": 4, "ledger": ledger, "name": "persons"}
    failing.touch()
    with pytest.raises(Exception, match="OSError"):
        dp_group_sizes(persons, **given)
    assert charges(ledger) == 0
    failing.unlink()
    first = dp_group_sizes(persons, **given)
    assert rows(first) == rows(dp_group_sizes(persons, **given))
    assert charges(ledger) == 1


def test_a_package_that_is_not_there_is_named() -> None:
    """What a worker says, and PySpark's own error; another failure is no missing package."""
    told = PySparkImportError(
        errorClass="PACKAGE_NOT_INSTALLED", messageParameters={"package_name": "PyArrow", "minimum_version": "15.0.0"}
    )

    def said(error: Exception) -> str:
        with pytest.raises(DuckanonError) as raised, claimed(cast("SparkSession", None), None):
            raise error
        return str(raised.value)

    assert missing_package(str(told)) == "pyarrow"
    missing = said(PySparkException("ModuleNotFoundError: No module named 'pyarrow'"))
    assert "pip install pyarrow" in missing
    assert "full disk" not in missing
    assert "full disk" in said(PySparkException("java.io.IOException: No space left on device"))
