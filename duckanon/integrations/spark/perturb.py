"""metric_perturb: each executor draws for its own records, from a mechanism that the driver has checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.errors import InvalidInput
from duckanon.functions.metric_perturb import MetricPerturb, charged, check_names, check_table
from duckanon.functions.udf import Instance
from duckanon.governance.instance import governance_of
from duckanon.governance.locations import seen
from duckanon.integrations.spark import driver, staging
from duckanon.integrations.spark.call import Call, column
from duckanon.integrations.spark.ledgers import opened
from duckanon.integrations.spark.types import arrow_schema, spark_schema

_WIDE = "decimal(38, 0)"


@dataclass(frozen=True)
class _Mechanism:
    """What executors draw from.

    secrets: distinct, of the type of the records' names. ptr: where each one's cells begin, shape (secrets + 1,).
    weights: the cells' probabilities, shape (cells,). outputs: what each cell stands for.
    """

    secrets: pa.Array
    ptr: Any
    weights: Any
    outputs: pa.Array

    @staticmethod
    def of(table: pa.Table, kind: pa.DataType) -> _Mechanism:
        cells = table.combine_chunks().sort_by("secret")
        secrets = pc.unique(cells["secret"].combine_chunks())
        place = pc.index_in(cells["secret"], value_set=secrets).combine_chunks().to_numpy()
        return _Mechanism(
            secrets.cast(kind),
            np.searchsorted(place, np.arange(len(secrets) + 1)),
            cells["probability"].combine_chunks().cast(pa.float64()).to_numpy(),
            cells["output"].combine_chunks(),
        )

    def places(self, names: pa.Array) -> pa.Array:
        """The number of each record's secret; NULL for one that the mechanism does not have."""
        return pc.index_in(names, value_set=self.secrets)

    def drawn(self, names: pa.Array) -> pa.Array:
        """An output for each record, from the operating system's entropy."""
        from duckanon.engines.metric.sampling import Rows, draw
        from duckanon.engines.randomness import Entropy

        places = self.places(names).to_numpy(zero_copy_only=False).astype(np.int64)
        return self.outputs.take(pa.array(draw(Rows(self.ptr, self.weights), places, Entropy().octets)))


def check_metric_perturb(call: Call) -> MetricPerturb:
    request = MetricPerturb.read(call.given)
    check_table(request, *call.described())
    call.check_groups([request.id])
    path = staging.folder(call.own.get("staging"))
    if request.epsilon is not None and path is None:
        raise InvalidInput(
            "With epsilon the draw is recorded, and must be kept: name a folder, as in staging='s3://bucket/run-1'."
        )
    return request


def metric_perturb(call: Call, request: MetricPerturb) -> DataFrame:
    """The draw is written once, and read from there: a task that runs again draws for nobody's eyes."""
    cells = call.tables["mechanism"].toArrow()
    # DuckDB's own query, over no records, says what is wrong with the mechanism.
    driver.register_all(call.con, [(request.tbl, arrow_schema(call.schemas["tbl"]).empty_table())])
    driver.register_all(call.con, [(request.mechanism, cells)])
    driver.run(call.con, replace(request, epsilon=None).query())
    name = column(call.table, request.id)
    kind = _kind(call, request)
    shared = call.spark.sparkContext.broadcast(_Mechanism.of(cells, kind))

    def places(names: pa.Array) -> pa.Array:
        return shared.value.places(names).cast(pa.int64())

    def drawn(names: pa.Array) -> pa.Array:
        return shared.value.drawn(names)

    output = spark_schema(pa.schema([cells.schema.field("output")])).fields[0].dataType
    perturbed = F.arrow_udf(drawn, output).asNondeterministic()(name)
    check_names(call.table.where(F.arrow_udf(places, "bigint")(name).isNull()).count())
    path = staging.folder(call.own.get("staging"))
    table = call.table.withColumn("perturbed", perturbed)
    if request.epsilon is None:
        with staging.claimed(call.spark, path):
            return staging.written(table, path)
    return call.spark.read.schema(table.schema).parquet(
        _recorded(call, request, request.epsilon, table, cells, str(path))
    )


def _kind(call: Call, request: MetricPerturb) -> pa.DataType:
    """The type of the records' names. Raises InvalidInput if that of the mechanism's secrets is another."""
    wanted = arrow_schema(call.table.select(column(call.table, request.id)).schema).types[0]
    kind = arrow_schema(call.tables["mechanism"].select("secret").schema).types[0]
    if wanted != kind and not (pa.types.is_integer(wanted) and pa.types.is_integer(kind)):
        raise InvalidInput(
            f"Column \"{request.id}\" has another type than the mechanism's secret: cast one of them to the other's."
        )
    return wanted


def _recorded(
    call: Call, request: MetricPerturb, epsilon: Fraction, table: DataFrame, cells: pa.Table, path: str
) -> str:
    """The folder of the draw: that of an earlier draw for the same, or a new one, recorded before it is drawn."""
    rows = call.table.agg(
        F.count(F.lit(1)).alias("rows"), F.sum(F.xxhash64("*").cast(_WIDE)).alias("content")
    ).collect()[0]
    mechanism = sha256(str(sorted(map(repr, cells.to_pylist()))).encode()).hexdigest()

    def draw() -> pa.Array:
        staging.written(table, path)
        return pa.array([path])

    with opened(call.own) as (con, name):
        named = replace(request, tbl=name)
        governance = governance_of(Instance(con).identity, con)
        lookup = seen(con, name)
        content = {"call": request.key, "rows": rows["rows"], "content": str(rows["content"]), "mechanism": mechanism}
        stored = governance.stored(name, lookup, content)
        if stored is None:
            with staging.claimed(call.spark, path):
                stored = governance.stored_or_perturbed(
                    name, lookup, content, charged(named, epsilon), draw, exposed=True
                )
    return str(stored[0].as_py())
