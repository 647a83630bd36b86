"""The variance is what it says: noise is exact on every path, and the test would notice one wrong by a tenth."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from math import exp, isqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, norm

from duckanon.engines import discrete_gaussian as sampler
from duckanon.engines.discrete_gaussian import discrete_gaussian, wide_discrete_gaussian
from duckanon.engines.randomness import Entropy
from duckanon.errors import InvalidInput
from duckanon.rational_bounds import exponential_between
from tests.amounts import sampled
from tests.engines.seeded import Seeded

VARIANCES = [
    Fraction(one)
    for one in (
        "1/20 1/9 1/5 1/3 1/2 3/4 1 11/10 3/2 2 99/25 4 401/100 7 1000/81 1234/11 592 4096 300000000/1234567 1000000"
    ).split()
]


def probabilities(variance: Fraction, reach: int) -> np.ndarray:
    """P(v) for v from -reach to reach, added up in floats."""
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * float(variance)))
    return weights / weights.sum()


def p_value(draws: np.ndarray, variance: Fraction) -> float:
    """Chi-square of the draws against the distribution on paper, in at most 60 cells with 20 draws or more expected."""
    reach = 12 * (isqrt(int(variance)) + 1)
    p, v = probabilities(variance, reach), np.arange(-reach, reach + 1)
    below = np.cumsum(p)
    edges = np.unique(np.searchsorted(below, np.linspace(20 / len(draws), 1 - 20 / len(draws), 60)))
    cell = np.searchsorted(v[edges], draws)
    expected = np.add.reduceat(p, np.concatenate([[0], edges + 1]))
    return float(chisquare(np.bincount(cell, minlength=len(expected)), expected / expected.sum() * len(draws)).pvalue)


def slow(variance: Fraction, count: int, seed: int) -> np.ndarray:
    source = Seeded(seed)
    return np.array([sampler._wide(variance, source) for _ in range(count)])


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_variance_is_right_and_a_wrong_one_is_noticed(variance: Fraction) -> None:
    # The least variance has 18 draws in 400,000 that are not 0.
    draws = discrete_gaussian(variance, 400_000 if variance > Fraction(1, 10) else 2_000_000, Seeded(7))
    assert p_value(draws, variance) > 1e-3
    for wrong in (Fraction(9, 10), Fraction(11, 10)):
        assert p_value(draws, variance * wrong) < 1e-6


@pytest.mark.parametrize("variance", sampled(VARIANCES[2:], 4))
def test_the_slow_way_draws_from_the_same_distribution(variance: Fraction) -> None:
    draws = slow(variance, 10_000, 3)
    assert p_value(draws, variance) > 1e-3
    assert p_value(draws, variance * Fraction(3, 4)) < 1e-3


def test_variances_too_long_for_64_bits() -> None:
    long = Fraction(7 * 10**40 + 1, 10**40)
    draws = discrete_gaussian(long, 10_000, Seeded(3))
    assert p_value(draws, Fraction(7)) > 1e-3
    assert p_value(draws, Fraction(6)) < 1e-3


# --- which candidates are taken ---------------------------------------------------------------------------------------

ANY_VARIANCE = st.one_of(
    st.fractions(min_value=Fraction(1, 10**6), max_value=10**9, max_denominator=10**6),
    st.builds(lambda p, q: Fraction(p, q), st.integers(1, 2**110), st.integers(1, 2**60)),
    st.integers(1, 2**55).map(lambda root: Fraction(root**2)),
)


def candidate(variance: Fraction, units: int, rest: int) -> int:
    t = sampler._candidates(variance)
    return units * t + rest % t


@given(ANY_VARIANCE, st.integers(min_value=0, max_value=126), st.integers(min_value=0))
def test_powers_are_as_near_as_said(variance: Fraction, units: int, rest: int) -> None:
    y = candidate(variance, units, rest)
    exactly = sampler._power(y, variance)
    (found,) = sampler._powers(np.array([-y]), variance)
    assert abs(Fraction(float(found)) - exactly) <= max(Fraction(1), exactly) / 2**48


@given(ANY_VARIANCE, st.integers(0, 40), st.integers(min_value=0), st.integers(-(2**36), 2**36), st.integers(-2, 2))
def test_what_floats_decide_is_true(variance: Fraction, units: int, rest: int, away: int, step: int) -> None:
    """Near to where a candidate begins to be taken they decide nothing, and further away they are right."""
    y = candidate(variance, units, rest)
    power = sampler._power(y, variance)
    low, high = exponential_between(-power, 60)
    at = min(max(int(low * 2**64) + (away if step else 0) + step, 0), 2**64 - 1)
    (taken,), (left_out,) = sampler._surely(np.array([at], dtype=np.uint64), sampler._powers(np.array([y]), variance))
    assert not taken or Fraction(at + 1, 2**64) <= low
    assert not left_out or Fraction(at, 2**64) >= high
    if abs(at - low * 2**64) < low * 2**33:
        assert not taken
        assert not left_out
    elif abs(at - low * 2**64) > 2**35:
        assert taken or left_out


@pytest.mark.parametrize("variance", [*sampled(VARIANCES, 4), Fraction(10**26 * 1234, 567), Fraction(1, 10**400)])
def test_floats_change_no_draw(variance: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all is decided with as many digits as it needs, the same candidates are taken."""
    quick = discrete_gaussian(variance, 400, Seeded(12))
    monkeypatch.setattr(sampler, "_ERROR", 2.0**70)
    assert (discrete_gaussian(variance, 400, Seeded(12)) == quick).all()


