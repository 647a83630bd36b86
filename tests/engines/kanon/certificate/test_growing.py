"""Classes that are grown from near points: each is one, and prices exceed it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.certificate.growing import grown, near_points
from duckanon.engines.kanon.certificate.points import GRAINS, distinct
from duckanon.engines.kanon.certificate.pool import Pool
from duckanon.engines.kanon.records import Records, attribute, records
from tests.engines.kanon import plain
from tests.engines.kanon.strategies import tables


@given(tables(min_size=6, max_size=12), st.integers(2, 3), st.integers(0, 10**6))
def test_they_are_classes_that_prices_exceed(table: Records, k: int, seed: int) -> None:
    found = distinct(table)
    prices = (np.random.default_rng(seed).random(len(found)) * GRAINS).astype(np.int64)
    members, times = grown(found, near_points(found, 1), prices, k)
    pool = Pool(found)
    pool.add(members, times)
    columns = pool.columns
    for c, cost in enumerate(columns.cost):
        here = slice(columns.starts[c], columns.starts[c + 1])
        points, counts = columns.members[here], columns.times[here]
        assert len(set(points.tolist())) == len(points)
        assert (counts <= found.points.copies[points]).all()
        assert k <= counts.sum() <= 2 * k - 1
        # Any records of the points will do.
        of = [[i for i in range(len(table)) if found.of[i] == t] for t in points]
        class_of = [i for mine, count in zip(of, counts, strict=True) for i in mine[:count]]
        assert abs(cost - len(class_of) * plain.class_loss(table, class_of)) < 1e-9
        assert prices[points] @ counts / GRAINS > cost - 1e-9


def test_a_class_is_known_by_its_records() -> None:
    found = distinct(records([attribute("a", [1, 1, 2, 5, 9])]))
    pool = Pool(found)
    members = np.array([[0, 1, 2], [0, 0, 1], [0, 1, -1], [2, 1, 0]], np.int32)
    times = np.array([[1, 1, 1], [1, 1, 1], [2, 1, 0], [1, 1, 1]], np.int32)
    assert pool.add(members, times) == 2
    assert pool.add(members, times) == 0
    assert len(pool) == 2
    pool.drop(np.zeros(len(found)), 0.0, 1)
    assert len(pool) == 1
