"""Minimal sample uniques and the scores that SUDA makes of them.

A record's minimal sample unique is a set of columns by which the record is alone in the table, and no proper subset of
which tells it from all others. Who knows these few columns finds the record (a special unique).

Sources: Elliot, Manning, Mayes, Gurd and Bane 2005 (the score); Manning, Haglin and Keane 2008 (SUDA2); Skinner and
Elliot 2002 (DIS, the file's risk); Elliot and Manning 2003 (DIS-SUDA).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, prod

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon import key_subsets
from duckanon.engines.kanon.key_subsets import Key, Progress, check_size, subsets, subsets_up_to
from duckanon.engines.kanon.records import Codes

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class MinimalUniques:
    """How many minimal sample uniques each of n records has of each size from 1, shape (n, size).

    keys: the number of columns that were searched.
    """

    counts: Counts
    keys: int

    @property
    def total(self) -> npt.NDArray[np.int64]:
        """How many each record has, shape (n,)."""
        return np.asarray(self.counts.sum(axis=1, dtype=np.int64))

    @property
    def smallest(self) -> npt.NDArray[np.int64]:
        """The size of each record's smallest one, shape (n,); 0 where it has none."""
        return np.where(self.counts.any(axis=1), 1 + (self.counts > 0).argmax(axis=1), 0)

    @property
    def scores(self) -> Floats:
        """SUDA's score, shape (n,): the sum of `weight` over a record's minimal sample uniques."""
        most = self.counts.shape[1]
        weights = [weight(size, most, self.keys) for size in range(1, most + 1)]
        return np.asarray(self.counts @ np.array(weights, np.float64), np.float64)


def weight(size: int, most: int, keys: int) -> int:
    """What a minimal sample unique of this size adds to the score: the product of (keys - i) for i = size, ..., most.

    most: the size up to which they were searched. The factor of i = keys is left out, because it is 0.
    """
    return prod(keys - i for i in range(size, min(most, keys - 1) + 1))


def memory(n: int, keys: int, size: int) -> int:
    """The bytes that `minimal_uniques` holds for n records, beside the keys' own."""
    return key_subsets.memory(n, keys, size) + n * (4 * size + 24) + subsets_up_to(keys, size - 1) * (n // 8 + 1)


def minimal_uniques(
    keys: Sequence[Key], size: int, progress: Progress = lambda _: None, units: Codes | None = None
) -> MinimalUniques:
    """The minimal sample uniques of 1 to `size` columns of each record. Raises InvalidInput as `check_size` does.

    units: as in `key_subsets.subsets`. A record is alone then where all records with its values are of its unit.

    A record that is alone by a set of columns is alone by every larger set. So the set is minimal for it unless the
    record is alone by one of the sets that lack one column.
    """
    n, size = len(keys[0].codes), min(size, len(keys))
    check_size(n, len(keys), size)
    counts = np.zeros((n, size), np.int32)
    # By which subsets below the largest size each record is alone, eight records a byte.
    lone: dict[tuple[int, ...], Bits] = {(): np.zeros(n // 8 + 1, np.uint8)}
    for subset in subsets(keys, size, progress, units):
        columns, alone = subset.columns, subset.alone
        if len(columns) < size:
            lone[columns] = lone[columns[:-1]] | _bits(alone, n)
        # Without units no record is alone by the set without its last column.
        for left_out in range(len(columns) - (units is None)):
            alone = alone[~_among(lone[columns[:left_out] + columns[left_out + 1 :]], alone)]
        counts[alone, len(columns) - 1] += 1
    return MinimalUniques(counts, len(keys))


def _bits(records: npt.NDArray[np.int32], n: int) -> Bits:
    """A bit for each of n records, set for those given."""
    flags = np.zeros(8 * (n // 8 + 1), np.bool_)
    flags[records] = True
    return np.packbits(flags, bitorder="little")


def _among(bits: Bits, records: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Which of the records have their bit set."""
    return np.asarray((bits[records >> 3] >> (records & 7).astype(np.uint8)) & 1, np.bool_)


def intrusion(singletons: int, doubles: int, fraction: float) -> float:
    """The chance that a unique match with the table is correct (DIS, Skinner and Elliot 2002).

    singletons: records that are alone; doubles: records in classes of two; fraction: the share of the population that
    is in the table. 0 if no record is alone.
    """
    right = singletons * fraction
    return right / (right + doubles * (1.0 - fraction)) if right else 0.0


def intrusion_by_record(scores: Floats, singletons: int, doubles: int, fraction: float, keys: int) -> Floats:
    """DIS distributed over the records by their scores (DIS-SUDA), shape (n,); 0 where the score is 0.

    With S a score, U the singletons, q = 1 + (8 - keys) / 20 and A the sum of S^-q over records with a score, it is
    1 / (1 + (U / DIS - U) / (S^q A)): as R's sdcMicro computes it, after Elliot and Manning 2003.
    """
    file_risk = intrusion(singletons, doubles, fraction)
    spread = np.zeros(len(scores))
    scored = scores > 0
    if file_risk == 0.0 or not scored.any():
        return spread
    power = scores[scored] ** (1.0 + (8.0 - keys) / 20.0)
    spread[scored] = 1.0 / (1.0 + (singletons / file_risk - singletons) / (power * fsum(1.0 / power)))
    return spread