def test_a_uniform_number_is_compared_to_as_many_digits_as_it_needs() -> None:
    """Its first digits are those of exp(-1/3); what follows decides."""
    digits = 64 * 5
    low, _ = exponential_between(Fraction(-1, 3), digits)
    bits = int(low * 2**digits)

    class Following:
        def __init__(self, number: int) -> None:
            self.left = number.to_bytes(digits // 8, "big")[8:]

        def octets(self, count: int) -> bytes:
            taken, self.left = self.left[:count], self.left[count:]
            return taken

    for away, expected in ((-(2**40), True), (2**40, False)):
        source = Following(bits + away)
        assert sampler._is_below(bits >> (digits - 64), Fraction(1, 3), source) is expected
        assert len(source.left) == 0


def test_wrong_decisions_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin that forgets the part of variance / t behind the point draws from another distribution."""
    powers = sampler._powers
    monkeypatch.setattr(sampler, "_powers", lambda y, variance: powers(y, Fraction(variance.numerator // 3, 1)))
    assert p_value(discrete_gaussian(Fraction(11, 3), 100_000, Seeded(7)), Fraction(11, 3)) < 1e-3


# --- the slow way -----------------------------------------------------------------------------------------------------


class _Rejected(Exception):
    pass


class _Tree:
    """All ways in which the coins of the slow sampler can fall, each with its probability, but for unlikely ones.

    Each run follows the falls in `path`, and from there on the first that there are; the others wait. A run ends where
    a candidate is rejected: the algorithm begins anew there, so such runs are left out of the shares.
    """

    def __init__(self, candidates: int) -> None:
        self.candidates = candidates
        self.waiting: list[tuple[list[int], float]] = [([], 1.0)]
        self.missed = 0.0

    def runs(self) -> Iterator[None]:
        while self.waiting:
            self.path, self.chance = self.waiting.pop()
            self.at = 0
            yield

    def fall(self, chances: list[float]) -> int:
        if self.at == len(self.path):
            others = range(1, len(chances))
            self.waiting += [([*self.path, one], self.chance * chances[one]) for one in others if chances[one] > 0]
            self.chance *= chances[0]
            self.path = [*self.path, 0]
        if self.chance < 1e-13:
            self.missed += self.chance
            raise _Rejected
        self.at += 1
        return self.path[self.at - 1]

    def coin(self, part: int, whole: int, _: object) -> bool:
        p = exp(-part / whole)
        return self.fall([p, 1 - p]) == 0

    def uniform(self, bound: int, _: object) -> int:
        if self.at > 0 and bound == self.candidates:
            raise _Rejected
        return self.fall([1 / bound] * bound)

    def decays(self, power: Fraction, _: object) -> bool:
        if self.coin(power.numerator, power.denominator, None):
            return True
        raise _Rejected


@pytest.mark.parametrize("variance", [Fraction(1, 20), Fraction(1, 3), Fraction(5), Fraction(9), Fraction(50, 3)])
def test_the_probabilities_are_those_on_paper(variance: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each path on which a candidate is taken is followed, and what they draw has the shares on paper."""
    tree, found = _Tree(sampler._candidates(variance)), defaultdict[int, float](float)
    for name in ("coin", "uniform", "decays"):
        monkeypatch.setattr(sampler, name, getattr(tree, name))
    for _ in tree.runs():
        with suppress(_Rejected):
            value = sampler._wide(variance, Entropy())
            found[value] += tree.chance
    assert tree.missed < 1e-9
    on_paper = probabilities(variance, 60)
    for value, chance in found.items():
        assert chance / sum(found.values()) == pytest.approx(on_paper[value + 60], abs=1e-9)


@pytest.mark.parametrize("block", [3, 64])
def test_candidates_may_come_in_blocks_of_any_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_BLOCK", block)
    assert p_value(discrete_gaussian(Fraction(300, 7), 10_000, Seeded(5)), Fraction(300, 7)) > 1e-3


def test_draws_are_independent() -> None:
    draws = discrete_gaussian(Fraction(100), 200_000, Seeded(8)).astype(float)
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(draws[:-lag], draws[lag:])[0, 1]) < 4 / np.sqrt(len(draws))
    assert abs(draws.mean()) < 4 * draws.std() / np.sqrt(len(draws))


