"""What an executor does: places of records on the curve, and the classes of a block, on the whole table's scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.engines.kanon.records import Attribute, Order, Records, records
from duckanon.functions.encoding import encode, unit_codes
from duckanon.integrations.spark.distribution import Distribution

if TYPE_CHECKING:
    from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
    from duckanon.engines.kanon.risk import Sensitive


@dataclass(frozen=True)
class Scale:
    """What a block must know of the whole table to measure as the whole table does.

    ends: by quasi-identifier, the least and the greatest value, or all values of a categorical one; no NULL. weights:
    of each. rows: of the whole table.
    """

    ends: Mapping[str, pa.Array]
    categorical: frozenset[str]
    weights: Sequence[float]
    rows: int

    def records(self, columns: Sequence[pa.Array]) -> Records:
        """Some records of the table, one column a quasi-identifier, as the engine takes them."""
        given = zip(self.ends, columns, self.weights, strict=True)
        return records(self._attribute(name, column, weight) for name, column, weight in given)

    def _attribute(self, name: str, column: pa.Array, weight: float) -> Attribute:
        """One column. The whole table's ends are encoded with it and taken away again, so levels are the table's."""
        ends = self.ends[name].cast(column.type)
        whole = encode(name, pa.concat_arrays([ends, column]), categorical=name in self.categorical, weight=weight)
        codes = whole.codes[len(ends) :]
        return Attribute(name, codes, whole.levels, whole.distinct, whole.span, weight)

    def places(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64]:
        """Each record's place on the Hilbert curve, its first bit the curve's first: shape (n,)."""
        from duckanon.engines.kanon.orders import hilbert_keys

        keys, bits = hilbert_keys(self.records(columns), table=self.rows)
        return keys << np.uint64(64 - bits)


@dataclass(frozen=True)
class Task:
    """How the classes of a block are found, by a method, its options and a time limit.

    scale: of the quasi-identifiers. wanted: k, l and t. dropped: how many records each block may drop. sensitive: what
    the whole table holds of each sensitive column, by name. unit: the column of units, if they count.
    """

    scale: Scale
    wanted: PrivacyCriteria
    method: str
    options: Mapping[str, int]
    seconds: float | None
    dropped: Sequence[int]
    sensitive: Mapping[str, Distribution]
    unit: str | None

    def labels(self, block: pa.Table, number: int, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """The class of each record, -1 where it is dropped. hashes: of each record, which decide between equal ones."""
        from duckanon.engines.kanon.control import Control
        from duckanon.engines.kanon.private_classes import private_classes

        settled = private_classes(
            self.scale.records([block[name].combine_chunks() for name in self.scale.ends]),
            replace(self.wanted, suppress=Fraction(self.dropped[number], len(block))),
            self.method,
            content=hashes,
            control=Control(1, seconds=self.seconds, options=self.options, table=self.scale.rows),
            sensitive=[
                self._sensitive(block[name].combine_chunks(), distribution)
                for name, distribution in self.sensitive.items()
            ],
            subjects=None if self.unit is None else unit_codes(block[self.unit].combine_chunks()),
        )
        return settled.labels

    def _sensitive(self, values: pa.Array, whole: Distribution) -> Sensitive:
        """A sensitive column as the engine takes it. A block that is the whole table says so by its own counts."""
        from duckanon.engines.kanon.risk import Sensitive

        table = whole.counts if len(self.dropped) > 1 else None
        return Sensitive(whole.coded(values), len(whole.counts), whole.ordered, table)


def released(scale: Scale, columns: Sequence[pa.Array], labels: npt.NDArray[np.int32]) -> tuple[Order, list[pa.Array]]:
    """The records' order, class by class, and the released columns in it: ends or sets, NULL where a value is.

    labels: of each record, -1 where it is dropped; its cells are NULL.
    """
    from duckanon.engines.kanon.orders import by_label

    order = by_label(labels + 1)
    label = labels[order]
    starts = np.flatnonzero(np.concatenate([[True], label[1:] != label[:-1]]))
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(label))))
    found: list[pa.Array] = []
    for name, column in zip(scale.ends, columns, strict=True):
        values = column.take(pa.array(order))
        cells = _sets(number, values) if name in scale.categorical else _intervals(number, values)
        null = values.is_null().to_numpy(zero_copy_only=False) | (label < 0)
        missing = pa.array(np.logical_or.reduceat(null, starts))
        found += [pc.if_else(missing, pa.scalar(None, cell.type), cell).take(pa.array(number)) for cell in cells]
    return order, found


def _intervals(number: npt.NDArray[np.int64], values: pa.Array) -> list[pa.Array]:
    """The least and the greatest value of each class."""
    grouped = pa.table({"class": number, "value": values}).group_by("class", use_threads=False)
    found = grouped.aggregate([("value", "min"), ("value", "max")]).combine_chunks()
    return [found["value_min"].combine_chunks(), found["value_max"].combine_chunks()]


def _sets(number: npt.NDArray[np.int64], values: pa.Array) -> list[pa.Array]:
    """The distinct values of each class, ascending."""
    distinct = pa.table({"class": number, "value": values}).group_by(["class", "value"], use_threads=False)
    pairs = distinct.aggregate([]).sort_by([("class", "ascending"), ("value", "ascending")]).combine_chunks()
    classes = pairs["class"].to_numpy()
    offsets = np.searchsorted(classes, np.arange(int(number[-1]) + 2)).astype(np.int32)
    return [pa.ListArray.from_arrays(pa.array(offsets), pairs["value"].combine_chunks())]
