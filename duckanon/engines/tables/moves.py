"""Moves: other records with the same released tables, found from the true ones without a linear or integer program.

A move takes records from some corners of a box of cells and adds them at the others, in turn. It keeps every margin
that does not have all the flipped variables (the basic moves of Diaconis and Sturmfels 1998, "Algebraic algorithms for
sampling from conditional distributions"). As often as it leaves no count negative, the result is a witness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import allocating, inner
from duckanon.engines.tables.cells import Ints, keys
from duckanon.engines.tables.junction import Variables

# Cells of a cross-classification that is held as a whole: 0.4 GB.
_DENSE = 50_000_000
# Variables that one move may flip.
_WIDEST = 4
# Moves one after another, for one cell in one direction.
_MOVES = 200


def flips(target: Variables, kept: Iterable[Variables]) -> tuple[tuple[int, ...], ...]:
    """The smallest sets of target variables that no kept margin holds together."""
    edges = list(kept)
    smallest: list[Variables] = []
    for size in range(1, _WIDEST + 1):
        for flip in map(frozenset, combinations(sorted(target), size)):
            if not any(flip <= edge for edge in edges) and not any(smaller <= flip for smaller in smallest):
                smallest.append(flip)
    return tuple(tuple(sorted(flip)) for flip in smallest)


@inner
def _amount(table: Ints, at: int, step: Ints, sign: int) -> int:
    """How often a move can be made that takes from the cell `at` (sign -1), or adds to it (sign 1)."""
    most = table[at] if sign < 0 else 2**62
    for corner in range(1, 1 << len(step)):
        place, odd = at, False
        for j in range(len(step)):
            if corner >> j & 1:
                place += step[j]
                odd = not odd
        if odd == (sign > 0):
            most = min(most, table[place])
            if most == 0:
                break
    return int(most)


@inner
def _move(table: Ints, at: int, step: Ints, amount: int) -> None:
    """Add `amount` at the cell and every other corner, and take it from those between."""
    for corner in range(1 << len(step)):
        place, size = at, amount
        for j in range(len(step)):
            if corner >> j & 1:
                place += step[j]
                size = -size
        table[place] += size


@inner
def _steps(levels: Ints, sizes: Ints, strides: Ints, other: int, step: Ints) -> None:
    """Write into `step` how far away in the table the levels of the corner opposite, number `other`, are."""
    for j in range(len(step)):
        level = other % (sizes[j] - 1)
        other //= sizes[j] - 1
        # Any level but the cell's own.
        if level >= levels[j]:
            level += 1
        step[j] = (level - levels[j]) * strides[j]


@allocating
def _swings(
    table: Ints, start: Ints, levels: Ints, begin: Ints, sizes: Ints, strides: Ints, enough: int
) -> tuple[Ints, Ints]:
    """How far moves, one after another, take the count of each start cell down, and up.

    table: counts of all cells. start: shape (cells,), positions in `table`.
    begin: where each kind of move begins in the columns of `levels`, shape (cells, columns), the cells' levels of the
    variables that it flips, in `sizes`, their numbers of levels, and in `strides`, their strides in `table`.
    A cell is left as soon as it has gone down and up by `enough` together.
    """
    swing = np.zeros((2, len(start)), dtype=np.int64)
    # Moves that were made, to be taken back: a kind, a corner and an amount each.
    done = np.zeros((_MOVES, 3), dtype=np.int64)
    step = np.zeros(len(sizes), dtype=np.int64)
    for i in range(len(start)):
        for direction in range(2):
            sign, moves = 2 * direction - 1, 0
            for kind in range(len(begin) - 1):
                first, last = begin[kind], begin[kind + 1]
                own, size, stride = levels[i, first:last], sizes[first:last], strides[first:last]
                others = 1
                for j in range(len(size)):
                    others *= size[j] - 1
                for other in range(others):
                    if swing[0, i] + swing[1, i] >= enough or moves == _MOVES:
                        break
                    _steps(own, size, stride, other, step[first:last])
                    amount = _amount(table, start[i], step[first:last], sign)
                    if amount:
                        _move(table, start[i], step[first:last], sign * amount)
                        done[moves, 0], done[moves, 1], done[moves, 2] = kind, other, amount
                        moves += 1
                        swing[direction, i] += amount
            for k in range(moves - 1, -1, -1):
                first, last = begin[done[k, 0]], begin[done[k, 0] + 1]
                _steps(levels[i, first:last], sizes[first:last], strides[first:last], done[k, 1], step[first:last])
                _move(table, start[i], step[first:last], -sign * done[k, 2])
    return swing[0], swing[1]


def swings(
    codes: Ints, counts: Ints, levels: Sequence[int], start: Ints, by: Sequence[Sequence[int]], enough: int
) -> tuple[Ints, Ints]:
    """How far moves take the counts of some cells down and up, each cell on its own.

    codes: shape (cells, variables), the cells that hold records; counts: shape (cells,). levels: of each variable.
    start: positions of the cells asked for. by: sets of columns of `codes` to flip. enough: as in `_swings`.
    Both are zero where the cross-classification is too large to be held.
    """
    if prod(levels) > _DENSE:
        return np.zeros(len(start), dtype=np.int64), np.zeros(len(start), dtype=np.int64)
    place = keys(codes, levels)
    table = np.zeros(prod(levels), dtype=np.int64)
    table[place] = counts
    flipped = [v for columns in by for v in columns]
    begin = np.cumsum([0, *(len(columns) for columns in by)])
    sizes = np.array([levels[v] for v in flipped], dtype=np.int64)
    strides = np.array([prod(levels[v + 1 :]) for v in flipped], dtype=np.int64)
    own = np.ascontiguousarray(codes[start][:, flipped])
    return _swings(table, place[start], own, begin, sizes, strides, min(enough, 2**62))


@inner
def _level_after(levels: Ints, sizes: Ints, other: int, j: int) -> int:
    """The level of variable number j of the corner opposite, number `other`."""
    for i in range(j):
        other //= sizes[i] - 1
    level = other % (sizes[j] - 1)
    return int(level + 1 if level >= levels[j] else level)


@allocating
def _emptied(
    table: Ints,
    start: Ints,
    first: Ints,
    inside: npt.NDArray[np.int8],
    levels: Ints,
    begin: Ints,
    sizes: Ints,
    strides: Ints,
    joined: Ints,
) -> Ints:
    """For each union of cells, whether moves take all records out of it.

    table, levels, begin, sizes, strides: as in `_swings`, `levels` of shape (cells, columns) for the cells in `start`.
    start: the unions' cells that hold records, union by union; those of union u begin at first[u].
    inside: shape (unions, levels of the joined variable), 1 for the levels that the union joins.
    joined: shape (kinds,), which of a kind's variables is the joined one; -1 if none is.
    """
    empty = np.zeros(len(first) - 1, dtype=np.int64)
    done = np.zeros((_MOVES, 4), dtype=np.int64)
    step = np.zeros(len(sizes), dtype=np.int64)
    for u in range(len(first) - 1):
        moves, left = 0, True
        for i in range(first[u], first[u + 1]):
            for kind in range(len(begin) - 1):
                a, b = begin[kind], begin[kind + 1]
                own, size, stride = levels[i, a:b], sizes[a:b], strides[a:b]
                others = 1
                for j in range(len(size)):
                    others *= size[j] - 1
                for other in range(others):
                    if table[start[i]] == 0 or moves == _MOVES:
                        break
                    # A record must not come back into the union.
                    if joined[kind] >= 0 and inside[u, _level_after(own, size, other, joined[kind])]:
                        continue
                    _steps(own, size, stride, other, step[a:b])
                    amount = _amount(table, start[i], step[a:b], -1)
                    if amount:
                        _move(table, start[i], step[a:b], -amount)
                        done[moves, 0], done[moves, 1], done[moves, 2], done[moves, 3] = kind, other, amount, i
                        moves += 1
            if table[start[i]] > 0:
                left = False
                break
        empty[u] = 1 if left else 0
        for k in range(moves - 1, -1, -1):
            a, b, i = begin[done[k, 0]], begin[done[k, 0] + 1], done[k, 3]
            _steps(levels[i, a:b], sizes[a:b], strides[a:b], done[k, 1], step[a:b])
            _move(table, start[i], step[a:b], done[k, 2])
    return empty


def emptied(
    codes: Ints,
    counts: Ints,
    levels: Sequence[int],
    cells: tuple[Ints, Ints],
    inside: npt.NDArray[np.int8],
    joined: int,
    by: Sequence[Sequence[int]],
) -> Ints:
    """For each union of cells, 1 where moves take all records out of it. Unions join levels of one variable.

    codes, counts, levels, by: as in `swings`. cells: of each union, ascending, and the position in `codes` of each of
    its cells that hold records. inside: shape (unions, levels of the joined variable), 1 for what the union joins.
    joined: the column of the joined variable. All zero where the cross-classification is too large to be held.
    """
    of, start = cells
    if prod(levels) > _DENSE:
        return np.zeros(len(inside), dtype=np.int64)
    place = keys(codes, levels)
    table = np.zeros(prod(levels), dtype=np.int64)
    table[place] = counts
    flipped = [v for columns in by for v in columns]
    begin = np.cumsum([0, *(len(columns) for columns in by)])
    sizes = np.array([levels[v] for v in flipped], dtype=np.int64)
    strides = np.array([prod(levels[v + 1 :]) for v in flipped], dtype=np.int64)
    own = np.ascontiguousarray(codes[start][:, flipped])
    first = np.searchsorted(of, np.arange(len(inside) + 1)).astype(np.int64)
    column = np.array([list(columns).index(joined) if joined in columns else -1 for columns in by], dtype=np.int64)
    empty: Ints = _emptied(table, place[start], first, inside, own, begin, sizes, strides, column)
    return empty
