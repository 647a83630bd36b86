"""Widths of intervals: those of an enumeration of all values, and neither narrower nor wider ones pass for them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines import noise_tails
from duckanon.engines.noise_tails import Kind, Widths, least_width, quotient_ends, quotient_widths, smooth_width, width
from tests.amounts import sampled
from tests.engines import plain_noise as plain

SCALES = st.sampled_from([Fraction(1, 10), Fraction(27, 100), Fraction(1, 2), Fraction(1), Fraction(5, 3)])
WEIGHTS = st.fractions(Fraction(-3), Fraction(3), max_denominator=3)


@given(SCALES, st.integers(1, 7))
def test_sums_of_equal_noises(scale: Fraction, count: int) -> None:
    assert least_width(scale, count) == plain.least_width(plain.summed(scale, [(Fraction(1), count)]))


@given(SCALES, st.lists(st.tuples(WEIGHTS, st.integers(0, 2)), min_size=1, max_size=3))
def test_sums_of_noises_with_weights(scale: Fraction, parts: list[tuple[Fraction, int]]) -> None:
    parts = parts if scale <= 1 else [(weight, min(count, 1)) for weight, count in parts[:2]]
    least = plain.least_width(plain.summed(scale, parts))
    kinds = [Kind(weight, count) for weight, count in parts]
    assert width(scale, kinds) == least
    # Without adding up it is wider.
    noise_tails._width.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_tails, "_MOST_OF_WORDS", 0)
        rough = width(scale, kinds, rough=True)
        noise_tails._width.cache_clear()
    several = len({abs(weight) for weight, count in parts if weight and count}) > 1
    assert rough >= least if several else rough == least
    if scale >= 1:
        assert rough <= 1.1 * least + sum(abs(weight) for weight, _ in parts)


@pytest.mark.parametrize("count", [1, 2, 50, 10_000])
def test_large_scales_are_like_continuous_noise(count: int) -> None:
    """Whole steps are next to nothing then: two ways to compute the same."""
    for scale in (Fraction(3_000), Fraction(10**7)):
        assert least_width(scale, count) == pytest.approx(smooth_width(scale, count), rel=1e-6, abs=1.5)


@pytest.mark.parametrize("scale", [Fraction(2**40 + 1), Fraction(10**15), Fraction(10**23)])
def test_scales_whose_steps_floats_do_not_tell_apart(scale: Fraction) -> None:
    """Widths grow with the scale, as those of continuous noise: sums, sums with weights, and quotients."""
    unit = Fraction(10**6)
    for count in (1, 3, 40):
        assert least_width(scale, count) == pytest.approx(float(scale / unit) * least_width(unit, count), rel=1e-5)
    kinds = [Kind(Fraction(1), 2), Kind(Fraction(1, 3), 5)]
    assert float(width(scale, kinds)) == pytest.approx(float(scale / unit * width(unit, kinds)), rel=1e-5)
    ends = (Kind(Fraction(0), 1), Kind(Fraction(1), 1))
    wide, known = quotient_widths(scale, ends), quotient_widths(unit, ends)
    assert wide.start == pytest.approx(float(scale / unit) * known.start, rel=1e-5)
    assert least_width(scale, 1) >= -float(scale) * log(0.05) * (1 - 1e-9)


TWINS: dict[str, Callable[[Fraction, int], float]] = {
    "the square root of the number times the continuous width": lambda b, c: sqrt(c) * -log(0.05) * float(b),
    "the square root of the number times the width of one": lambda b, c: sqrt(c) * least_width(b, 1),
    "a scale of 19 in 20": lambda b, c: least_width(b * Fraction(19, 20), c),
    "a normal distribution": lambda b, c: 1.96 * noise_tails._deviation(b, c),
}
CASES = [(Fraction(at, 20), count) for at in (2, 6, 11, 20, 43) for count in (1, 2, 3, 5)]


def test_narrower_ones_miss_too_often() -> None:
    """Each twin for one of the cases at least, and ours for none."""
    found = {(scale, count): plain.summed(scale, [(Fraction(1), count)]) for scale, count in CASES}
    missed = {name: max(plain.beyond(found[case], twin(*case)) for case in CASES) for name, twin in TWINS.items()}
    assert max(plain.beyond(found[case], least_width(*case)) for case in CASES) <= 0.05
    assert all(one > 0.0505 for one in missed.values()), missed


def test_wider_ones_are_wider_than_needed() -> None:
    """One step less is too few for each of ours, and enough for those that are wider by one step."""
    for scale, count in CASES:
        found = plain.summed(scale, [(Fraction(1), count)])
        k = least_width(scale, count)
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
    scale=st.sampled_from([Fraction(1, 10), Fraction(2, 5), Fraction(1)]),
    q=st.one_of(st.fractions(0, 1, max_denominator=40), st.integers(0, 64).map(lambda one: Fraction(one, 64))),
)
def test_widths_of_quotients_hold_for_every_quotient(name: str, smooth: bool, scale: Fraction, q: Fraction) -> None:
    kinds = kinds_of(name)
    found = plain.summed(scale, [(one.weight - q, one.count) for one in kinds])
    quotient_widths.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        if smooth:
            patch.setattr(noise_tails, "_SMOOTH_FROM", {2: 0, 3: 0})
        w = at(quotient_widths(scale, kinds), q)
    quotient_widths.cache_clear()
    assert plain.beyond(found, w + 1e-9) <= 0.05
    if not smooth:
        # A part is one in 64, and noise one in 32 wider at its other end.
        assert w <= float(plain.least_width(found)) * 1.04 + 0.6


@given(
    st.lists(st.tuples(st.floats(-3, 60), st.floats(-3, 60)), min_size=1, max_size=5),
    st.sampled_from([Fraction(1, 2), Fraction(40)]),
    st.sampled_from([1.0, 0.1]),
)
def test_ends_hold_all_quotients_that_the_noise_allows(
    told: list[tuple[float, float]], scale: Fraction, unit: float
) -> None:
    widths = quotient_widths(scale, kinds_of("mean"))
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
@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(3, 10), Fraction(1)])
def test_intervals_of_quotients_hold_the_true_one(name: str, scale: Fraction) -> None:
    """Of all true numbers from 1 to 9, and of 40, for all values of the noise; few are no worse than many."""
    kinds = kinds_of(name)
    parts = {value: plain.summed(scale, [(Fraction(1), one.count) for one in kinds if one.weight == value])
             for value in (Fraction(0), Fraction(1))}  # fmt: skip
    pairs = [(float(one), float(other), chance * more / plain.ONE**2)
             for one, chance in parts[Fraction(1)].items() for other, more in parts[Fraction(0)].items()]  # fmt: skip
    noise, rest, chances = np.array(pairs).T
    widths = quotient_widths(scale, kinds)
    worst = 1.0
    for whole in (1, 2, 3, 5, 9, 40):
        for part in {0, 1, whole // 2, whole} if name != "part alone" else {whole}:
            low, high = quotient_ends(part + noise, whole + noise + rest, widths, 1.0)
            q = part / whole
            worst = min(worst, chances[(low <= q + 1e-12) & (q - 1e-12 <= high)].sum())
    assert worst >= 0.95 - 1e-8
