"""k_anonymize: blocks along a Hilbert curve, the engine once a block, and a check of what was written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql import types as spark_types

from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions import arguments
from duckanon.functions.encoding import encode
from duckanon.functions.k_anonymize import KAnonymize, check_table
from duckanon.functions.k_within import Coarser
from duckanon.integrations.spark import curve, staging
from duckanon.integrations.spark.block import Scale, Task, released
from duckanon.integrations.spark.call import Call, column, quoted
from duckanon.integrations.spark.curve import HASH, PLACE
from duckanon.integrations.spark.types import arrow_schema

_WIDE = "decimal(38, 0)"
_NUMBER = "_dk_block"
# Types by whose values Spark does not compare rows, or that do not reach Python.
_NOT_COMPARED = (spark_types.MapType, spark_types.VariantType, spark_types.CalendarIntervalType)


def check_k_anonymize(call: Call) -> KAnonymize:
    from duckanon.engines.kanon.anonymize import check_method, check_options

    request = KAnonymize.read(call.given)
    if isinstance(request, Coarser):
        raise InvalidInput("within joins the classes of an earlier release, on one machine: leave it out on Spark.")
    if request.how.all or request.how.suppress:
        raise InvalidInput(
            "On Spark quasi-identifiers become intervals and sets: leave bands, hierarchies and suppress_cells out, or "
            "call k_anonymize in DuckDB."
        )
    check_table(request, *call.described())
    call.check_groups(request.qi)
    check_method(request.method)
    check_options(request.options, [request.method])
    staging.folder(call.own.get("staging"))
    if call.tables:
        _check_distributed(call, request)
    return request


def _check_distributed(call: Call, request: KAnonymize) -> None:
    """Check what a call on DataFrames can do less than one in a single task. Raises InvalidInput for the rest."""
    if request.seconds is not None:
        raise InvalidInput("seconds limits the search on one machine: leave it out on Spark.")
    if request.criteria.columns or request.criteria.max_suppression:
        raise InvalidInput(
            "On DataFrames k_anonymize has no conditions beside k: leave sensitive, l, t, unit and max_suppression "
            "out, or call it in Spark's SQL, which runs in one task."
        )
    for field in call.schemas["tbl"].fields:
        if _holds(field.dataType, _NOT_COMPARED) and field.name.lower() not in {one.lower() for one in request.drop}:
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
        inner = [one.dataType for one in kind.fields]
    return isinstance(kind, wanted) or any(_holds(one, wanted) for one in inner)


def k_anonymize(call: Call, request: KAnonymize) -> DataFrame:
    """Four steps over the data: its range, its histogram, its blocks, and the check of what the blocks have written."""
    table = call.table.drop(*(column(call.table, name) for name in request.drop))
    qi = [_own(table, name) for name in request.qi]
    facts = _Facts.of(table, qi, request)
    spark = call.spark
    shared = spark.sparkContext.broadcast(facts.scale)
    placed = table.withColumn(PLACE, _places(shared, qi)).withColumn(HASH, _hash(table))
    at = spark.sparkContext.broadcast(_cuts(call, request, placed, facts.scale.rows))
    cells = [name for cell in request.cells for name in cell.names]
    schema = _staged(table, request)
    task = Task(request.k, request.method, request.options, facts.scale.rows)
    arrow = arrow_schema(schema)  # times come in the session's zone, and go back in UTC

    def one(block: pa.Table) -> pa.Table:
        columns = [block[name].combine_chunks() for name in qi]
        hashes = block[HASH].to_numpy().view(np.uint64)
        labels = task.labels(shared.value.records(columns), hashes)
        order, values = released(shared.value, columns, labels)
        kept = block.drop_columns([PLACE, HASH, _NUMBER]).take(pa.array(order))
        made = pa.Table.from_arrays([*values, *kept.columns], names=[*cells, *kept.column_names])
        return made.cast(arrow)

    blocks = placed.withColumn(_NUMBER, _numbers(at)).groupBy(_NUMBER).applyInArrow(one, schema)
    made = staging.written(blocks, staging.folder(call.own.get("staging")))
    _verify(made, table.columns, request, qi, facts)
    rest = [quoted(name) for name in table.columns if name not in qi]
    shown = [quoted(name) for name in cells]
    return made.select(F.xxhash64(*shown).alias("class_id"), *shown, *rest)


def _cuts(call: Call, request: KAnonymize, placed: DataFrame, rows: int) -> tuple[curve.Words, curve.Words]:
    """Where the table is cut. A block has about half to all of the records that the engine takes at once."""
    from duckanon.engines.kanon.blocks import largest

    block = call.own.get("block")
    most = largest(request.k) if block is None else max(arguments.whole(block, "block"), 2 * request.k)
    if rows <= most:
        return curve.cuts([], most)
    size = most * 2 // 3
    return curve.cuts(curve.bars(placed, size // 4), size)


def _own(table: DataFrame, name: str) -> str:
    """A column's name as the table writes it."""
    return {one.lower(): one for one in table.columns}[name.lower()]


