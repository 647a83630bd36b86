"""The check of what k_anonymize has written: Spark's SQL on the records' own values, and the measures of k_report."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.errors import DuckanonError
from duckanon.functions.k_anonymize import KAnonymize
from duckanon.integrations.spark.call import column, quoted
from duckanon.integrations.spark.facts import WIDE, Facts
from duckanon.integrations.spark.report import worst

# The column that tells records that are released from those that are dropped.
KEPT = "_dk_kept"


def verify(data_frame: DataFrame, columns: list[str], request: KAnonymize, facts: Facts) -> None:
    """Check the records `data_frame`: raises an error, and nothing is released. columns: of the table that was read."""
    shown = [quoted(name) for cell in request.cells for name in cell.names]
    unit = None if request.criteria.unit is None else column(data_frame, request.criteria.unit)
    classes = data_frame.groupBy(KEPT, *shown).agg(
        F.count(F.lit(1)).alias("rows"),
        (F.count(F.lit(1)) if unit is None else F.count_distinct(unit)).alias("size"),
        F.sum(F.xxhash64(*map(quoted, columns)).cast(WIDE)).alias("content"),
        F.bool_and(_inside(data_frame, request)).alias("inside"),
    )
    found = classes.agg(
        F.min(F.when(F.col(KEPT), F.col("size"))).alias("least"),
        F.sum("rows").alias("rows"),
        F.sum("content").alias("content"),
        F.sum(F.when(~F.col(KEPT), F.col("rows")).otherwise(0)).alias("dropped"),
        F.bool_and(F.col("inside") | ~F.col(KEPT)).alias("inside"),
    ).collect()[0]
    if found["rows"] != facts.scale.rows or found["content"] != facts.content:
        raise DuckanonError(
            "The rows that were released are not those that were read: the table changes while it is read, or this is "
            "a bug in duckanon. Nothing was released: write the table down first."
        )
    if found["least"] is None or found["least"] < request.k or not found["inside"]:
        raise DuckanonError(
            "k_anonymize made a class of fewer than k records, or one that leaves a value out: this is a bug in "
            "duckanon, nothing was released."
        )
    if found["dropped"] > int(request.criteria.max_suppression * facts.scale.rows):
        raise DuckanonError("k_anonymize dropped too many records: this is a bug in duckanon, nothing was released.")
    _verify_sensitive(data_frame.where(KEPT), shown, unit, request)


def _inside(data_frame: DataFrame, request: KAnonymize) -> Column:
    """Whether a record's values lie in its cells."""
    inside = F.lit(True)
    for name, cell in zip(request.qi, request.cells, strict=True):
        value, ends = column(data_frame, name), [F.col(quoted(name)) for name in cell.names]
        held = F.array_contains(ends[0], value) if len(ends) == 1 else value.between(*ends)
        empty = ends[0].isNull() & ends[-1].isNull()
        inside &= F.coalesce(empty | held, F.lit(False))
    return inside


def _verify_sensitive(kept: DataFrame, shown: list[str], unit: Column | None, request: KAnonymize) -> None:
    for name in request.criteria.sensitive:
        measures = worst(
            kept,
            [F.col(text) for text in shown],
            (name, column(kept, name)),
            unit,
            request.criteria.least,
            null_is_value=request.criteria.null_is_value,
        )
        if not request.criteria.fails(measures):
            continue
        if unit is not None:
            # Classes of different blocks may have the same cells, and units then do not add up.
            raise DuckanonError(
                "Classes that show the same values fail l or t together, because a unit with records in several of "
                "them counts once: nothing was released; choose a larger k or block, or leave unit out."
            )
        raise DuckanonError(
            "k_anonymize made a class that fails l or t: this is a bug in duckanon, nothing was released."
        )
