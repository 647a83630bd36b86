"""Quasi-identifiers of which only equal and unequal counts, as the engines take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold
from duckanon.errors import InvalidInput
from duckanon.functions.collection import COLLECTIONS, Collection
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import bytes_of

if TYPE_CHECKING:
    from duckanon.engines.kanon.key_subsets import Key


def check_keys(found: Table, qi: Sequence[str]) -> None:
    """Check that the columns are there and that their values can be compared; lists of plain values, too."""
    found.has(qi)
    found.plain(qi, "quasi-identifier", lists=True)


def opened(
    what: str, records: pa.Scalar, memory: pa.Scalar, keys: int, size: int, needed: Callable[[int, int, int], int]
) -> pa.Array:
    """A collection for the records, once it is certain that their subsets of up to `size` keys can be searched.

    memory: DuckDB's memory_limit. needed: the bytes that the engine holds beside the keys, for so many records, keys
    and columns in the largest subset. Raises InvalidInput.
    """
    from duckanon.engines.kanon.key_subsets import check_size

    n, size = records.as_py(), min(size, keys)
    if n == 0:
        raise InvalidInput("The table has no rows: there is nothing to report.")
    check_size(n, keys, size)
    # While it is handed over, a row has its number, its content's hash and its codes.
    whole, limit = needed(n, keys, size) + n * (12 + 8 * keys), bytes_of(memory.as_py())
    if whole > limit:
        raise InvalidInput(
            f"{what} would need about {whole / 2**20:,.0f} MiB beside DuckDB for {n:,} rows, more than memory_limit "
            f"({limit / 2**20:,.0f} MiB): raise memory_limit, choose a smaller size, or name fewer columns."
        )
    return pa.array([COLLECTIONS.open()], pa.int64())


def keys_of(rows: Collection, qi: Sequence[str], threads: int) -> list[Key]:
    """The columns of all rows; NULL is a value of its own."""
    from duckanon.engines.kanon.key_subsets import Key

    found = rows.attributes(qi, {fold(name) for name in qi}, [1.0] * len(qi), threads)
    return [Key(one.codes.astype(np.int32, copy=False), one.distinct + 1) for one in found]
