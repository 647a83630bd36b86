"""Columns as they come from DuckDB by way of Arrow, turned into the engines' codes and levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a column: its distinct values and, for each row, which of them it holds.

    values: no NULL; of an ENUM the ordinals. codes: shape (rows,), of the narrowest type; len(values) stands for NULL.
    """

    values: pa.Array
    codes: npt.NDArray[Any]


def _narrow(codes: npt.NDArray[Any], most: int) -> npt.NDArray[Any]:
    return codes.astype(np.min_scalar_type(most), copy=False)


def chunk(column: pa.Array) -> Chunk:
    """Some rows of a column, as they come from DuckDB."""
    kind = column.type
    if pa.types.is_null(kind):
        # (A column without a type: Arrow does not number its values.)
        column = column.cast(pa.string())
    elif pa.types.is_dictionary(kind):
        # (The order of an ENUM is that of its ordinals.)
        column = column.indices.cast(pa.int64())
    elif pa.types.is_floating(kind):
        # To DuckDB 0.0 and -0.0 are one value; adding zero makes them one here.
        column = pc.add(column, pa.scalar(0.0, kind))
    elif pa.types.is_list(kind):
        # Arrow numbers no lists. Those of one type are equal if they are written alike.
        column = pa.array([None if cell is None else repr(cell) for cell in column.to_pylist()], pa.string())
    encoded: Any = pc.dictionary_encode(column)
    places = encoded.indices
    if places.null_count:
        places = places.fill_null(len(encoded.dictionary))
    return Chunk(encoded.dictionary, _narrow(places.to_numpy(zero_copy_only=False), len(encoded.dictionary)))


def encode(name: str, column: pa.Array, *, categorical: bool, weight: float = 1.0) -> Attribute:
    """One column as an Attribute: dense codes, int32, in the order of the values, NULL last.

    Raises InvalidInput for NaN, infinity and types that quasi-identifiers cannot have.
    """
    whole = chunk(column)
    numbered = join(name, column.type, [whole.values], categorical=categorical, weight=weight)
    codes = numbered.ranks[0][whole.codes]
    return replace(numbered.attribute, codes=codes)


@dataclass(frozen=True, eq=False)
class Joined:
    """The values of several chunks put in one order.

    attribute: the column without its codes. ranks: for each chunk, the code of each of its values, and of NULL at the
    end; int32.
    """

    attribute: Attribute
    ranks: Sequence[npt.NDArray[np.int32]]


def join(name: str, kind: pa.DataType, chunks: Sequence[pa.Array], *, categorical: bool, weight: float) -> Joined:
    """Number the distinct values of all chunks, in the order of the values. kind: the column's type.

    Raises InvalidInput as `encode` does.
    """
    if not categorical and not is_ordered(kind):
        raise InvalidInput(
            f'Column "{name}" has a type without an order: name it in categorical, or cast it to a number.'
        )
    numbered: Any = pc.dictionary_encode(pa.concat_arrays(chunks))
    values = numbered.dictionary
    if categorical:
        order, offsets = pc.sort_indices(values).to_numpy(), np.arange(len(values), dtype=np.float64)
    elif len(values):
        order, offsets = _offsets(name, values)
    else:
        order, offsets = np.zeros(0, dtype=np.intp), np.zeros(0)
    distinct = len(values)
    rank = np.empty(distinct, dtype=np.int32)
    rank[order] = np.arange(distinct, dtype=np.int32)
    edges = np.cumsum([len(chunk_values) for chunk_values in chunks])[:-1]
    parts = np.split(rank[numbered.indices.to_numpy(zero_copy_only=False)], edges)
    ranks = [np.append(part, np.int32(distinct)) for part in parts]
    none = np.zeros(0, np.int32)
    if categorical:
        return Joined(Attribute(name, none, None, distinct, float(max(distinct - 1, 0)), weight), ranks)
    span = float(offsets[-1]) if distinct else 0.0
    levels = offsets / span if span else np.zeros(distinct)
    if pa.types.is_floating(kind):
        span *= 2.0
    return Joined(Attribute(name, none, levels, distinct, span, weight), ranks)


def sensitive_columns(packed: pa.Scalar | pa.StructArray, *, null_is_value: bool) -> list[Sensitive]:
    """Sensitive columns as the engine takes them; none from a NULL."""
    if isinstance(packed, pa.Scalar):
        if not packed.is_valid:
            return []
        packed = packed.values
    columns = []
    for i in range(packed.type.num_fields):
        name, column = packed.type.field(i).name, packed.field(i)
        coded = encode(name, column, categorical=not is_ordered(column.type))
        columns.append(sensitive(coded, column.type, null_is_value=null_is_value))
    return columns


def unit_codes(column: pa.Array) -> npt.NDArray[np.int32]:
    """The unit of each row as a number for each distinct value, -1 for NULL. Shape (n,)."""
    return null_apart(encode("unit", column, categorical=True))


def null_apart(coded: Attribute) -> npt.NDArray[np.int32]:
    """The codes of a column with -1 for NULL."""
    return np.where(coded.codes == coded.distinct, np.int32(-1), coded.codes.astype(np.int32))


def sensitive(coded: Attribute, kind: pa.DataType, *, null_is_value: bool) -> Sensitive:
    """A sensitive column as the engine takes it, from its codes and its type.

    null_is_value: whether NULL is a value of its own, after all others, or none.
    """
    from duckanon.engines.kanon.risk import Sensitive

    if not null_is_value:
        return Sensitive(null_apart(coded), coded.distinct, is_ordered(kind))
    holds_null = bool((coded.codes == coded.distinct).any())
    return Sensitive(coded.codes.astype(np.int32, copy=False), coded.distinct + holds_null, is_ordered(kind))


def joined(parts: Sequence[pa.Array]) -> pa.Array:
    """The arrays one after another; those of an ENUM may each have a dictionary of their own."""
    whole = pa.chunked_array(parts, parts[0].type)
    if pa.types.is_dictionary(whole.type):
        whole = whole.unify_dictionaries()
    return whole.combine_chunks()
