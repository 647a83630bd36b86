"""Classes of records, split: by one more column, as from a set of columns to a larger one, or into smaller classes."""

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes

Ints = npt.NDArray[np.int64]


def split_large(labels: Codes, k: int) -> Codes:
    """Split classes of 2k or more into classes of k .. 2k - 1; no record's range grows by that. labels: from 0."""
    sizes = np.bincount(labels)
    parts = np.maximum(sizes // k, 1)
    order = by_label(labels)
    rank = np.empty(len(labels), np.intp)  # of each record in its class
    rank[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    split: Codes = ((np.cumsum(parts) - parts)[labels] + np.minimum(rank // k, parts[labels] - 1)).astype(np.int32)
    return split


@compiled
def split(
    members: Codes, ends: Codes, classes: int, codes: Codes, count: Codes, kept: Codes, stops: Codes, alone: Codes,
    tallies: Ints,
) -> None:  # fmt: skip
    """Split classes of records by the codes of a column, and tell apart the records that are then alone.

    members: the records of all classes, one class after the other; ends: where each of the `classes` ends in it.
    codes: of all records. count: zeros, one for each code; they are zeros again at the end. It fills in `kept` and
    `stops`, the classes of two or more as `members` and `ends` hold them; `alone`, the records that are alone; and
    `tallies`: the number of such classes, of such records, and the size of the smallest such class, 0 if there is none.
    """
    start, filled, parts, single, least = 0, 0, 0, 0, 0
    for number in range(classes):
        stop = ends[number]
        for i in range(start, stop):
            count[codes[members[i]]] += 1
        for i in range(start, stop):
            record = members[i]
            code = codes[record]
            size = count[code]
            if size == 1:
                alone[single] = record
                single += 1
            elif size > 1:
                # The first record of a class: from now on the count is the class's next place, from -2 downwards.
                kept[filled] = record
                count[code] = -filled - 2 - 1
                filled += size
                stops[parts] = filled
                parts += 1
                if least == 0 or size < least:
                    least = size
            else:
                place = -size - 2
                kept[place] = record
                count[code] = size - 1
        for i in range(start, stop):
            count[codes[members[i]]] = 0
        start = stop
    tallies[0] = parts
    tallies[1] = single
    tallies[2] = least
