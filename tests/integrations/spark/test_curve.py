"""Cuts between bars of a histogram, and the blocks of places."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from duckanon.integrations.spark.curve import Bar, Cuts, cuts, numbers

WORDS = st.integers(0, 2**128 - 1)


@given(st.lists(WORDS, min_size=1), st.lists(WORDS, unique=True))
def test_a_place_is_in_the_block_after_the_last_cut_that_is_not_above_it(places: list[int], at: list[int]) -> None:
    at.sort()
    low = 2**64 - 1
    halves = [
        (np.array([x >> 64 for x in xs], np.uint64), np.array([x & low for x in xs], np.uint64)) for xs in (places, at)
    ]
    found = numbers(*halves[0], Cuts(*halves[1], np.arange(len(at) + 1)))
    assert found.tolist() == [sum(cut <= place for cut in at) for place in places]


@given(st.dictionaries(st.integers(0, 2**16 - 1), st.integers(1, 40), min_size=1), st.integers(1, 40))
def test_blocks_are_large_enough(counts: dict[int, int], size: int) -> None:
    histogram = sorted(Bar((digit,), count) for digit, count in counts.items())
    at = cuts(histogram, size)
    starts = np.array([bar.digits[0] << 48 for bar in histogram], np.uint64)
    block = numbers(starts, np.zeros(len(starts), np.uint64), at)
    held = np.bincount(block, weights=[bar.count for bar in histogram])
    assert held.sum() == sum(counts.values())
    assert held.tolist() == at.sizes.tolist()
    if len(held) > 1:
        assert size / 2 <= held.min()
        assert held.max() < size + 40 + size / 2


@given(st.data())
def test_a_block_joins_its_smaller_neighbour(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=2, max_size=12))
    blocks = data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))
    places = np.arange(1, len(sizes), dtype=np.uint64)
    before = Cuts(places, places, np.cumsum(sizes))
    after = before.joined(blocks)
    assert after.sizes.sum() == sum(sizes)
    assert set(after.upper.tolist()) < set(places.tolist())
    whole = [0, *after.upper.tolist(), len(sizes)]
    for start, stop, size in zip(whole, whole[1:], after.sizes.tolist(), strict=False):
        assert size == sum(sizes[start:stop])
        assert stop - start <= 2
        assert stop - start == 1 or blocks & {start, start + 1}


def test_of_two_neighbours_the_smaller_one_is_joined() -> None:
    places = np.array([1, 2, 3], np.uint64)
    blocks = Cuts(places, places, np.cumsum([5, 4, 6, 3]))
    assert blocks.joined([1]).sizes.tolist() == [9, 6, 3]
    assert blocks.joined([2]).sizes.tolist() == [5, 4, 9]
    assert blocks.joined([0, 1, 2, 3]).sizes.tolist() == [9, 9]
    assert blocks.joined([1, 2]).joined([0]).sizes.tolist() == [18]
    assert Cuts.none(7).sizes.tolist() == [7]
