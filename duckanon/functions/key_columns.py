"""Quasi-identifiers of which only equal and unequal counts, as the engines take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions.collection import COLLECTIONS, Collection
from duckanon.functions.schema import Table

if TYPE_CHECKING:
    from duckanon.engines.kanon.key_subsets import Key


def check_keys(found: Table, qi: Sequence[str]) -> None:
    """Check that the columns are there and that their values can be compared; lists of plain values, too."""
    found.has(qi)
    found.plain(qi, "quasi-identifier", lists=True)


def opened(what: str, n: int, keys: int, size: int, needed: int, limit: int) -> pa.Array:
    """A collection for n rows, once it is certain that their subsets of up to `size` keys can be searched.

    needed: the bytes that the engine holds beside the keys; limit: DuckDB's memory_limit. Raises InvalidInput.
    """
    from duckanon.engines.kanon.key_subsets import check_size

    check_size(n, keys, min(size, keys))
    # While it is handed over, a row has its number, its content's hash and its codes.
    whole = needed + n * (12 + 8 * keys)
    if whole > limit:
        raise InvalidInput(
            f"{what} would need about {whole / 2**20:,.0f} MiB beside DuckDB for {n:,} rows, more than memory_limit "
            f"({limit / 2**20:,.0f} MiB): raise memory_limit, choose a smaller size, or name fewer columns."
        )
    return pa.array([COLLECTIONS.open()], pa.int64())


def keys_of(rows: Collection, qi: Sequence[str], threads: int) -> list[Key]:
    """The columns of all rows; NULL is a value of its own."""
    from duckanon.engines.kanon.key_subsets import Key

    found = rows.attributes(qi, {name.lower() for name in qi}, [1.0] * len(qi), threads)
    return [Key(one.codes.astype(np.int32, copy=False), one.distinct + 1) for one in found]
