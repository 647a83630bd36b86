"""How often each value of a sensitive column occurs in a whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from duckanon.errors import InvalidInput
from duckanon.functions.encoding import encode, is_ordered

# Values of a column that the driver and each task hold at most.
_MOST = 2_000_000
_UNIT = "_dk_unit"


def counted(table: DataFrame, keys: Sequence[tuple[str, Column]], unit: Column | None) -> DataFrame:
    """How many records have each combination of `keys`, in the column `rows`; with `unit`, how many units have it.

    keys: columns by the names that they get. A record without a unit does not count.
    """
    named, names = [key.alias(name) for name, key in keys], [name for name, _ in keys]
    if unit is None:
        return table.select(*named).groupBy(*names).agg(F.count(F.lit(1)).alias("rows"))
    units = table.where(unit.isNotNull()).select(*named, unit.alias(_UNIT)).distinct()
    return units.groupBy(*names).agg(F.count(F.lit(1)).alias("rows"))


@dataclass(frozen=True)
class Distribution:
    """The values of one column: distinct, without NULL. Its code is the one after theirs, or -1 where it is no value.

    codes: each value's code, shape (values,). counts: how many records or units have each code, shape (codes,).
    """

    values: pa.Array
    codes: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    ordered: bool
    null_is_value: bool

    @staticmethod
    def of(table: DataFrame, name: str, value: Column, unit: Column | None, *, null_is_value: bool) -> Distribution:
        """Raises InvalidInput for a column with too many values, or with some that have no place among the others."""
        rows = table if null_is_value else table.where(value.isNotNull())
        found = counted(rows, [("value", value)], unit).limit(_MOST + 1).toArrow().combine_chunks()
        if len(found) > _MOST:
            raise InvalidInput(
                f'Column "{name}" has more than {_MOST:,} distinct values, and Spark\'s driver would have to hold them '
                "all: round them, or leave the column out of sensitive."
            )
        values = found["value"].combine_chunks()
        ordered = is_ordered(values.type)
        coded = encode(name, values, categorical=not ordered)
        counts = np.zeros(coded.distinct + int(values.null_count > 0), np.int64)
        counts[coded.codes] = found["rows"].to_numpy()
        present = values.is_valid()
        return Distribution(
            values.filter(present),
            coded.codes[present.to_numpy(zero_copy_only=False)],
            counts,
            ordered,
            null_is_value,
        )

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Shape (codes,)."""
        return np.asarray(self.counts / max(int(self.counts.sum()), 1), np.float64)

    def coded(self, values: pa.Array) -> npt.NDArray[np.int32]:
        """Codes of some values. What only records without a unit have gets that of NULL, as they do not count."""
        place = pc.index_in(values, value_set=self.values.cast(values.type)).fill_null(len(self.values))
        null = np.int32(len(self.codes) if self.null_is_value else -1)
        return np.append(self.codes, null)[place.to_numpy(zero_copy_only=False)]

    def counts_of(self, values: pa.Array, rows: pa.Array) -> npt.NDArray[np.int64]:
        """How often each code occurs, shape (codes,). rows: how often each of the distinct `values` does."""
        found, codes = np.zeros_like(self.counts), self.coded(values)
        found[codes[codes >= 0]] = rows.to_numpy()[codes >= 0]
        return found
