"""Trees: what is refused, and that sums and orders are right."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.errors import InvalidInput


@st.composite
def trees(draw: st.DrawFn, levels: int = 3, widest: int = 5) -> Hierarchy:
    """Any tree, its regions numbered in any order."""
    parents, regions = [], 1
    for _ in range(draw(st.integers(0, levels))):
        more = draw(st.lists(st.integers(0, regions - 1), max_size=widest))
        parent = draw(st.permutations([*range(regions), *more]))
        parents.append(np.array(parent, dtype=np.int64))
        regions = len(parent)
    return Hierarchy(tuple(parents))


@given(trees(), st.integers(0, 2**32 - 1))
def test_sums(tree: Hierarchy, seed: int) -> None:
    leaves = np.random.default_rng(seed).integers(0, 9, (tree.sizes[-1], 3))
    levels = tree.levels(leaves)
    assert tuple(map(len, levels)) == tree.sizes
    assert tree.consistent(levels)
    expected = leaves
    for level in reversed(range(tree.depth - 1)):
        above = np.zeros((tree.sizes[level], 3), dtype=np.int64)
        np.add.at(above, tree.parents[level], expected)
        assert (levels[level] == above).all()
        expected = above
    broken = tuple(level + (number == 0) for number, level in enumerate(levels))
    assert tree.depth == 1 or not tree.consistent(broken)


@given(trees())
def test_order(tree: Hierarchy) -> None:
    ordered = tree.ordered
    for upper, lower, parent, renumbered in zip(
        tree.order, tree.order[1:], tree.parents, ordered.parents, strict=False
    ):
        assert sorted(lower) == list(range(len(lower)))
        assert (np.diff(renumbered) >= 0).all()
        assert (upper[renumbered] == parent[lower]).all()
    for starts, parent in zip(ordered.starts, ordered.parents, strict=True):
        for p in range(len(starts) - 1):
            assert (parent[starts[p] : starts[p + 1]] == p).all()
        assert starts[-1] == len(parent)


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        (([1],), "Level 1"),
        (([-1],), "Level 1"),
        (([],), "Level 1"),
        (([0, 0], [0]), "level 1 has no region below"),
        (([0, 0], [0, 2]), "Level 2"),
        (([[0]],), "one int64 array"),
    ],
)
def test_what_is_no_tree(parents: tuple[list[int], ...], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Hierarchy(tuple(np.array(parent, dtype=np.int64) for parent in parents))


def test_the_type_of_parents() -> None:
    with pytest.raises(InvalidInput, match="int64"):
        Hierarchy((np.array([0.0]),))
