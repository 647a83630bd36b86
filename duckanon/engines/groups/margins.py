"""Tables of whole numbers with given margins, nearest to what is believed of their cells.

For one parent: a row a child, a column a size; rows add up to the children's numbers of groups, columns to the parent's sizes.
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic import Floats

_SWEEPS = 60


@compiled
def column(wanted: Floats, total: int, found: Ints) -> None:
    """The whole numbers >= 0 that add up to `total` and are nearest, in squares, to `wanted`: largest remainders."""
    left = total
    for i in range(len(wanted)):
        found[i] = max(0, int(np.floor(wanted[i])))
        left -= found[i]
    while left != 0:
        order = np.argsort(wanted - found)
        if left > 0:
            for i in order[::-1][:left]:
                found[i] += 1
                left -= 1
        else:
            for i in order:
                if left < 0 and found[i] > 0:
                    found[i] -= 1
                    left += 1


@compiled
def weigh(wanted: Floats, weights: Floats, total: float, found: Floats) -> None:
    """x >= 0 with sum `total` and least sum of (x - wanted)^2 / weight: max(0, wanted + price * weight) at one price."""
    order = np.argsort(-wanted / weights)
    price, weight, value = 0.0, 0.0, 0.0
    for rank in range(len(order)):
        i = order[rank]
        # Cell i joins where its own price, -wanted / weight, is still above what the cells so far ask.
        if rank > 0 and wanted[i] + price * weights[i] <= 0:
            break
        weight += weights[i]
        value += wanted[i]
        price = (total - value) / weight
    for i in range(len(wanted)):
        found[i] = max(0.0, wanted[i] + price * weights[i])


@compiled
def balance(wanted: Floats, weights: Floats, rows: Ints, columns: Ints) -> Floats:
    """`wanted` moved to the margins by weighted least squares with x >= 0: prices of rows and columns in turn.

    Coordinate ascent on the dual; it stops at _SWEEPS or where no margin is off by a thousandth. `whole` does the rest exactly.
    """
    many, sizes = wanted.shape
    row_price, column_price = np.zeros(many), np.zeros(sizes)
    found = np.maximum(wanted, 0.0)
    for _ in range(_SWEEPS):
        off = 0.0
        for s in range(sizes):
            value, weight = 0.0, 0.0
            for c in range(many):
                if wanted[c, s] + weights[c, s] * (row_price[c] + column_price[s]) > 0:
                    value += wanted[c, s] + weights[c, s] * (row_price[c] + column_price[s])
                    weight += weights[c, s]
            off = max(off, abs(columns[s] - value))
            if weight > 0:
                column_price[s] += (columns[s] - value) / weight
        for c in range(many):
            value, weight = 0.0, 0.0
            for s in range(sizes):
                found[c, s] = max(0.0, wanted[c, s] + weights[c, s] * (row_price[c] + column_price[s]))
                if found[c, s] > 0:
                    value += found[c, s]
                    weight += weights[c, s]
            off = max(off, abs(rows[c] - value))
            if weight > 0:
                row_price[c] += (rows[c] - value) / weight
        if off < 1e-3:
            break
    return found


@compiled
def whole(wanted: Floats, rows: Ints, columns: Ints) -> Ints:
    """Whole numbers >= 0 near `wanted` with exactly these margins, which must have the same sum.

    Column by column, fewest groups first, each by largest remainders of what is wanted and what the row is still owed; the last
    column takes what is left. Should a row then be short there, it swaps a unit with a row that has one to spare.
    """
    many, sizes = wanted.shape
    found = np.zeros((many, sizes), np.int64)
    owed = np.zeros(many)
    order = np.argsort(columns)
    part, target = np.empty(many, np.int64), np.empty(many)
    for s in order[:-1]:
        for c in range(many):
            target[c] = wanted[c, s] + owed[c]
        column(target, columns[s], part)
        for c in range(many):
            found[c, s] = part[c]
            owed[c] = target[c] - part[c]
    last = order[-1]
    for c in range(many):
        found[c, last] = rows[c] - found[c].sum()
    for c in range(many):
        while found[c, last] < 0:
            give, most = -1, -np.inf
            for s in range(sizes):
                if s != last and found[c, s] > 0 and found[c, s] - wanted[c, s] > most:
                    give, most = s, found[c, s] - wanted[c, s]
            other, most = -1, -np.inf
            for d in range(many):
                if found[d, last] > 0 and found[d, last] - wanted[d, last] > most:
                    other, most = d, found[d, last] - wanted[d, last]
            found[c, give] -= 1
            found[other, give] += 1
            found[other, last] -= 1
            found[c, last] += 1
    return found


@compiled
def fit(
    start: Ints,
    size: Ints,
    wanted: Floats,
    weights: Floats,
    above: Ints,
    totals: Ints,
    families: Ints,
    out: Ints,
) -> None:
    """For each parent the nearest table with its margins, into `out`, (regions, max_size), zero elsewhere.

    start, size, wanted, weights: cells as in `shapes.Cells`. above: the parents' groups. totals: the rows' sums.
    families: where each parent's children begin and end.
    """
    out[:] = 0
    for p in range(len(above)):
        eldest, many = families[p], families[p + 1] - families[p]
        sizes = size[start[eldest] : start[eldest + 1]]
        if len(sizes) == 0:
            continue
        table, trust = np.empty((many, len(sizes))), np.empty((many, len(sizes)))
        columns = np.empty(len(sizes), np.int64)
        for j in range(len(sizes)):
            columns[j] = above[p, sizes[j]]
        rows = totals[eldest : eldest + many]
        for i in range(many):
            cell = start[eldest + i]
            for j in range(len(sizes)):
                table[i, j] = wanted[cell + j]
                trust[i, j] = max(weights[cell + j], 1e-9)
        found = whole(balance(table, trust, rows, columns), rows, columns)
        for i in range(many):
            for j in range(len(sizes)):
                out[eldest + i, sizes[j]] = found[i, j]
