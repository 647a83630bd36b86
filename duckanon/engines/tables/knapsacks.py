"""Columns that few equations tie: which values each can have, by all sums that the others can reach.

Where an exact conditional meets few known counts, its multipliers t solve one or two equations sum of r t = s (Wright
and Smucker 2014, section 3, has one). Sums of several equations together are bits of one long integer, and each column
is left out once by divide and conquer. That settles in milliseconds what branch and bound takes minutes for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from duckanon.engines.tables.cells import Ints
from duckanon.engines.tables.released import UNBOUNDED
from duckanon.engines.tables.system import System

# Equations that may tie columns together, and bits that their sums may need, times columns: a second or two.
_EQUATIONS, _WORK = 3, 2**28


@dataclass(frozen=True)
class _Item:
    """A column, less its lower bound: what one of it adds to each equation, and how many there may be at most."""

    column: int
    size: tuple[int, ...]
    most: int


@dataclass(frozen=True)
class _Group:
    """Items whose sums must reach `goal` in every equation."""

    items: tuple[_Item, ...]
    goal: tuple[int, ...]

    def shift(self, size: tuple[int, ...]) -> int:
        """How far a vector of sums stands from the zero vector in the bits: with room for one addition each."""
        at = 0
        for part, goal in zip(size, self.goal, strict=True):
            at = at * (2 * goal + 1) + part
        return at

    def mask(self) -> int:
        """The bits of all vectors up to the goal."""
        bits = 1
        for k in range(len(self.goal) - 1, -1, -1):
            width = prod(2 * goal + 1 for goal in self.goal[k + 1 :])
            bits = _shifts(bits, width, self.goal[k] + 1)
        return bits


def _shifts(bits: int, step: int, times: int) -> int:
    """bits, moved by 0, step, ..., (times - 1) step, together."""
    done, moved = 1, bits
    while done < times:
        more = min(done, times - done)
        moved |= moved << (more * step)
        done += more
    return moved


def settle(system: System, lower: Ints, upper: Ints) -> Ints | None:
    """Narrow the columns that few equations tie to the least and largest values that they can have, in place.

    Returns the columns settled so: if the system has a solution at all, it has one for each of their ends. None if
    some group of equations has no solution.
    """
    settled: list[int] = []
    for group in _groups(system, lower, upper):
        ends = _ends(group)
        if ends is None:
            return None
        for item, (first, last) in zip(group.items, ends, strict=True):
            base = int(lower[item.column])
            lower[item.column], upper[item.column] = base + first, base + last
            settled.append(item.column)
    return np.array(settled, dtype=np.int64)


def _groups(system: System, lower: Ints, upper: Ints) -> Iterator[_Group]:
    """Connected parts of the system that are a few equations with positive terms."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    free = lower < upper
    row_of = system.row_of_terms()
    live = free[system.column]
    row, column, coefficient = row_of[live], system.column[live], system.coefficient[live]
    size = system.rows + system.columns
    graph = coo_array((np.ones(len(row)), (row, system.rows + column)), shape=(size, size))
    _, part = connected_components(graph, directed=False)
    # What lower bounds take of each row already.
    goal = system.most - system.activity(lower)
    plain = (system.least == system.most) & (system.most < UNBOUNDED)
    np.logical_and.at(plain, row, coefficient > 0)
    rows = np.unique(row)
    equations = np.bincount(part[rows], minlength=size)
    bad = np.bincount(part[rows[~plain[rows]]], minlength=size)
    for number in np.flatnonzero((equations > 0) & (equations <= _EQUATIONS) & (bad == 0)).tolist():
        own_rows = rows[part[rows] == number]
        terms = np.isin(row, own_rows)
        columns = np.unique(column[terms])
        goals = tuple(goal[own_rows].tolist())
        if min(goals) < 0 or prod(2 * g + 1 for g in goals) * len(columns) > _WORK:
            continue
        table = np.zeros((len(columns), len(own_rows)), dtype=np.int64)
        table[np.searchsorted(columns, column[terms]), np.searchsorted(own_rows, row[terms])] = coefficient[terms]
        yield _Group(
            tuple(
                _Item(int(j), tuple(sizes), int(upper[j] - lower[j]))
                for j, sizes in zip(columns, table.tolist(), strict=True)
            ),
            goals,
        )


def _ends(group: _Group) -> list[tuple[int, int]] | None:
    """The least and largest number of each item over all ways to reach the goal; None if there is none."""
    mask = group.mask()
    ends: list[tuple[int, int] | None] = [None] * len(group.items)

    def divide(begin: int, end: int, bits: int) -> bool:
        """`bits`: the sums of all items outside begin to end - 1."""
        if end - begin == 1:
            ends[begin] = _item_ends(group, group.items[begin], bits)
            return ends[begin] is not None
        middle = (begin + end) // 2
        for part, others in (((begin, middle), (middle, end)), ((middle, end), (begin, middle))):
            joined = bits
            for item in group.items[others[0] : others[1]]:
                joined = _take_in(group, item, joined, mask)
            if not divide(*part, joined):
                return False
        return True

    return [item_ends for item_ends in ends if item_ends is not None] if divide(0, len(ends), 1) else None


def _fits(group: _Group, item: _Item) -> int:
    """How many of an item can be used at most."""
    return min(item.most, *(goal // size for goal, size in zip(group.goal, item.size, strict=True) if size))


def _take_in(group: _Group, item: _Item, bits: int, mask: int) -> int:
    """The sums with up to `most` of an item, none above the goal."""
    left, part = _fits(group, item), 1
    while left > 0:
        part = min(part, left)
        bits |= (bits << group.shift(tuple(part * size for size in item.size))) & mask
        left -= part
        part *= 2
    return bits


def _item_ends(group: _Group, item: _Item, others: int) -> tuple[int, int] | None:
    """The least and largest number of an item for which the others reach the rest of the goal."""
    whole, step = group.shift(group.goal), group.shift(item.size)
    octets = others.to_bytes(whole // 8 + 1, "little")
    rests = (whole - k * step for k in range(_fits(group, item) + 1))
    fitting = [k for k, rest in enumerate(rests) if octets[rest // 8] >> rest % 8 & 1]
    return (fitting[0], fitting[-1]) if fitting else None
