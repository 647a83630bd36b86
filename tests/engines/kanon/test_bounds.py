"""The box bound: what its definition says, and below every partition even where its search is cut short."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.compiled import allocating
from duckanon.engines.kanon import bounds
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.kernels.boxtree import Tree, nearest, new_tree
from duckanon.engines.kanon.methods.refine import Budget, refine
from duckanon.engines.kanon.orders import hilbert
from duckanon.engines.kanon.points import runs
from duckanon.engines.kanon.records import Codes, Floats, Records, Space
from tests.engines.kanon import plain
from tests.engines.kanon.box_bounds import box_bound
from tests.engines.kanon.methods.test_refine import dealt, with_nulls
from tests.engines.kanon.strategies import tables


@given(tables(min_size=4, max_size=9), st.integers(2, 4), st.integers(1, 3))
def test_it_is_the_mean_of_the_smallest_boxes(records: Records, k: int, threads: int) -> None:
    found = box_bound(records, k, threads) - records.floor
    assert found == pytest.approx(plain.box_bound(records, k), abs=1e-9)
    assert found * len(records) <= plain.optimum(records, k) + 1e-9


@pytest.mark.parametrize(("leaves", "steps"), [(1, 4000), (10**6, 1), (1, 1)])
@given(records=tables(min_size=10, max_size=14), k=st.integers(2, 3))
def test_cut_short_it_is_only_weaker(leaves: int, steps: int, records: Records, k: int) -> None:
    starts = runs(records)
    points, copies = records.take(starts[:-1]), np.diff(starts)
    losses = bounds._least_losses(points.space, new_tree(points.space), copies, 0, len(points), k, leaves, steps)
    assert float(losses @ copies) / len(records) <= plain.box_bound(records, k) + 1e-9


@pytest.mark.parametrize("k", [2, 5, 30])
def test_no_partition_of_a_larger_table_is_below_it(k: int) -> None:
    table = with_nulls(1200)
    labels = refine(table, dealt(1200, k, 0), k, Budget(60.0))
    bound = box_bound(table, k)
    assert 0 < bound * 1200 < total_loss(table.space, labels)
    assert box_bound(table, k, 3) == pytest.approx(bound)


@allocating
def _nearest(
    space: Space, tree: Tree, i: int, within: float, leaves: int, found: Codes, apart: Floats
) -> tuple[int, float]:
    return nearest(space, tree, i, within, leaves, found, apart)


def test_nearest_finds_all_that_are_near() -> None:
    table = with_nulls(600)
    points = table.take(runs(table)[:-1])
    points = points.take(hilbert(points))
    tree = new_tree(points.space)
    near, apart = np.empty(20, dtype=np.int32), np.empty(20)
    for i in range(0, len(points), 40):
        losses = sorted(plain.class_loss(points, [i, j]) for j in range(len(points)) if j != i)
        count, complete = _nearest(points.space, tree, i, 2.0, 10**6, near, apart)
        assert complete >= apart[count - 1]
        assert apart[:count] == pytest.approx(losses[:count])
        assert count >= 20 - losses.count(losses[19])
        short, reach = _nearest(points.space, tree, i, 2.0, 5, near, apart)
        assert sum(loss < reach - 1e-9 for loss in losses) <= short
