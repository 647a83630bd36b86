"""Intervals that hold for any data: tails and tests exactly, and all of it by counting, on the worst tables."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from duckanon.engines.groups import acceptance_regions, confidence_intervals, draws
from duckanon.engines.groups.acceptance_regions import VARIANCES, Tables, ends, table, tables
from duckanon.engines.groups.draws import WINDOWS, Draws, quantiles, reach, size
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.release import release
from duckanon.engines.groups.request import Request, Totals
from duckanon.engines.noise import Gaussian, Laplace, Noise
from tests.amounts import LONG, many
from tests.engines.seeded import Seeded

SCALES = [Fraction(1, 9), Fraction(1, 2), Fraction(1), Fraction(5, 2), Fraction(7), Fraction(30)]
# One draw, the difference of two, and of two with different scales.
PARTS = [(), ("1",), ("1/3",), ("9/10",), ("51/50",)]
KINDS_OF: dict[str, Callable[[Fraction], Noise]] = {"laplace": Laplace, "gaussian": lambda scale: Gaussian(scale**2)}
NOISES: list[Draws] = [
    (*(kind(scale * Fraction(part)) for part in parts), kind(scale))
    for kind in KINDS_OF.values()
    for scale in SCALES
    for parts in PARTS
]


def chances(noise: Draws, widest: int = 60) -> np.ndarray:
    """P(X = v) for v around the middle: one draw, or the difference of two, by the definition."""
    found = np.ones(1)
    for one in noise:
        half = int(widest * size(one)) + widest
        v = np.abs(np.arange(-half, half + 1.0))
        # Small ones lose no digits.
        weights = np.exp(-v / size(one) if isinstance(one, Laplace) else -((v / size(one)) ** 2) / 2)
        found = np.convolve(found, weights / weights.sum())
    return found


@pytest.mark.parametrize("noise", NOISES)
def test_quantiles_are_the_smallest(noise: Draws) -> None:
    p = chances(noise)
    wanted = np.array([0.4, 0.05, 0.025, 0.01, 0.0001])
    for chance, q in zip(wanted, quantiles(noise, wanted), strict=True):
        beyond = p[len(p) // 2 + q + 1 :].sum()
        assert beyond <= chance
        assert q == 0 or beyond + p[len(p) // 2 + q] > chance


def test_quantiles_of_the_widest_noise() -> None:
    """Laplace's, but for a unit."""
    scale = Fraction(2**55)
    assert quantiles((Laplace(scale),), np.array([0.05]))[0] == pytest.approx(2**55 * np.log(10), rel=1e-9)
    same, other = (
        quantiles((Laplace(scale), Laplace(two)), np.array([0.05]))[0] for two in (scale, scale * Fraction(103, 100))
    )
    assert same * 1.013 < other < same * 1.017


@pytest.mark.parametrize("near", ["1", "1.0000001", "1.001", "1.009"])
@pytest.mark.parametrize("scale", SCALES[1:])
def test_scales_that_are_nearly_equal_count_as_the_larger(scale: Fraction, near: str) -> None:
    """There the formula for two scales would lose digits; no tail is smaller than it is."""
    noise, wanted = (Laplace(scale), Laplace(scale * Fraction(near))), np.array([0.4, 0.05, 0.025, 0.01, 0.0001])
    p = chances(noise)
    assert all(
        p[len(p) // 2 + q + 1 :].sum() <= chance for chance, q in zip(wanted, quantiles(noise, wanted), strict=True)
    )
    assert (quantiles(noise, wanted) <= quantiles((noise[1],) * 2, wanted)).all()


def reaches(noise: Noise, one: Callable[..., float] = reach) -> np.ndarray:
    """For each pair of windows."""
    return np.array([[one(noise, many, other, 0.05) for other in WINDOWS] for many in WINDOWS])


@pytest.mark.parametrize("kind", KINDS_OF)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(5, 2)])
def test_reaches_are_quantiles_of_means(scale: Fraction, kind: str) -> None:
    """By convolution, on the lattice of a quarter, for windows of no value, one, and four."""
    noise = KINDS_OF[kind](scale)
    found = reaches(noise)
    p = chances((noise,), widest=40)
    spread = np.zeros(4 * len(p) - 3)
    spread[::4] = p
    fourth = np.convolve(np.convolve(p, p), np.convolve(p, p))
    means = [np.ones(1), spread, fourth]
    for i, one in enumerate(means):
        for k, other in enumerate(means[: i + 1]):
            if i:
                both = np.convolve(one, other[::-1])
                # The highest index that is still within q of the middle.
                end = len(both) // 2 + int(np.floor(4 * found[i, k] + 1e-9))
                assert both[end + 1 :].sum() <= 0.05
                assert both[end:].sum() > 0.05 or 4 * found[i, k] < 1
                assert found[k, i] == found[i, k]


