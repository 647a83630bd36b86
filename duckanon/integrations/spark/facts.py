"""What k_anonymize must know of the whole table before it is cut into blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.functions.encoding import encode
from duckanon.functions.k_anonymize import KAnonymize
from duckanon.integrations.spark.block import Scale
from duckanon.integrations.spark.call import column, own_name, quoted
from duckanon.integrations.spark.distribution import Distribution

WIDE = "decimal(38, 0)"


@dataclass(frozen=True)
class Facts:
    """scale: of the quasi-identifiers. content: the sum of all rows' hashes. sensitive: those columns, by name."""

    scale: Scale
    content: Any
    sensitive: Mapping[str, Distribution]

    @staticmethod
    def of(table: DataFrame, request: KAnonymize) -> Facts:
        """Raises InvalidInput for values without a place, for too few rows or units, and for criteria that all records
        together fail.
        """
        from duckanon.engines.kanon.private_classes import check_subjects
        from duckanon.engines.kanon.records import check_k

        unit = None if request.criteria.unit is None else column(table, request.criteria.unit)
        qi = [own_name(table, name) for name in request.qi]
        sets = frozenset(own_name(table, name) for name in request.categorical)
        columns: list[Column] = [F.count(F.lit(1)).alias("rows"), F.sum(content(table)).alias("content")]
        for i, name in enumerate(qi):
            value = F.col(quoted(name))
            columns += (
                [F.sort_array(F.collect_set(value)).alias(f"s{i}")]
                if name in sets
                else [F.min(value).alias(f"l{i}"), F.max(value).alias(f"h{i}")]
            )
        row = table.agg(*columns).toArrow().combine_chunks()
        rows = row["rows"][0].as_py()
        check_k(request.k, rows)
        scale = Scale(_ends(row, qi, sets), sets, request.weights, rows)
        if unit is not None:
            check_subjects(table.agg(F.count_distinct(unit)).collect()[0][0], request.k)
        values = {
            own_name(table, name): Distribution.of(
                table, name, column(table, name), unit, null_is_value=request.criteria.null_is_value
            )
            for name in request.criteria.sensitive
        }
        return Facts(scale, row["content"][0].as_py(), values)


def _ends(row: pa.Table, qi: list[str], sets: frozenset[str]) -> dict[str, pa.Array]:
    """The values that a scale needs of each quasi-identifier."""
    ends = {}
    for i, name in enumerate(qi):
        if name in sets:
            ends[name] = row[f"s{i}"][0].values
        else:
            ends[name] = pa.concat_arrays([row[f"{end}{i}"].combine_chunks() for end in "lh"]).drop_null()
        encode(name, ends[name], categorical=name in sets)  # says what has no place: NaN, infinite dates
    return ends


def hashed(table: DataFrame) -> Column:
    """A hash of each row."""
    return F.xxhash64(*(quoted(name) for name in table.columns))


def content(table: DataFrame) -> Column:
    """The hash of each row, as a number whose sum over all rows does not overflow."""
    return hashed(table).cast(WIDE)
