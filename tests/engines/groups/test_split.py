"""How epsilon is divided: exact sums, whatever the look says, and more for the leaves where they have groups."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.groups.loss import Pure
from duckanon.engines.groups.split import LEAST, Split, as_asked, by_size
from duckanon.errors import DuckanonError

EPSILONS = st.sampled_from(["1/10", "1", "22/7", "1000000", "1/1000000000000"]).map(Fraction)


@given(EPSILONS, st.integers(2, 9))
def test_every_way_adds_up_exactly(epsilon: Fraction, depth: int) -> None:
    split = by_size(Pure(epsilon), depth, 20)
    assert {split.look + sum(way) for way in split.ways} == {epsilon}
    assert min(map(min, split.ways)) >= LEAST[Pure] * epsilon / depth


@given(
    EPSILONS,
    st.integers(2, 6),
    st.lists(st.integers(-(10**15), 10**15), min_size=8, max_size=40),
    st.sampled_from([1, 3, 3000]),
    st.sampled_from([1, 40]),
)
def test_any_look_chooses_a_way_for_each_size(
    epsilon: Fraction, depth: int, look: list[int], leaves: int, distance: int
) -> None:
    split = by_size(Pure(epsilon), depth, len(look))
    ways = split.choose(np.array(look), leaves, float(epsilon / distance))
    assert ways.shape == (len(look),)
    assert ways.min() >= 0
    assert ways.max() < len(split.ways)
    # t falls, and so does what the leaves get.
    of_leaves = [split.ways[way][-1] for way in ways]
    assert of_leaves == sorted(of_leaves, reverse=True)


def test_leaves_get_most_where_they_have_groups_and_the_root_where_they_have_none() -> None:
    split = by_size(Pure(Fraction(1)), 3, 200)
    look = np.concatenate([10**7 // 3 ** np.arange(8), np.full(192, 40)])
    ways = [split.ways[way] for way in split.choose(look, 3000, 1)]
    assert ways[0] == tuple(Fraction(49, 50) * share for share in (Fraction(3, 20), Fraction(1, 3), Fraction(31, 60)))
    assert ways[-1] == tuple(Fraction(49, 50) * share for share in (Fraction(4, 9), Fraction(7, 18), Fraction(1, 6)))


def test_the_root_gives_no_more_than_its_own_error_allows() -> None:
    """Where all of many sizes have groups it would lose in each of them, and it does not."""
    split = by_size(Pure(Fraction(1)), 3, 200)
    many = split.choose(np.full(200, 10**7), 3000, 1)
    assert {split.ways[way][0] for way in many} == {Fraction(49, 150)}
    # Fewer leaves allow less.
    look = np.concatenate([10**7 // 3 ** np.arange(8), np.full(192, 40)])
    of_root = [split.ways[split.choose(look, leaves, 1)[0]][0] for leaves in (9, 300, 3000)]
    assert of_root == sorted(of_root, reverse=True)
    assert len(set(of_root)) == 3


@pytest.mark.parametrize(("depth", "counts"), [(1, 100), (3, 7), (2, 0)])
def test_without_levels_or_sizes_there_is_no_look(depth: int, counts: int) -> None:
    assert by_size(Pure(Fraction(2)), depth, counts) == as_asked(Pure(Fraction(2)), None, depth)


def test_parts_that_do_not_add_up_are_a_bug() -> None:
    half = Fraction(1, 2)
    for ways, look in (
        (((half, half), (half, half + Fraction(1, 10**30))), Fraction(0)),
        (((half, half),), Fraction(1, 10**30)),
        (((Fraction(1), Fraction(0)),), Fraction(0)),
        (((Fraction(3, 2), -half),), Fraction(0)),
        (((half, Fraction(1)),), -half),
    ):
        with pytest.raises(DuckanonError, match="nothing was released"):
            Split(Pure(Fraction(1)), ways, look)
