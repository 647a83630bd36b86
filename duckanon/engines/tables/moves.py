"""Moves: other records with the same released tables, found around the true ones without any program.

A move takes records from some corners of a box of cells and adds them at the others, in turn. It keeps every margin
that does not tell all the flipped variables (the basic moves of Diaconis and Sturmfels 1998, "Algebraic algorithms for
sampling from conditional distributions"). As often as it leaves no count negative, the result is a witness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import prod

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.tables.cells import Ints, keys
from duckanon.engines.tables.junction import Variables

# Cells of a cross-classification that is held as a whole: 0.4 GB.
_DENSE = 50_000_000
# Variables that one move may flip.
_WIDEST = 4


def flips(target: Variables, kept: Iterable[Variables]) -> tuple[tuple[int, ...], ...]:
    """The smallest sets of target variables that no kept margin holds together."""
    edges = list(kept)
    found: list[Variables] = []
    for size in range(1, _WIDEST + 1):
        for one in map(frozenset, combinations(sorted(target), size)):
            if not any(one <= edge for edge in edges) and not any(other <= one for other in found):
                found.append(one)
    return tuple(tuple(sorted(one)) for one in found)


@compiled
def _swings(
    table: Ints, start: Ints, levels: Ints, flipped: Ints, sizes: Ints, strides: Ints, enough: int
) -> tuple[Ints, Ints]:
    """How far single moves take the count of each start cell down, and up.

    table: counts of all cells. start: shape (cells,), positions in `table`. levels: shape (cells, variables).
    flipped, sizes, strides: columns in `levels` of the variables to flip, their numbers of levels, their strides in
    `table`. A cell is left as soon as it has gone down and up by `enough` together.
    """
    many = len(flipped)
    down, up = np.zeros(len(start), dtype=np.int64), np.zeros(len(start), dtype=np.int64)
    others = 1
    for j in range(many):
        others *= sizes[j] - 1
    step = np.zeros(many, dtype=np.int64)
    for i in range(len(start)):
        for other in range(others):
            rest = other
            for j in range(many):
                # Any level but the cell's own.
                level = rest % (sizes[j] - 1)
                rest //= sizes[j] - 1
                own = levels[i, flipped[j]]
                if level >= own:
                    level += 1
                step[j] = (level - own) * strides[j]
            taken = added = table[start[i]]
            added = np.int64(2**62)
            for corner in range(1, 1 << many):
                at, odd = start[i], False
                for j in range(many):
                    if corner >> j & 1:
                        at += step[j]
                        odd = not odd
                if odd:
                    added = min(added, table[at])
                else:
                    taken = min(taken, table[at])
                if added == 0 and taken == 0:
                    break
            down[i], up[i] = max(down[i], taken), max(up[i], added)
            if down[i] + up[i] >= enough:
                break
    return down, up


def swings(
    codes: Ints,
    counts: Ints,
    levels: Sequence[int],
    start: Ints,
    by: Iterable[Sequence[int]],
    enough: int,
) -> tuple[Ints, Ints]:
    """How far moves take the counts of some cells down and up, one move at a time.

    codes: shape (cells, variables), the cells that hold records; counts: shape (cells,). levels: of each variable.
    start: positions of the cells asked for. by: sets of columns of `codes` to flip. enough: as in `_swings`.
    Both are zero where the cross-classification is too large to be held.
    """
    down, up = np.zeros(len(start), dtype=np.int64), np.zeros(len(start), dtype=np.int64)
    if prod(levels) > _DENSE:
        return down, up
    place = keys(codes, levels)
    table = np.zeros(prod(levels), dtype=np.int64)
    table[place] = counts
    strides = np.array([prod(levels[v + 1 :]) for v in range(len(levels))], dtype=np.int64)
    for columns in by:
        flipped = np.array(columns, dtype=np.int64)
        sizes = np.array([levels[v] for v in columns], dtype=np.int64)
        left = np.flatnonzero(down + up < enough)
        if not len(left) or (sizes < 2).any():
            continue
        found = _swings(table, place[start[left]], codes[start[left]], flipped, sizes, strides[flipped], enough)
        down[left], up[left] = np.maximum(down[left], found[0]), np.maximum(up[left], found[1])
    return down, up