@dataclass(frozen=True)
class _Facts:
    """What one pass over the table tells. content: the sum of all rows' hashes."""

    scale: Scale
    content: Any

    @staticmethod
    def of(table: DataFrame, qi: list[str], request: KAnonymize) -> _Facts:
        """Raises InvalidInput for values without a place, and for fewer than k rows."""
        from duckanon.engines.kanon.anonymize import check_k

        sets = frozenset(_own(table, name) for name in request.categorical)
        found: list[Column] = [F.count(F.lit(1)).alias("rows"), F.sum(_hash(table).cast(_WIDE)).alias("content")]
        for i, name in enumerate(qi):
            value = F.col(quoted(name))
            found += (
                [F.sort_array(F.collect_set(value)).alias(f"s{i}")]
                if name in sets
                else [F.min(value).alias(f"l{i}"), F.max(value).alias(f"h{i}")]
            )
        row = table.agg(*found).toArrow().combine_chunks()
        check_k(request.k, row["rows"][0].as_py())
        ends = {}
        for i, name in enumerate(qi):
            if name in sets:
                ends[name] = row[f"s{i}"][0].values
            else:
                ends[name] = pa.concat_arrays([row[f"{end}{i}"].combine_chunks() for end in "lh"]).drop_null()
            encode(name, ends[name], categorical=name in sets)  # says what has no place: NaN, infinite dates
        scale = Scale(ends, sets, request.weights, row["rows"][0].as_py())
        return _Facts(scale, row["content"][0].as_py())


def _hash(table: DataFrame) -> Column:
    """A hash of each row."""
    return F.xxhash64(*(quoted(name) for name in table.columns))


def _places(shared: Any, qi: list[str]) -> Column:
    def places(*columns: pa.Array) -> pa.Array:
        return pa.array(shared.value.places(columns).view(np.int64))

    return F.arrow_udf(places, "bigint")(*(quoted(name) for name in qi))


def _numbers(cuts: Any) -> Column:
    """The block of each record."""

    def numbers(place: pa.Array, hashes: pa.Array) -> pa.Array:
        upper, lower = (one.to_numpy().view(np.uint64) for one in (place, hashes))
        return pa.array(curve.numbers(upper, lower, cuts.value))

    return F.arrow_udf(numbers, "bigint")(PLACE, HASH)


def _staged(table: DataFrame, request: KAnonymize) -> spark_types.StructType:
    """The columns that are staged: the released cells, then the table's own, by which the cells are checked."""
    kinds = {one.name.lower(): one.dataType for one in table.schema.fields}
    cells = []
    for name, cell in zip(request.qi, request.cells, strict=True):
        kind = kinds[name.lower()]
        wanted = spark_types.ArrayType(kind) if len(cell.names) == 1 else kind
        cells += [spark_types.StructField(one, wanted) for one in cell.names]
    return spark_types.StructType([*cells, *table.schema.fields])


def _verify(made: DataFrame, columns: list[str], request: KAnonymize, qi: list[str], facts: _Facts) -> None:
    """Check what was written, by Spark's SQL and no code of the engine's: raises an error, and nothing is released."""
    inside = F.lit(True)
    for name, cell in zip(qi, request.cells, strict=True):
        value, ends = F.col(quoted(name)), [F.col(quoted(one)) for one in cell.names]
        held = F.array_contains(ends[0], value) if len(ends) == 1 else value.between(*ends)
        empty = ends[0].isNull() & ends[-1].isNull()
        inside &= F.coalesce(empty | held, F.lit(False))
    content = F.xxhash64(*map(quoted, columns)).cast(_WIDE)
    shown = [quoted(name) for cell in request.cells for name in cell.names]
    classes = made.groupBy(*shown).agg(
        F.count(F.lit(1)).alias("size"), F.sum(content).alias("content"), F.bool_and(inside).alias("inside")
    )
    found = classes.agg(
        F.min("size").alias("least"),
        F.sum("size").alias("rows"),
        F.sum("content").alias("content"),
        F.bool_and("inside").alias("inside"),
    ).collect()[0]
    if found["rows"] != facts.scale.rows or found["content"] != facts.content:
        raise DuckanonError(
            "The rows that were released are not those that were read: the table changes while it is read, or this is "
            "a bug in duckanon. Nothing was released: write the table down first."
        )
    if found["least"] < request.k or not found["inside"]:
        raise DuckanonError(
            "k_anonymize made a class of fewer than k records, or one that leaves a value out: this is a bug in "
            "duckanon, nothing was released."
        )