def test_wide_noise_is_bounded_by_its_lattice(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = Laplace(Fraction(700))
    coarse = reaches(noise)
    monkeypatch.setattr(draws, "_LATTICE", 1000)
    monkeypatch.setattr(draws, "reach", reach.__wrapped__)
    exact = reaches(noise, reach.__wrapped__)
    # In units of 3: 2 more a side, and steps of a 512th of the scale.
    assert (coarse[1:] >= exact[1:] - 2).all()
    assert (coarse <= exact + 2 * 2 + 2).all()


@pytest.mark.long("six million draws; test_reaches_are_quantiles_of_means counts the chances of shorter windows")
@pytest.mark.parametrize("kind", KINDS_OF)
def test_reaches_hold_for_long_windows(kind: str) -> None:
    drawn_from = KINDS_OF[kind](Fraction(30))
    draws = drawn_from.draw((20_000, 320), Seeded(3), is_wide=False)
    found = reaches(drawn_from)
    for i, length in enumerate(WINDOWS[1:], 1):
        for k, other in enumerate(WINDOWS[:4]):
            noise = draws[:, :length].mean(axis=1)
            if other:
                noise = noise - draws[:, length : length + other].mean(axis=1)
            assert (noise > found[i, k]).mean() == pytest.approx(0.05, abs=0.006)


def intervals(found: Tables, t: int, v: int, farthest: int) -> np.ndarray:
    """The interval of each noisy value -farthest .. farthest."""
    return np.column_stack(ends(np.arange(-farthest, farthest + 1), t, v, found))


def least_coverage(noise: Draws, found: Tables, v: int) -> float:
    """Of every number from -30 to 30 scales from what was expected, by summing over all noise."""
    p, reach = chances(noise), int(30 * max(map(size, noise))) + 3
    half = len(p) // 2
    # The second of three noises, so that those beside it would be seen.
    seen = intervals(found, 1, v, reach + half)
    covered = []
    for d in range(-reach, reach + 1):
        own = seen[d + reach : d + reach + len(p)]
        covered.append(p[(own[:, 0] <= d) & (d <= own[:, 1])].sum())
    return float(min(covered))


def between(noise: Draws) -> Tables:
    """The tables of three noises, the second being this one."""
    return tables([(Laplace(Fraction(2, 3)),), noise, (Laplace(Fraction(11)), Laplace(Fraction(3)))])


@pytest.mark.parametrize("noise", NOISES)
def test_every_number_is_covered(noise: Draws) -> None:
    """Exactly, whatever was expected: no number is covered less than 95 times in a hundred."""
    for v in range(len(VARIANCES) + 1):
        assert least_coverage(noise, between(noise), v) >= 0.95


@pytest.mark.parametrize("kind", KINDS_OF)
def test_what_is_too_narrow_is_seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same count finds intervals for 94 %, those of noise of nine tenths of the scale, and of the smaller scale."""
    for noise, narrow in (((7, 7), ("6.3", "6.3")), ((7, 5), ("6.3", "4.5")), ((7, 5), (5, 5))):
        wide, less = (tuple(KINDS_OF[kind](Fraction(one)) for one in each) for each in (noise, narrow))
        assert least_coverage(wide, between(less), 3) < 0.95
    monkeypatch.setattr(acceptance_regions, "LEVEL", 0.94)
    monkeypatch.setattr(acceptance_regions, "table", table.__wrapped__)
    both = KINDS_OF[kind](Fraction(7)), KINDS_OF[kind](Fraction(5))
    assert least_coverage(both, between(both), 3) < 0.95


@settings(max_examples=many(40))
@given(st.sampled_from(NOISES), st.integers(0, len(VARIANCES)), st.integers(-500, 500))
def test_ends_are_those_of_what_is_accepted(noise: Draws, v: int, z: int) -> None:
    """Number by number; with bins of several numbers it may be a little more."""
    one = table(noise)
    bins = np.arange(-one.start, one.start) * one.width
    accepted = [
        d
        for start, lo, hi in zip(bins, one.lo[v], one.hi[v], strict=True)
        for d in range(start, start + one.width)
        if d - lo <= z <= d + hi
    ]
    if abs(z) < 10 * max(map(size, noise)):
        low, high = intervals(between(noise), 1, v, abs(z))[z + abs(z)]
        assert low <= min(accepted)
        assert high >= max(accepted)
        assert low > min(accepted) - one.width
        assert high < max(accepted) + one.width


def test_expected_numbers_have_short_intervals() -> None:
    """The point of it: shorter where the number is what was expected than the 8.23 scales of equal tails."""
    noise = Laplace(Fraction(30))
    even, near = (intervals(tables([(noise, noise)]), 0, v, 30) for v in (len(VARIANCES), 0))
    assert np.diff(even).mean() == pytest.approx(8.23 * 30, rel=0.01)
    assert np.diff(near).mean() < 0.8 * np.diff(even).mean()


# --- all together -----------------------------------------------------------------------------------------------------

FLAT = Hierarchy((np.zeros(21, dtype=np.int64),))
DEEP = Hierarchy((np.zeros(4, dtype=np.int64), np.sort(np.arange(20) % 4)))


def odd_one_out(many: int) -> np.ndarray:
    """Regions alike, but for the last: there all groups have size 6, and elsewhere hardly any."""
    shape = np.array([31, 34, 17, 12, 5, 2, 0.8, 0.3, 0.15, 0.06, 0.02, 0.01])
    groups = np.random.default_rng(0).multinomial(100, shape / shape.sum(), size=many)
    groups[-1] = 0
    groups[-1, 5] = 100
    return groups


def scattered(many: int) -> np.ndarray:
    """Nothing is like its parent: each region has one large size and a smaller one."""
    rng = np.random.default_rng(5)
    pick = np.eye(12, dtype=np.int64)
    return pick[rng.integers(0, 12, many)] * 1000 + pick[rng.integers(0, 12, many)] * 60


def sparse(many: int) -> np.ndarray:
    """Sizes up to 10 in every region, a few larger ones, and in one region many groups of one large size."""
    rng = np.random.default_rng(7)
    groups = np.zeros((many, 60), dtype=np.int64)
    groups[:, :10] = rng.poisson(2000 * 0.5 ** np.arange(10), (many, 10))
    groups[rng.integers(0, many, 30), rng.integers(10, 60, 30)] += 1
    groups[0, 40] = 300
    return groups


TABLES = {
    "odd": (FLAT, odd_one_out(21)),
    "scattered": (DEEP, scattered(20)),
    "empty": (DEEP, np.full((20, 12), 80) * (np.arange(20)[:, None] % 2)),
    "sparse": (DEEP, sparse(20)),
    "alone": (Hierarchy(), np.concatenate([scattered(1), np.zeros((1, 60), dtype=np.int64)], axis=1)),
}
KINDS: list[dict[str, Any]] = [
    {"totals": "public"},
    {"totals": "private"},
    {"totals": "public", "sensitivity": 3},
    {"totals": "private", "unit": "group", "contributions": 12},
]


# Much noise, and little.
LOSSES = [
    [{"epsilon": Fraction(1, 10)}, {"epsilon": Fraction(2)}],
    [{"rho": Fraction(1, 500)}, {"rho": Fraction(1)}],
]


def misses(table: str, runs: int, **given: Any) -> list[np.ndarray]:
    """How often each number is outside of its interval."""
    tree, groups = TABLES[table]
    truth = tree.levels(groups)
    found = [np.zeros(level.shape, dtype=np.int64) for level in truth]
    for seed in range(runs):
        levels = release(tree, groups, Request(**given), source=Seeded(seed)).levels
        for count, ours, level in zip(found, levels, truth, strict=True):
            count += (level < ours.low) | (level > ours.high)
    return found


def too_many(found: list[np.ndarray], runs: int) -> bool:
    """Whether some number is missed so often as one that is covered 95 % is in a table in 10,000."""
    numbers = sum(level.size for level in found)
    return bool(max(level.max() for level in found) > binom.isf(1e-4 / numbers, runs, 0.05))


@pytest.mark.long("300 draws of each table; test_every_number_is_covered counts the chances exactly")
@pytest.mark.parametrize(
    ("table", "given", "loss"),
    # Each table with each kind, at much noise and at little in turn; and in a long run the other way round too.
    [(table, KINDS[kind], losses[(at + kind) % 2])
     for losses in (LOSSES if LONG else LOSSES[:1]) for at, table in enumerate(TABLES) for kind in range(len(KINDS))],
)  # fmt: skip
def test_each_number_is_covered_whatever_the_data(table: str, given: dict[str, Any], loss: dict[str, Fraction]) -> None:
    found = misses(table, 300, **loss, **given)
    assert not too_many(found, 300)
    # And all numbers together, which shows what no single one does.
    assert sum(level.sum() for level in found) <= 0.053 * 300 * sum(level.size for level in found)


@pytest.mark.long("that the test by draws sees intervals of the model")
@pytest.mark.parametrize("given", KINDS)
def test_likeness_is_no_guarantee(given: dict[str, Any]) -> None:
    """The same count rejects the model's intervals, in the region that is not like the others."""
    found = misses("odd", 100, epsilon=Fraction(1, 10), intervals="model", **given)
    assert too_many(found, 100)
    assert found[1][-1].max() > 20


@pytest.mark.long("that the test by draws sees narrow intervals")
@pytest.mark.parametrize("loss", [much for much, _ in LOSSES])
@pytest.mark.parametrize("given", KINDS)
def test_narrow_intervals_are_rejected(
    given: dict[str, Any], loss: dict[str, Fraction], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tails as if the noise had three quarters of its scale."""
    three_quarters, of_windows, of_noises = Fraction(3, 4), reach, tables

    def less(noise: Noise) -> Noise:
        if isinstance(noise, Laplace):
            return Laplace(noise.scale * three_quarters)
        assert isinstance(noise, Gaussian)
        return Gaussian(noise.variance * three_quarters**2)

    monkeypatch.setattr(confidence_intervals, "reach", lambda noise, *rest: of_windows(less(noise), *rest))
    monkeypatch.setattr(
        confidence_intervals,
        "tables",
        lambda noises: of_noises([tuple(map(less, noise)) for noise in noises]),
    )
    assert too_many(misses("scattered", 300, **loss, **given), 300)


@pytest.mark.parametrize("totals", ["public", "private"])
def test_sparse_sizes_are_bounded_by_their_parents(totals: Totals, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shorter. Which sizes these are does not follow from the noise of any level: the look alone decides."""
    tree, groups = TABLES["sparse"]
    seen: list[np.ndarray] = []
    real = confidence_intervals._bounded_by_parents

    def chosen(measured: Any, level: int) -> Any:
        found = real(measured, level)
        others = tuple(values + 10**6 for values in measured.values)
        assert (real(replace(measured, values=others), level) == found).all()
        seen.append(found)
        return found

    monkeypatch.setattr(confidence_intervals, "_bounded_by_parents", chosen)
    taken = release(tree, groups, Request(epsilon=Fraction(1, 10), totals=totals), source=Seeded(8)).levels
    assert seen[2].sum() > 20
    assert not seen[0].any()
    assert not seen[2][:2].any()
    monkeypatch.setattr(confidence_intervals, "_bounded_by_parents", lambda *_: np.zeros(60, dtype=bool))
    own = release(tree, groups, Request(epsilon=Fraction(1, 10), totals=totals), source=Seeded(8)).levels
    ours, theirs = ((one[2].high - one[2].low)[:, seen[2]] for one in (taken, own))
    assert ours.mean() < 0.9 * theirs.mean()
    assert (taken[2].groups == own[2].groups).all()


def test_without_noise_nothing_is_left_open() -> None:
    tree, groups = TABLES["scattered"]
    for kind in KINDS:
        found = release(tree, groups, Request(epsilon=Fraction(10**7), **kind), source=Seeded(1))
        for ours, truth in zip(found.levels, tree.levels(groups), strict=True):
            assert (ours.low == truth).all()
            assert (ours.high == truth).all()


def test_noise_that_drowns_everything() -> None:
    tree, groups = TABLES["odd"]
    found = release(tree, groups, Request(epsilon=Fraction(1, 10**12)), source=Seeded(1)).levels[1]
    assert (found.low == 0).all()
    assert (found.high == 100).all()
