"""Tables of whole numbers with given margins, nearest to what is believed of their cells.

For one parent: a row a child, a column a size; rows add up to the children's numbers of groups, columns to what the
parent has of each size.
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.array_kernels import argsort
from duckanon.engines.compiled import compiled, inner
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats

_SWEEPS = 60


@inner
def price(wanted: Floats, weights: Floats, total: float) -> float:
    """The price at which max(0, wanted + price * weight) adds up to `total`."""
    join = np.empty(len(wanted))
    for i in range(len(wanted)):
        join[i] = -wanted[i] / weights[i]
    found, weight, value = 0.0, 0.0, 0.0
    order = argsort(join)
    for rank in range(len(order)):
        i = order[rank]
        # Cell i joins where its own price, -wanted / weight, is still below what the cells so far ask.
        if rank > 0 and join[i] >= found:
            break
        weight += weights[i]
        value += wanted[i]
        found = (total - value) / weight
    return found


@compiled
def weigh(wanted: Floats, weights: Floats, total: float) -> Floats:
    """Numbers x >= 0 with sum `total` and the least sum of (x - wanted)^2 / weight."""
    found, asked = np.empty(len(wanted)), price(wanted, weights, total)
    for i in range(len(wanted)):
        found[i] = max(0.0, wanted[i] + asked * weights[i])
    return found


@compiled
def column(wanted: Floats, total: int, found: Ints) -> None:
    """The whole numbers >= 0 that add up to `total` and are nearest, in squares, to `wanted`.

    Real numbers first, then largest remainders: marginal costs differ from the remainders by one price alone.
    """
    real = weigh(wanted, np.ones(len(wanted)), float(total))
    left = total
    for i in range(len(wanted)):
        found[i] = min(int(np.floor(min(real[i], float(total)) + 1e-9)), total)
        left -= found[i]
        real[i] = found[i] - real[i]
    if left > 0:
        order = argsort(real)
        # More than one each, or less than none, only where numbers are so large that floats are not exact.
        for rank in range(len(order)):
            found[order[rank]] += left // len(order) + (1 if rank < left % len(order) else 0)
    i = 0
    while left < 0:
        taken = min(found[i], -left)
        found[i] -= taken
        left += taken
        i += 1


@compiled
def balance(wanted: Floats, weights: Floats, rows: Ints, columns: Ints) -> Floats:
    """`wanted` moved to the margins by weighted least squares with x >= 0: prices of rows and columns in turn.

    Coordinate ascent on the dual; it stops at _SWEEPS or where no margin is off by a thousandth. `whole` does the rest.
    """
    many, sizes = wanted.shape
    row_prices, column_prices = np.zeros(many), np.zeros(sizes)
    found = np.empty((many, sizes))
    line, weight = np.empty(max(many, sizes)), np.empty(max(many, sizes))
    for _ in range(_SWEEPS):
        off = 0.0
        for s in range(sizes):
            for c in range(many):
                weight[c] = weights[c, s]
                line[c] = wanted[c, s] + weight[c] * row_prices[c]
            step, gap = _step(line[:many], weight[:many], column_prices[s], columns[s])
            column_prices[s] += step
            off = max(off, gap)
        for c in range(many):
            for s in range(sizes):
                weight[s] = weights[c, s]
                line[s] = wanted[c, s] + weight[s] * column_prices[s]
            step, gap = _step(line[:sizes], weight[:sizes], row_prices[c], rows[c])
            row_prices[c] += step
            off = max(off, gap)
            for s in range(sizes):
                found[c, s] = max(0.0, line[s] + weight[s] * row_prices[c])
        if off < 1e-3:
            break
    return found


@inner
def _step(wanted: Floats, weights: Floats, now: float, total: int) -> tuple[float, float]:
    """Newton's step of a line's price, and how far its sum is off. Where no cell is above zero the price is sought."""
    value, weight = 0.0, 0.0
    for i in range(len(wanted)):
        held = wanted[i] + weights[i] * now
        if held > 0:
            value += held
            weight += weights[i]
    if weight > 0:
        return (total - value) / weight, abs(total - value)
    if total > 0:
        return price(wanted, weights, float(total)) - now, float(total)
    return 0.0, 0.0


@compiled
def whole(wanted: Floats, rows: Ints, columns: Ints) -> Ints:
    """Whole numbers >= 0 near `wanted` with exactly these margins, which must have the same sum.

    Column by column, fewest groups first, each by largest remainders of what is wanted and what the row is still owed;
    the last column takes what is left. Should a row then be short there, it swaps a unit with a row that has one to
    spare.
    """
    many, sizes = wanted.shape
    found = np.zeros((many, sizes), np.int64)
    owed = np.zeros(many)
    fewest = np.empty(sizes)
    for s in range(sizes):
        fewest[s] = columns[s]
    order = argsort(fewest)
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
        found[c, last] = rows[c]
        for s in order[:-1]:
            found[c, last] -= found[c, s]
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
            # One by one; where floats are not exact, so many at once that it ends.
            amount = min(max(1, -found[c, last] // 16), found[c, give], found[other, last])
            found[c, give] -= amount
            found[other, give] += amount
            found[other, last] -= amount
            found[c, last] += amount
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
