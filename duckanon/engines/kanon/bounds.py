"""A lower bound on the loss of every k-anonymous partition: the nearest-neighbour bound.

A class that holds record i holds k - 1 others, and its box holds the smallest box around i and the farthest of them.
So i loses at least the (k - 1)-th smallest loss over pairs {i, j}. O(n^2 m), all k up to the largest in one pass.
"""

from collections.abc import Sequence

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.records import Codes, Floats, Records, Space
from duckanon.engines.parallel import spread

_BLOCK = 512
# Records a thread takes at a time.
_SHARE = 1024
# Above this many records^2 x attributes the bound would take longer than the methods it judges.
_WORK = 20_000_000_000


def affordable(records: Records) -> bool:
    """Whether the bound takes seconds at most."""
    return len(records) ** 2 * len(records.attributes) <= _WORK


@compiled
def _nearest(space: Space, columns: Floats, codes: Codes, start: int, stop: int, count: int) -> Floats:
    """The `count` smallest pair losses of records start..stop-1, ascending. Shape (stop - start, count)."""
    p, n = columns.shape
    q = codes.shape[0]
    _, caps, _, nulls, units, whole = space
    found = np.full((stop - start, count), np.inf)
    losses = np.empty(_BLOCK)
    for i in range(start, stop):
        least = found[i - start]
        for first in range(0, n, _BLOCK):
            width = min(_BLOCK, n - first)
            for t in range(width):
                losses[t] = 0.0
            for j in range(p):
                here = columns[j, i]
                cap = caps[j]
                for t in range(width):
                    apart = abs(columns[j, first + t] - here)
                    losses[t] += apart if apart < cap else cap
            for j in range(q):
                here_code = codes[j, i]
                for t in range(width):
                    there = codes[j, first + t]
                    if there != here_code:
                        losses[t] += whole[j] if there == nulls[j] or here_code == nulls[j] else units[j]
            for t in range(width):
                if losses[t] < least[count - 1] and first + t != i:
                    place = count - 1
                    while place > 0 and least[place - 1] > losses[t]:
                        least[place] = least[place - 1]
                        place -= 1
                    least[place] = losses[t]
    return found


def nearest_neighbour_bounds(records: Records, ks: Sequence[int], threads: int = 1) -> list[float]:
    """For each k in `ks` (2 <= k <= n) a number that no k-anonymous partition's information loss is below."""
    space = records.space
    columns = np.ascontiguousarray(space.points.T)
    codes = np.ascontiguousarray(space.symbols.T)
    n, count = len(records), max(ks) - 1

    def share(start: int) -> Floats:
        stop = min(start + _SHARE, n)
        nearest = _nearest(space, columns, codes, start, stop, count)
        summed: Floats = nearest.sum(axis=0)
        return summed

    total = np.sum(spread(share, range(0, n, _SHARE), threads), axis=0)
    return [float(total[k - 2]) / n for k in ks]
