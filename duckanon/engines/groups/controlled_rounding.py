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


def fit(start: Ints, size: Ints, estimates: Floats, weights: Floats, above: Ints, totals: Ints, families: Ints) -> Ints:
    """For each parent the nearest table with its margins: int64 of shape (regions, max_size), zero elsewhere.

    start, size, estimates, weights: cells as in `empirical_bayes.Cells`. above: the parents' groups. totals: the rows'
    sums. families: where each parent's children begin and end.
    """
    active = above > 0
    column_start = np.concatenate([[0], np.cumsum(active.sum(axis=1))])
    margins = Margins(families, column_start, start[families], totals, above[active])
    rounded = whole(margins, balance(margins, estimates, np.maximum(weights, 1e-9)))
    groups = np.zeros((len(totals), above.shape[1]), dtype=np.int64)
    groups[np.repeat(np.arange(len(totals)), np.diff(start)), size] = rounded
    return groups


def balance(margins: Margins, estimates: Floats, weights: Floats) -> Floats:
    """The numbers x >= 0 nearest to `estimates`, in weighted squares, that have the given margins.

    Coordinate ascent on the dual problem: the dual variables (prices) of columns and rows in turn. It stops when every
    sum is met to within a thousandth, or after _SWEEPS; `whole` then makes the sums exact.
    """
    balanced = np.empty(len(estimates))
    prices = np.zeros(len(margins.rows)), np.zeros(len(margins.columns))
    _balance(
        margins.row_start, margins.column_start, margins.cell_start, margins.rows, margins.columns, estimates, weights,
        *prices, np.empty((3, margins.longest)), balanced,
    )  # fmt: skip
    return balanced


def whole(margins: Margins, estimates: Floats) -> Ints:
    """Whole numbers >= 0 near `estimates` with exactly these margins.

    Columns are rounded one by one, the one with the fewest groups first, by largest remainders; what a row lost or
    gained by rounding is added to its next column. The last column gets the rest of each row. If that is negative
    for a row, the row swaps units with another row.
    """
    rounded = np.zeros(len(estimates), dtype=np.int64)
    longest = margins.longest
    _whole(
        margins.row_start, margins.column_start, margins.cell_start, margins.rows, margins.columns, estimates,
        np.empty((3, longest)), np.empty(longest, dtype=np.int64), rounded,
    )  # fmt: skip
    return rounded


@allocating
def project_to_sum(estimates: Floats, weights: Floats, total: float) -> Floats:
    """Numbers x >= 0 with sum `total` and the least sum of (x - estimate)^2 / weight."""
    projected = np.empty(len(estimates))
    price = _price(estimates, weights, total, projected)
    for i in range(len(estimates)):
        projected[i] = max(0.0, estimates[i] + price * weights[i])
    return projected


@allocating
def column(estimates: Floats, total: int, rounded: Ints) -> None:
    """The whole numbers >= 0 that add up to `total` and are nearest, in squares, to `estimates`.

    The nearest real numbers, rounded by largest remainders: that is optimal, because marginal costs differ from the
    remainders by the same constant.
    """
    weights, keys = np.empty(len(estimates)), np.empty(len(estimates))
    for i in range(len(estimates)):
        weights[i] = 1.0
    _column(estimates, total, weights, keys, rounded)


@inner_allocating
def _price(estimates: Floats, weights: Floats, total: float, keys: Floats) -> float:
    """The price at which max(0, estimate + price * weight) adds up to `total`. keys: overwritten."""
    for i in range(len(estimates)):
        keys[i] = -estimates[i] / weights[i]
    price, weight, estimate_sum = 0.0, 0.0, 0.0
    order = argsort(keys)
    for rank in range(len(order)):
        i = order[rank]
        # Cell i is above zero if the price of the cells so far is above its own, -estimate / weight.
        if rank > 0 and keys[i] >= price:
            break
        weight += weights[i]
        estimate_sum += estimates[i]
        price = (total - estimate_sum) / weight
    return price


@inner_allocating
def _column(estimates: Floats, total: int, weights: Floats, keys: Floats, rounded: Ints) -> None:
    """`column`, with arrays to work in. weights: ones. keys: overwritten."""
    most = float(total)
    price = _price(estimates, weights, most, keys)
    left = total
    for i in range(len(estimates)):
        real = estimates[i] + price
        real = real if real > 0.0 else 0.0
        rounded[i] = int(np.floor((real if real < most else most) + 1e-9))
        rounded[i] = rounded[i] if rounded[i] < total else total
        left -= rounded[i]
        keys[i] = rounded[i] - real
    if left > 0:
        order = argsort(keys)
        # More than one each, or less than none, only where numbers are so large that floats are not exact.
        for rank in range(len(order)):
            rounded[order[rank]] += left // len(order) + (1 if rank < left % len(order) else 0)
    i = 0
    while left < 0:
        removed = rounded[i] if rounded[i] < -left else -left
        rounded[i] -= removed
        left += removed
        i += 1


