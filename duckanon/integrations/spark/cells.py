"""cell_bounds, disclosure_report and table_designs: Spark counts cells, and the driver's DuckDB answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.functions import cells
from duckanon.functions.cells import CellBounds, DisclosureReport
from duckanon.functions.table_designs import TableDesigns, check_table
from duckanon.integrations.spark.call import Call, column

# The column of counts that Spark adds. No table has a column of this name that is not our own.
_COUNT = "duckanon.count"


def check_cell_bounds(call: Call) -> CellBounds:
    request = CellBounds.read(call.given)
    cells.check_table(request, *call.described(), released=list(request.released))
    call.check_groups(request.categories)
    return request


def check_disclosure_report(call: Call) -> DisclosureReport:
    request = DisclosureReport.read(call.given)
    cells.check_table(request, *call.described(), released=[])
    call.check_groups(request.categories)
    return request


def check_table_designs(call: Call) -> TableDesigns:
    request = TableDesigns.read(call.given)
    check_table(request, *call.described())
    call.check_groups(request.variables)
    return request


def cell_bounds(call: Call, request: CellBounds) -> DataFrame:
    known = {"known": call.tables["known"].toArrow()} if request.known else {}
    counted = _cells(call.table, request.categories, request.count)
    return call.answer(replace(request, count=request.count or _COUNT).query(), tbl=counted, **known)


def disclosure_report(call: Call, request: DisclosureReport) -> DataFrame:
    counted = _cells(call.table, request.categories, request.count)
    return call.answer(replace(request, count=request.count or _COUNT).query(), tbl=counted)


def table_designs(call: Call, request: TableDesigns) -> DataFrame:
    counted = _cells(call.table, request.variables, request.count)
    return call.answer(replace(request, count=request.count or _COUNT).query(), tbl=counted)


def _cells(table: DataFrame, categories: Sequence[str], count: str | None) -> pa.Table:
    """The table's cells with their counts. A table of counts has a row for each cell already, and is taken as it is."""
    keys = [column(table, name).alias(name) for name in categories]
    if count is not None:
        return table.select(*keys, column(table, count).alias(count)).toArrow()
    return table.groupBy(*keys).agg(F.count(F.lit(1)).alias(_COUNT)).toArrow()
