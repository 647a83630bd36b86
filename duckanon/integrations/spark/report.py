"""k_report: Spark counts classes, and how often each holds each sensitive value; the worst is found part by part."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.errors import InvalidInput
from duckanon.functions.arrow import columns_of, one_row
from duckanon.functions.encoding import encode, is_ordered
from duckanon.functions.k_report import KReport, check_table
from duckanon.functions.schema import is_number
from duckanon.integrations.spark import driver
from duckanon.integrations.spark.call import Call, column
from duckanon.integrations.spark.types import arrow_schema, spark_schema

# Pairs of a class and a value that a task holds at once, about.
_PART = 200_000


def check_k_report(call: Call) -> KReport:
    request = KReport.read(call.given)
    if request.unit is not None:
        raise InvalidInput("On Spark k_report counts records: leave unit out, or ask DuckDB.")
    names, types = call.described()
    people, kinds = call.described("population") if request.population.table else ([], [])
    check_table(request, names, types, people)
    call.check_groups([*request.qi, *request.sensitive])
    ours = dict(zip(map(str.lower, names), types, strict=True))
    theirs = dict(zip(map(str.lower, people), kinds, strict=True))
    for name in request.qi if theirs else ():
        one, other = ours[name.lower()], theirs[name.lower()]
        if one != other and not (is_number(one) and is_number(other)):
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
    sizes, times = (classes[name].to_numpy() for name in ("size", "times"))
    people = classes["people"].to_numpy(zero_copy_only=False)
    fraction = request.population.sampled(sizes, people.astype(np.float64))
    exact = people if request.population.table else None
    found = asdict(report(sizes, [], exact, fraction, request.l, times))
    worst = [_worst(call, request, name, int(sizes @ times)) for name in request.sensitive]
    for measure, end in {"l": min, "entropy_l": min, "t": max, "recursive_c": max}.items():
        found[measure] = end((one[measure] for one in worst), default=None)
    columns = columns_of("k_report")
    row = pa.RecordBatch.from_struct_array(one_row(found, columns))
    answer = pa.Table.from_batches([row])
    return call.spark.createDataFrame(answer, spark_schema(answer.schema))


def _classes(call: Call, request: KReport) -> pa.Table:
    """How many classes there are of each size, and of each number of people in the population, as far as known."""
    keys = [column(call.table, name).alias(f"q{i}") for i, name in enumerate(request.qi)]
    weight = request.population.weight
    # A class with a weight that is none has NULL people, as DuckDB's own query has it.
    stands = F.lit(0) if weight is None else column(call.table, weight).cast("decimal(28, 9)")
    rows = call.table.select(*keys, F.lit(1).alias("own"), stands.alias("other"))
    if request.population.table:
        population = call.tables["population"]
        theirs = [column(population, name).alias(f"q{i}") for i, name in enumerate(request.qi)]
        rows = rows.unionByName(population.select(*theirs, F.lit(0).alias("own"), F.lit(1).alias("other")))
    names = [f"q{i}" for i in range(len(request.qi))]
    people = F.sum("other")
    if weight is not None:
        people = F.when(F.bool_and(F.coalesce(F.col("other") > 0, F.lit(False))), people).cast("double")
    classes = rows.groupBy(*names).agg(F.sum("own").alias("size"), people.alias("people")).where("size > 0")
    return classes.groupBy("size", "people").agg(F.count(F.lit(1)).alias("times")).toArrow()


@dataclass(frozen=True)
class _Values:
    """A sensitive column's values in the whole table. values: distinct, without NULL, which is the code after them.

    codes: each value's code, shape (values,). overall: the share of each code, shape (codes,).
    """

    values: pa.Array
    codes: npt.NDArray[np.int64]
    overall: npt.NDArray[np.float64]
    ordered: bool

    @staticmethod
    def of(name: str, counted: pa.Table) -> _Values:
        counted = counted.combine_chunks()
        values = counted["value"].combine_chunks()
        ordered = is_ordered(values.type)
        coded = encode(name, values, categorical=not ordered)
        counts = np.zeros(coded.distinct + int(values.null_count > 0))
        counts[coded.codes] = counted["rows"].to_numpy()
        present = values.is_valid()
        codes = coded.codes[present.to_numpy(zero_copy_only=False)].astype(np.int64)
        return _Values(values.filter(present), codes, counts / counts.sum(), ordered)

    def coded(self, values: pa.Array) -> npt.NDArray[np.int64]:
        """Codes of some values."""
        place = pc.index_in(values, value_set=self.values).fill_null(len(self.values)).to_numpy(zero_copy_only=False)
        return np.append(self.codes, len(self.codes))[place]


_MEASURES = "l bigint, entropy_l double, t double, recursive_c double"


def _worst(call: Call, request: KReport, name: str, rows: int) -> dict[str, Any]:
    """The worst class on one sensitive column."""
    table, least = call.table, request.l
    value = column(table, name).alias("value")
    counted = table.groupBy(value).agg(F.count(F.lit(1)).alias("rows")).toArrow()
    shared = call.spark.sparkContext.broadcast(_Values.of(name, counted))
    keys = [column(table, one) for one in request.qi]
    # Two hashes stand for a class: 128 bits.
    hashes = [F.xxhash64(*keys).alias("c1"), F.xxhash64(F.lit(1), *keys).alias("c2")]
    pairs = table.groupBy(*hashes, value).agg(F.count(F.lit(1)).alias("rows"))
    part = F.pmod("c1", F.lit(-(-rows // _PART))).alias("part")

    def one(pairs: pa.Table) -> pa.Table:
        from duckanon.engines.kanon.risk import worst

        c1, c2, count = (pairs[name].to_numpy() for name in ("c1", "c2", "rows"))
        code = shared.value.coded(pairs["value"].combine_chunks())
        order = np.lexsort((code, c2, c1))
        c1, c2 = c1[order], c2[order]
        new = np.concatenate([[False], (c1[1:] != c1[:-1]) | (c2[1:] != c2[:-1])])
        found = worst(
            np.cumsum(new),
            code[order],
            count[order],
            shared.value.overall,
            ordered=shared.value.ordered,
            least=least,
        )
        return pa.Table.from_pylist([asdict(found)])

    measured = pairs.withColumn("part", part).groupBy("part").applyInArrow(one, _MEASURES)
    ends = [F.min("l").alias("l"), F.min("entropy_l").alias("entropy_l"), F.max("t").alias("t")]
    row: dict[str, Any] = measured.agg(*ends, F.max("recursive_c").alias("recursive_c")).collect()[0].asDict()
    return row
