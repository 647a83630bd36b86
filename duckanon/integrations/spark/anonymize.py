"""k_anonymize: blocks along a Hilbert curve, the engine once a block, and a check of what was written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql import types as spark_types

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.k_anonymize import KAnonymize, check_table
from duckanon.functions.k_within import Coarser
from duckanon.integrations.spark import staging
from duckanon.integrations.spark.block import Task, released
from duckanon.integrations.spark.call import Call, column, own_name, quoted
from duckanon.integrations.spark.curve import HASH, PLACE, Cuts
from duckanon.integrations.spark.facts import Facts, hashed
from duckanon.integrations.spark.planning import NUMBER, numbered, planned, shares
from duckanon.integrations.spark.types import arrow_schema
from duckanon.integrations.spark.verification import KEPT, verify

# Types by whose values Spark does not compare rows, or that do not reach Python.
_NOT_COMPARED = (spark_types.MapType, spark_types.VariantType, spark_types.CalendarIntervalType)


def check_k_anonymize(call: Call) -> KAnonymize:
    from duckanon.engines.kanon.anonymize import check_method, check_options, check_seconds

    request = KAnonymize.read(arguments.from_policy("k_anonymize", call.given, lambda _: None))
    if isinstance(request, Coarser):
        raise InvalidInput("within joins the classes of an earlier release, on one machine: leave it out on Spark.")
    if request.how.all or request.how.suppress:
        raise InvalidInput(
            "On Spark quasi-identifiers become intervals and sets: leave bands, hierarchies and suppress_cells out, or "
            "call k_anonymize in DuckDB."
        )
    if request.objective != "loss" or request.centroids is not None:
        raise InvalidInput(
            "On Spark classes are made for intervals and sets: leave objective, release and steps out, or call "
            "k_anonymize in DuckDB."
        )
    check_table(request, *call.described())
    call.check_groups([*request.qi, *request.criteria.columns])
    check_method(request.method)
    check_seconds(request.seconds, request.method)
    check_options(request.options, [request.method])
    staging.folder(call.own.get("staging"))
    if call.tables:
        _check_compared(call, request)
    return request


def _check_compared(call: Call, request: KAnonymize) -> None:
    """Check that Spark can compare the rows of a DataFrame. Raises InvalidInput if not."""
    for field in call.schemas["tbl"].fields:
        if _holds(field.dataType, _NOT_COMPARED) and field.name.lower() not in {text.lower() for text in request.drop}:
            raise InvalidInput(
                f'Column "{field.name}" holds a map, a variant or an interval, by which Spark compares '
                "no rows: drop it, or cast it."
            )


def _holds(kind: spark_types.DataType, wanted: tuple[type, ...]) -> bool:
    """Whether a type is one of those, or holds one inside."""
    inner: Iterable[spark_types.DataType] = ()
    if isinstance(kind, spark_types.ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, spark_types.StructType):
        inner = [field.dataType for field in kind.fields]
    return isinstance(kind, wanted) or any(_holds(value, wanted) for value in inner)


def k_anonymize(call: Call, request: KAnonymize) -> DataFrame:
    """The passes over the data: its range, what criteria compare with, its histogram, its blocks, and the check."""
    path = staging.folder(call.own.get("staging"))
    table = call.table.drop(*(column(call.table, name) for name in _unread(request)))
    with staging.claimed(call.spark, path):
        facts = Facts.of(table, request)
        shared = call.spark.sparkContext.broadcast(facts.scale)
        placed = table.withColumn(PLACE, _places(shared, list(facts.scale.ends))).withColumn(HASH, hashed(table))
        cuts = planned(call, request, placed, facts)
        hidden = {name.lower() for name in (*request.qi, *request.drop)}
        rest = [quoted(name) for name in table.columns if name.lower() not in hidden]
        shown = [quoted(name) for cell in request.cells for name in cell.names]
        # By what is released alone: otherwise records of a class would stand as the table has them, sorted perhaps.
        blocks = _blocks(call, request, placed, cuts, facts).sortWithinPartitions(KEPT, *shown, *rest)
        made = staging.written(blocks, path)
        verify(made, table.columns, request, facts)
    return made.where(KEPT).select(F.xxhash64(*shown).alias("class_id"), *shown, *rest)


def _unread(request: KAnonymize) -> list[str]:
    """The columns that are dropped at once. The unit is counted before."""
    unit = request.criteria.unit
    return [name for name in request.drop if unit is None or name.lower() != unit.lower()]


def _blocks(call: Call, request: KAnonymize, placed: DataFrame, cuts: Cuts, facts: Facts) -> DataFrame:
    """The records with their cells, block by block: what is staged."""
    table = placed.drop(PLACE, HASH)
    schema, qi = _staged(table, request), list(facts.scale.ends)
    shared = call.spark.sparkContext.broadcast(_task(call, request, table, cuts, facts))
    cells = [name for cell in request.cells for name in cell.names]
    arrow = arrow_schema(schema)  # times come in the session's zone, and go back in UTC

    def one(block: pa.Table) -> pa.Table:
        task = shared.value
        labels = task.labels(block, block[NUMBER][0].as_py(), block[HASH].to_numpy().view(np.uint64))
        order, values = released(task.scale, [block[name].combine_chunks() for name in qi], labels)
        kept = block.drop_columns([PLACE, HASH, NUMBER]).take(pa.array(order))
        columns = [*values, pa.array(labels[order] >= 0), *kept.columns]
        return pa.Table.from_arrays(columns, names=[*cells, KEPT, *kept.column_names]).cast(arrow)

    return numbered(placed, cuts).groupBy(NUMBER).applyInArrow(one, schema)


def _task(call: Call, request: KAnonymize, table: DataFrame, cuts: Cuts, facts: Facts) -> Task:
    """What the tasks of all blocks do. They share the time limit out, as far as they do not run at the same time."""
    seconds, many = request.seconds, len(cuts.ends)
    if seconds is not None:
        seconds *= min(call.spark.sparkContext.defaultParallelism, many) / many
    unit = request.criteria.unit
    return Task(
        facts.scale,
        request.criteria.engine_criteria(request.k),
        request.method,
        request.options,
        seconds,
        shares(request, cuts),
        facts.sensitive,
        None if unit is None else own_name(table, unit),
    )


def _places(shared: Any, qi: list[str]) -> Column:
    def places(*columns: pa.Array) -> pa.Array:
        return pa.array(shared.value.places(columns).view(np.int64))

    return F.arrow_udf(places, "bigint")(*(quoted(name) for name in qi))


def _staged(table: DataFrame, request: KAnonymize) -> spark_types.StructType:
    """The columns that are staged: the released cells, whether they are released, and the table's own columns, by which
    the cells are checked.
    """
    kinds = {field.name.lower(): field.dataType for field in table.schema.fields}
    cells = []
    for name, cell in zip(request.qi, request.cells, strict=True):
        kind = kinds[name.lower()]
        wanted = spark_types.ArrayType(kind) if len(cell.names) == 1 else kind
        cells += [spark_types.StructField(name, wanted) for name in cell.names]
    kept = spark_types.StructField(KEPT, spark_types.BooleanType())
    return spark_types.StructType([*cells, kept, *table.schema.fields])
