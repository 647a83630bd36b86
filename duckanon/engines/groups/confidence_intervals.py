"""95 % intervals that hold for any data, and are shorter where regions are like their parents.

An interval is the set of numbers that a test accepts. The test uses noisy values X of the region's own level. It is
chosen by other noisy values A: those of the parent's level (for the root, of the level below), and those of the region
that the test does not use. All noise is independent, so X has the same distribution for every A. Hence, given A, the
chosen test accepts the true number with probability at least 95 %, and so the interval contains it, for every number,
table and epsilon. Regions that differ from their parents get a worse choice: longer intervals, which still hold.
The tests, for n_s = t_s - t_(s+1):

two-sided   the noise in y_s - y_(s+1), y being the noisy t, has exactly known tails: `acceptance_regions`. The two
            may have noise of different scales.
one-sided   t does not increase, so n_s <= (mean of t over sizes up to s) - (mean of t over sizes from s + 1), for any
            windows on both sides. For y the difference is below that by more than `reach` in 5 % of cases. Where
            hardly any groups are expected, long windows make this bound a fraction of the noise on one value. All
            values in both windows have noise of one scale.
parent      a region has no more groups of a size than its parent, so the parent's upper bound holds for it too. It is
            the shorter one for sizes that hardly any region has, whose noise is less at the parent's level (`split`).
            The look says which sizes these are.

With noise on n_s itself only the two-sided test is used, with a single draw. Intervals are cut to 0 <= n_s <= total,
and widened to include the released number; neither lowers their coverage. Where the scale of the noise is above 2^40,
the interval is everything that is possible, because there are at most 10^15 groups. The scales follow from the look,
which no test uses, and whose noise is independent of all other noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.groups.acceptance_regions import LEVEL, VARIANCES, Tables, ends, table, tables
from duckanon.engines.groups.draws import WINDOWS, Draws, margin, reach, size, variance
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats, pool_rows, sparse
from duckanon.engines.groups.measurements import MOST, Look, Measurements
from duckanon.engines.groups.queries import HISTOGRAM

_WIDEST = 1 << 40
# The assumed relative deviation of a number from its expectation. It only affects which test is chosen.
_APART = 0.1
_NEVER = 1e300
# A parent's bound is taken where it is expected to be below this part of the region's own.
_SHORTER = 0.8

# How many cells are computed at a time.
_BLOCK = 1 << 14


def guaranteed(measured: Measurements, levels: tuple[Ints, ...]) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """The low and the high ends, one int64 array a level, of intervals for each number, widened to hold `levels`.

    measured: noise on t_s or on n_s. levels: what is released, (regions, max_size) each.
    """
    lows: list[Ints] = []
    highs: list[Ints] = []
    for level, released in enumerate(levels):
        totals = None if measured.totals is None else measured.totals[level]
        most = np.full(len(released), MOST) if totals is None else totals
        low, high = np.zeros_like(released), np.repeat(most[:, None], released.shape[1], axis=1)
        if max(map(size, measured.noise[level])) < _WIDEST:
            if measured.query is HISTOGRAM:
                _from_counts(measured, level, most, low, high)
            else:
                by_parents = _bounded_by_parents(measured, level)
                _from_above(measured, level, most, low, high, int(np.flatnonzero(~by_parents).max(initial=-1)) + 1)
                if by_parents.any():
                    low[:, by_parents], high[:, by_parents] = (
                        0,
                        highs[-1][:, by_parents][measured.hierarchy.parents[level - 1]],
                    )
        lows.append(np.minimum(np.clip(low, 0, most[:, None]), released))
        highs.append(np.maximum(np.clip(high, 0, most[:, None]), released))
    return tuple(lows), tuple(highs)


def _elsewhere(measured: Measurements, level: int) -> tuple[Ints, Ints, Floats, Ints | None] | None:
    """Noisy values, independent of the level's own, by which its tests may be chosen.

    They are the parents' or, for the root, the sum of its children's; None if the root is the only level. Returns which
    row is for which region, the rows, the variances of a row's noise, and their totals where public.
    """
    tree, totals = measured.hierarchy, measured.totals
    if level:
        known = None if totals is None else totals[level - 1]
        return tree.parents[level - 1], measured.values[level - 1], measured.variances(level - 1), known
    if tree.depth == 1:
        return None
    summed = measured.variances(1) * tree.sizes[1]
    return np.zeros(1, dtype=np.int64), tree.up(0, measured.values[1]), summed, None if totals is None else totals[0]


def _bounded_by_parents(measured: Measurements, level: int) -> NDArray[np.bool_]:
    """The sizes at which the parents' upper bounds are expected to be below their own: chosen by the look alone."""
    if measured.look is None or level == 0:
        return np.zeros(measured.max_size, dtype=bool)
    above, own = (_expected_bounds(measured, measured.look, bounding_level) for bounding_level in (level - 1, level))
    shorter: NDArray[np.bool_] = above < _SHORTER * own
    return shorter


