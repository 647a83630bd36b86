"""Columns as they come from DuckDB by way of Arrow, turned into the engines' codes and levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from duckanon.engines.kanon.records import Attribute
from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from duckanon.engines.kanon.risk import Sensitive

# DATE 'infinity' and TIMESTAMP 'infinity', positive and negative, as Arrow carries them.
_ENDLESS = {
    np.dtype(np.int32): (2**31 - 1, -(2**31) + 1),
    np.dtype(np.int64): (2**63 - 1, -(2**63) + 1),
}


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind))


def is_ordered(kind: pa.DataType) -> bool:
    """Whether values of this type lie on a line: numbers, decimals, booleans, dates, times, ENUM."""
    return bool(_is_number(kind) or _is_time(kind) or pa.types.is_decimal(kind) or pa.types.is_dictionary(kind))


def _wide_offsets(values: pa.Array) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Sorting order and distance from the smallest for decimals: exact 128-bit differences, in last digits."""
    values = values.cast(pa.decimal128(38, values.type.scale))
    words = np.frombuffer(values.buffers()[1], dtype=np.int64).reshape(-1, 2)[
        values.offset : values.offset + len(values)
    ]
    low, high = words[:, 0].view(np.uint64), words[:, 1]
    order = np.lexsort((low, high))
    low, high = low[order], high[order].view(np.uint64)
    borrow = (low < low[0]).astype(np.uint64)
    # Unsigned, the difference of two 128-bit numbers always fits.
    return order, (high - high[0] - borrow).astype(np.float64) * 2.0**64 + (low - low[0]).astype(np.float64)


def _offsets(name: str, values: pa.Array) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Sorting order of distinct values, and each one's distance from the smallest, ascending.

    Integers and times are subtracted before they become floats, so values far from zero keep their differences.
    """
    kind = values.type
    if pa.types.is_decimal(kind):
        return _wide_offsets(values)
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif _is_time(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f":
        if not np.all(np.isfinite(numbers)):
            raise InvalidInput(f'Column "{name}" holds NaN or infinity: replace them by NULL, or leave those rows out.')
    elif _is_time(kind) and not pa.types.is_time(kind) and np.isin(numbers, _ENDLESS[numbers.dtype]).any():
        raise InvalidInput(f'Column "{name}" holds an infinite date: replace it by NULL, or leave those rows out.')
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    if numbers.dtype.kind == "f":
        wide = numbers.astype(np.float64)
        # Halved, so that the distance between two huge values of opposite sign stays finite.
        return order, wide / 2 - wide[0] / 2
    unsigned = numbers.astype(np.int64).view(np.uint64) if numbers.dtype.kind == "i" else numbers.astype(np.uint64)
    return order, (unsigned - unsigned[0]).astype(np.float64)


def _enum_positions(array: pa.DictionaryArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """An ENUM column's ordinals (0 where NULL) and where it is NULL."""
    null = array.is_null().to_numpy(zero_copy_only=False)
    return array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), null


def encode(name: str, array: pa.Array, *, categorical: bool, weight: float = 1.0) -> Attribute:
    """One column as an Attribute: dense codes in the order of the values, NULL last.

    Raises InvalidInput for NaN, infinity and types that quasi-identifiers cannot have.
    """
    kind = array.type
    if pa.types.is_floating(kind):
        # To DuckDB 0.0 and -0.0 are one value; adding zero makes them one here.
        array = pc.add(array, pa.scalar(0.0, kind))
    if pa.types.is_dictionary(kind):
        ordinals, null = _enum_positions(array)
        present = np.unique(ordinals[~null])
        rank = np.zeros(len(array.dictionary) + 1, dtype=np.int32)
        rank[present] = np.arange(len(present), dtype=np.int32)
        codes = np.where(null, np.int32(len(present)), rank[ordinals])
        offsets = (present - present[0]).astype(np.float64) if len(present) else np.zeros(0)
    else:
        indices: Any = pc.dictionary_encode(array)
        values = indices.dictionary
        if categorical:
            order = pc.sort_indices(values).to_numpy()
            offsets = np.arange(len(values), dtype=np.float64)
        elif not is_ordered(kind):
            raise InvalidInput(
                f'Column "{name}" has a type without an order: name it in categorical, or cast it to a number.'
            )
        elif len(values):
            order, offsets = _offsets(name, values)
        else:
            order, offsets = np.zeros(0, dtype=np.intp), np.zeros(0)
        rank = np.empty(len(values) + 1, dtype=np.int32)
        rank[order] = np.arange(len(values), dtype=np.int32)
        rank[-1] = len(values)
        places = indices.indices
        if places.null_count:
            places = places.fill_null(len(values))
        codes = rank[places.to_numpy(zero_copy_only=False)]
    distinct = len(offsets)
    if categorical:
        return Attribute(name, codes, None, distinct, float(max(distinct - 1, 0)), weight)
    span = float(offsets[-1]) if distinct else 0.0
    levels = offsets / span if span else np.zeros(distinct)
    if pa.types.is_floating(kind):
        span *= 2.0
    return Attribute(name, codes, levels, distinct, span, weight)


def sensitive_columns(packed: pa.Scalar | pa.StructArray) -> list[Sensitive]:
    """Sensitive columns as the engine takes them, NULL a value of its own; none from a NULL."""
    from duckanon.engines.kanon.risk import Sensitive

    if isinstance(packed, pa.Scalar):
        if not packed.is_valid:
            return []
        packed = packed.values
    found = []
    for i in range(packed.type.num_fields):
        column = packed.field(i)
        ordered = is_ordered(column.type)
        coded = encode(packed.type.field(i).name, column, categorical=not ordered)
        holds_null = bool((coded.codes == coded.distinct).any())
        found.append(Sensitive(coded.codes, coded.distinct + holds_null, ordered))
    return found
