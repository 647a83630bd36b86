"""95 % intervals that hold for any data, each as short as likeness lets it be.

A region's number of groups is tested by noisy values of its own level, X; which test is inverted follows from A: noisy
values of its parent's level (for the root, of the level below), and of the region itself such as the test does not use.
All noise is independent, so X's is, given A, what it always is. Whatever test A chooses, given A it accepts the truth
with probability at least 95 %; so does the interval, the set of what it accepts, on average over A: for every number,
every table, every epsilon. That the parent is like its regions is used to choose alone: where it is not, intervals are
longer and not wrong. The tests, for n_s = t_s - t_(s+1):

two-sided   y_s - y_(s+1) has noise of known tails, exactly; regions of acceptance: `acceptance`.
one-sided   t only falls, so n_s <= (mean of t over sizes up to s) - (mean of t over sizes from s + 1) for any window
            on either side. The same of y is less by more than `tails.reaches` 5 times in a hundred. Where next to
            nothing is expected long windows make this bound a fraction of the noise on one value.

With noise on n_s itself there is the two-sided one, with a single draw. Cutting to what holds without noise, 0 <= n_s
<= total, loses no truth, and widening to what is released with it neither. Noise of a scale above 2^40 tells next to
nothing of at most 10^15 groups: there the interval is all that is possible.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from duckanon.engines.compiled import compiled, inlined
from duckanon.engines.groups.acceptance_regions import LEVEL, VARIANCES, Tables, ends, tables
from duckanon.engines.groups.discrete_laplace import WINDOWS, margin, reaches, variance
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats, pool_rows, sparse
from duckanon.engines.groups.measurements import MOST, Measurements
from duckanon.engines.groups.queries import HISTOGRAM

_WIDEST = 1 << 40
# How far shapes are thought to lie from what is expected, as a part of it: it chooses tests, and no more.
_APART = 0.1
_NEVER = 1e300

# Of acceptance.Tables: width, start, even, lo, hi, first, last.
Unpacked = tuple[int, int, Ints, Ints, Ints, Ints, Ints]


def guaranteed(measured: Measurements, levels: tuple[Ints, ...]) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """The low and the high ends, one int64 array a level, of intervals for each number, widened to hold `levels`.

    measured: noise on t_s or on n_s. levels: what is released, (regions, max_size) each.
    """
    lows, highs = [], []
    for level, released in enumerate(levels):
        totals = None if measured.totals is None else measured.totals[level]
        most = np.full(len(released), MOST) if totals is None else totals
        low, high = np.zeros_like(released), np.repeat(most[:, None], released.shape[1], axis=1)
        if measured.scales[level] < _WIDEST:
            interval = _from_counts if measured.query is HISTOGRAM else _from_above
            interval(measured, level, most, low, high)
        lows.append(np.minimum(np.clip(low, 0, most[:, None]), released))
        highs.append(np.maximum(np.clip(high, 0, most[:, None]), released))
    return tuple(lows), tuple(highs)


def _elsewhere(measured: Measurements, level: int) -> tuple[Ints, Ints, float, Ints | None] | None:
    """Noisy values from which the tests of a level may be chosen: independent of the level's own.

    Which of their rows is for which region; the rows; the variance of their noise; their totals where public. The
    parents', or, for the root, its children's sum; None if the root is all.
    """
    tree, totals = measured.hierarchy, measured.totals
    if level:
        known = None if totals is None else totals[level - 1]
        return tree.parents[level - 1], measured.values[level - 1], variance(measured.scales[level - 1]), known
    if tree.depth == 1:
        return None
    doubt = variance(measured.scales[1]) * tree.sizes[1]
    return np.zeros(1, dtype=np.int64), tree.up(0, measured.values[1]), doubt, None if totals is None else totals[0]


def _unpacked(table: Tables) -> Unpacked:
    return table.width, table.start, table.even, table.lo, table.hi, table.first, table.last


# --- noise on t_s -----------------------------------------------------------------------------------------------------


def _from_above(measured: Measurements, level: int, most: Ints, low: Ints, high: Ints) -> None:
    known, values, scale = measured.totals is not None, measured.values[level], measured.scales[level]
    # t_1 to t_(max_size + 1), the last of them zero.
    first = [most[:, None]] if known else []
    seen = np.column_stack([*first, values, np.zeros(len(values), dtype=np.int64)])
    found = _elsewhere(measured, level)
    if found is None:
        _alone(seen, known, float(scale), reaches(scale, 1 - LEVEL), _unpacked(tables(scale)), low, high)
        return
    parent, rows, doubt, whole = found
    curve, noise = _curve(rows, whole), variance(scale)
    whole_of = np.maximum(curve[:, 0], 1.0)[parent]
    share, unsure = np.maximum(seen[:, 0], 0) / whole_of, np.zeros(len(seen))
    first_share, first_unsure = share, unsure
    if not known:
        # y_1 is the total's; for size 1, which it tests, the later values are, by least squares.
        unsure = noise / whole_of**2
        squares = np.maximum((curve[:, 2:] ** 2).sum(axis=1), 1e-6)[parent]
        first_share = np.maximum((seen[:, 2:] * curve[parent, 2:]).sum(axis=1) / squares, 0)
        first_unsure = noise / squares
    _above_kernel(
        seen, known, curve, parent, first_share, first_unsure, share, unsure, doubt, most.astype(np.float64),
        np.array(WINDOWS), reaches(scale, 1 - LEVEL), VARIANCES * float(scale) ** 2, tables(scale).half,
        _unpacked(tables(scale)), low, high,
    )  # fmt: skip


def _curve(rows: Ints, whole: Ints | None) -> Floats:
    """t_1 to t_(max_size + 1) of each row, nearest to the noisy values and falling."""
    falling = pool_rows(np.ascontiguousarray(rows[:, ::-1]).astype(np.float64), 0.0, np.inf)[:, ::-1]
    if whole is not None:
        falling = np.column_stack([whole, np.minimum(falling, whole[:, None])])
    return np.column_stack([falling, np.zeros(len(rows))])


@compiled
def _above_kernel(
    seen: Ints,
    known: bool,
    curve: Floats,
    parent: Ints,
    first_share: Floats,
    first_unsure: Floats,
    shares: Floats,
    unsure: Floats,
    doubt: float,
    most: Floats,
    windows: Ints,
    reach: Floats,
    variances: Floats,
    half: Floats,
    table: Unpacked,
    low: Ints,
    high: Ints,
) -> None:
    """Each cell's test, and its interval by it into low, high. seen, curve: (., max_size + 1), t_1 to t_(max_size + 1).

    shares, unsure: what the curve is to be multiplied by, and the variance of that; first_*: for size 1.
    """
    sizes = seen.shape[1] - 1
    sums = np.zeros((len(curve), sizes + 1))
    for p in range(len(curve)):
        for s in range(1, sizes):
            sums[p, s] = sums[p, s - 1] + curve[p, s]
    own = np.zeros(sizes + 1, np.int64)
    for c in range(len(seen)):
        p = parent[c]
        for s in range(1, sizes):
            own[s] = own[s - 1] + seen[c, s]
        for s in range(sizes):
            terms = (0 if s == 0 and known else 1) + (0 if s == sizes - 1 else 1)
            if terms == 0:
                low[c, s] = high[c, s] = seen[c, 0]
                continue
            share, doubt_of_share = (first_share[c], first_unsure[c]) if s == 0 else (shares[c], unsure[c])
            shape = curve[p, s] - curve[p, s + 1]
            mean = min(share * shape, most[c])
            spread = _spread(mean) + share * share * terms * doubt + shape * shape * doubt_of_share
            v = np.searchsorted(variances, spread)
            bound, expected = _bound(s, known, seen[c, 0], own, share * curve[p, 0], share, sums[p], windows, reach)
            two = min(mean + half[terms - 1, v], most[c]) - max(mean - half[terms - 1, v], 0.0)
            if two < min(expected, most[c]):
                low[c, s], high[c, s] = _two_sided(seen[c, s] - seen[c, s + 1], mean, terms - 1, v, table)
            else:
                low[c, s], high[c, s] = 0, int(np.floor(bound))


@inlined
def _spread(mean: float) -> float:
    """The variance of a number around its expectation, as it is thought to be; at least that of rounding."""
    return mean + (_APART * mean) ** 2 + 0.25


@inlined
def _two_sided(noisy: int, mean: float, t: int, v: int, table: Unpacked) -> tuple[int, int]:
    width, start, even, lo, hi, first, last = table
    middle = int(np.rint(mean))
    low, high = ends(noisy - middle, t, v, width, start, even, lo, hi, first, last)
    return low + middle, high + middle


@inlined
def _bound(
    s: int,
    known: bool,
    top: int,
    own: Ints,
    top_expected: float,
    share: float,
    sums: Floats,
    windows: Ints,
    reach: Floats,
) -> tuple[float, float]:
    """The upper bound of n_(s+1) whose windows make it the least expected one, and what was expected.

    own, sums: sums of t_2, t_3, ... as seen, and as expected with share 1. top, top_expected: t_1.
    """
    bound, expected = 0.0, _NEVER
    for i in range(len(windows)):
        # From size 2 on windows leave out t_1: it is known, or has chosen the test.
        many = windows[i]
        if s == 0:
            if many != (0 if known else 1):
                continue
            before, before_expected = float(top), top_expected
        else:
            if many == 0 or s - many < 0:
                continue
            before, before_expected = (own[s] - own[s - many]) / many, share * (sums[s] - sums[s - many]) / many
        for k in range(len(windows)):
            other = windows[k]
            # Private t_1 is tested beside t_2, by what the later values expect.
            if s + other > len(own) - 2 or (s == 0 and not known and other > 1):
                continue
            after, after_expected = 0.0, 0.0
            if other > 0:
                after, after_expected = (own[s + other] - own[s]) / other, share * (sums[s + other] - sums[s]) / other
            found = before_expected - after_expected + reach[i, k]
            if found < expected:
                # Floats round: outward, by more than they can.
                expected, bound = found, before - after + reach[i, k] + 1e-9 + 1e-15 * (abs(before) + abs(after))
    return bound, expected


@compiled
def _alone(seen: Ints, known: bool, scale: float, reach: Floats, table: Unpacked, low: Ints, high: Ints) -> None:
    """Where the root is all, the smaller sizes choose: where hardly a group is larger than 16 to 31 sizes before, the
    mean of the 16 values since then bounds t_s, and so n_s; elsewhere an even test.
    """
    sizes, even = seen.shape[1] - 1, table[2]
    for s in range(sizes):
        terms = (0 if s == 0 and known else 1) + (0 if s == sizes - 1 else 1)
        d = seen[0, s] - seen[0, s + 1]
        low[0, s] = high[0, s] = d
        if terms > 0:
            low[0, s], high[0, s] = d - even[terms - 1, 1], d + even[terms - 1, 0]
        if s >= 32 and seen[0, s - 31 : s - 15].mean() <= 2 * scale:
            bound = seen[0, s - 15 : s + 1].mean() + reach[3, 0]
            low[0, s], high[0, s] = 0, int(np.floor(bound + 1e-9 + 1e-15 * abs(bound)))


# --- noise on n_s -----------------------------------------------------------------------------------------------------


def _from_counts(measured: Measurements, level: int, most: Ints, low: Ints, high: Ints) -> None:
    values, scale = measured.values[level], measured.scales[level]
    found = _elsewhere(measured, level)
    if found is None:
        even = tables(scale).even[0]
        low[:], high[:] = values - even[1], values + even[0]
        return
    parent, rows, doubt, _ = found
    shape, doubts = (np.array(part) for part in zip(*(sparse(row.astype(float), doubt) for row in rows), strict=True))
    _counts_kernel(
        values, measured.totals is not None, most, shape, doubts, parent, variance(scale),
        VARIANCES * float(scale) ** 2, _unpacked(tables(scale)), low, high,
    )  # fmt: skip


@compiled
def _counts_kernel(
    seen: Ints,
    known: bool,
    most: Ints,
    shape: Floats,
    doubts: Floats,
    parent: Ints,
    noise: float,
    variances: Floats,
    table: Unpacked,
    low: Ints,
    high: Ints,
) -> None:
    """As above. A private total is read off the noisy numbers of the other sizes, by least squares on the shape."""
    sizes = seen.shape[1]
    squares, products = np.zeros(sizes + 1), np.zeros(sizes + 1)
    for c in range(len(seen)):
        p = parent[c]
        whole, squares_before, products_before = 0.0, 0.0, 0.0
        # Sums from a size on; with those before it they leave it out altogether, which a difference of floats does not.
        for s in range(sizes - 1, -1, -1):
            whole += shape[p, s]
            squares[s] = squares[s + 1] + shape[p, s] ** 2
            products[s] = products[s + 1] + shape[p, s] * seen[c, s]
        for s in range(sizes):
            share, unsure = most[c] / max(whole, 1.0), 0.0
            if not known:
                rest = max(squares_before + squares[s + 1], 1e-9 * squares[0] + 1e-6)
                share, unsure = max(products_before + products[s + 1], 0.0) / rest, noise / rest
            squares_before += shape[p, s] ** 2
            products_before += shape[p, s] * seen[c, s]
            mean = min(share * shape[p, s], float(most[c]))
            spread = _spread(mean) + share * share * doubts[p, s] + shape[p, s] ** 2 * unsure
            v = np.searchsorted(variances, spread)
            low[c, s], high[c, s] = _two_sided(seen[c, s], mean, 0, v, table)


def from_noise(measured: Measurements, levels: tuple[Ints, ...]) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """95 % intervals around what was measured, cut to what is possible and widened to hold what is released."""
    low, high = [], []
    for level, (noisy, released) in enumerate(zip(measured.histograms(), levels, strict=True)):
        q = margin(measured.scales[level], measured.query.terms, LEVEL)
        most = np.iinfo(np.int64).max if measured.totals is None else measured.totals[level][:, None]
        low.append(np.minimum(np.clip(noisy - q, 0, most), released))
        high.append(np.maximum(np.clip(noisy + q, 0, most), released))
    return tuple(low), tuple(high)


def tail(above: Ints, scale: Fraction) -> Ints:
    """Upper bounds of t_s from noisy ones: t only falls, so but for noise the mean of a run that ends at s is above.

    Runs of 16, 64, 256, ... values, three standard deviations each. above: (regions, values). Without a run of 16 there
    is no bound: 2^62.
    """
    bound = np.full(above.shape, np.inf)
    sums = np.cumsum(above, axis=1, dtype=np.float64)
    run = 16
    while run <= above.shape[1]:
        means = (sums[:, run - 1 :] - np.column_stack([np.zeros(len(above)), sums[:, :-run]])) / run
        reach = 3 * np.sqrt(variance(scale) / run)
        bound[:, run - 1 :] = np.minimum(bound[:, run - 1 :], np.maximum(means, 0) + reach)
        run *= 4
    found: Ints = np.ceil(np.minimum(bound, 2.0**62)).astype(np.int64)
    return found
