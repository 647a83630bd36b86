"""group_sizes and dp_group_sizes: Spark counts groups in two steps, and the driver's DuckDB answers from the counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.functions import dp_group_sizes as dp
from duckanon.functions import group_sizes as exact
from duckanon.functions.dp_group_sizes import DpGroupSizes
from duckanon.functions.group_counts import Groups, amiss, check_regions, check_table, flaws
from duckanon.functions.group_sizes import GroupSizes
from duckanon.integrations.calls import privacy_unit
from duckanon.integrations.spark.call import Call, column
from duckanon.integrations.spark.ledgers import opened

# What the driver's DuckDB calls the counts.
_TALLIES = "_dk_tallies"
_WIDE = "decimal(38, 0)"


def check_group_sizes(call: Call) -> GroupSizes:
    request = GroupSizes.read(call.given)
    _check(call, request, exact.RELEASED)
    return request


def check_dp_group_sizes(call: Call) -> DpGroupSizes:
    # Totals that are not given follow from the policy in the ledger's database, which is opened later.
    request = DpGroupSizes.read({**call.given, "totals": call.given["totals"] or "private"})
    _check(call, request, dp.RELEASED)
    return request


def _check(call: Call, request: Groups, released: Sequence[str]) -> None:
    names, types = call.described()
    check_table(request, names, types, list(released))
    call.check_groups(request.columns)
    if request.regions is not None:
        check_regions(request, *call.described("regions"), theirs={"names": names, "types": types})


def group_sizes(call: Call, request: GroupSizes) -> DataFrame:
    counted = _tallies(call.table, request, F.col("size").try_cast("bigint"))
    return call.answer(request.query(_TALLIES), **{_TALLIES: counted})


def dp_group_sizes(call: Call, request: DpGroupSizes) -> DataFrame:
    """The noise is drawn once, on the driver, and stored in the ledger's database: a retry reads what was drawn."""
    with opened(call.own) as (con, name):
        if call.given["totals"] is None and privacy_unit(con, name) is None:
            request = replace(request, totals="public")
        size = F.least(F.col("size"), F.lit(request.max_size)).cast("bigint")
        counted = {_TALLIES: _tallies(call.table, request, size)}
        if request.regions is not None:
            counted[request.regions] = _regions(call.tables["regions"], request)
        return replace(call, con=con).answer(replace(request, tbl=name).query(_TALLIES), **counted)


def _regions(table: DataFrame, request: Groups) -> pa.Table:
    """All regions, under the names of the hierarchy."""
    return table.select(*(column(table, name).alias(name) for name in request.hierarchy)).distinct().toArrow()


def _tallies(table: DataFrame, request: Groups, shown: Column) -> pa.Table:
    """How many groups of each size each leaf region has, as queries/group_tallies.sql reads it.

    shown: the size that a group is counted under, from its `size`.
    """
    own = {"u": request.unit, **dict(zip(request.keys, request.hierarchy, strict=True))}
    persons = [column(table, name).alias(key) for key, name in own.items()]
    if request.quantity is not None:
        persons.append(column(table, request.quantity).try_cast("bigint").alias("q"))
    place = F.struct(*request.keys) if request.keys else F.lit(0)
    measures: dict[str, Column] = {"first": F.min(place), "last": F.max(place), "persons": F.count(F.lit(1))}
    if request.quantity is None:
        measures["size"] = F.count(F.lit(1))
    else:
        measures["size"] = F.sum(F.col("q").cast(_WIDE))
        measures["amounts"] = F.sum(F.xxhash64("q").cast(_WIDE))
        measures["amiss"] = F.max(F.expr(amiss(request)))
    units = table.select(*persons).groupBy("u").agg(*(measure.alias(name) for name, measure in measures.items()))
    content = F.xxhash64("u", "first", *(name for name in ("persons", "amounts") if name in measures))
    # Whether a leaf is listed, and whether it has a name, is told where the regions are.
    flaw = F.expr(flaws(request, "false", "NOT first <=> last"))
    regions = [F.col("first").getField(key).alias(key) for key in request.keys]
    counted = (
        units.select(*regions, shown.alias("size"), content.cast(_WIDE).alias("content"), flaw.alias("flaw"))
        .groupBy(*request.keys, "size")
        .agg(F.count(F.lit(1)).alias("groups"), F.sum("content").alias("content"), F.max("flaw").alias("flaw"))
    )
    return counted.withColumn("twice", F.lit(_is_twice(table, request))).toArrow()


def _is_twice(table: DataFrame, request: Groups) -> bool:
    """Whether the column of persons holds NULL, or a person in more than one row."""
    if request.person is None or request.is_whole:
        return False
    person = column(table, request.person)
    counted = table.groupBy(person.alias("p")).agg(F.count(F.lit(1)).alias("rows"))
    return bool(counted.where("p IS NULL OR rows > 1").take(1))
