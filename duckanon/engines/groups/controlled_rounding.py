"""Controlled rounding: tables of whole numbers with given row and column sums, nearest to estimates of their cells.

There is one table for each parent, with a row for each child and a column for each size of which the parent has
groups. Rows add up to the children's numbers of groups, columns to the parent's number of groups of each size. The
idea is from Cox 1987. Here real numbers are found by weighted least squares, and then rounded column by column, by
largest remainders.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckanon.engines.array_kernels import argsort
from duckanon.engines.compiled import allocating, inner, inner_allocating
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats

_SWEEPS = 60


@dataclass(frozen=True, eq=False)
class Margins:
    """The row and column sums of many tables. In each table the rows' sum equals the columns' sum.

    row_start, column_start, cell_start: where each table's rows, columns and cells begin, (tables + 1,). rows, columns:
    their sums. Cells are in flat arrays, row by row.
    """

    row_start: Ints
    column_start: Ints
    cell_start: Ints
    rows: Ints
    columns: Ints

    @property
    def longest(self) -> int:
        """The length of the longest row or column."""
        return max(int(np.diff(self.row_start).max()), int(np.diff(self.column_start).max()))


def fit(start: Ints, size: Ints, wanted: Floats, weights: Floats, above: Ints, totals: Ints, families: Ints) -> Ints:
    """For each parent the nearest table with its margins: int64 of shape (regions, max_size), zero elsewhere.

    start, size, wanted, weights: cells as in `empirical_bayes.Cells`. above: the parents' groups. totals: the rows'
    sums. families: where each parent's children begin and end.
    """
    active = above > 0
    column_start = np.concatenate([[0], np.cumsum(active.sum(axis=1))])
    margins = Margins(families, column_start, start[families], totals, above[active])
    rounded = whole(margins, balance(margins, wanted, np.maximum(weights, 1e-9)))
    groups = np.zeros((len(totals), above.shape[1]), dtype=np.int64)
    groups[np.repeat(np.arange(len(totals)), np.diff(start)), size] = rounded
    return groups


def balance(margins: Margins, wanted: Floats, weights: Floats) -> Floats:
    """The numbers x >= 0 nearest to `wanted`, in weighted squares, that have the given margins.

    Coordinate ascent on the dual problem: the dual variables (prices) of columns and rows in turn. It stops when every
    sum is met to within a thousandth, or after _SWEEPS; `whole` then makes the sums exact.
    """
    found = np.empty(len(wanted))
    prices = np.zeros(len(margins.rows)), np.zeros(len(margins.columns))
    _balance(
        margins.row_start, margins.column_start, margins.cell_start, margins.rows, margins.columns, wanted, weights,
        *prices, np.empty((3, margins.longest)), found,
    )  # fmt: skip
    return found


def whole(margins: Margins, wanted: Floats) -> Ints:
    """Whole numbers >= 0 near `wanted` with exactly these margins.

    Columns are rounded one by one, the one with the fewest groups first, by largest remainders; what a row lost or
    gained by rounding is added to its next column. The last column gets the rest of each row. If that is negative
    for a row, the row swaps units with another row.
    """
    found = np.zeros(len(wanted), dtype=np.int64)
    longest = margins.longest
    _whole(
        margins.row_start, margins.column_start, margins.cell_start, margins.rows, margins.columns, wanted,
        np.empty((3, longest)), np.empty(longest, dtype=np.int64), found,
    )  # fmt: skip
    return found


@allocating
def project_to_sum(wanted: Floats, weights: Floats, total: float) -> Floats:
    """Numbers x >= 0 with sum `total` and the least sum of (x - wanted)^2 / weight."""
    found = np.empty(len(wanted))
    asked = _price(wanted, weights, total, found)
    for i in range(len(wanted)):
        found[i] = max(0.0, wanted[i] + asked * weights[i])
    return found


@allocating
def column(wanted: Floats, total: int, found: Ints) -> None:
    """The whole numbers >= 0 that add up to `total` and are nearest, in squares, to `wanted`.

    The nearest real numbers, rounded by largest remainders: that is optimal, because marginal costs differ from the
    remainders by the same constant.
    """
    weights, keys = np.empty(len(wanted)), np.empty(len(wanted))
    for i in range(len(wanted)):
        weights[i] = 1.0
    _column(wanted, total, weights, keys, found)


@inner_allocating
def _price(wanted: Floats, weights: Floats, total: float, keys: Floats) -> float:
    """The price at which max(0, wanted + price * weight) adds up to `total`. keys: as long as wanted, overwritten."""
    for i in range(len(wanted)):
        keys[i] = -wanted[i] / weights[i]
    found, weight, value = 0.0, 0.0, 0.0
    order = argsort(keys)
    for rank in range(len(order)):
        i = order[rank]
        # Cell i is above zero if the price of the cells so far is above its own, -wanted / weight.
        if rank > 0 and keys[i] >= found:
            break
        weight += weights[i]
        value += wanted[i]
        found = (total - value) / weight
    return found


@inner_allocating
def _column(wanted: Floats, total: int, weights: Floats, keys: Floats, found: Ints) -> None:
    """`column`, with arrays to work in. weights: ones. keys: overwritten."""
    most = float(total)
    asked = _price(wanted, weights, most, keys)
    left = total
    for i in range(len(wanted)):
        real = wanted[i] + asked
        real = real if real > 0.0 else 0.0
        found[i] = int(np.floor((real if real < most else most) + 1e-9))
        found[i] = found[i] if found[i] < total else total
        left -= found[i]
        keys[i] = found[i] - real
    if left > 0:
        order = argsort(keys)
        # More than one each, or less than none, only where numbers are so large that floats are not exact.
        for rank in range(len(order)):
            found[order[rank]] += left // len(order) + (1 if rank < left % len(order) else 0)
    i = 0
    while left < 0:
        taken = found[i] if found[i] < -left else -left
        found[i] -= taken
        left += taken
        i += 1


@allocating
def _balance(
    row_start: Ints,
    column_start: Ints,
    cell_start: Ints,
    rows: Ints,
    columns: Ints,
    wanted: Floats,
    weights: Floats,
    row_prices: Floats,
    column_prices: Floats,
    spare: Floats,
    found: Floats,
) -> None:
    """`balance` of every table. row_prices, column_prices: zeros. spare: (3, longest row or column)."""
    for table in range(len(row_start) - 1):
        sizes = column_start[table + 1] - column_start[table]
        if sizes == 0:
            continue
        for _ in range(_SWEEPS):
            off = 0.0
            for s in range(column_start[table], column_start[table + 1]):
                cell, length = cell_start[table] + s - column_start[table], 0
                for c in range(row_start[table], row_start[table + 1]):
                    spare[1, length] = weights[cell]
                    spare[0, length] = wanted[cell] + weights[cell] * row_prices[c]
                    cell, length = cell + sizes, length + 1
                step, gap = _step(spare, length, column_prices[s], columns[s])
                column_prices[s] += step
                off = gap if gap > off else off
            cell = cell_start[table]
            for c in range(row_start[table], row_start[table + 1]):
                for s in range(sizes):
                    spare[1, s] = weights[cell + s]
                    spare[0, s] = wanted[cell + s] + weights[cell + s] * column_prices[column_start[table] + s]
                step, gap = _step(spare, sizes, row_prices[c], rows[c])
                row_prices[c] += step
                off = gap if gap > off else off
                for s in range(sizes):
                    held = spare[0, s] + spare[1, s] * row_prices[c]
                    found[cell + s] = held if held > 0.0 else 0.0
                cell += sizes
            if off < 1e-3:
                break


@inner_allocating
def _step(line: Floats, length: int, now: float, total: int) -> tuple[float, float]:
    """Newton's step for the price of a row or column, and by how much its sum is off.

    Where no cell is above zero, the price is computed by `_price` instead.

    line: row 0, what is wanted; row 1, the weights; row 2 is overwritten.
    """
    value, weight = 0.0, 0.0
    for i in range(length):
        held = line[0, i] + line[1, i] * now
        if held > 0:
            value += held
            weight += line[1, i]
    if weight > 0:
        return (total - value) / weight, abs(total - value)
    if total > 0:
        return _price(line[0, :length], line[1, :length], float(total), line[2, :length]) - now, float(total)
    return 0.0, 0.0


@allocating
def _whole(
    row_start: Ints,
    column_start: Ints,
    cell_start: Ints,
    rows: Ints,
    columns: Ints,
    wanted: Floats,
    spare: Floats,
    part: Ints,
    found: Ints,
) -> None:
    """`whole` of every table. spare: (3, longest row or column); part: as long. found: zeros."""
    for table in range(len(row_start) - 1):
        many, sizes = row_start[table + 1] - row_start[table], column_start[table + 1] - column_start[table]
        if sizes == 0:
            continue
        first, cell, owed = column_start[table], cell_start[table], np.zeros(many)
        for s in range(sizes):
            spare[0, s] = columns[first + s]
        order = argsort(spare[0, :sizes])
        last = order[sizes - 1]
        for c in range(many):
            spare[1, c] = 1.0
            found[cell + c * sizes + last] = rows[row_start[table] + c]
        for rank in range(sizes - 1):
            s = order[rank]
            for c in range(many):
                spare[0, c] = wanted[cell + c * sizes + s] + owed[c]
            _column(spare[0, :many], columns[first + s], spare[1, :many], spare[2, :many], part[:many])
            for c in range(many):
                found[cell + c * sizes + s] = part[c]
                found[cell + c * sizes + last] -= part[c]
                owed[c] = spare[0, c] - part[c]
        for c in range(many):
            while found[cell + c * sizes + last] < 0:
                _swap(wanted, found, cell, c, many, sizes, last)


@inner
def _swap(wanted: Floats, found: Ints, cell: int, c: int, many: int, sizes: int, last: int) -> None:
    """Row c of a table is negative in column `last`: swap units of another column for units of `last` with another row.

    The column is the one where row c exceeds `wanted` most, the other row the one that exceeds it most in `last`.
    """
    give, other, most = -1, -1, -np.inf
    for s in range(sizes):
        at = cell + c * sizes + s
        if s != last and found[at] > 0 and found[at] - wanted[at] > most:
            give, most = s, found[at] - wanted[at]
    most = -np.inf
    for d in range(many):
        at = cell + d * sizes + last
        if found[at] > 0 and found[at] - wanted[at] > most:
            other, most = d, found[at] - wanted[at]
    mine, theirs = cell + c * sizes, cell + other * sizes
    # One unit at a time; more where numbers are so large that floats are not exact, so that the loop ends soon.
    amount = max(1, -found[mine + last] // 16)
    amount = min(amount, found[mine + give], found[theirs + last])
    found[mine + give] -= amount
    found[theirs + give] += amount
    found[theirs + last] -= amount
    found[mine + last] += amount
