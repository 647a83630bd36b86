"""Which test is chosen, and what comes of it: number by number, and without what the test itself looks at."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.groups import confidence_intervals
from duckanon.engines.groups.acceptance_regions import VARIANCES, ends, table, tables
from duckanon.engines.groups.draws import WINDOWS, Draws, reach, variance
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.isotonic_regression import sparse
from duckanon.engines.groups.measurements import MOST, Measurements
from duckanon.engines.groups.queries import ABOVE, HISTOGRAM, INNER
from duckanon.engines.groups.release import measure
from duckanon.engines.noise import Gaussian, Laplace
from tests.amounts import many
from tests.engines.seeded import Seeded

TREE = Hierarchy((np.zeros(2, dtype=np.int64), np.array([0, 0, 1])))


@st.composite
def measurements(draw: st.DrawFn, histogram: bool) -> Measurements:
    """Two levels below the root, up to 24 sizes, few groups and many."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes, public = draw(st.sampled_from([1, 2, 3, 6, 24])), draw(st.booleans())
    shape = draw(st.sampled_from([1.0, 30.0, 3000.0])) * draw(st.sampled_from([0.4, 0.9])) ** np.arange(sizes)
    groups = rng.poisson(np.broadcast_to(shape, (3, sizes))).astype(np.int64)
    query = HISTOGRAM if histogram else INNER if public else ABOVE
    # Scales differ by size in a few runs, or not at all.
    ways = np.sort(rng.integers(0, draw(st.sampled_from([1, 3])), query.of(groups).shape[1]))
    ways = np.zeros_like(ways) if histogram else ways[:: draw(st.sampled_from([1, -1]))]
    kind = draw(st.sampled_from([lambda x: Laplace(Fraction(x)), lambda x: Gaussian(Fraction(x) ** 2)]))
    noise = tuple(tuple(kind(x) for x in draw(st.permutations(["1/2", "3", "20"]))) for _ in range(3))
    return measure(
        TREE,
        TREE.levels(groups),
        query,
        tuple(one[: ways.max(initial=0) + 1] for one in noise),
        ways,
        None,
        public,
        Seeded(int(rng.integers(99))),
    )


def two_sided(noisy: int, mean: float, noise: Draws, spread: float) -> tuple[int, int]:
    middle, v = int(np.rint(mean)), int((spread > VARIANCES * table(noise).scale ** 2).sum())
    (low,), (high,) = ends(np.array([noisy - middle]), 0, v, tables([noise]))
    return low + middle, high + middle


def doubts_of(case: Measurements, level: int) -> list[float]:
    """The variances of the noise on t_1 to t_(max_size + 1)."""
    found = [variance(case.noise[level][way]) for way in case.ways]
    return [*[0.0] * (case.totals is not None), *found, 0.0]


def likely(mean: float) -> float:
    return mean + (0.1 * mean) ** 2 + 0.25


def chosen_above(case: Measurements, level: int, region: int, s: int, seen: np.ndarray, most: float) -> list[list[Any]]:
    """The tests for size s + 1 with the least expected length, mostly one.

    They follow from the parent's level (for the root from the level below), and from what `seen` has besides NaN.
    """
    known = case.totals is not None
    # Of t_1 to t_(max_size + 1): None where there is no noise.
    scale = [*[None] * known, *(case.noise[level][way] for way in case.ways), None]
    if level:
        rows, parent = case.values[level - 1], TREE.parents[level - 1][region]
        whole, doubt = (case.totals[level - 1] if case.totals else None), doubts_of(case, level - 1)
    else:
        rows, parent = case.values[1].sum(axis=0, keepdims=True), 0
        whole, doubt = (case.totals[0] if case.totals else None), [2 * one for one in doubts_of(case, 1)]
    curve = confidence_intervals._curve(rows, np.array(doubt[known:-1]), whole)[parent]
    total = max(curve[0], 1.0)
    own = doubts_of(case, level)
    if known or s:
        share, unsure = max(seen[0], 0) / total, own[0] / total**2
    else:
        squares = max(sum(curve[i] ** 2 / own[i] for i in range(2, len(own) - 1)), 1e-6 / own[0])
        share = max(sum(seen[i] * curve[i] / own[i] for i in range(2, len(own) - 1)) / squares, 0.0)
        unsure = 1 / squares
    noise = tuple(one for one in scale[s : s + 2] if one is not None)
    mean = min(share * (curve[s] - curve[s + 1]), most)
    spread = likely(mean) + share**2 * (doubt[s] + doubt[s + 1]) + (curve[s] - curve[s + 1]) ** 2 * unsure
    bounds = []
    for before in WINDOWS:
        for after in WINDOWS:
            fits = s + after <= len(seen) - 2 and (before == int(not known) if s == 0 else 1 <= before <= s)
            first = slice(0, 1) if s == 0 else slice(s - before + 1, s + 1)
            then = slice(s + 1, s + 1 + after)
            # All noise in the windows has one scale.
            one = {x for x in scale[:-1][first] + scale[:-1][then] if x is not None}
            if fits and len(one) <= 1 and (s or known or after <= 1):
                q = reach(next(iter(one)), before, after, 1 - 0.95) if one else 0.0
                expected = share * (curve[first].mean() - (curve[then].mean() if after else 0.0))
                bounds.append((expected + q, first, then, q))
    half = table(noise).half[int((spread > VARIANCES * table(noise).scale ** 2).sum())]
    two_length, least = min(mean + half, most) - max(mean - half, 0.0), min(expected for expected, *_ in bounds)
    # Where two are equal but for rounding either may be chosen.
    tie = 1e-9 * max(1.0, abs(least))
    found = [["one", *bound] for expected, *bound in bounds if expected <= least + tie]
    if two_length > min(least, most) + tie:
        return found
    two = [["two", mean, noise, spread]]
    return two if two_length < min(least, most) - tie else two + found


