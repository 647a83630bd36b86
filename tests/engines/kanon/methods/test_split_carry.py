"""Split & Carry: the paper's worked example, Lemma 2, and the rules of its variants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon.anonymize import check_duration
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.methods.split_carry import bubble_carry, split_carry
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Order, Records
from duckanon.errors import InvalidInput
from tests.engines.kanon import plain
from tests.engines.kanon.methods.test_search import methods_table
from tests.engines.kanon.strategies import tables
from tests.engines.kanon.test_published import as_indices, fars


def test_worked_example_1() -> None:
    found = fars()
    order = canonical(found)
    pieces: list[tuple[set[int], set[frozenset[int]]]] = []

    def told(members: Order, classes: list[Order]) -> None:
        pieces.append((set(order[members].tolist()), as_indices(order, [c.tolist() for c in classes])))

    labels = split_carry(found.take(order), 3, Control(), sets=3, report=told)
    (first, solved), (second, solved_too) = pieces
    # Table 5: the first nine records, and their best classes.
    assert first == {12, 1, 11, 14, 7, 10, 16, 19, 13}
    assert solved == {frozenset({12, 1, 11}), frozenset({7, 10, 16}), frozenset({14, 19, 13})}
    # Table 6: what is equivalent to 16, 19 and 13 is carried, and solved with the rest.
    assert second == set(range(20)) - {12, 1, 11}
    assert solved_too == {frozenset(c) for c in ({7, 10, 16}, {14, 19, 13}, {6, 9, 5, 8}, {2, 15, 17, 0}, {4, 18, 3})}
    # Table 4b, the optimum.
    assert plain.total_loss(found.take(order), plain.classes_of(labels)) == pytest.approx(4.816532, abs=5e-7)


@settings(max_examples=max(25, settings().max_examples // 4))
@given(tables(min_size=4, max_size=14, max_attributes=3), st.integers(2, 3), st.integers(2, 3), st.integers(0, 4))
def test_classes_and_pieces(records: Records, k: int, sets: int, boundary: int) -> None:
    k = min(k, len(records))
    sizes: list[int] = []
    labels = split_carry(records, k, Control(), sets, boundary, lambda members, classes: sizes.append(len(members)))
    assert np.bincount(labels).min() >= k
    assert len(sizes) == max(len(records) // (sets * k), 1)
    # Lemma 2, with l records at the boundary; the last piece also takes what is left over.
    assert all(size <= sets * k + boundary * (2 * k - 1) for size in sizes[:-1])
    assert sizes[-1] < 2 * sets * k + boundary * (2 * k - 1)
    labels = bubble_carry(records, k, Control(), accepted=1 + boundary)
    assert np.bincount(labels).min() >= k


def test_lemma_2_and_what_carrying_gains() -> None:
    table = methods_table(np.random.default_rng(7), 130)
    sizes: list[int] = []
    carried = split_carry(table, 3, Control(), 3, report=lambda members, classes: sizes.append(len(members)))
    assert len(sizes) == 130 // 9
    assert max(sizes[:-1]) <= 3 * (2 * 3 - 1 + 3)
    assert len(set(sizes)) > 3
    alone = split_carry(table, 3, Control(), 3, boundary=0)
    losses = [plain.total_loss(table, plain.classes_of(labels)) for labels in (carried, alone)]
    assert losses[0] < losses[1]
    limited = split_carry(table, 3, Control(seconds=0.5), 3)
    assert np.bincount(limited).min() >= 3


@pytest.mark.parametrize(("method", "k"), [("split_carry", 5), ("bubble_carry", 5), ("split_carry", 20)])
def test_work_of_many_minutes_needs_a_time_limit(method: str, k: int) -> None:
    with pytest.raises(
        InvalidInput, match=rf"Method '{method}' would take about [\d,]+ minutes for 10,508 rows with 4 "
    ):
        check_duration(method, 10_508, 4, k, seconds=None, options={})
    check_duration(method, 10_508, 4, k, seconds=60.0, options={})
    check_duration(method, 60, 4, k, seconds=None, options={})
    check_duration("auto", 10_508, 4, k, seconds=None, options={})
    # What the pieces are made of counts, too.
    check_duration("split_carry", 10_508, 4, 5, seconds=None, options={"sets": 1, "boundary": 0})


def test_small_pieces_are_not_refused() -> None:
    for method in ("split_carry", "bubble_carry"):
        check_duration(method, 10_000, 4, 2, seconds=None, options={})
