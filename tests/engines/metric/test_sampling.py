"""The sampler's distribution is exact: by enumeration where it can be, by a test that can fail where not."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from duckanon.engines.metric import sampling
from duckanon.engines.metric.sampling import Rows, _settle, draw
from duckanon.errors import InvalidInput


def octets(seed: int) -> sampling.Octets:
    return np.random.default_rng(seed).bytes


def numbers(*values: int) -> sampling.Octets:
    """A source that gives these 64-bit numbers."""
    data = b"".join(value.to_bytes(8, "big") for value in values)
    place = 0

    def give(count: int) -> bytes:
        nonlocal place
        place += count
        assert place <= len(data)
        return data[place - count : place]

    return give


def test_every_prefix_leads_to_its_cell() -> None:
    """All 2^k evenly spread numbers fall into cells in proportion to the probabilities."""
    weights = np.array([0.5, 0.125, 0.0, 0.25, 0.125])
    rows = Rows(np.array([0, 5]), weights)
    values = [i << 60 for i in range(16)]
    found = rows.draw(0, 16, numbers(*values, *[0] * 64))
    assert np.bincount(found, minlength=5).tolist() == [8, 2, 0, 4, 2]


@pytest.mark.parametrize("weights", [[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3], [1e-300, 1.0], [0.3, 0.0, 0.7]])
def test_edges_are_settled_exactly(weights: list[float]) -> None:
    """Numbers right below and right above each edge, in 128 bits, fall to their sides."""
    exact = [Fraction(weight) for weight in weights]
    ends = [sum(exact[: i + 1], Fraction(0)) / sum(exact) for i in range(len(weights))]
    for cell, end in enumerate(ends[:-1]):
        value = int(end * 2**128)
        for wide in (value - 1, value + 1):
            if not 0 <= wide < 2**128:
                continue
            expected = next(i for i, other in enumerate(ends) if Fraction(wide, 2**128) < other)
            source = numbers(wide & (2**64 - 1), 0, 0)
            found = _settle(wide >> 64, np.array(weights), source)
            assert found == expected, cell
            drawn = Rows(np.array([0, len(weights)]), np.array(weights)).draw(
                0, 1, numbers(wide >> 64, wide & (2**64 - 1), 0, 0)
            )
            assert drawn[0] == expected


def test_frequencies_and_that_the_test_can_fail() -> None:
    weights = np.array([0.05, 0.15, 0.3, 0.5])
    rows = Rows(np.array([0, 4, 5]), np.append(weights, 1.0))
    found = draw(rows, np.repeat([0, 1], [200_000, 5]), octets(1))
    counts = np.bincount(found[:200_000], minlength=4)
    assert (found[200_000:] == 4).all()
    assert chisquare(counts, weights * 200_000).pvalue > 1e-6
    assert chisquare(counts, np.array([0.052, 0.148, 0.3, 0.5]) * 200_000).pvalue < 1e-3


def test_mixed_rows_keep_their_places() -> None:
    rows = Rows(np.array([0, 1, 2, 3]), np.ones(3))
    wanted = np.array([2, 0, 1, 2, 0])
    assert draw(rows, wanted, octets(2)).tolist() == wanted.tolist()
    assert draw(rows, wanted[:0], octets(2)).tolist() == []


@pytest.mark.parametrize(
    ("weights", "said"),
    [([0.5, 0.4], "do not add up to 1"), ([1.5, -0.5], "a negative number"), ([np.nan, 1.0], "NaN")],
)
def test_what_is_no_distribution(weights: list[float], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Rows(np.array([0, 2]), np.array(weights))
