"""Orders in which near records are neighbours: lexicographic by any sequence of attributes, and the Hilbert curve.

Every order is a permutation of the records, shape (n,), ties left as they stand: over records in canonical order
(`canonical`) it depends on nothing but their content.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.records import Codes, Order, Records
from duckanon.engines.parallel import spread

Keys = npt.NDArray[np.uint64]
Cells = npt.NDArray[np.uint16]

_WORD = 64
# Records whose place on the curve a thread computes at a time.
_SHARE = 65_536


def _radix_argsort(keys: Keys, bits: int) -> Codes:
    """Stable argsort of keys below 2^bits by their lowest 16 bits, then the next: NumPy sorts those by radix."""
    index: Codes = np.arange(len(keys), dtype=np.int32)
    for shift in range(0, bits, 16):
        step = np.argsort((keys >> np.uint64(shift)).astype(np.uint16), kind="stable")
        keys, index = keys[step], index[step]
    return index


def _bits(distinct: int) -> int:
    """Bits that number `distinct` values."""
    return max(distinct - 1, 0).bit_length()


def pack(records: Records, sequence: Sequence[int]) -> list[tuple[Keys, int]]:
    """The codes of the attributes in `sequence` as (key, bits) words, most significant word first.

    Comparing the words compares the records lexicographically, NULL after every value.
    """
    words: list[tuple[Keys, int]] = []
    key, used = np.zeros(len(records), dtype=np.uint64), 0
    for j in sequence:
        a = records.attributes[j]
        bits = _bits(a.distinct + 1)
        if used + bits > _WORD:
            words.append((key, used))
            key, used = np.zeros(len(records), dtype=np.uint64), 0
        key <<= np.uint64(bits)
        key |= a.codes.astype(np.uint64)
        used += bits
    return [*words, (key, used)]


def argsort_words(words: Sequence[tuple[Keys, int]]) -> Order:
    """Stable argsort by several words, the most significant first."""
    order: Order | None = None
    for key, bits in reversed(words):
        step = _radix_argsort(key if order is None else key[order], bits)
        order = step if order is None else order[step]
    if order is None:
        raise ValueError("no words to sort by")
    return order


def lexicographic(records: Records, sequence: Sequence[int]) -> Order:
    """Records sorted by the attributes in `sequence`, the first one first."""
    return argsort_words(pack(records, sequence))


def canonical(records: Records) -> Order:
    """The variance order of section 2.3: sorted by every attribute, least variance first."""
    return lexicographic(records, records.by_variance)


def by_label(labels: Codes) -> Order:
    """Records class by class: a stable argsort of non-negative labels."""
    return argsort_words([(labels.astype(np.uint64), _bits(int(labels.max()) + 1))])


def _bit(x: Cells, b: int) -> Cells:
    return (x >> np.uint16(b)) & np.uint16(1)


def _spaced(bits: int, apart: int) -> Keys:
    """Each number below 2^bits with its bits moved so far apart."""
    spaced = np.zeros(1, np.uint64)
    for b in range(bits):
        spaced = np.concatenate([spaced, spaced | np.uint64(1 << (b * apart))])
    return spaced


def _hilbert_keys(x: Cells, spaced: Keys) -> Keys:
    """Index of each cell on the Hilbert curve through a grid with 2^bits cells a side (Skilling 2004).

    x: shape (m, n), the coordinates of each cell; they are overwritten. spaced: `_spaced(bits, m)`.
    """
    m, n = x.shape
    bits = len(spaced).bit_length() - 1
    for b in range(bits - 1, 0, -1):
        low = np.uint16((1 << b) - 1)
        x[0] ^= _bit(x[0], b) * low
        for j in range(1, m):
            turned = _bit(x[j], b) * low
            exchanged = (x[0] ^ x[j]) & (turned ^ low)
            x[0] ^= turned | exchanged
            x[j] ^= exchanged
    for j in range(1, m):
        x[j] ^= x[j - 1]
    turned = np.zeros(n, np.uint16)
    for b in range(bits - 1, 0, -1):
        turned ^= _bit(x[m - 1], b) * np.uint16((1 << b) - 1)
    x ^= turned
    keys = np.zeros(n, np.uint64)
    for j in range(m):
        keys |= spaced.take(x[j]) << np.uint64(m - 1 - j)
    return keys


def hilbert_keys(
    records: Records, threads: int = 1, shuffle: np.random.Generator | None = None, table: int | None = None
) -> tuple[Keys, int]:
    """Each record's place on a Hilbert curve through the unit cube, sides scaled by weight: (keys, bits of a key).

    The grid has 2^b cells a side, with b m about log2(n) + 12: finer cells only cost time. Beyond 64 attributes those
    of largest weight shape the curve. shuffle: draws another curve, through a moved cube, its attributes in another
    order and their categories too. table: n of the table of which these are some records.
    """
    heaviest = sorted(range(len(records.attributes)), key=lambda j: (-records.attributes[j].weight, j))[:_WORD]
    used = [records.attributes[j] for j in sorted(heaviest)]
    most = max(a.weight for a in used) or 1.0  # without any weight all records stand in one place
    sides = [np.append(a.positions, 1.0) * (a.weight / most) for a in used]
    if shuffle is not None:
        turn = shuffle.permutation(len(used))
        used, sides = [used[j] for j in turn], [sides[j] for j in turn]
        for j, a in enumerate(used):
            if a.categorical:
                sides[j][: a.distinct] = shuffle.permutation(sides[j][: a.distinct])
            sides[j] = (sides[j] + shuffle.random()) / 2
    n, cells_of = len(records), len(records) if table is None else table
    bits = min(16, _WORD // len(used), (cells_of.bit_length() + 11) // len(used) + 1)
    grid = [np.minimum(side * (1 << bits), (1 << bits) - 1).astype(np.uint16) for side in sides]
    spaced = _spaced(bits, len(used))
    keys = np.empty(n, dtype=np.uint64)

    def share(start: int) -> None:
        part = slice(start, start + _SHARE)
        cells = np.stack([side.take(a.codes[part]) for side, a in zip(grid, used, strict=True)])
        keys[part] = _hilbert_keys(cells, spaced)

    spread(share, range(0, n, _SHARE), threads)
    return keys, bits * len(used)


def hilbert(records: Records, threads: int = 1, shuffle: np.random.Generator | None = None) -> Order:
    """Records in the order of `hilbert_keys`; ties stay in place."""
    return argsort_words([hilbert_keys(records, threads, shuffle)])
