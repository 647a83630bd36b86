"""Widths of intervals: those of an enumeration of all values, and neither narrower nor wider ones pass for them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import erfc, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import fftconvolve

from duckanon.engines import noise_tails
from duckanon.engines.noise import Gaussian, Laplace, Noise, parsed
from duckanon.engines.noise_tails import Kind, Widths, least_width, quotient_ends, quotient_widths, width
from tests.amounts import sampled
from tests.engines import plain_noise as plain

NOISES = st.sampled_from(
    [Laplace(Fraction(one)) for one in ("1/10", "27/100", "1/2", "1", "5/3")]
    + [Gaussian(Fraction(one)) for one in ("1/20", "1/4", "9/10", "1", "3/2", "7")]
)
WEIGHTS = st.fractions(Fraction(-3), Fraction(3), max_denominator=3)


def is_wide(noise: Noise) -> bool:
    """Whether it has many values: enumerations are kept short."""
    return noise.exceeds(1)


@given(NOISES, st.integers(1, 7))
def test_sums_of_equal_noises(noise: Noise, count: int) -> None:
    assert least_width(noise, count) == plain.least_width(plain.summed(noise, [(Fraction(1), count)]))


@given(NOISES, st.lists(st.tuples(WEIGHTS, st.integers(0, 2)), min_size=1, max_size=3))
def test_sums_of_noises_with_weights(noise: Noise, parts: list[tuple[Fraction, int]]) -> None:
    parts = parts if not is_wide(noise) else [(weight, min(count, 1)) for weight, count in parts[:2]]
    least = plain.least_width(plain.summed(noise, parts))
    kinds = [Kind(weight, count) for weight, count in parts]
    assert width(noise, kinds) == least
    # Without adding up each value it is wider.
    noise_tails._width.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_tails, "_MOST_OF_WORDS", 0 if isinstance(noise, Laplace) else 9)
        rough = width(noise, kinds, rough=True)
        noise_tails._width.cache_clear()
    several = len({abs(weight) for weight, count in parts if weight and count}) > 1
    assert rough >= least if several else rough == least
    if noise == Laplace(Fraction(1)) or (isinstance(noise, Laplace) and is_wide(noise)):
        assert rough <= 1.1 * least + sum(abs(weight) for weight, _ in parts)


@pytest.mark.parametrize("count", [1, 2, 50, 10_000])
def test_large_scales_are_like_continuous_noise(count: int) -> None:
    """Whole steps are next to nothing then: two ways to compute the same."""
    for scale in (Fraction(3_000), Fraction(10**7)):
        for noise in (Laplace(scale), Gaussian(scale**2)):
            assert least_width(noise, count) == pytest.approx(noise.smooth_width(count), rel=1e-6, abs=1.5)


@pytest.mark.parametrize("kind", [Laplace, lambda scale: Gaussian(scale**2)])
@pytest.mark.parametrize("scale", [Fraction(2**40 + 1), Fraction(10**15), Fraction(10**23)])
def test_scales_whose_steps_floats_do_not_tell_apart(kind: Callable[[Fraction], Noise], scale: Fraction) -> None:
    """Widths grow with the scale, as those of continuous noise: sums, sums with weights, and quotients."""
    unit = Fraction(10**6)
    times = float(scale / unit)
    for count in (1, 3, 40):
        assert least_width(kind(scale), count) == pytest.approx(times * least_width(kind(unit), count), rel=1e-5)
    kinds = [Kind(Fraction(1), 2), Kind(Fraction(1, 3), 5)]
    assert float(width(kind(scale), kinds)) == pytest.approx(times * float(width(kind(unit), kinds)), rel=1e-5)
    ends = (Kind(Fraction(0), 1), Kind(Fraction(1), 1))
    wide, known = quotient_widths(kind(scale), ends), quotient_widths(kind(unit), ends)
    assert wide.start == pytest.approx(times * known.start, rel=1e-5)
    assert least_width(Laplace(scale), 1) >= -float(scale) * log(0.05) * (1 - 1e-9)
    assert least_width(Gaussian(scale**2), 1) >= 1.959963 * float(scale)


@pytest.mark.parametrize("variance", ["1/50", "1/3", "1", "5/4", "30", "1000", "40000"])
@pytest.mark.parametrize("count", [1, 4, 900])
def test_sums_of_gaussian_noise_by_adding_up_floats(variance: str, count: int) -> None:
    """Of larger variances than in whole numbers; those of a sum of many by folding their distribution with itself."""
    noise = Gaussian(Fraction(variance))
    reach = noise.reach(1)
    chance = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * float(noise.variance)))
    chance /= chance.sum()
    found, left = np.ones(1), count
    while left:
        found = fftconvolve(found, chance) if left % 2 else found
        chance, left = fftconvolve(chance, chance), left // 2
    middle = len(found) // 2
    inside = found[middle] + np.concatenate([[0.0], 2 * np.cumsum(found[middle + 1 :])])
    assert least_width(noise, count) == np.argmax(inside >= 0.95)


@given(st.fractions(1, 400), st.floats(0, 60))
def test_gaussian_noise_is_no_more_spread_than_the_normal_noise_it_is_compared_with(
    variance: Fraction, x: float
) -> None:
    """As `Gaussian.smooth` proves it: P(|N + J| > x) for J uniform on (-1/2, 1/2), at any x."""
    noise = Gaussian(variance)
    reach = noise.reach(1)
    chance = noise.chances(reach)[reach:]
    k = int(x + 0.5)
    beyond = 2 * chance[k + 1 :].sum() if k <= reach else 0.0
    if k == 0:
        beyond += chance[0] * (1 - 2 * x)
    elif k <= reach:
        beyond += 2 * chance[k] * (k + 0.5 - x)
    spread = sqrt(variance) / (1 - 0.65 / float(variance))
    assert beyond <= erfc(x / spread / sqrt(2)) + 1e-9
    assert noise.smooth([(Fraction(1), 1)]) == pytest.approx(1.95996 * spread, rel=1e-5)


@pytest.mark.parametrize("noise", [Laplace(Fraction(7, 3)), Gaussian(Fraction(7, 3))])
def test_noise_as_text(noise: Noise) -> None:
    assert parsed(noise.text) == noise


TWINS: dict[str, Callable[[Fraction, int], float]] = {
    "the square root of the number times the continuous width": lambda b, c: sqrt(c) * -log(0.05) * float(b),
    "the square root of the number times the width of one": lambda b, c: sqrt(c) * least_width(Laplace(b), 1),
    "a scale of 19 in 20": lambda b, c: least_width(Laplace(b * Fraction(19, 20)), c),
    "a normal distribution": lambda b, c: 1.96 * Laplace(b).deviation(c),
}
OF_GAUSSIAN: dict[str, Callable[[Fraction, int], float]] = {
    "a normal distribution": lambda v, c: 1.96 * sqrt(c * v),
    "the square root of the number times the width of one": lambda v, c: sqrt(c) * (least_width(Gaussian(v), 1) - 0.5),
    "a variance of 9 in 10": lambda v, c: least_width(Gaussian(v * Fraction(9, 10)), c),
}
CASES = [(Fraction(at, 20), count) for at in (2, 6, 11, 20, 43) for count in (1, 2, 3, 5)]


@pytest.mark.parametrize(("kind", "twins"), [(Laplace, TWINS), (Gaussian, OF_GAUSSIAN)])
def test_narrower_ones_miss_too_often(
    kind: Callable[[Fraction], Noise], twins: dict[str, Callable[[Fraction, int], float]]
) -> None:
    """Each twin for one of the cases at least, and ours for none."""
    found = {(one, count): plain.summed(kind(one), [(Fraction(1), count)]) for one, count in CASES}
    missed = {name: max(plain.beyond(found[case], twin(*case)) for case in CASES) for name, twin in twins.items()}
    assert max(plain.beyond(found[one, count], least_width(kind(one), count)) for one, count in CASES) <= 0.05
    assert all(one > 0.0505 for one in missed.values()), missed


def test_that_of_one_step_is_far_from_a_normal_one() -> None:
    """Within 1.96 standard deviations of variance 1 there are 88 %, and within the width 99 %."""
    found = plain.summed(Gaussian(Fraction(1)), [(Fraction(1), 1)])
    assert round(1 - plain.beyond(found, 1.96), 3) == 0.883
    assert round(1 - plain.beyond(found, least_width(Gaussian(Fraction(1)), 1)), 3) == 0.991


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_wider_ones_are_wider_than_needed(kind: Callable[[Fraction], Noise]) -> None:
    """One step less is too few for each of ours, and enough for those that are wider by one step."""
    for one, count in CASES:
        found = plain.summed(kind(one), [(Fraction(1), count)])
        k = least_width(kind(one), count)
        assert k == 0 or plain.beyond(found, k - 1) > 0.05
        assert plain.beyond(found, (k + 1) - 1) <= 0.05


KINDS = {
    "mean": ((0, 1), (1, 1)),
    "mean of two cells": ((0, 2), (1, 2)),
    "share": ((1, 1), (0, 3)),
    "with squares": ((0, 1), (Fraction(1, 2), 1), (1, 1)),
    "part alone": ((1, 2), (0, 0)),
}


def kinds_of(name: str) -> tuple[Kind, ...]:
    return tuple(Kind(Fraction(value), count) for value, count in KINDS[name])


def at(widths: Widths, q: Fraction) -> float:
    """The width for a quotient."""
    parts = len(widths.start)
    place = min(int(q * parts), parts - 1)
    way = float(q * parts - place)
    return float(widths.start[place] * (1 - way) + widths.end[place] * way)


@pytest.mark.parametrize("smooth", sampled([False, True]))
@pytest.mark.parametrize("name", KINDS)
@given(
    noise=st.sampled_from(
        [Laplace(Fraction(one)) for one in ("1/10", "2/5", "1")] + [Gaussian(Fraction(one)) for one in ("1/9", "1")]
    ),
    q=st.one_of(st.fractions(0, 1, max_denominator=40), st.integers(0, 64).map(lambda one: Fraction(one, 64))),
)
def test_widths_of_quotients_hold_for_every_quotient(name: str, smooth: bool, noise: Noise, q: Fraction) -> None:
    kinds = kinds_of(name)
    found = plain.summed(noise, [(one.weight - q, one.count) for one in kinds])
    quotient_widths.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        if smooth:
            patch.setattr(type(noise), "is_smooth", lambda *_: True)
        w = at(quotient_widths(noise, kinds), q)
    quotient_widths.cache_clear()
    assert plain.beyond(found, w + 1e-9) <= 0.05
    if not smooth:
        # A part is one in 64, and noise one in 32 wider at its other end.
        assert w <= float(plain.least_width(found)) * 1.04 + 0.6


@pytest.mark.parametrize("variance", ["2", "30", "63", "1000", "1200"])
@pytest.mark.parametrize("name", KINDS)
def test_widths_of_quotients_with_gaussian_noise_are_hardly_wider_than_needed(name: str, variance: str) -> None:
    """Also where it is compared with normal noise: beside the width of that, as it is without whole steps."""
    noise, kinds = Gaussian(Fraction(variance)), kinds_of(name)
    for q in (Fraction(0), Fraction(1, 5), Fraction(1, 2), Fraction(1)):
        normal = 1.96 * sqrt(noise.variance * sum(one.count * (one.weight - q) ** 2 for one in kinds))
        assert normal * 0.99 - 1 <= at(quotient_widths(noise, kinds), q) <= normal * 1.07 + 1


@given(
    st.lists(st.tuples(st.floats(-3, 60), st.floats(-3, 60)), min_size=1, max_size=5),
    st.sampled_from(
        [Laplace(Fraction(1, 2)), Laplace(Fraction(40)), Gaussian(Fraction(1, 2)), Gaussian(Fraction(1600))]
    ),
    st.sampled_from([1.0, 0.1]),
)
def test_ends_hold_all_quotients_that_the_noise_allows(
    told: list[tuple[float, float]], noise: Noise, unit: float
) -> None:
    widths = quotient_widths(noise, kinds_of("mean"))
    above, below = np.array(told).T
    low, high = quotient_ends(above, below, widths, unit)
    for u, n, least, most in zip(above, below, low, high, strict=True):
        assert 0 <= least <= most <= 1
        if n < 1:
            assert (least, most) == (0, 1)
            continue
        grid = [Fraction(one, 640) for one in range(641)]
        allowed = [q for q in grid if abs(u - float(q) * n) <= at(widths, q) * unit]
        assert all(least - 1e-9 <= q <= most + 1e-9 for q in allowed)
        if allowed:
            assert min(allowed) - least <= 1 / 640 + 1e-6
            assert most - max(allowed) <= 1 / 640 + 1e-6


@pytest.mark.parametrize("name", ["mean", "share", "part alone"])
@pytest.mark.parametrize(
    "of",
    [
        Laplace(Fraction(1, 10)),
        Laplace(Fraction(3, 10)),
        Laplace(Fraction(1)),
        Gaussian(Fraction(1, 9)),
        Gaussian(Fraction(2)),
    ],
)
def test_intervals_of_quotients_hold_the_true_one(name: str, of: Noise) -> None:
    """Of all true numbers from 1 to 9, and of 40, for all values of the noise; few are no worse than many."""
    kinds = kinds_of(name)
    parts = {value: plain.summed(of, [(Fraction(1), one.count) for one in kinds if one.weight == value])
             for value in (Fraction(0), Fraction(1))}  # fmt: skip
    pairs = [(float(one), float(other), chance * more / plain.ONE**2)
             for one, chance in parts[Fraction(1)].items() for other, more in parts[Fraction(0)].items()]  # fmt: skip
    noise, rest, chances = np.array(pairs).T
    widths = quotient_widths(of, kinds)
    worst = 1.0
    for whole in (1, 2, 3, 5, 9, 40):
        for part in {0, 1, whole // 2, whole} if name != "part alone" else {whole}:
            low, high = quotient_ends(part + noise, whole + noise + rest, widths, 1.0)
            q = part / whole
            worst = min(worst, chances[(low <= q + 1e-12) & (q - 1e-12 <= high)].sum())
    assert worst >= 0.95 - 1e-8
