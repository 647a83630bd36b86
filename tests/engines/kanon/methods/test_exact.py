"""Optimal partitions: equal to the optimum by brute force, with bounds that never exceed it."""

from importlib import import_module
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.certificate.pricing import OutOfTime
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.kernels.pricing import as_class, price
from duckanon.engines.kanon.methods.exact import exact
from duckanon.engines.kanon.methods.milp import milp
from duckanon.engines.kanon.records import Records, attribute, records
from duckanon.errors import InvalidInput
from tests.engines.kanon import plain
from tests.engines.kanon.methods.test_refine import dealt
from tests.engines.kanon.strategies import tables
from tests.engines.kanon.test_published import FARS, fars

engine = import_module("duckanon.engines.kanon.methods.exact")


@settings(max_examples=settings().max_examples // 2)
@given(tables(max_size=9), st.integers(2, 4), st.integers(0, 5))
def test_exact_is_the_optimum(records: Records, k: int, seed: int) -> None:
    k = min(k, len(records))
    found = exact(records, k, dealt(len(records), k, seed), Control())
    best = plain.optimum(records, k)
    assert found.proven
    assert found.bound <= best + 1e-6
    assert found.loss == pytest.approx(best, abs=1e-6)
    assert plain.total_loss(records, plain.classes_of(found.labels)) == pytest.approx(found.loss, abs=1e-9)
    assert np.bincount(found.labels).min() >= k


@settings(max_examples=max(12, settings().max_examples // 8))
@given(tables(max_size=6, max_attributes=3), st.integers(2, 3), st.integers(0, 5))
def test_milp_is_the_optimum(records: Records, k: int, seed: int) -> None:
    k = min(k, len(records))
    found = milp(records, k, dealt(len(records), k, seed), Control())
    best = plain.optimum(records, k)
    assert found.loss == pytest.approx(best, abs=1e-5)
    assert found.bound == pytest.approx(best, abs=1e-5)
    assert np.bincount(found.labels).min() >= k


def test_milp_returns_what_it_has_at_its_limit_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("duckanon.engines.kanon.methods.milp"), "_NODES", 1)
    drawn = np.random.default_rng(3)
    some = records([attribute(name, drawn.permutation(14).astype(float)) for name in "ab"])
    start = dealt(14, 3, 1)
    found = milp(some, 3, start, Control())
    assert np.bincount(found.labels).min() >= 3
    assert found.bound <= found.loss <= total_loss(some.space, start)


def test_table_2a_is_solved() -> None:
    proven: list[float] = []
    table = fars()
    labels = anonymize(table, 3, "exact", control=Control(certify=proven.append))
    printed = ({0, 2, 15, 17}, {1, 11, 12}, {3, 4, 18}, {5, 6, 8, 9}, {7, 10, 16}, {13, 14, 19})
    assert {frozenset(c) for c in plain.classes_of(labels)} == {frozenset(c) for c in printed}
    assert [20 * bound for bound in proven] == pytest.approx([4.816532], abs=1e-6)


def test_table_4c_is_solved() -> None:
    weights = (0.8, 0.05, 0.1, 0.05)
    table = fars(weights)
    assert len(FARS) == len(weights)
    loss = plain.total_loss(table, plain.classes_of(anonymize(table, 3, "exact")))
    assert loss == pytest.approx(4.114516, abs=5e-7)


def test_table_1_is_solved_by_the_papers_model() -> None:
    rows = [(37, 0, 22071), (35, 0, 22098), (36, 0, 23061), (61, 1, 55107), (63, 1, 55099), (66, 1, 55324)]
    rows.append((63, 1, 55229))
    table = records(attribute(q, [row[j] for row in rows]) for j, q in enumerate(("age", "sex", "zipcode")))
    found = milp(table, 3, np.zeros(7, dtype=np.int32), Control())
    assert 3 * found.loss == pytest.approx(0.955090, abs=5e-7)
    assert found.bound == pytest.approx(found.loss, abs=1e-5)


@given(tables(min_size=4, max_size=8), st.integers(2, 3), st.data())
def test_pricing_finds_every_class(records: Records, k: int, data: st.DataObject) -> None:
    n = len(records)
    cents = data.draw(st.lists(st.integers(0, 100), min_size=n, max_size=n))
    prices = np.array(cents) / 100
    threshold = data.draw(st.sampled_from([-1e-9, -0.1, 0.2]))
    costs = {}
    for mask in range(1, 1 << n):
        members = tuple(i for i in range(n) if mask >> i & 1)
        if k <= len(members) < 2 * k:
            costs[members] = len(members) * plain.class_loss(records, members)
    reduced = {members: cost - prices[list(members)].sum() for members, cost in costs.items()}
    found = price(records.space, prices, k, threshold, 0, 1000, 10**6)
    assert found.complete
    listed = {as_class(row): value for row, value in zip(found.members, found.reduced, strict=True)}
    assert set(listed) >= {members for members, value in reduced.items() if value < threshold - 1e-9}
    assert set(listed) <= {members for members, value in reduced.items() if value < threshold + 1e-9}
    for members, value in listed.items():
        assert value == pytest.approx(reduced[members])
    few = price(records.space, prices, k, threshold, 1, 1000, 10**6)
    assert few.least == pytest.approx(found.least)
    assert len(few.cost) <= n


def test_a_bound_holds_wherever_the_work_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    table = records(attribute(f"x{j}", rng.integers(0, 30, 40).tolist()) for j in range(3))
    start = dealt(40, 3, 0)
    best = exact(table, 3, start, Control())
    assert best.proven
    assert best.loss == pytest.approx(total_loss(table.space, best.labels))
    for name, small in (("_PATIENCE", 2), ("_MOST_STEPS", 10), ("_LISTED", 5), ("_NODES", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(engine, name, small)
            if name == "_MOST_STEPS":
                patch.setattr(engine, "_STEPS", small)
            cut = exact(table, 3, start, Control())
        assert cut.bound <= best.loss + 1e-6 <= cut.loss + 2e-6
    with monkeypatch.context() as patch:
        # The time is up in the first search.
        patch.setattr(engine, "valid_prices", Mock(side_effect=OutOfTime))
        cut = exact(table, 3, start, Control(seconds=60))
    assert 0 < cut.bound <= best.loss + 1e-6 <= cut.loss + 2e-6
    cut = exact(table, 3, start, Control(seconds=0.01))
    assert 0 < cut.bound <= best.loss + 1e-6 <= cut.loss + 2e-6


def test_too_many_records() -> None:
    rng = np.random.default_rng(3)
    table = records([attribute("x", rng.integers(0, 30, 2001).tolist())])
    with pytest.raises(InvalidInput, match="at most 2,000 rows"):
        exact(table, 3, dealt(2001, 3, 0), Control())
    with pytest.raises(InvalidInput, match="at most 200 rows"):
        milp(table, 3, dealt(2001, 3, 0), Control())