def _expected_bounds(measured: Measurements, look: Look, level: int) -> Floats:
    """Roughly what the upper bound of each size's number is in a region of this level, by the look's noisy counts."""
    whole = None if measured.totals is None else measured.totals[0]
    curve = _curve(look.values[None, :], np.ones(len(look.values)), whole)[0] / measured.hierarchy.sizes[level]
    numbers = (curve[:-1] - np.append(curve[2:], 0.0)) / 2
    one_sided = curve[:-1] + _reaches(measured, level).min(axis=(0, 1))
    two_sided = numbers + [table(draws).even[0] if draws else 0 for draws in draws_of(measured, level)]
    bounds: Floats = np.minimum(one_sided, two_sided)
    return bounds


def _blocks(regions: int, sizes: int) -> Iterator[slice]:
    """Slices of a table's rows, short enough for all intermediate results to stay in the processor's cache."""
    step = max(1, _BLOCK // sizes)
    return (slice(start, start + step) for start in range(0, regions, step))


# --- noise on t_s -----------------------------------------------------------------------------------------------------


def draws_of(measured: Measurements, level: int) -> list[Draws]:
    """For each size the draws in n_s = t_s - t_(s+1). t_1 may be public; t after the last size is 0."""
    drawn: list[Draws] = [(measured.noise[level][way],) for way in measured.ways]
    first: list[Draws] = [()] if measured.totals is not None else []
    return [current + following for current, following in pairwise([*first, *drawn, ()])]


def _from_above(measured: Measurements, level: int, most: Ints, low: Ints, high: Ints, count: int) -> None:
    """The intervals of the first `count` sizes, or of some more, into low and high."""
    known, values, drawn = measured.totals is not None, measured.values[level], draws_of(measured, level)
    # t_1 to t_(max_size + 1), the last of them zero.
    first = [most[:, None]] if known else []
    noisy = np.column_stack([*first, values, np.zeros(len(values), dtype=np.int64)])
    if not any(drawn):
        low[:] = high[:] = noisy[:, :1]
        return
    elsewhere = _elsewhere(measured, level)
    if elsewhere is None:
        _alone(noisy, drawn, low, high)
        return
    parent, rows, row_variances, whole = elsewhere
    curve, variances = _curve(rows, row_variances, whole), measured.variances(level)
    whole_of = np.maximum(curve[:, 0], 1.0)[parent]
    share, unsure = np.maximum(noisy[:, 0], 0) / whole_of, np.zeros(len(noisy))
    first_share, first_unsure = share, unsure
    if not known:
        # y_1 estimates the total. Size 1 is tested by y_1, so there the later values do, by least squares.
        unsure = variances[0] / whole_of**2
        weights = curve[:, 2:] / np.append(variances, 1.0)[2:]
        squares = np.maximum((curve[:, 2:] * weights).sum(axis=1), 1e-6 / variances[0])[parent]
        first_share = np.maximum((noisy[:, 2:] * weights[parent]).sum(axis=1) / squares, 0)
        first_unsure = 1 / squares
    of_rows = np.concatenate([[0.0] * known, row_variances, [0.0]])
    # The sizes that are asked for, and those after them that their windows reach.
    sizes = min(count + WINDOWS[-1], low.shape[1])
    tests, row_variances = _tests(measured, level, drawn[:sizes]), (of_rows[:-1] + of_rows[1:])[:sizes]
    noisy, curve = noisy[:, : sizes + 1], curve[:, : sizes + 1]
    for block in _blocks(len(low), sizes):
        shares, share_variances = (
            np.column_stack([first[block], np.repeat(other[block, None], sizes - 1, axis=1)])
            for first, other in ((first_share, share), (first_unsure, unsure))
        )
        cells = _Above(noisy[block], curve[parent[block]], shares, share_variances, row_variances, most[block, None])
        low[block, :sizes], high[block, :sizes] = cells.intervals(tests)


def _curve(rows: Ints, variances: Floats, whole: Ints | None) -> Floats:
    """t_1 to t_(max_size + 1) of each row: the decreasing sequence nearest to the noisy values."""
    backward = np.ascontiguousarray(rows[:, ::-1]).astype(np.float64)
    falling = pool_rows(backward, 0.0, np.inf, 1 / variances[::-1])[:, ::-1]
    if whole is not None:
        falling = np.column_stack([whole, np.minimum(falling, whole[:, None])])
    return np.column_stack([falling, np.zeros(len(rows))])


@dataclass(frozen=True, eq=False)
class _Tests:
    """The tests of each size at one level.

    tables, place: the two-sided ones, and the place of each size's noise in them. reaches: of each pair of windows,
    (windows, windows, sizes): what the one-sided bound allows for noise; _NEVER for windows that do not fit.
    """

    tables: Tables
    place: Ints
    reaches: Floats


def _tests(measured: Measurements, level: int, drawn: list[Draws]) -> _Tests:
    """Of the first sizes. drawn: the noise of each of them."""
    places = {draws: t for t, draws in enumerate(dict.fromkeys(filter(None, drawn)))}
    place = np.array([places.get(draws, 0) for draws in drawn])
    reaches = _reaches(measured, level)[:, :, : len(drawn)]
    for k, other in enumerate(WINDOWS):
        # No windows beyond these sizes.
        reaches[:, k, max(0, len(drawn) - other) :] = _NEVER
    return _Tests(tables(list(places)), place, reaches)


def _reaches(measured: Measurements, level: int) -> Floats:
    """What one-sided bounds allow for noise, for each pair of windows and each size.

    All values in a pair of windows have one scale. From size 2 on windows leave t_1 out, because it is public, or was
    used to choose the test. Only t_1 comes before size 1; where it is private it is tested with t_2 at most, around
    what the later values predict.
    """
    known = measured.totals is not None
    # For each size from 2 on (from 1 on, if t_1 is private) the values of its scale from it down to t_2, and after it.
    ways = measured.ways
    starts = np.append(0, np.flatnonzero(np.diff(ways)) + 1)
    run_lengths = np.diff(np.append(starts, len(ways)))
    at, start = np.arange(len(ways)), np.repeat(starts, run_lengths)
    before, after = at - start + 1, np.repeat(starts + run_lengths, run_lengths) - at - 1
    if not known:
        before[1 : run_lengths[0]] -= 1
        after[0] = min(1, after[0])
    least = np.ones(len(ways), dtype=np.int64)
    if known:
        # Before size 1 there is only the public t_1: no noise.
        before, after, least = np.append(0, before), np.append(run_lengths[0], after), np.append(0, least)
        ways = np.append(ways[0], ways)
    reaches = np.full((len(WINDOWS), len(WINDOWS), len(ways)), _NEVER)
    for i, k in np.ndindex(reaches.shape[:2]):
        fits = (least <= WINDOWS[i]) & (WINDOWS[i] <= before) & (WINDOWS[k] <= after)
        for way in np.unique(ways[fits]):
            noise_reach = reach(measured.noise[level][way], WINDOWS[i], WINDOWS[k], 1 - LEVEL)
            reaches[i, k, fits & (ways == way)] = noise_reach
    return reaches


@dataclass(frozen=True, eq=False)
class _Above:
    """Some regions' cells.

    noisy: t_1 to t_(sizes + 1), (regions, sizes + 1). curve: what is expected of `noisy` where the region has its
    parent's total. shares, share_variances: (regions, sizes), the estimated shares of the parent's total, and their
    variances. row_variances: (sizes,), of the parents' numbers. most: the largest possible numbers, (regions, 1).
    """

    noisy: Ints
    curve: Floats
    shares: Floats
    share_variances: Floats
    row_variances: Floats
    most: Ints

    def intervals(self, tests: _Tests) -> tuple[Ints, Ints]:
        """Each cell's interval, by the test whose interval is expected to be shorter."""
        most = self.most.astype(np.float64)
        shape = self.curve[:, :-1] - self.curve[:, 1:]
        mean = np.minimum(self.shares * shape, most)
        spread = _spread(mean) + self.shares * self.shares * self.row_variances + shape * shape * self.share_variances
        v = _prior(spread, tests.tables.scale[tests.place])
        half = tests.tables.half[tests.place, v]
        two_sided = np.minimum(mean + half, most) - np.maximum(mean - half, 0.0)
        bound, expected = self._bounds(tests.reaches)
        low, high = _two_sided(self.noisy[:, :-1] - self.noisy[:, 1:], mean, tests.place, v, tests.tables)
        one_sided = two_sided >= np.minimum(expected, most)
        return np.where(one_sided, 0, low), np.where(one_sided, np.floor(bound).astype(np.int64), high)

    def _bounds(self, reaches: Floats) -> tuple[Floats, Floats]:
        """One-sided upper bounds of n_s, with the windows whose expected bound is least; and that expectation."""
        # Sums of t_2 to t_s, observed, and expected for a share of 1.
        own, sums = self.noisy[:, :-1].copy(), self.curve[:, :-1].copy()
        own[:, 0], sums[:, 0] = 0, 0.0
        own, sums = np.cumsum(own, axis=1), np.cumsum(sums, axis=1)
        expected, chosen = np.full(self.shares.shape, _NEVER), np.zeros(self.shares.shape, dtype=np.int64)
        for pair, (window_before, window_after) in enumerate(product(WINDOWS, WINDOWS)):
            reach = reaches.reshape(-1, reaches.shape[-1])[pair]
            if reach[0] < _NEVER:
                bound = self.shares[:, :1] * self.curve[:, :1]
                bound = bound - self._expected(sums, 0, 1, window_after) + reach[0]
                _keep_least(expected[:, :1], chosen[:, :1], bound, pair)
            fits = np.flatnonzero(reach[1:] < _NEVER) + 1
            if len(fits):
                first, end = int(fits[0]), int(fits[-1]) + 1
                shares = self.shares[:, first:end]
                bound = (
                    shares / window_before * (sums[:, first:end] - sums[:, first - window_before : end - window_before])
                )
                bound = bound - self._expected(sums, first, end, window_after) + reach[first:end]
                _keep_least(expected[:, first:end], chosen[:, first:end], bound, pair)
        windows, place = np.array(WINDOWS), np.arange(self.shares.shape[1])
        back, ahead = windows[chosen // len(WINDOWS)], windows[chosen % len(WINDOWS)]
        before = (own - np.take_along_axis(own, np.maximum(place - back, 0), axis=1)) / np.maximum(back, 1)
        before[:, 0] = self.noisy[:, 0]
        after = (np.take_along_axis(own, np.minimum(place + ahead, len(place) - 1), axis=1) - own) / np.maximum(
            ahead, 1
        )
        # Outward by more than the rounding error.
        reach = reaches.reshape(-1)[chosen * len(place) + place]
        return before - after + reach + 1e-9 + 1e-15 * (np.abs(before) + np.abs(after)), expected

    def _expected(self, sums: Floats, first: int, end: int, window: int) -> Floats:
        """The expected mean of the `window` values of t after each of the sizes first .. end - 1; zero for none."""
        if window == 0:
            return np.zeros((1, 1))
        return self.shares[:, first:end] * (sums[:, first + window : end + window] - sums[:, first:end]) / window


def _keep_least(expected: Floats, chosen: Ints, bound: Floats, pair: int) -> None:
    """Replace entries of `expected` that are above `bound`, and set `chosen` there to `pair`."""
    less = bound < expected
    np.copyto(expected, bound, where=less)
    np.copyto(chosen, pair, where=less)


def _spread(mean: Floats) -> Floats:
    """The assumed variance of a number around its expectation; at least that of rounding."""
    return mean + (_APART * mean) ** 2 + 0.25


def _prior(spread: Floats, scale: Floats) -> Ints:
    """The place of the assumed variance in the tables of a noise of this scale."""
    return np.searchsorted(VARIANCES, spread / (scale * scale))


def _two_sided(noisy: Ints, mean: Floats, t: Ints | int, v: Ints, tables: Tables) -> tuple[Ints, Ints]:
    middle = np.rint(mean).astype(np.int64)
    low, high = ends(noisy - middle, t, v, tables)
    return low + middle, high + middle


def _alone(noisy: Ints, drawn: list[Draws], low: Ints, high: Ints) -> None:
    """Intervals where the root is the only level: values of smaller sizes choose the test.

    If the values of t 16 to 31 sizes before are hardly above zero, the mean of the 16 values before t_s is an upper
    bound of t_s, and so of n_s. Elsewhere the test is two-sided and symmetric. noisy: (1, sizes + 1). drawn: as in
    `draws_of`; all scales are equal.
    """
    sizes, noise = noisy.shape[1] - 1, drawn[-1][0]
    even = np.array([table(draws).even for draws in drawn])
    difference = noisy[0, :-1] - noisy[0, 1:]
    low[0], high[0] = difference - even[:, 1], difference + even[:, 0]
    runs = np.lib.stride_tricks.sliding_window_view(noisy[0, :sizes], 16).mean(axis=1) if sizes > 32 else np.empty(0)
    places = np.flatnonzero(runs[1 : len(runs) - 16] <= 2 * size(noise)) + 32
    bound = runs[places - 15] + reach(noise, 16, 0, 1 - LEVEL)
    low[0, places], high[0, places] = 0, np.floor(bound + 1e-9 + 1e-15 * np.abs(bound)).astype(np.int64)


# --- noise on n_s -----------------------------------------------------------------------------------------------------


def _from_counts(measured: Measurements, level: int, most: Ints, low: Ints, high: Ints) -> None:
    noisy, draws = measured.values[level], measured.noise[level]
    elsewhere = _elsewhere(measured, level)
    if elsewhere is None:
        below, above = table(draws).even
        low[:], high[:] = noisy - above, noisy + below
        return
    parent, rows, row_variances, _ = elsewhere
    fitted = [sparse(row.astype(float), float(row_variances[0])) for row in rows]
    shape, shape_variances = (np.array(part) for part in zip(*fitted, strict=True))
    for block in _blocks(*low.shape):
        block_facts = noisy[block], measured.totals is not None, most[block, None], shape[parent[block]]
        low[block], high[block] = _of_counts(*block_facts, shape_variances[parent[block]], draws)


def _of_counts(
    noisy: Ints, known: bool, most: Ints, shape: Floats, shape_variances: Floats, draws: Draws
) -> tuple[Ints, Ints]:
    """Two-sided intervals of some regions. shape, shape_variances: of each region's parent.

    A private total is estimated from the noisy numbers of the other sizes, by least squares on the shape.
    """
    if known:
        share, unsure = most / np.maximum(_later(shape)[:, :1], 1.0), np.zeros((len(noisy), 1))
    else:
        square, product = shape * shape, shape * noisy
        squares, products = _later(square), _later(product)
        rest = np.maximum(_before(square) + squares[:, 1:], 1e-9 * squares[:, :1] + 1e-6)
        # Sums before a size and after it, because a difference of two float sums would still contain rounding errors
        # that depend on the size.
        share, unsure = np.maximum(_before(product) + products[:, 1:], 0.0) / rest, variance(draws[0]) / rest
    mean = np.minimum(share * shape, most)
    spread = _spread(mean) + share * share * shape_variances + shape * shape * unsure
    acceptance = tables([draws])
    return _two_sided(noisy, mean, 0, _prior(spread, acceptance.scale), acceptance)


def _later(numbers: Floats) -> Floats:
    """Sums over each size and all larger ones, and a last one over none."""
    sums = np.cumsum(numbers[:, ::-1], axis=1)[:, ::-1]
    return np.column_stack([sums, np.zeros(len(numbers))])


def _before(numbers: Floats) -> Floats:
    """Sums over all sizes smaller than each."""
    return np.column_stack([np.zeros(len(numbers)), np.cumsum(numbers[:, :-1], axis=1)])


def from_noise(measured: Measurements, levels: tuple[Ints, ...]) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """95 % intervals around the noisy values, cut to what is possible and widened to include the released numbers."""
    low, high = [], []
    for level, (noisy, released) in enumerate(zip(measured.histograms(), levels, strict=True)):
        q = margin(measured.noise[level] * measured.query.terms, LEVEL)
        most = np.iinfo(np.int64).max if measured.totals is None else measured.totals[level][:, None]
        low.append(np.minimum(np.clip(noisy - q, 0, most), released))
        high.append(np.maximum(np.clip(noisy + q, 0, most), released))
    return tuple(low), tuple(high)


def tail(above: Ints, variances: Floats) -> Ints:
    """Upper bounds of t_s. t does not increase, so without noise the mean of a run of values up to s is above t_s.

    Runs have 16, 64, 256, ... values; three standard deviations of the noise are added. above: noisy t_s, (regions,
    values). variances: of a row's noise. Without a run of 16 there is no bound: 2^62.
    """
    bound = np.full(above.shape, np.inf)
    sums, spread = np.cumsum(above, axis=1, dtype=np.float64), np.cumsum(variances)[None, :]
    run = 16
    while run <= above.shape[1]:
        mean, variance = (_run_means(running, run) for running in (sums, spread))
        bound[:, run - 1 :] = np.minimum(bound[:, run - 1 :], np.maximum(mean, 0) + 3 * np.sqrt(variance / run))
        run *= 4
    bounds: Ints = np.ceil(np.minimum(bound, 2.0**62)).astype(np.int64)
    return bounds


def _run_means(sums: Floats, run: int) -> Floats:
    """Means of so many adjacent values, from the running sums of all."""
    means: Floats = (sums[:, run - 1 :] - np.column_stack([np.zeros(len(sums)), sums[:, :-run]])) / run
    return means
