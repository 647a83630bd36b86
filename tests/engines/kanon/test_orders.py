"""Sorting and the Hilbert curve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon import orders
from duckanon.engines.kanon.records import Records, attribute, records
from tests.engines.kanon.strategies import tables


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(0, 64))
def test_radix_sort_is_a_stable_sort(numbers: list[int], bits: int) -> None:
    keys = np.array([x % (1 << bits) for x in numbers], dtype=np.uint64)
    expected = np.argsort(keys, kind="stable")
    assert (orders.argsort_words([(keys, bits)]) == expected).all()


@given(tables(min_size=2, max_size=40), st.randoms(use_true_random=False))
def test_lexicographic_is_a_stable_sort_by_codes(records: Records, random: object) -> None:
    sequence = list(range(len(records.attributes)))
    random.shuffle(sequence)  # type: ignore[attr-defined]
    columns = [records.attributes[j].codes for j in reversed(sequence)]
    assert (orders.lexicographic(records, sequence) == np.lexsort(columns)).all()


def test_more_than_one_word_of_key() -> None:
    rng = np.random.default_rng(0)
    found = records(attribute(f"x{j}", rng.integers(0, 3000, 4000).tolist()) for j in range(9))
    assert len(orders.pack(found, range(9))) > 1
    expected = np.lexsort([a.codes for a in reversed(found.attributes)])
    assert (orders.lexicographic(found, range(9)) == expected).all()


@pytest.mark.parametrize(("sides", "bits"), [(2, 3), (3, 2), (4, 2), (1, 5)])
def test_the_curve_visits_every_cell_by_single_steps(sides: int, bits: int) -> None:
    axes = np.meshgrid(*[np.arange(1 << bits)] * sides, indexing="ij")
    cells = np.stack([a.ravel() for a in axes], axis=1).astype(np.uint16)
    keys = orders._hilbert_keys(cells.T.copy(), orders._spaced(bits, sides))
    assert sorted(keys.tolist()) == list(range(len(cells)))
    steps = np.abs(np.diff(cells[np.argsort(keys)].astype(int), axis=0)).sum(axis=1)
    assert (steps == 1).all()


@given(tables(min_size=2, max_size=60), st.sampled_from([1, 3]))
def test_hilbert_is_a_permutation_whatever_the_threads(records: Records, threads: int) -> None:
    order = orders.hilbert(records, threads)
    assert sorted(order.tolist()) == list(range(len(records)))
    assert (order == orders.hilbert(records)).all()


def test_hilbert_with_more_attributes_than_bits() -> None:
    rng = np.random.default_rng(0)
    found = records(attribute(f"x{j}", rng.integers(0, 5, 50).tolist(), weight=1 + j) for j in range(70))
    assert sorted(orders.hilbert(found).tolist()) == list(range(50))


@given(st.lists(st.integers(0, 9), min_size=1))
def test_by_label_puts_classes_together(labels: list[int]) -> None:
    found = orders.by_label(np.array(labels, dtype=np.int32))
    assert (found == np.argsort(labels, kind="stable")).all()
