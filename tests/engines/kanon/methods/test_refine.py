"""Ruin and recreate: never worse, nothing lost, and the same on any number of threads."""

from collections.abc import Callable
from importlib import import_module
from time import monotonic

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.kernels.neighbours import neighbours, shuffled_orders
from duckanon.engines.kanon.methods import METHODS
from duckanon.engines.kanon.methods.refine import Budget, refine
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.points import core, runs
from duckanon.engines.kanon.records import Records, attribute, records
from tests.engines.kanon import plain
from tests.engines.kanon.methods.test_search import methods_table
from tests.engines.kanon.strategies import tables

engine = import_module("duckanon.engines.kanon.methods.refine")


def dealt(n: int, k: int, seed: int) -> np.ndarray:
    """A bad partition into classes of at least k."""
    return np.random.default_rng(seed).permutation(np.minimum(np.arange(n) // k, n // k - 1)).astype(np.int32)


@given(tables(max_size=10), st.integers(2, 4), st.integers(0, 9))
def test_it_only_gets_better(records: Records, k: int, seed: int) -> None:
    n = len(records)
    k = min(k, n)
    start = dealt(n, k, seed)
    labels = refine(records, start, k, Budget(100.0))
    sizes = np.bincount(labels)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k
    loss = plain.total_loss(records, plain.classes_of(labels))
    assert plain.optimum(records, k) - 1e-9 <= loss <= plain.total_loss(records, plain.classes_of(start)) + 1e-9


def test_it_mostly_finds_the_optimum_of_small_tables() -> None:
    found = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        columns = [attribute(f"x{j}", rng.integers(0, 20, 9).tolist(), categorical=j == 2) for j in range(3)]
        table = records(columns)
        table = table.take(canonical(table))
        loss = total_loss(table.space, refine(table, dealt(9, 2, seed), 2, Budget(200.0)))
        found += loss <= plain.optimum(table, 2) + 1e-9
    assert found >= 22


def with_nulls(n: int) -> Records:
    rng = np.random.default_rng(5)

    def holes(values: np.ndarray) -> np.ndarray:
        return np.array([None if rng.random() < 0.1 else v for v in values.tolist()])

    found = records(
        [
            attribute("age", holes(rng.integers(0, 80, n))),
            attribute("job", holes(rng.integers(0, 150, n)), categorical=True, weight=2.0),
            attribute("sex", holes(rng.integers(0, 2, n)), categorical=True),
            attribute("pay", holes(rng.normal(0, 1, n))),
        ]
    )
    return found.take(canonical(found))


def test_the_gain_it_counts_is_the_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    # The loss kept up to date over many rounds in many blocks, NULLs and all, is the loss of what comes out.
    monkeypatch.setattr(engine, "_BLOCK", (300, 300))
    table = with_nulls(1500)
    gains: list[float] = []
    turned: list[float] = []

    def telling(plainly: Callable[..., float], told: list[float]) -> Callable[..., float]:
        def tell(*given: object) -> float:
            told.append(plainly(*given))
            return told[-1]

        return tell

    monkeypatch.setattr(engine, "rebuild", telling(engine.rebuild, gains))
    monkeypatch.setattr(engine, "exchange", telling(engine.exchange, turned))
    start = dealt(1500, 4, 1)
    labels = refine(table, start, 4, Budget(30.0))
    assert len(gains) == 180
    assert len(turned) == 60
    assert min(turned) >= 0
    assert max(turned) > 0
    before, after = total_loss(table.space, start), total_loss(table.space, labels)
    assert after == pytest.approx(plain.total_loss(table, plain.classes_of(labels)))
    assert before - after == pytest.approx(sum(gains) + sum(turned))
    assert after < 0.5 * before
    assert np.bincount(labels).min() >= 4


@pytest.mark.parametrize("visits", [3.0, 60.0])
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch, visits: float) -> None:
    monkeypatch.setattr(engine, "_BLOCK", (200, 200))
    table = with_nulls(2000)
    first = refine(table, dealt(2000, 3, 2), 3, Budget(visits))
    for threads in (2, 5):
        assert (refine(table, dealt(2000, 3, 2), 3, Budget(visits), threads) == first).all()


def test_a_time_limit_is_kept() -> None:
    table = methods_table(np.random.default_rng(6), 4000)
    refine(table, dealt(4000, 3, 3), 3, Budget(1.0))
    for seconds in (0.01, 1.0):
        began = monotonic()
        labels = refine(table, dealt(4000, 3, 3), 3, Budget(1e9, until=began + seconds))
        assert monotonic() - began < seconds + 1.5
        assert np.bincount(labels).min() >= 3
    shares: list[float] = []
    METHODS["refine"].run(table, 3, Control(2, shares.append, seconds=0.3))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@given(tables(max_size=40, max_attributes=2), st.integers(2, 3))
def test_what_stands_aside_loses_nothing(records: Records, k: int) -> None:
    n = len(records)
    split = core(records, min(k, n))
    assert sorted([*split.core.tolist(), *split.aside.tolist()]) == list(range(n))
    rest = records.take(split.core)
    assert np.diff(runs(rest)).max() <= 4 * k - 2
    joined = split.join(np.zeros(len(split.core), dtype=np.int32))
    for members in plain.classes_of(joined)[1:] if len(split.aside) else []:
        if set(members) <= set(split.aside.tolist()):
            assert len(members) >= k
            assert plain.class_loss(records, members) == 0
    assert (joined[split.core] == 0).all()
    assert not (joined[split.aside] == 0).any()


def test_near_points_are_mostly_the_nearest() -> None:
    table = with_nulls(3000)
    points = table.take(runs(table)[:-1])
    near, _ = neighbours(points, shuffled_orders(points, 8), 12, 10)
    rng = np.random.default_rng(0)
    hits = 0
    for i in rng.integers(0, len(points), 50).tolist():
        losses = np.array([plain.class_loss(points, [i, j]) if j != i else np.inf for j in range(len(points))])
        kept = near[i].tolist()
        assert i not in kept
        assert len(set(kept)) == len(kept)
        assert losses[kept].tolist() == sorted(losses[kept].tolist())
        hits += int((losses[kept] <= np.sort(losses)[9] + 1e-12).sum())
    assert hits >= 250
