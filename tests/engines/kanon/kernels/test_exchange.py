"""Rings of records that change places: what is counted is gained, and no ring within reach is left."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.kernels.exchange import exchange
from duckanon.engines.kanon.kernels.neighbours import Graph, neighbours, shuffled_orders
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.points import runs
from duckanon.engines.kanon.records import Codes, Records, attribute, records
from tests.engines.kanon import plain
from tests.engines.kanon.strategies import tables


def graph_of(table: Records, kept: int) -> Graph:
    first = runs(table)
    points = table.take(first[:-1])
    near, apart = neighbours(points, shuffled_orders(points, 8), len(points), min(kept, max(len(points) - 1, 1)))
    return Graph(np.repeat(np.arange(len(points), dtype=np.int32), np.diff(first)), first, near, apart)


def turned(table: Records, labels: Codes, beam: list[int], kept: int = 24) -> tuple[Codes, float]:
    slot = labels.astype(np.int32)
    members = np.argsort(slot, kind="stable").astype(np.int32)
    largest = int(np.bincount(slot).max())
    here = np.empty_like(slot)
    gained = exchange(table.space, graph_of(table, kept), slot, here, members, 0, largest, np.array(beam, np.int32))
    return slot, gained


def best_ring(table: Records, labels: Codes, length: int) -> float:
    """The least loss after any ring of records, one from each of `length` classes. By trying all."""
    classes = plain.classes_of(labels)
    least = plain.total_loss(table, classes)
    for chosen in permutations(range(len(classes)), length):
        for ring in product(*(classes[c] for c in chosen)):
            after = labels.copy()
            after[list(ring)] = np.roll(labels[list(ring)], 1)
            least = min(least, plain.total_loss(table, plain.classes_of(after)))
    return least


def distinct(seed: int, n: int, codes: int = 30) -> Records:
    rng = np.random.default_rng(seed)
    found = records(
        [
            attribute("x", rng.permutation(100)[:n].tolist()),
            attribute("y", rng.integers(0, 5, n).tolist(), weight=2.0),
            attribute(
                "z", np.array([None if v == 0 else v for v in rng.integers(0, codes, n).tolist()]), categorical=True
            ),
        ]
    )
    return found.take(canonical(found))


@pytest.mark.parametrize("seed", range(12))
def test_no_ring_of_two_or_three_is_left(seed: int) -> None:
    table = distinct(seed, 9)
    start = np.random.default_rng(seed).permutation(np.arange(9) // 3).astype(np.int32)
    # As wide as there are records: the search leaves nothing out.
    labels, gained = turned(table, start, [9, 9])
    loss = plain.total_loss(table, plain.classes_of(labels))
    assert loss == pytest.approx(plain.total_loss(table, plain.classes_of(start)) - gained)
    for length in (2, 3):
        assert loss <= best_ring(table, labels, length) + 1e-8


def test_rings_of_three_are_left_by_pairs() -> None:
    left = 0
    for seed in range(60):
        table = distinct(seed, 9)
        pairs, _ = turned(table, np.random.default_rng(seed).permutation(np.arange(9) // 3).astype(np.int32), [9])
        left += plain.total_loss(table, plain.classes_of(pairs)) > best_ring(table, pairs, 3) + 1e-8
    assert left > 0


@given(tables(max_size=14), st.integers(2, 4), st.integers(0, 9), st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_what_is_counted_is_gained(table: Records, k: int, seed: int, beam: list[int]) -> None:
    n = len(table)
    k = min(k, n)
    start = np.random.default_rng(seed).permutation(np.minimum(np.arange(n) // k, n // k - 1)).astype(np.int32)
    labels, gained = turned(table, start, beam)
    assert (np.bincount(labels) == np.bincount(start)).all()
    before, after = (plain.total_loss(table, plain.classes_of(x)) for x in (start, labels))
    assert gained >= 0
    assert before - after == pytest.approx(gained, abs=1e-9)


def test_more_codes_than_bits() -> None:
    table = distinct(3, 60, codes=150)
    start = np.random.default_rng(3).permutation(np.arange(60) // 3).astype(np.int32)
    labels, gained = turned(table, start, [3, 2, 1, 1])
    before, after = (plain.total_loss(table, plain.classes_of(x)) for x in (start, labels))
    assert before - after == pytest.approx(gained, abs=1e-9)
    assert gained > 0
