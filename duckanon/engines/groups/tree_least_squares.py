"""The dynamic program of M_H^dp: exact least squares over the tree in whole numbers.

For one size, tau_r(v) is the least sum of squared distances in region r's subtree if r has v groups. It is convex, so
its marginal costs tau(v + 1) - tau(v) increase, and children are combined by merging their sorted marginal costs (Lemma
5 and Algorithm 1). Marginal costs are whole numbers here, so instead of sorting them each region has a table:

    N_r(price) = how many marginal costs of r are <= price

Tables of children are added. A leaf's marginal costs are 2 (v - noisy) + 1, so it needs no table. Tables cover a window
of prices. By convexity, a solution inside all windows is the optimum of the whole problem; a window whose end is
reached is doubled.
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.array_kernels import assign
from duckanon.engines.compiled import allocating, compiled, inner
from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.isotonic_regression import whole_rows
from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.errors import InvalidInput

_FIRST_WINDOW = 256


def refuse_wide(regions: tuple[int, ...], sizes: int, scales: tuple[float, ...]) -> None:
    """Raises InvalidInput where windows as wide as the noise would need too much memory or time: minutes, gigabytes."""
    cells = (sum(regions[:-1]) + 1) * int(32 * max(scales))
    if cells > 10**8 or cells * sizes > 2 * 10**10:
        raise InvalidInput("There is too much noise for h_dp and c_dp: take a larger epsilon, or auto.")


def nearest_tree(hierarchy: Hierarchy, noisy: tuple[Ints, ...], total: int | None) -> Ints:
    """The leaves of the consistent tree of whole numbers >= 0 that is nearest, in squares over all regions, to `noisy`.

    noisy: (regions, sizes) a level. total: what all groups must add up to, or None.
    Source: Fioretto, Van Hentenryck and Zhu 2021, Model 1 and sections 6 and 7. Exact. Among equal
    children, a different one goes without the last unit at each size.
    """
    if total == 0:
        return np.zeros_like(noisy[-1])
    columns = np.ascontiguousarray(np.concatenate(noisy).T)
    offsets = np.concatenate([[0], np.cumsum(hierarchy.sizes)])
    # In an ordered tree all regions, level after level, have their children side by side and in their own order.
    starts = np.concatenate(
        [[1], *(families[1:] + offsets[level + 1] for level, families in enumerate(hierarchy.starts))]
    )
    sizes = len(columns)
    windows = np.full(sizes, _FIRST_WINDOW, dtype=np.int64)
    roots: list[Ints] = [np.empty(0, np.int64)] * sizes
    leaves = np.empty((sizes, hierarchy.sizes[-1]), dtype=np.int64)
    stale = np.ones(sizes, dtype=bool)
    while stale.any():
        for s in np.flatnonzero(stale).tolist():
            roots[s] = _root(columns[s], starts, int(windows[s]))
        root_totals, price = _shares(roots, windows, total)
        stale = abs(price) >= windows
        for s in range(sizes):
            stale[s] |= _settle(columns[s], starts, int(windows[s]), int(root_totals[s]), s, leaves[s])
        windows[stale] *= 2
    return np.ascontiguousarray(leaves.T)


def _shares(roots: list[Ints], windows: Ints, total: int | None) -> tuple[Ints, int]:
    """How many groups each size gets at the price at which all sizes together have the total, and that price.

    If several sizes could go without the last unit, the first ones do.
    """
    widest = int(windows.max())

    def at(price: int) -> Ints:
        return np.array(
            [root[min(max(price + w, 0), 2 * w)] for root, w in zip(roots, windows.tolist(), strict=True)],
            dtype=np.int64,
        )

    if total is None:
        return at(-1), -1
    low, high = -widest - 1, widest
    while high - low > 1:
        middle = (low + high) // 2
        if at(middle).sum() >= total:
            high = middle
        else:
            low = middle
    shares = at(high)
    # Negative, or more than the ties, where no price in the windows meets the total: then `high` is at their end.
    spare = max(0, int(shares.sum()) - total)
    ties = np.flatnonzero(shares > at(high - 1))
    shares[ties[:spare]] -= 1
    return shares, high


@compiled
def _units(noisy: int, price: int) -> int:
    """How many units a leaf takes at a price: those with marginal cost 2 (v - noisy) + 1 <= price, v >= 0."""
    return max(0, noisy + (price + 1) // 2)


@allocating
def _tables(noisy: Ints, starts: Ints, window: int) -> tuple[Ints, Ints]:
    """For each inner region and price: the units that its children take together, and that it takes itself."""
    inner, width = len(starts) - 1, 2 * window + 1
    below, own = np.zeros((inner, width), np.int64), np.empty((inner, width), np.int64)
    joining = np.zeros(window + 2, np.int64)
    for r in range(inner - 1, -1, -1):
        if starts[r] >= inner:
            # All leaves grow together: at each step of two in price, by one for each leaf above zero.
            joining[:] = 0
            first = (1 - window) // 2
            risen = 0
            for leaf in range(starts[r], starts[r + 1]):
                risen += max(0, noisy[leaf] + first)
                joining[min(max(-noisy[leaf] - first, 0), window + 1)] += 1
            rising = 0
            for i in range(width):
                half = (i - window + 1) // 2 - first
                if i > 0 and (i - window) % 2 != 0:
                    rising += joining[half - 1]
                    risen += rising
                below[r, i] = risen
        else:
            for child in range(starts[r], starts[r + 1]):
                for i in range(width):
                    below[r, i] += own[child, i]
        _add_own(below[r], noisy[r], window, own[r])
    return below, own


@inner
def _add_own(below: Ints, noisy: int, window: int, own: Ints) -> None:
    """From the children's table to the region's: unit v costs 2 (v - 1 - noisy) + 1 more than for the children
    alone.
    """
    low, high = below[0], below[-1]
    # The last v in [low, high] that is taken at the lowest price; whatever is below `low` is taken anyway.
    while low < high:
        v = (low + high + 1) // 2
        i = -2 * (v - 1 - noisy) - 1
        if i >= 0 and below[min(i, 2 * window)] >= v:
            low = v
        else:
            high = v - 1
    v = low
    for price in range(2 * window + 1):
        i = price - 2 * (v - noisy) - 1
        while v < below[-1] and i >= 0 and below[min(i, 2 * window)] > v:
            v += 1
            i -= 2
        own[price] = v


@allocating
def _root(noisy: Ints, starts: Ints, window: int) -> Ints:
    if len(starts) == 1:
        alone = np.empty(2 * window + 1, np.int64)
        for i in range(2 * window + 1):
            alone[i] = _units(noisy[0], i - window)
        return alone
    _, own = _tables(noisy, starts, window)
    root: Ints = own[0].copy()
    return root


@inner
def _first(rising: Ints, threshold: int) -> int:
    """The first position whose number is no smaller."""
    low, high = 0, len(rising)
    while low < high:
        middle = (low + high) // 2
        if rising[middle] < threshold:
            low = middle + 1
        else:
            high = middle
    return low


@allocating
def _settle(noisy: Ints, starts: Ints, window: int, total: int, turn: int, leaves: Ints) -> bool:
    """Divide `total` down the tree into `leaves`. Returns whether the window was too narrow for some region."""
    inner = len(starts) - 1
    numbers = np.empty(len(noisy), np.int64)
    numbers[0] = total
    if inner > 0:
        below, own = _tables(noisy, starts, window)
    narrow = False
    for r in range(inner):
        family = starts[r + 1] - starts[r]
        narrow = narrow or numbers[r] == below[r, -1] or (numbers[r] == below[r, 0] and numbers[r] > 0)
        i = _first(below[r], numbers[r])
        spare = below[r, i] - numbers[r]
        k = turn % family
        for _ in range(family):
            child = starts[r] + k
            k = k + 1 if k + 1 < family else 0
            if child >= inner:
                number, before = _units(noisy[child], i - window), _units(noisy[child], i - 1 - window)
            else:
                number, before = own[child, i], own[child, max(i - 1, 0)]
            if spare > 0 and number > before:
                number -= 1
                spare -= 1
            numbers[child] = number
    assign(leaves, numbers[len(numbers) - len(leaves) :])
    return narrow


def h_dp(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, sections 6 and 7: exact least squares over the tree."""
    return Estimate(nearest_tree(measured.hierarchy, measured.histograms(), measured.total))


# In place of a bound: sums of it do not overflow.
_MOST = 2**60


def c_dp(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, Algorithm 2: isotonic regression in [0, G], rounding, then M_H^dp.

    With private totals the counts are cumulated from the largest size down, and G is no bound.
    """
    total = measured.total
    if total is None:
        histograms = tuple(_differences(counts[:, ::-1], _MOST)[:, ::-1] for counts in measured.values)
    else:
        histograms = tuple(_differences(counts, total) for counts in measured.values)
    return Estimate(nearest_tree(measured.hierarchy, histograms, total))


def _differences(counts: Ints, most: int) -> Ints:
    return np.diff(whole_rows(counts, 0, most), axis=1, prepend=0)
