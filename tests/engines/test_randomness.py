"""The noise is what it says: exact in distribution on every path, and the test would notice a scale wrong by 3 %."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, laplace

from duckanon.engines import randomness
from duckanon.engines.randomness import Entropy, Source, double_geometric, wide_double_geometric
from duckanon.errors import InvalidInput
from tests.engines.seeded import Seeded


def p_value(draws: np.ndarray, scale: Fraction) -> float:
    """Chi-square of the draws against the distribution on paper, cells of equal chance as far as whole numbers go."""
    a = np.exp(-1 / float(scale))
    reach = int(30 * scale) + 30
    v = np.arange(-reach, reach + 1)
    p = (1 - a) / (1 + a) * a ** np.abs(v)
    edges = np.unique(np.searchsorted(np.cumsum(p), np.linspace(0.01, 0.99, 50)))
    cell = np.searchsorted(v[edges], draws)
    expected = np.add.reduceat(p, np.concatenate([[0], edges + 1]))
    return float(chisquare(np.bincount(cell, minlength=len(expected)), expected / expected.sum() * len(draws)).pvalue)


@pytest.mark.parametrize(
    "scale", [Fraction(30), Fraction(3), Fraction(1, 2), Fraction(7, 3), Fraction(300_000_000, 1_234_567), Fraction(1)]
)
def test_the_scale_is_right_and_a_wrong_one_is_noticed(scale: Fraction) -> None:
    draws = double_geometric(scale, 400_000, Seeded(7))
    assert p_value(draws, scale) > 1e-3
    for wrong in (Fraction(97, 100), Fraction(103, 100)):
        assert p_value(draws, scale * wrong) < 1e-6


def test_scales_too_long_for_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow way draws from the same distribution, alone and where the compiled one would do too."""
    long = Fraction(7 * 10**40 + 1, 10**40)
    draws = double_geometric(long, 10_000, Seeded(3))
    assert p_value(draws, Fraction(7)) > 1e-3
    assert p_value(draws, Fraction(6)) < 1e-6
    monkeypatch.setattr(randomness, "_NARROW", 0)
    assert p_value(double_geometric(Fraction(5, 2), 10_000, Seeded(4)), Fraction(5, 2)) > 1e-3


def test_a_block_may_end_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws cut short by a block's end are neither lost nor favoured: blocks of any size give the very same draws."""
    scale = Fraction(300, 7)
    whole = double_geometric(scale, 5_000, Seeded(5))
    monkeypatch.setattr(randomness, "_BLOCK", 65)
    assert (double_geometric(scale, 5_000, Seeded(5)) == whole).all()
    assert p_value(double_geometric(scale, 100_000, Seeded(6)), scale) > 1e-3


def test_draws_are_independent() -> None:
    draws = double_geometric(Fraction(10), 200_000, Seeded(8)).astype(float)
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(draws[:-lag], draws[lag:])[0, 1]) < 4 / np.sqrt(len(draws))
    assert abs(draws.mean()) < 4 * draws.std() / np.sqrt(len(draws))


def test_entropy_is_fresh() -> None:
    first, second = (double_geometric(Fraction(1000), 50, Entropy()) for _ in range(2))
    assert (first != second).any()


def test_shapes() -> None:
    assert double_geometric(Fraction(1), (3, 4), Seeded(1)).shape == (3, 4)
    assert double_geometric(Fraction(1), 0, Seeded(1)).shape == (0,)
    assert not double_geometric(Fraction(1, 1000), 1000, Seeded(1)).any()


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(2**55 + 1)])
def test_scales_out_of_range(scale: Fraction) -> None:
    with pytest.raises(InvalidInput):
        double_geometric(scale, 1, Seeded(1))


def test_wide_noise_has_whole_numbers_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the same distribution, drawn the compiled way or the slow one; above 64 bits that of Laplace noise."""
    narrow = wide_double_geometric(Fraction(7, 3), 20_000, Seeded(9))
    assert narrow.dtype == object
    assert p_value(narrow.astype(np.int64), Fraction(7, 3)) > 1e-3
    draws = wide_double_geometric(Fraction(10**20, 3), 5_000, Seeded(10))
    assert max(map(abs, draws)) > 2**63
    assert kstest(draws.astype(float) / (10**20 / 3), laplace.cdf).pvalue > 1e-3
    assert kstest(draws.astype(float) / (10**20 / 2.4), laplace.cdf).pvalue < 1e-3
    monkeypatch.setattr(randomness, "_WIDEST", 0)
    assert p_value(wide_double_geometric(Fraction(5, 2), 10_000, Seeded(4)).astype(np.int64), Fraction(5, 2)) > 1e-3


@pytest.mark.parametrize("is_loaded", [False, True])
def test_few_draws_do_not_load_the_compiled_sampler(is_loaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are drawn with it where it is in memory; both ways have the same distribution."""
    slow: list[Fraction] = []
    wide = randomness._wide

    def noted(scale: Fraction, source: Source) -> int:
        slow.append(scale)
        return wide(scale, source)

    monkeypatch.setattr(randomness, "_is_loaded", lambda: is_loaded)
    monkeypatch.setattr(randomness, "_wide", noted)
    source = Seeded(12)
    draws = np.concatenate([double_geometric(Fraction(7), randomness._FEW, source) for _ in range(60)])
    assert len(slow) == (0 if is_loaded else len(draws))
    assert p_value(draws, Fraction(7)) > 1e-3
    double_geometric(Fraction(7), randomness._FEW + 1, source)
    assert len(slow) == (0 if is_loaded else len(draws))


def test_the_compiled_sampler_is_known_to_be_in_memory_once_it_was_used() -> None:
    code = (
        "from fractions import Fraction; from duckanon.engines import randomness as r\n"
        "for many in (r._FEW, r._FEW + 1): r.double_geometric(Fraction(7), many, r.Entropy()); print(r._is_loaded())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["False", "True"]
