"""95 % intervals that hold for any data, and are shorter where regions are like their parents.

An interval is the set of numbers that a test accepts. The test uses noisy values X of the region's own level. It is
chosen by other noisy values A: those of the parent's level (for the root, of the level below), and those of the region
that the test does not use. All noise is independent, so X has the same distribution for every A. Hence, given A, the
chosen test accepts the true number with probability at least 95 %, and so the interval contains it, for every number,
table and epsilon. Regions that differ from their parents get a worse choice: longer intervals, which still hold.
The tests, for n_s = t_s - t_(s+1):

two-sided   the noise in y_s - y_(s+1), y being the noisy t, has exactly known tails: `acceptance_regions`.
one-sided   t does not increase, so n_s <= (mean of t over sizes up to s) - (mean of t over sizes from s + 1), for any
            windows on both sides. For y the difference is below that by more than `reaches` in 5 % of cases. Where
            hardly any groups are expected, long windows make this bound a fraction of the noise on one value.

With noise on n_s itself only the two-sided test is used, with a single draw. Intervals are cut to 0 <= n_s <= total,
and widened to include the released number; neither lowers their coverage. Where the scale of the noise is above 2^40,
the interval is everything that is possible, because there are at most 10^15 groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckanon.engines.groups.acceptance_regions import LEVEL, VARIANCES, Tables, ends, tables
from duckanon.engines.groups.discrete_laplace import WINDOWS, margin, reaches, variance
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats, pool_rows, sparse
from duckanon.engines.groups.measurements import MOST, Measurements
from duckanon.engines.groups.queries import HISTOGRAM

_WIDEST = 1 << 40
# The assumed relative deviation of a number from its expectation. It only affects which test is chosen.
_APART = 0.1
_NEVER = 1e300

# How many cells are computed at a time.
_BLOCK = 1 << 14


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
    """Noisy values, independent of the level's own, by which its tests may be chosen.

    They are the parents' or, for the root, the sum of its children's; None if the root is the only level. Returns which
    row is for which region, the rows, the variance of their noise, and their totals where public.
    """
    tree, totals = measured.hierarchy, measured.totals
    if level:
        known = None if totals is None else totals[level - 1]
        return tree.parents[level - 1], measured.values[level - 1], variance(measured.scales[level - 1]), known
    if tree.depth == 1:
        return None
    summed = variance(measured.scales[1]) * tree.sizes[1]
    return np.zeros(1, dtype=np.int64), tree.up(0, measured.values[1]), summed, None if totals is None else totals[0]


def _blocks(regions: int, sizes: int) -> Iterator[slice]:
    """Slices of a table's rows, short enough for all intermediate results to stay in the processor's cache."""
    step = max(1, _BLOCK // sizes)
    return (slice(start, start + step) for start in range(0, regions, step))


# --- noise on t_s -----------------------------------------------------------------------------------------------------


def _from_above(measured: Measurements, level: int, most: Ints, low: Ints, high: Ints) -> None:
    known, values, scale = measured.totals is not None, measured.values[level], measured.scales[level]
    # t_1 to t_(max_size + 1), the last of them zero.
    first = [most[:, None]] if known else []
    seen = np.column_stack([*first, values, np.zeros(len(values), dtype=np.int64)])
    found = _elsewhere(measured, level)
    if found is None:
        _alone(seen, known, scale, low, high)
        return
    parent, rows, row_variance, whole = found
    curve, noise = _curve(rows, whole), variance(scale)
    whole_of = np.maximum(curve[:, 0], 1.0)[parent]
    share, unsure = np.maximum(seen[:, 0], 0) / whole_of, np.zeros(len(seen))
    first_share, first_unsure = share, unsure
    if not known:
        # y_1 estimates the total. Size 1 is tested by y_1, so there the later values do, by least squares.
        unsure = noise / whole_of**2
        squares = np.maximum((curve[:, 2:] ** 2).sum(axis=1), 1e-6)[parent]
        first_share = np.maximum((seen[:, 2:] * curve[parent, 2:]).sum(axis=1) / squares, 0)
        first_unsure = noise / squares
    for block in _blocks(*low.shape):
        shares, share_variances = (
            np.column_stack([first[block], np.repeat(other[block, None], low.shape[1] - 1, axis=1)])
            for first, other in ((first_share, share), (first_unsure, unsure))
        )
        test = _Above(
            seen[block], known, curve[parent[block]], shares, share_variances, row_variance, most[block, None], scale
        )
        low[block], high[block] = test.intervals()


def _curve(rows: Ints, whole: Ints | None) -> Floats:
    """t_1 to t_(max_size + 1) of each row: the decreasing sequence nearest to the noisy values."""
    falling = pool_rows(np.ascontiguousarray(rows[:, ::-1]).astype(np.float64), 0.0, np.inf)[:, ::-1]
    if whole is not None:
        falling = np.column_stack([whole, np.minimum(falling, whole[:, None])])
    return np.column_stack([falling, np.zeros(len(rows))])


@dataclass(frozen=True, eq=False)
class _Above:
    """The tests of some regions' cells.

    seen: t_1 to t_(sizes + 1), (regions, sizes + 1). known: whether t_1 is public, and so without noise. curve: what is
    expected of `seen` where the region has its parent's total. shares, share_variances: (regions, sizes), the
    estimated shares of the parent's total, and their variances. row_variance: of the curve's values. most: the largest
    possible numbers, (regions, 1).
    """

    seen: Ints
    known: bool
    curve: Floats
    shares: Floats
    share_variances: Floats
    row_variance: float
    most: Ints
    scale: Fraction

    def intervals(self) -> tuple[Ints, Ints]:
        """Each cell's interval, by the test whose interval is expected to be shorter."""
        terms = _terms(self.shares.shape[1], self.known)
        table, most = tables(self.scale), self.most.astype(np.float64)
        shape = self.curve[:, :-1] - self.curve[:, 1:]
        mean = np.minimum(self.shares * shape, most)
        spread = (
            _spread(mean) + self.shares * self.shares * terms * self.row_variance + shape * shape * self.share_variances
        )
        v = np.searchsorted(VARIANCES * float(self.scale) ** 2, spread)
        half = table.half[terms - 1, v]
        two_sided = np.minimum(mean + half, most) - np.maximum(mean - half, 0.0)
        bound, expected = self._bounds()
        low, high = _two_sided(self.seen[:, :-1] - self.seen[:, 1:], mean, terms - 1, v, table)
        one_sided = two_sided >= np.minimum(expected, most)
        low, high = np.where(one_sided, 0, low), np.where(one_sided, np.floor(bound).astype(np.int64), high)
        if terms[0] == 0:
            low[:, 0] = high[:, 0] = self.seen[:, 0]
        return low, high

    def _bounds(self) -> tuple[Floats, Floats]:
        """One-sided upper bounds of n_s, with the windows whose expected bound is least; and that expectation."""
        sizes = self.shares.shape[1]
        reach = reaches(self.scale, 1 - LEVEL)
        # Sums of t_2 to t_s, observed, and expected for a share of 1. From size 2 on windows leave t_1 out, because it
        # is public, or was used to choose the test.
        own, sums = self.seen[:, :-1].copy(), self.curve[:, :-1].copy()
        own[:, 0], sums[:, 0] = 0, 0.0
        own, sums = np.cumsum(own, axis=1), np.cumsum(sums, axis=1)
        expected, chosen = np.full(self.shares.shape, _NEVER), np.zeros(self.shares.shape, dtype=np.int64)
        for i, many in enumerate(WINDOWS):
            for k, other in enumerate(WINDOWS):
                # Only t_1 comes before size 1. Where t_1 is private it is tested with t_2, around what the later values
                # predict.
                if many == (0 if self.known else 1) and other <= sizes - 1 and (self.known or other <= 1):
                    found = self.shares[:, :1] * self.curve[:, :1]
                    found = found - self._expected(sums, slice(0, 1), other, self.shares[:, :1]) + reach[i, k]
                    _keep_least(expected[:, :1], chosen[:, :1], found, i * len(WINDOWS) + k)
                if 0 < many < sizes - other:
                    places = slice(many, sizes - other)
                    shares = self.shares[:, places]
                    found = self._expected(sums, slice(0, sizes - other - many), many, shares)
                    found = found - self._expected(sums, places, other, shares) + reach[i, k]
                    _keep_least(expected[:, places], chosen[:, places], found, i * len(WINDOWS) + k)
        windows, place = np.array(WINDOWS), np.arange(sizes)
        back, ahead = windows[chosen // len(WINDOWS)], windows[chosen % len(WINDOWS)]
        before = (own - np.take_along_axis(own, np.maximum(place - back, 0), axis=1)) / np.maximum(back, 1)
        before[:, 0] = self.seen[:, 0]
        after = (np.take_along_axis(own, np.minimum(place + ahead, sizes - 1), axis=1) - own) / np.maximum(ahead, 1)
        # Outward by more than the rounding error.
        bound = before - after + reach.reshape(-1)[chosen] + 1e-9 + 1e-15 * (np.abs(before) + np.abs(after))
        return np.where(expected < _NEVER, bound, 0.0), expected

    def _expected(self, sums: Floats, places: slice, many: int, shares: Floats) -> Floats:
        """The expected mean of the `many` values of t after each of these places; zero for no values."""
        if many == 0:
            return np.zeros((1, 1))
        return shares * (sums[:, places.start + many : places.stop + many] - sums[:, places]) / many


def _keep_least(expected: Floats, chosen: Ints, found: Floats, which: int) -> None:
    """Replace entries of `expected` that are above `found`, and set `chosen` there to `which`."""
    less = found < expected
    np.copyto(expected, found, where=less)
    np.copyto(chosen, which, where=less)


def _terms(sizes: int, known: bool) -> Ints:
    """How many draws of noise are in n_s = t_s - t_(s+1), by size. t_1 may be public; t after the last size is 0."""
    terms = np.full(sizes, 2)
    terms[0] -= known
    terms[-1] -= 1
    return terms


def _spread(mean: Floats) -> Floats:
    """The assumed variance of a number around its expectation; at least that of rounding."""
    return mean + (_APART * mean) ** 2 + 0.25


def _two_sided(noisy: Ints, mean: Floats, t: Ints | int, v: Ints, table: Tables) -> tuple[Ints, Ints]:
    middle = np.rint(mean).astype(np.int64)
    low, high = ends(noisy - middle, t, v, table)
    return low + middle, high + middle


def _alone(seen: Ints, known: bool, scale: Fraction, low: Ints, high: Ints) -> None:
    """Intervals where the root is the only level: values of smaller sizes choose the test.

    If the values of t 16 to 31 sizes before are hardly above zero, the mean of the 16 values before t_s is an upper
    bound of t_s, and so of n_s. Elsewhere the test is two-sided and symmetric. seen: (1, sizes + 1).
    """
    sizes, even = seen.shape[1] - 1, tables(scale).even
    terms = _terms(sizes, known)
    difference = seen[0, :-1] - seen[0, 1:]
    low[0], high[0] = difference - even[terms - 1, 1], difference + even[terms - 1, 0]
    if terms[0] == 0:
        low[0, 0] = high[0, 0] = difference[0]
    runs = np.lib.stride_tricks.sliding_window_view(seen[0, :sizes], 16).mean(axis=1) if sizes > 32 else np.empty(0)
    places = np.flatnonzero(runs[1 : len(runs) - 16] <= 2 * float(scale)) + 32
    bound = runs[places - 15] + reaches(scale, 1 - LEVEL)[3, 0]
    low[0, places], high[0, places] = 0, np.floor(bound + 1e-9 + 1e-15 * np.abs(bound)).astype(np.int64)


# --- noise on n_s -----------------------------------------------------------------------------------------------------


def _from_counts(measured: Measurements, level: int, most: Ints, low: Ints, high: Ints) -> None:
    values, scale = measured.values[level], measured.scales[level]
    found = _elsewhere(measured, level)
    if found is None:
        even = tables(scale).even[0]
        low[:], high[:] = values - even[1], values + even[0]
        return
    parent, rows, row_variance, _ = found
    fitted = [sparse(row.astype(float), row_variance) for row in rows]
    shape, shape_variances = (np.array(part) for part in zip(*fitted, strict=True))
    for block in _blocks(*low.shape):
        given = values[block], measured.totals is not None, most[block, None], shape[parent[block]]
        low[block], high[block] = _of_counts(*given, shape_variances[parent[block]], scale)


def _of_counts(
    seen: Ints, known: bool, most: Ints, shape: Floats, shape_variances: Floats, scale: Fraction
) -> tuple[Ints, Ints]:
    """Two-sided intervals of some regions. shape, shape_variances: of each region's parent.

    A private total is estimated from the noisy numbers of the other sizes, by least squares on the shape.
    """
    if known:
        share, unsure = most / np.maximum(_later(shape)[:, :1], 1.0), np.zeros((len(seen), 1))
    else:
        square, product = shape * shape, shape * seen
        squares, products = _later(square), _later(product)
        rest = np.maximum(_before(square) + squares[:, 1:], 1e-9 * squares[:, :1] + 1e-6)
        # Sums before a size and after it, because a difference of two float sums would still contain rounding errors
        # that depend on the size.
        share, unsure = np.maximum(_before(product) + products[:, 1:], 0.0) / rest, variance(scale) / rest
    mean = np.minimum(share * shape, most)
    spread = _spread(mean) + share * share * shape_variances + shape * shape * unsure
    v = np.searchsorted(VARIANCES * float(scale) ** 2, spread)
    return _two_sided(seen, mean, 0, v, tables(scale))


def _later(values: Floats) -> Floats:
    """Sums over each size and all larger ones, and a last one over none."""
    sums = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    return np.column_stack([sums, np.zeros(len(values))])


def _before(values: Floats) -> Floats:
    """Sums over all sizes smaller than each."""
    return np.column_stack([np.zeros(len(values)), np.cumsum(values[:, :-1], axis=1)])


def from_noise(measured: Measurements, levels: tuple[Ints, ...]) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """95 % intervals around the noisy values, cut to what is possible and widened to include the released numbers."""
    low, high = [], []
    for level, (noisy, released) in enumerate(zip(measured.histograms(), levels, strict=True)):
        q = margin(measured.scales[level], measured.query.terms, LEVEL)
        most = np.iinfo(np.int64).max if measured.totals is None else measured.totals[level][:, None]
        low.append(np.minimum(np.clip(noisy - q, 0, most), released))
        high.append(np.maximum(np.clip(noisy + q, 0, most), released))
    return tuple(low), tuple(high)


def tail(above: Ints, scale: Fraction) -> Ints:
    """Upper bounds of t_s. t does not increase, so without noise the mean of a run of values up to s is above t_s.

    Runs have 16, 64, 256, ... values; three standard deviations of the noise are added. above: noisy t_s, (regions,
    values). Without a run of 16 there is no bound: 2^62.
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