@settings(max_examples=many(60))
@given(measurements(histogram=False))
def test_tests_on_counts_from_above(case: Measurements) -> None:
    for level, values in enumerate(case.values):
        totals = np.full(len(values), MOST) if case.totals is None else case.totals[level]
        low, high = (np.zeros((len(values), case.max_size), dtype=np.int64) for _ in range(2))
        confidence_intervals._from_above(case, level, totals, low, high, case.max_size)
        first = [] if case.totals is None else [totals[:, None]]
        full = np.column_stack([*first, values, np.zeros(len(values), dtype=np.int64)])
        for region, s in np.ndindex(low.shape):
            seen = full[region].astype(float)
            if case.max_size == 1 and case.totals is not None:
                assert low[region, s] == high[region, s] == totals[region]
                continue
            found = int(low[region, s]), int(high[region, s])
            tests = chosen_above(case, level, region, s, seen, float(totals[region]))
            results = [interval_above(test, seen, s) for test in tests]
            assert found in [interval for interval, _ in results]
            # What is noisy in the test had no part in choosing it.
            for test, (_, used) in zip(tests, results, strict=True):
                noisy = [i for i in used if i < case.max_size and (i > 0 or case.totals is None)]
                unseen = seen.copy()
                unseen[noisy] = np.nan
                again = chosen_above(case, level, region, s, unseen, float(totals[region]))
                assert [str(x) for x in test] in [[str(x) for x in one] for one in again]


def interval_above(test: list[Any], seen: np.ndarray, s: int) -> tuple[tuple[int, int], list[int]]:
    """The interval of size s + 1 that a test gives, and which values of `seen` it looks at."""
    kind, *rest = test
    if kind == "two":
        return two_sided(int(seen[s] - seen[s + 1]), *rest), [s, s + 1]
    before, after, q = rest
    bound = seen[before].mean() - (seen[after].mean() if seen[after].size else 0.0) + q
    return (0, int(np.floor(bound + 1e-9))), [*range(len(seen))[before], *range(len(seen))[after]]


def chosen_counts(case: Measurements, level: int, region: int, s: int, seen: np.ndarray, most: float) -> list[float]:
    """What is expected of size s + 1 and how surely, without looking at it."""
    if level:
        row, doubt = case.values[level - 1][TREE.parents[level - 1][region]], variance(*case.noise[level - 1])
    else:
        row, doubt = case.values[1].sum(axis=0), 2 * variance(*case.noise[1])
    shape, doubts = sparse(row.astype(float), doubt)
    others = np.arange(len(shape)) != s
    if case.totals is not None:
        share, unsure = most / max(shape.sum(), 1.0), 0.0
    else:
        rest = max((shape[others] ** 2).sum(), 1e-9 * (shape**2).sum() + 1e-6)
        share, unsure = max((shape[others] * seen[others]).sum(), 0.0) / rest, variance(*case.noise[level]) / rest
    mean = min(share * shape[s], most)
    return [mean, likely(mean) + share**2 * doubts[s] + shape[s] ** 2 * unsure]


@settings(max_examples=many(60))
@given(measurements(histogram=True))
def test_tests_on_counts(case: Measurements) -> None:
    for level, values in enumerate(case.values):
        totals = np.full(len(values), MOST) if case.totals is None else case.totals[level]
        low, high = (np.zeros(values.shape, dtype=np.int64) for _ in range(2))
        confidence_intervals._from_counts(case, level, totals, low, high)
        for region, s in np.ndindex(low.shape):
            seen = values[region].astype(float)
            # It is tested, and has no part in choosing the test.
            seen[s] = np.nan
            mean, spread = chosen_counts(case, level, region, s, seen, float(totals[region]))
            found = two_sided(int(values[region, s]), mean, case.noise[level], spread)
            # Floats that add up in another order may round the expectation the other way.
            if abs(mean % 1 - 0.5) > 1e-6:
                assert (low[region, s], high[region, s]) == pytest.approx(found)
