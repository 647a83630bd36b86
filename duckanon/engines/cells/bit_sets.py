"""Compiled bit sets of sums up to a number from which on every sum can be made, whichever row is left out.

Two residue tables of a few rows each, with no row in common, give that number: the row that is left out is in at most
one of them. Below it only the minimal generators need to be left out one by one: a sum that smaller ones make adds
no sum, so leaving it out changes nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.array_kernels import assign
from duckanon.engines.cells.knapsack import Feasible, Ints, Knapsack
from duckanon.engines.cells.residue_tables import NEVER, append_run, shape, take_in
from duckanon.engines.compiled import allocating, inner, inner_allocating

Words = npt.NDArray[np.uint64]

# Rows in each of the two tables.
_TABLE_ROWS = 12
# A bit set up to this width is cheap enough without looking for a smaller one.
_NARROW = 2**14
# Bit sets are cheaper than residue tables if they have up to so many bits for each entry of a table.
_WORTH = 64


@inner_allocating
def _complete_from(modulus: int, items: Ints) -> int:
    """The number from which on all sums of the modulus and the items can be made; NEVER if there is none."""
    table = np.full(modulus, NEVER, dtype=np.int64)
    table[0] = 0
    for item in items:
        if table[item % modulus] > item:
            take_in(table, table, item, -1, NEVER // 4)
    divisor, most = shape(table)
    return most if divisor == 1 and most >= 0 else NEVER


@allocating
def _least(sums: Ints, copies: Ints, rows: int) -> int:
    """A number from which on all sums can be made whichever row is left out; NEVER if so few rows show none."""
    # A sum of several rows remains when one of them is left out, so it may be in both tables.
    odd = np.arange(1, len(sums)) % 2 == 1
    several = copies[1:] > 1
    least = max(
        _complete_from(sums[0], sums[1:][odd | several][:rows]),
        _complete_from(sums[0], sums[1:][~odd | several][:rows]),
    )
    if copies[0] == 1 and least < NEVER:
        least = max(least, _complete_from(sums[1], sums[2:][:rows]))
    return least


def window(problem: Knapsack) -> int | None:
    """The largest sum that bit sets have to hold, at most the target. None where residue tables are cheaper."""
    if problem.bounded:
        return None
    target = problem.target
    if target <= _NARROW:
        return target
    reach = int(np.searchsorted(problem.sums, target, side="right"))
    sums, copies = problem.sums[:reach], problem.copies[:reach]
    if reach < 2 or sums[0] * _WORTH >= target:
        return target if reach and sums[0] * _WORTH >= target and target <= _NARROW * _WORTH else None
    smallest = int(sums[0])
    if smallest > _NARROW * _WORTH:
        return None
    least = int(_least(sums, copies, _TABLE_ROWS))
    width = min(least, target)
    return width if width <= smallest * _WORTH else None


@inner
def _take(words: Words, item: int) -> None:
    """Let sums use `item` any number of times."""
    step = item
    while step < 64:
        low = np.uint64(step)
        high = np.uint64(64 - step)
        for i in range(len(words) - 1, 0, -1):
            words[i] |= (words[i] << low) | (words[i - 1] >> high)
        words[0] |= words[0] << low
        step *= 2
    skip, low = step // 64, np.uint64(step % 64)
    high = np.uint64(64) - low
    # In ascending order, so that words that have been changed carry the item on to later ones.
    if low == 0:
        for i in range(skip, len(words)):
            words[i] |= words[i - skip]
    else:
        if skip < len(words):
            words[skip] |= words[0] << low
        for i in range(skip + 1, len(words)):
            words[i] |= (words[i - skip] << low) | (words[i - skip - 1] >> high)


@inner
def _has(words: Words, c: int) -> bool:
    """Whether the sum c can be made."""
    return bool((words[c // 64] >> np.uint64(c % 64)) & np.uint64(1))


@inner_allocating
def _read(words: Words, width: int, item: int, target: int, runs: Ints, used: int) -> tuple[Ints, int]:
    """Append every nu for which target - nu * item can be made; returns the runs, and how many there are."""
    nu = 0
    if target > width:
        nu = (target - width - 1) // item + 1
    size, rest = nu, target - nu * item
    while rest >= 0:
        if _has(words, rest):
            size += 1
        elif size:
            runs = append_run(runs, used, nu - size, 1, size)
            used, size = used + 1, 0
        nu += 1
        rest -= item
    if size:
        runs = append_run(runs, used, nu - size, 1, size)
        used += 1
    return runs, used


@allocating
def _windows(sums: Ints, copies: Ints, target: int, width: int) -> tuple[Ints, Ints]:
    """The begin and end of each kind's runs, and the runs."""
    kinds = len(sums)
    places = np.zeros((kinds, 2), dtype=np.int64)
    runs = np.empty((64, 3), dtype=np.int64)
    used = 0
    size = width // 64 + 1
    full = np.zeros(size, dtype=np.uint64)
    base = np.zeros(size, dtype=np.uint64)
    full[0] = base[0] = np.uint64(1)
    left_out = np.empty(kinds, dtype=np.int64)
    single = 0
    for k in range(kinds):
        # Ascending, a sum that cannot be made yet cannot be made by others at all.
        if sums[k] > width:
            break
        reached = _has(full, sums[k])
        if not reached:
            _take(full, sums[k])
        if not reached and copies[k] == 1:
            left_out[single] = k
            single += 1
        elif not _has(base, sums[k]):
            # It is never left out by itself, but is still needed where the items that make it are left out.
            _take(base, sums[k])
    skip = 0
    for k in range(kinds):
        if skip < single and left_out[skip] == k:
            skip += 1
            continue
        places[k, 0] = used
        if sums[k] <= target:
            runs, used = _read(full, width, sums[k], target, runs, used)
        elif target > width or _has(full, target):
            runs = append_run(runs, used, 0, 1, 1)
            used += 1
        places[k, 1] = used
    if single == 0:
        return places, runs[:used]
    depth = 1
    while 1 << depth < 2 * single:
        depth += 1
    levels = np.empty((depth + 1, size), dtype=np.uint64)
    assign(levels[0], base)
    # A node: its generators begin..end-1, its sibling's, which it takes in, and its parent's level.
    nodes = np.empty((depth + 3, 5), dtype=np.int64)
    assign(nodes[0], (0, single, 0, 0, 0))
    pending = 1
    while pending:
        pending -= 1
        begin, end, sibling_begin, sibling_end, level = nodes[pending]
        words = levels[level]
        if sibling_end > sibling_begin:
            words = levels[level + 1]
            assign(words, levels[level])
            for i in range(sibling_begin, sibling_end):
                _take(words, sums[left_out[i]])
            level += 1
        if end - begin > 1:
            middle = (begin + end) // 2
            assign(nodes[pending], (begin, middle, middle, end, level))
            assign(nodes[pending + 1], (middle, end, begin, middle, level))
            pending += 2
            continue
        k = left_out[begin]
        places[k, 0] = used
        runs, used = _read(words, width, sums[k], target, runs, used)
        places[k, 1] = used
    return places, runs[:used]


def windows(problem: Knapsack, width: int) -> Feasible:
    """Every feasible nu of each kind where no row is bounded; `width` as `window` gives it."""
    places, runs = _windows(problem.sums, problem.copies, problem.target, width)
    return Feasible(*places.T, *runs.T)
