"""k_anonymize on Spark beside Spark's own sort of the same table: time, bytes shuffled, loss beside one machine's.

    poe bench spark [rows] [methods]

The table has 8 quasi-identifiers and 8 other columns, two of them text. All runs share one session, whose start is not
counted; ratios within a run say more than seconds.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

import duckanon
from duckanon.integrations.spark import disclosure_report, group_sizes, k_anonymize, k_report

QI = [f"q{i}" for i in range(8)]
WIDTHS = [2, 90, 6, 9, 50, 16, 8, 25]


def table(spark: SparkSession, rows: int) -> DataFrame:
    """Independent columns with as many values as those of a census."""
    qi = [F.expr(f"INT(pmod(xxhash64(id, {i}), {width}))").alias(QI[i]) for i, width in enumerate(WIDTHS)]
    others = [F.expr(f"xxhash64(id, {i}) / 7e9").alias(f"x{i}") for i in range(4)]
    others += [F.expr("INT(id % 100)").alias("score"), F.expr("DATE '2000-01-01' + INT(id % 9000)").alias("seen")]
    others += [
        F.expr("'diagnosis ' || id % 1000").alias("diagnosis"),
        F.expr("'street ' || md5(string(id))").alias("street"),
    ]
    return spark.range(rows).select(*qi, *others)


def loss(released: DataFrame) -> float:
    """The mean over records and quasi-identifiers of an interval's share of the range."""
    parts = [(F.col(f"{name}_hi") - F.col(f"{name}_lo")) / (width - 1) for name, width in zip(QI, WIDTHS, strict=True)]
    found = released.agg(F.avg(sum(parts[1:], parts[0]) / len(parts))).collect()[0][0]
    return float(found)


def loss_on_one_machine(source: str, folder: Path) -> float:
    """The loss of DuckDB's release of the same table."""
    with closing(duckdb.connect(str(folder / "one.db"))) as con:
        duckanon.register(con)
        con.execute("SET memory_limit = '4GB'")
        parts = [f"({name}_hi - {name}_lo) / {width - 1}" for name, width in zip(QI, WIDTHS, strict=True)]
        con.execute(f"CREATE VIEW source AS FROM read_parquet('{source}/*.parquet')")
        released = f"k_anonymize('source', {QI}, k := 5, method := 'order')"
        ((found,),) = con.execute(f"SELECT avg(({' + '.join(parts)}) / {len(QI)}) FROM {released}").fetchall()
        return float(found)


def shuffled(spark: SparkSession) -> int:
    """Bytes that all stages of this session have written for shuffles."""
    context = spark.sparkContext
    none, java = context._gateway.new_array(context._jvm.double, 0), context._jvm.java.util.ArrayList
    stages = context._jsc.sc().statusStore().stageList(java(), False, False, none, java())
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


def timed(spark: SparkSession, name: str, run: Callable[[], Any]) -> Any:
    bytes_before, before = shuffled(spark), time.perf_counter()
    found = run()
    seconds = time.perf_counter() - before
    print(f"| {name} | {seconds:.1f} | {(shuffled(spark) - bytes_before) / 2**20:,.0f} |", flush=True)
    return found


def main(rows: str = "1000000", methods: str = "order,auto") -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.memory", "4g")
            .config("spark.local.dir", folder)
            .config("spark.sql.shuffle.partitions", str(max(4, int(rows) // 250_000)))
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        source = str(Path(folder) / "source")
        table(spark, int(rows)).write.parquet(source)
        people = spark.read.parquet(source)
        k_anonymize(people.limit(20_000), QI, method="order").count()  # compiles
        print("| what | s | MiB shuffled |\n|---|---|---|")
        timed(spark, "sort", lambda: people.orderBy(*QI).write.parquet(f"{folder}/sorted"))
        for method in methods.split(","):
            run = partial(k_anonymize, people, QI, method=method, staging=f"{folder}/{method}")
            released = timed(spark, f"k_anonymize, `{method}`", run)
            print(f"| its loss | {loss(released):.5f} | |")
        timed(
            spark, "group by the quasi-identifiers", lambda: people.groupBy(*QI).count().agg(F.max("count")).collect()
        )
        timed(spark, "k_report", lambda: k_report(people, QI, sensitive=["score"]).collect())
        timed(spark, "group_sizes", lambda: group_sizes(people, "seen", []).collect())
        timed(spark, "disclosure_report", lambda: disclosure_report(people, ["q1", "q5"], ["q3"]).collect())
        spark.stop()
        print(f"| `order` on one machine, its loss | {loss_on_one_machine(source, Path(folder)):.5f} | |")


if __name__ == "__main__":
    main(*sys.argv[1:])
