"""How a table is cut into blocks of near records, each of which can meet all criteria by itself.

Blocks whose records together fail l or t, or have too few units, join neighbours on the curve, until none does. All
records of a block in one class then meet the criteria, so the engine can always join classes until each meets them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.k_anonymize import KAnonymize
from duckanon.integrations.spark import curve
from duckanon.integrations.spark.call import Call, column
from duckanon.integrations.spark.curve import HASH, PLACE, Cuts
from duckanon.integrations.spark.distribution import Distribution, counted
from duckanon.integrations.spark.facts import Facts

if TYPE_CHECKING:
    from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria

# The column of the number of a record's block.
NUMBER = "_dk_block"
# Records of a block that has joined others, at most: one task holds them, in some 2 GB.
_MOST = 2_097_152


def planned(call: Call, request: KAnonymize, placed: DataFrame, facts: Facts) -> Cuts:
    """Where the table is cut. placed: the table with each record's place.

    Raises InvalidInput if the whole table fails a criterion, or a block would be too large for one task.
    """
    cuts = _cut(call, request, placed, facts.scale.rows)
    while True:
        _check(facts, request, cuts)
        fail = _failing(placed, request, facts, cuts) if len(cuts.ends) > 1 else set()
        if not fail:
            return cuts
        cuts = cuts.joined(fail)
        if cuts.sizes.max() > _MOST:
            raise InvalidInput(
                "Near records are so much alike that one task would have to hold more than "
                f"{_MOST:,} of them to meet l, t or k of unit: choose a smaller l or k or a larger t, or call "
                "k_anonymize in DuckDB."
            )


def _cut(call: Call, request: KAnonymize, placed: DataFrame, rows: int) -> Cuts:
    """Blocks of about half to all of the records that the engine takes at once.

    With t and suppression the table is one block: what any block drops changes what all classes are compared with.
    """
    from duckanon.engines.kanon.blocks import largest

    block = call.own.get("block")
    if block is not None and arguments.whole(block, "block") < 1:
        raise InvalidInput("block must be 1 or more: it is the most records that one task searches.")
    most = largest(request.k) if block is None else max(arguments.whole(block, "block"), 3 * request.k)
    if rows <= most:
        return Cuts.none(rows)
    if request.criteria.t is not None and request.criteria.max_suppression:
        if rows > _MOST:
            raise InvalidInput(
                f"With t and max_suppression together one task holds the whole table, at most {_MOST:,} rows: leave "
                "one of them out, or call k_anonymize in DuckDB."
            )
        return Cuts.none(rows)
    size = most * 2 // 3
    return curve.cuts(curve.bars(placed, size // 4), size)


def numbered(placed: DataFrame, cuts: Cuts) -> DataFrame:
    """The records with the number of their block."""
    shared = placed.sparkSession.sparkContext.broadcast(cuts)

    def numbers(place: pa.Array, hashes: pa.Array) -> pa.Array:
        upper, lower = (one.to_numpy().view(np.uint64) for one in (place, hashes))
        return pa.array(curve.numbers(upper, lower, shared.value))

    return placed.withColumn(NUMBER, F.arrow_udf(numbers, "bigint")(PLACE, HASH))


def shares(request: KAnonymize, cuts: Cuts) -> list[int]:
    """How many records each block may drop: together what the whole table may, by each one's part of the records."""
    allowed = [int(request.criteria.max_suppression * int(end)) for end in (0, *cuts.ends)]
    return [after - before for before, after in pairwise(allowed)]


def _check(facts: Facts, request: KAnonymize, cuts: Cuts) -> None:
    """Check that the whole table meets l and t, and that they can be computed for each block."""
    from duckanon.engines.kanon.criteria.privacy_criteria import Counted, check_table

    wanted = request.criteria.engine_criteria(request.k)
    for distribution in facts.sensitive.values():
        check_table(
            Counted(distribution.counts, distribution.counts, distribution.ordered), wanted, int(cuts.sizes.max())
        )


def _failing(placed: DataFrame, request: KAnonymize, facts: Facts, cuts: Cuts) -> set[int]:
    """The blocks whose records together fail a criterion."""
    blocks, criteria = numbered(placed, cuts), request.criteria
    unit = None if criteria.unit is None else column(placed, criteria.unit)
    numbers = set[int]()
    if unit is not None:
        units = blocks.groupBy(NUMBER).agg(F.count_distinct(unit).alias("units"))
        numbers |= {row[0] for row in units.where(F.col("units") < request.k).collect()}
    wanted = criteria.engine_criteria(request.k)
    for name, whole in facts.sensitive.items():
        numbers |= _unlike(blocks, column(placed, name), unit, whole, wanted)
    return numbers


def _unlike(
    blocks: DataFrame, value: Column, unit: Column | None, whole: Distribution, wanted: PrivacyCriteria
) -> set[int]:
    """The blocks whose records together fail l or t in one column."""
    shared: Any = blocks.sparkSession.sparkContext.broadcast((whole, wanted))

    def judged(pairs: pa.Table) -> pa.Table:
        from duckanon.engines.kanon.criteria.enforcement import meets_together
        from duckanon.engines.kanon.criteria.privacy_criteria import Counted

        whole, wanted = shared.value
        counts = whole.counts_of(pairs["value"].combine_chunks(), pairs["rows"].combine_chunks())
        meets = meets_together(Counted(counts, whole.counts, whole.ordered), wanted)
        return pa.table({NUMBER: pairs[NUMBER][:1], "meets": [meets]})

    pairs = counted(blocks, [(NUMBER, F.col(NUMBER)), ("value", value)], unit)
    verdicts = pairs.groupBy(NUMBER).applyInArrow(judged, f"{NUMBER} bigint, meets boolean")
    return {row[0] for row in verdicts.where("NOT meets").collect()}
