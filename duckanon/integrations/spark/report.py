"""k_report: Spark counts classes, and how often each holds each sensitive value; the worst is found part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.arrow import columns_of, one_row
from duckanon.functions.k_report import NULL_IS_VALUE, KReport, check_table
from duckanon.functions.schema import is_number
from duckanon.integrations.spark import driver
from duckanon.integrations.spark.call import Call, column
from duckanon.integrations.spark.distribution import Distribution, counted
from duckanon.integrations.spark.types import arrow_schema, spark_schema

# Pairs of a class and a value that a task holds at once, about.
_PART = 200_000


def check_k_report(call: Call) -> KReport:
    request = KReport.read(arguments.from_policy("k_report", call.given, lambda _: None))
    if request.containment:
        raise InvalidInput("containment compares all classes on one machine: leave it out on Spark.")
    names, types = call.described()
    people, kinds = call.described("population") if request.population.table else ([], [])
    check_table(request, names, types, people)
    unit = [] if request.unit is None else [request.unit]
    call.check_groups(request.qi, lists=True)
    call.check_groups([*request.sensitive, *unit])
    ours = dict(zip(map(str.lower, names), types, strict=True))
    theirs = dict(zip(map(str.lower, people), kinds, strict=True))
    for name in (*request.qi, *unit) if theirs else ():
        text, other = ours[name.lower()], theirs[name.lower()]
        if text != other and not (is_number(text) and is_number(other)):
            raise InvalidInput(
                f'Column "{name}" has one type in {request.tbl} and another in {request.population.table}: '
                "cast one of them."
            )
    return request


def k_report(call: Call, request: KReport) -> DataFrame:
    from duckanon.engines.kanon.risk import report

    classes = _classes(call, request)
    if not len(classes):
        driver.register_all(call.con, [(request.tbl, arrow_schema(call.schemas["tbl"]).empty_table())])
        driver.run(call.con, request.query())  # says that there is nothing to report
    sizes, times, rows = (classes[name].to_numpy() for name in ("size", "times", "rows"))
    people = classes["people"].to_numpy(zero_copy_only=False)
    fraction = request.population.sampled(sizes, people.astype(np.float64))
    exact = people if request.population.table else None
    found = asdict(report(sizes, [], exact, fraction, request.l, times, records=int(rows.sum())))
    keys = [column(call.table, name) for name in request.qi]
    unit = None if request.unit is None else column(call.table, request.unit)
    nulls = request.null_sensitive == NULL_IS_VALUE
    each = [
        worst(call.table, keys, (name, column(call.table, name)), unit, request.l, null_is_value=nulls)
        for name in request.sensitive
    ]
    for measure, end in {"l": min, "entropy_l": min, "t": max, "recursive_c": max}.items():
        found[measure] = end((one[measure] for one in each), default=None)
    if unit is not None:
        found |= _alone(call.table.select(*(key.alias(f"q{i}") for i, key in enumerate(keys)), unit.alias("unit")))
    columns = columns_of("k_report")
    row = pa.RecordBatch.from_struct_array(one_row(found, columns))
    answer = pa.Table.from_batches([row])
    return call.spark.createDataFrame(answer, spark_schema(answer.schema))


def _classes(call: Call, request: KReport) -> pa.Table:
    """How many classes there are of each size, and of each number of people in the population, as far as known; and how
    many records they have, in `rows`.
    """
    keys = [column(call.table, name).alias(f"q{i}") for i, name in enumerate(request.qi)]
    weight = request.population.weight
    # A class with a weight that is none has NULL people, as DuckDB's own query has it.
    stands = F.lit(0) if weight is None else column(call.table, weight).cast("decimal(28, 9)")
    rows = call.table.select(*keys, *_unit(call.table, request), F.lit(1).alias("own"), stands.alias("other"))
    if request.population.table:
        population = call.tables["population"]
        theirs = [column(population, name).alias(f"q{i}") for i, name in enumerate(request.qi)]
        theirs += _unit(population, request)
        rows = rows.unionByName(population.select(*theirs, F.lit(0).alias("own"), F.lit(1).alias("other")))
    names = [f"q{i}" for i in range(len(request.qi))]
    rows = rows.withColumn("rows", F.col("own"))
    if request.unit is not None:
        once = rows.where("unit IS NOT NULL").groupBy(*names, "unit", "own", "other")
        rows = once.agg(F.sum("rows").alias("rows"))
    people = F.sum("other")
    if weight is not None:
        people = F.when(F.bool_and(F.coalesce(F.col("other") > 0, F.lit(False))), people).cast("double")
    sums = [F.sum("own").alias("size"), people.alias("people"), F.sum("rows").alias("rows")]
    classes = rows.groupBy(*names).agg(*sums).where("size > 0")
    alike = [F.count(F.lit(1)).alias("times"), F.sum("rows").alias("rows")]
    return classes.groupBy("size", "people").agg(*alike).toArrow()


def _alone(rows: DataFrame) -> dict[str, int]:
    """How many units there are, and how many are alone in a class at least. rows: q0, ... and `unit`."""
    pairs = rows.where("unit IS NOT NULL").distinct()
    names = [name for name in rows.columns if name != "unit"]
    classes = pairs.groupBy(*names).agg(F.count(F.lit(1)).alias("size"), F.min("unit").alias("unit"))
    alone = classes.where("size = 1").select("unit").distinct()
    return {"units": pairs.select("unit").distinct().count(), "units_alone": alone.count()}


def _unit(table: DataFrame, request: KReport) -> list[Column]:
    """The column of units, if they count."""
    return [] if request.unit is None else [column(table, request.unit).alias("unit")]


_MEASURES = "l bigint, entropy_l double, t double, recursive_c double"


def worst(
    table: DataFrame,
    keys: Sequence[Column],
    sensitive: tuple[str, Column],
    unit: Column | None,
    least: int,
    *,
    null_is_value: bool,
) -> dict[str, Any]:
    """The measures l, entropy_l, t and recursive_c of the worst class on one sensitive column, by name.

    keys: by which records are of one class. sensitive: the column and its name. unit: of which each counts once for
    each value, if units count. least: the l of recursive_c. null_is_value: whether NULL is one of the values. Raises
    InvalidInput if it has too many values.
    """
    name, value = sensitive
    whole = Distribution.of(table, name, value, unit, null_is_value=null_is_value)
    shared = table.sparkSession.sparkContext.broadcast(whole)
    # Two hashes stand for a class: 128 bits.
    hashes = [("c1", F.xxhash64(*keys)), ("c2", F.xxhash64(F.lit(1), *keys))]
    pairs = counted(table, [*hashes, ("value", value)], unit)
    part = F.pmod("c1", F.lit(max(1, -(-int(whole.counts.sum()) // _PART)))).alias("part")

    def one(pairs: pa.Table) -> pa.Table:
        from duckanon.engines.kanon.risk import worst

        c1, c2, count = (pairs[name].to_numpy() for name in ("c1", "c2", "rows"))
        code = shared.value.coded(pairs["value"].combine_chunks())
        order = np.lexsort((code, c2, c1))
        c1, c2 = c1[order], c2[order]
        new = np.concatenate([[False], (c1[1:] != c1[:-1]) | (c2[1:] != c2[:-1])])
        found = worst(
            np.cumsum(new),
            code[order].astype(np.int64),
            count[order],
            shared.value.shares,
            ordered=shared.value.ordered,
            least=least,
        )
        return pa.Table.from_pylist([asdict(found)])

    measured = pairs.withColumn("part", part).groupBy("part").applyInArrow(one, _MEASURES)
    ends = [F.min("l").alias("l"), F.min("entropy_l").alias("entropy_l"), F.max("t").alias("t")]
    row: dict[str, Any] = measured.agg(*ends, F.max("recursive_c").alias("recursive_c")).collect()[0].asDict()
    return row