@allocating
def _balance(
    row_start: Ints,
    column_start: Ints,
    cell_start: Ints,
    rows: Ints,
    columns: Ints,
    estimates: Floats,
    weights: Floats,
    row_prices: Floats,
    column_prices: Floats,
    spare: Floats,
    balanced: Floats,
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
                    spare[0, length] = estimates[cell] + weights[cell] * row_prices[c]
                    cell, length = cell + sizes, length + 1
                step, gap = _step(spare, length, column_prices[s], columns[s])
                column_prices[s] += step
                off = gap if gap > off else off
            cell = cell_start[table]
            for c in range(row_start[table], row_start[table + 1]):
                for s in range(sizes):
                    spare[1, s] = weights[cell + s]
                    spare[0, s] = estimates[cell + s] + weights[cell + s] * column_prices[column_start[table] + s]
                step, gap = _step(spare, sizes, row_prices[c], rows[c])
                row_prices[c] += step
                off = gap if gap > off else off
                for s in range(sizes):
                    held = spare[0, s] + spare[1, s] * row_prices[c]
                    balanced[cell + s] = held if held > 0.0 else 0.0
                cell += sizes
            if off < 1e-3:
                break


@inner_allocating
def _step(line: Floats, length: int, now: float, total: int) -> tuple[float, float]:
    """Newton's step for the price of a row or column, and by how much its sum is off.

    Where no cell is above zero, the price is computed by `_price` instead.

    line: row 0, estimates; row 1, the weights; row 2 is overwritten.
    """
    line_sum, weight = 0.0, 0.0
    for i in range(length):
        held = line[0, i] + line[1, i] * now
        if held > 0:
            line_sum += held
            weight += line[1, i]
    if weight > 0:
        return (total - line_sum) / weight, abs(total - line_sum)
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
    estimates: Floats,
    spare: Floats,
    part: Ints,
    rounded: Ints,
) -> None:
    """`whole` of every table. spare: (3, longest row or column); part: as long. found: zeros."""
    for table in range(len(row_start) - 1):
        row_count, sizes = row_start[table + 1] - row_start[table], column_start[table + 1] - column_start[table]
        if sizes == 0:
            continue
        first, cell, owed = column_start[table], cell_start[table], np.zeros(row_count)
        for s in range(sizes):
            spare[0, s] = columns[first + s]
        order = argsort(spare[0, :sizes])
        last = order[sizes - 1]
        for c in range(row_count):
            spare[1, c] = 1.0
            rounded[cell + c * sizes + last] = rows[row_start[table] + c]
        for rank in range(sizes - 1):
            s = order[rank]
            for c in range(row_count):
                spare[0, c] = estimates[cell + c * sizes + s] + owed[c]
            _column(
                spare[0, :row_count], columns[first + s], spare[1, :row_count], spare[2, :row_count], part[:row_count]
            )
            for c in range(row_count):
                rounded[cell + c * sizes + s] = part[c]
                rounded[cell + c * sizes + last] -= part[c]
                owed[c] = spare[0, c] - part[c]
        for c in range(row_count):
            while rounded[cell + c * sizes + last] < 0:
                _swap(estimates, rounded, cell, c, row_count, sizes, last)


@inner
def _swap(estimates: Floats, rounded: Ints, cell: int, c: int, row_count: int, sizes: int, last: int) -> None:
    """Row c of a table is negative in column `last`: swap units of another column for units of `last` with another row.

    The column is the one where row c exceeds `estimates` most, the other row the one that exceeds it most in `last`.
    """
    give, other, most = -1, -1, -np.inf
    for s in range(sizes):
        at = cell + c * sizes + s
        if s != last and rounded[at] > 0 and rounded[at] - estimates[at] > most:
            give, most = s, rounded[at] - estimates[at]
    most = -np.inf
    for d in range(row_count):
        at = cell + d * sizes + last
        if rounded[at] > 0 and rounded[at] - estimates[at] > most:
            other, most = d, rounded[at] - estimates[at]
    row, other_row = cell + c * sizes, cell + other * sizes
    # One unit at a time; more where numbers are so large that floats are not exact, so that the loop ends soon.
    amount = max(1, -rounded[row + last] // 16)
    amount = min(amount, rounded[row + give], rounded[other_row + last])
    rounded[row + give] -= amount
    rounded[other_row + give] += amount
    rounded[other_row + last] -= amount
    rounded[row + last] += amount