def test_entropy_is_fresh() -> None:
    first, second = (discrete_gaussian(Fraction(1000), 50, Entropy()) for _ in range(2))
    assert (first != second).any()


def test_shapes() -> None:
    assert discrete_gaussian(Fraction(1), (3, 4), Seeded(1)).shape == (3, 4)
    assert discrete_gaussian(Fraction(1), 0, Seeded(1)).shape == (0,)
    assert not discrete_gaussian(Fraction(1, 10**12), 1000, Seeded(1)).any()


@pytest.mark.parametrize("variance", [Fraction(0), Fraction(-1), Fraction(2**110 + 1)])
def test_variances_out_of_range(variance: Fraction) -> None:
    with pytest.raises(InvalidInput):
        discrete_gaussian(variance, 1, Seeded(1))


def test_wide_noise_has_whole_numbers_of_any_size() -> None:
    """It has the same distribution, drawn the compiled way or the slow one; above 64 bits that of normal noise."""
    narrow = wide_discrete_gaussian(Fraction(7, 3), 20_000, Seeded(9))
    assert narrow.dtype == object
    assert p_value(narrow.astype(np.int64), Fraction(7, 3)) > 1e-3
    draws = wide_discrete_gaussian(Fraction(10**42, 9), 3_000, Seeded(10))
    assert max(map(abs, draws)) > 2**63
    assert kstest(draws.astype(float) / (10**21 / 3), norm.cdf).pvalue > 1e-3
    assert kstest(draws.astype(float) / (10**21 / 2.4), norm.cdf).pvalue < 1e-3


@pytest.mark.parametrize(
    "variance", [Fraction(2**110), Fraction(2**107), Fraction(10**30, 7), Fraction(10**16 * 99, 7)]
)
def test_wide_noise_that_fits_64_bits(variance: Fraction) -> None:
    """By its shape, which a deviation wrong by a fiftieth has not, and by its last digits, which are all as likely."""
    draws = discrete_gaussian(variance, 200_000, Seeded(11))
    assert draws.dtype == np.int64
    assert kstest(draws / float(variance) ** 0.5, norm.cdf).pvalue > 1e-3
    assert kstest(draws / float(variance) ** 0.5 * 1.02, norm.cdf).pvalue < 1e-3
    assert chisquare(np.bincount(draws % 60, minlength=60)).pvalue > 1e-3
