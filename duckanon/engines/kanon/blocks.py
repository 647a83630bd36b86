"""A large table cut into blocks of near records, so that a search holds one block at a time and not the table.

Blocks are even stretches of a Hilbert curve through all records. They are smaller than `BLOCK` however large the table
is, so time and memory of a method grow with the number of blocks, and a record is looked at with the same effort in a
table of any size.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.orders import argsort_words, hilbert_keys, pack
from duckanon.engines.kanon.records import Order, Records
from duckanon.engines.kanon.ties import Hashes

# The most records of a block, unless k is so large that a block would have too few classes.
BLOCK = 131_072
_CLASSES = 64
_BUCKETS = 16  # bits of a key that put a record into a bucket
_SHARE = 1 << 22  # records that are put into buckets at a time


def largest(k: int) -> int:
    """The most records of a block."""
    return max(BLOCK, _CLASSES * k)


def block_count(n: int, k: int) -> int:
    """How many blocks n records are cut into."""
    return -(-n // largest(k))


def blocks(records: Records, k: int, content: Hashes | None = None, threads: int = 1) -> list[Order]:
    """The numbers of the records of each block, in no order.

    They depend on the records' values and content alone, not on their order. content: a hash of each row, shape (n,).
    """
    n, number = len(records), block_count(len(records), k)
    if number == 1:
        return [np.arange(n, dtype=np.int32)]
    keys, bits = hilbert_keys(records, threads)
    order, starts = _by_bucket(keys, max(bits - _BUCKETS, 0))
    cuts = n * np.arange(1, number) // number
    # Only buckets with a cut inside have to be in order.
    for torn in np.unique(np.searchsorted(starts, cuts, side="right") - 1):
        inside = slice(starts[torn], starts[torn + 1])
        order[inside] = _sorted(records, order[inside], keys, bits, content)
    return np.split(order, cuts)


def _by_bucket(keys: npt.NDArray[np.uint64], below: int) -> tuple[Order, npt.NDArray[np.int64]]:
    """The records in order of their buckets, and where each bucket starts. below: the bits of a key below the bucket's.

    A share of the keys is sorted at a time: NumPy takes eight bytes a record for an order.
    """
    shares = [slice(start, start + _SHARE) for start in range(0, len(keys), _SHARE)]
    buckets = [(keys[share] >> np.uint64(below)).astype(np.uint16) for share in shares]
    counts = sum((np.bincount(bucket, minlength=1 << _BUCKETS) for bucket in buckets), np.zeros(1, np.int64))
    starts = np.concatenate([[0], np.cumsum(counts)])
    order, free = np.empty(len(keys), np.int32), starts[:-1].copy()
    for share, bucket in zip(shares, buckets, strict=True):
        by = np.argsort(bucket, kind="stable")
        sizes = np.bincount(bucket, minlength=1 << _BUCKETS)
        # Where each record of the share goes: behind those of its bucket that are there.
        to = np.repeat(free - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(bucket))
        order[to] = by + share.start
        free += sizes
    return order, starts


def _sorted(records: Records, some: Order, keys: npt.NDArray[np.uint64], bits: int, content: Hashes | None) -> Order:
    """Some records along the curve; those at one place of it by their values, and equal ones by their content."""
    words = [(keys[some], bits), *pack(records.take(some), records.by_variance)]
    if content is not None:
        words.append((content[some], 64))
    return some[argsort_words(words)]
