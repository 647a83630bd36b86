"""Coarser releases: unions of the classes of a finer one, and whether a release is one of a table."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon.coarsening import Cells, coarser, is_release, strangers
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.records import Attribute, Records, attribute, records
from tests.engines.kanon import plain
from tests.engines.kanon.strategies import tables


def shown(found: Records, labels: np.ndarray) -> list[Cells]:
    """What a release of these classes shows."""
    cells = []
    for a in found.attributes:
        low, high = np.empty_like(a.codes), np.empty_like(a.codes)
        sets: list[Any] = [[] for _ in labels]
        for members in plain.classes_of(labels):
            codes = a.codes[members]
            null = a.distinct in codes
            low[members] = a.distinct if null else codes.min()
            high[members] = a.distinct if null else codes.max()
            for i in members:
                sets[i] = [] if null else sorted(set(codes.tolist()))
        bare = Attribute(a.name, a.codes[:0], a.levels, a.distinct, a.span, a.weight)
        if a.categorical:
            flat = np.array([code for held in sets for code in held], np.int32)
            cells.append(Cells(bare, flat, flat, np.append(0, np.cumsum([len(held) for held in sets])), a.codes))
        else:
            cells.append(Cells(bare, low, high, None, a.codes))
    return cells


def lies_inside(cells: list[Cells], row: int, i: int) -> bool:
    for cell in cells:
        code = cell.own[i]
        if cell.starts is None:
            null = cell.low[row] == cell.attribute.distinct
            inside = null or cell.low[row] <= code <= cell.high[row]
        else:
            held = cell.low[cell.starts[row] : cell.starts[row + 1]].tolist()
            inside = not held or code in held
        if not inside:
            return False
    return True


@settings(max_examples=settings().max_examples // 2)
@given(tables(min_size=4, max_size=16), st.data())
def test_unions_of_classes_of_at_least_k(found: Records, data: st.DataObject) -> None:
    n = len(found)
    labels = (np.arange(n) // 2).astype(np.int32)
    k = data.draw(st.integers(1, n))
    cells = shown(found, labels)
    joined = coarser(cells, Records(tuple(cell.attribute for cell in cells)), [], PrivacyCriteria(k))
    assert np.bincount(joined).min() >= k
    for c in range(labels.max() + 1):
        assert len(set(joined[labels == c].tolist())) == 1
    order = np.array(data.draw(st.permutations(range(n))))
    moved = shown(found.take(order.astype(np.int32)), labels[order])
    assert (
        coarser(moved, Records(tuple(cell.attribute for cell in moved)), [], PrivacyCriteria(k)) == joined[order]
    ).all()


@settings(max_examples=settings().max_examples // 2)
@given(tables(min_size=4, max_size=16), st.data())
def test_strangers_are_found(found: Records, data: st.DataObject) -> None:
    n = len(found)
    cells = shown(found, (np.arange(n) // 2).astype(np.int32))
    assert strangers(cells) == 0
    # Other records with the same values: some of them fit no class.
    mixed = [
        Cells(c.attribute, c.low, c.high, c.starts, c.own[np.array(data.draw(st.permutations(range(n))))])
        for c in cells
    ]
    outside = sum(not any(lies_inside(mixed, row, i) for row in range(n)) for i in range(n))
    assert strangers(mixed, threads=2) == outside


def test_an_end_that_no_record_has() -> None:
    found = records([attribute("x", [1, 2, 5, 6, 9, 9])])
    cells = shown(found, np.array([0, 0, 1, 1, 2, 2], np.int32))
    changed = Cells(cells[0].attribute, cells[0].low, cells[0].high, None, np.array([0, 1, 2, 3, 3, 3], np.int32))
    assert is_release(cells)
    assert not is_release([changed])


@settings(max_examples=settings().max_examples // 4)
@given(tables(min_size=4, max_size=16), st.data())
def test_what_is_missing_may_lie_outside(found: Records, data: st.DataObject) -> None:
    labels = (np.arange(len(found)) // 2).astype(np.int32)
    gone = data.draw(st.sets(st.integers(0, int(labels.max()) - 1)))
    kept = np.flatnonzero(~np.isin(labels, list(gone))).astype(np.int32)
    own = [a.codes for a in found.attributes]
    cells = [
        Cells(c.attribute, c.low, c.high, c.starts, codes)
        for c, codes in zip(shown(found.take(kept), labels[kept]), own, strict=True)
    ]
    assert is_release(cells)
    # A release has no more records than the table.
    short = [Cells(c.attribute, c.low, c.high, c.starts, c.own[kept[1:]]) for c in cells]
    assert not is_release(short)


@pytest.mark.parametrize("k", [10, 40])
def test_many_classes(k: int) -> None:
    rng = np.random.default_rng(2)
    found = records([attribute(name, rng.integers(0, 40, 3000).tolist()) for name in "abc"])
    order = np.lexsort([a.codes for a in found.attributes])
    labels = np.empty(3000, np.int32)
    labels[order] = np.arange(3000) // 5
    cells = shown(found, labels)
    assert strangers(cells, threads=2) == 0
    joined = coarser(cells, found, [], PrivacyCriteria(k), threads=2)
    sizes = np.bincount(joined)
    assert sizes.min() >= k
    assert sizes.mean() < 2 * k
