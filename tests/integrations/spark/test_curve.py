"""Cuts between bars of a histogram, and the blocks of places."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from duckanon.integrations.spark.curve import Bar, cuts, numbers

WORDS = st.integers(0, 2**128 - 1)


@given(st.lists(WORDS, min_size=1), st.lists(WORDS, unique=True))
def test_a_place_is_in_the_block_after_the_last_cut_that_is_not_above_it(places: list[int], at: list[int]) -> None:
    at.sort()
    low = 2**64 - 1
    halves = [
        (np.array([x >> 64 for x in xs], np.uint64), np.array([x & low for x in xs], np.uint64)) for xs in (places, at)
    ]
    found = numbers(*halves[0], halves[1])
    assert found.tolist() == [sum(cut <= place for cut in at) for place in places]


@given(st.dictionaries(st.integers(0, 2**16 - 1), st.integers(1, 40), min_size=1), st.integers(1, 40))
def test_blocks_are_large_enough(counts: dict[int, int], size: int) -> None:
    histogram = sorted(Bar((digit,), count) for digit, count in counts.items())
    at = cuts(histogram, size)
    starts = np.array([bar.digits[0] << 48 for bar in histogram], np.uint64)
    block = numbers(starts, np.zeros(len(starts), np.uint64), at)
    held = np.bincount(block, weights=[bar.count for bar in histogram])
    assert held.sum() == sum(counts.values())
    assert len(held) == len(at[0]) + 1
    if len(held) > 1:
        assert size / 2 <= held.min()
        assert held.max() < size + 40 + size / 2
