"""The best consecutive classes under privacy criteria: beside every way to cut an order, and on orders of best cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon import anonymize as blocks_of
from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria import consecutive as module
from duckanon.engines.kanon.criteria.consecutive import Conditions
from duckanon.engines.kanon.criteria.enforcement import settle_classes
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria, criteria_arrays
from duckanon.engines.kanon.kernels.consecutive import best_consecutive
from duckanon.engines.kanon.methods.bestcut import bestcut
from duckanon.engines.kanon.private_classes import private_classes
from duckanon.engines.kanon.records import Records, attribute, records
from duckanon.engines.kanon.risk import Sensitive
from tests.amounts import many
from tests.engines.kanon import plain
from tests.engines.kanon.criteria.test_enforcement import holds, problems

Problem = tuple[Records, np.ndarray, list[Sensitive], PrivacyCriteria]


def conditions(columns: Sequence[Sensitive], wanted: PrivacyCriteria, n: int, price: float) -> Conditions:
    every = np.arange(n, dtype=np.int32)
    return Conditions(criteria_arrays(every, columns, wanted), every, price)


def cost(
    table: Records, members: Sequence[int], columns: list[Sensitive], wanted: PrivacyCriteria, price: float
) -> float:
    """What a class loses: at least the price for each record, if it fails."""
    loss = plain.class_loss(table, members)
    good = holds(members, columns, wanted, range(len(table)))
    return len(members) * (loss if good else max(loss, price))


@settings(max_examples=many(60))
@given(problems(12), st.sampled_from([0.0, 0.3, 1.0, 50.0]), st.randoms(use_true_random=False))
def test_the_classes_are_the_best_of_all_that_an_order_has(problem: Problem, price: float, random: object) -> None:
    """Whatever the criteria ask, and although a class that fails may be inside one that meets them, or around it."""
    table, _, columns, wanted = problem
    n, order = len(table), list(range(len(table)))
    random.shuffle(order)  # type: ignore[attr-defined]
    wanted = replace(wanted, k=2)
    cut = conditions(columns, wanted, n, price).best_sizes
    loss, labels = best_consecutive(table.space, np.array(order, np.int32), 2, cut=cut)
    ways = [[[order[i] for i in run] for run in way] for way in plain.consecutive_partitions(n, 2)]
    least = min(sum(cost(table, members, columns, wanted, price) for members in way) for way in ways)
    assert loss == pytest.approx(least, abs=1e-9)
    classes = plain.classes_of(labels)
    assert sum(cost(table, members, columns, wanted, price) for members in classes) == pytest.approx(loss, abs=1e-9)
    assert all(np.diff(sorted(order.index(i) for i in members)).max() == 1 for members in classes)


@pytest.mark.parametrize(("k", "grid"), [(5, 1), (70, 2)])
def test_long_orders_and_coarse_grids_are_cut_best(k: int, grid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several shares of ends, and a limit to the length of a class."""
    monkeypatch.setattr(module, "_LONG", 23)
    monkeypatch.setattr(module, "_TIMES", 3)
    rng = np.random.default_rng(k)
    n, wanted, price = 700, PrivacyCriteria(k, 2), 0.6
    table = records([attribute("x", rng.integers(0, 50, n)), attribute("c", rng.integers(0, 5, n), categorical=True)])
    column = Sensitive((rng.random(n) < 1 / k).astype(np.int32), 2, False)
    longest, best = -(-max(3 * k, 23) // grid) * grid, {0: 0.0}
    for end in [*range(grid, n, grid), n]:
        ways = []
        for start, before in best.items():
            good = len(set(column.codes[start:end])) > 1
            if k <= end - start <= (longest if good else 2 * k + grid - 2):
                loss = plain.class_loss(table, range(start, end))
                ways.append(before + (end - start) * (loss if good else max(loss, price)))
        if ways:
            best[end] = min(ways)
    cut = conditions([column], wanted, n, price).best_sizes
    loss, _ = best_consecutive(table.space, np.arange(n, dtype=np.int32), k, cut=cut)
    assert loss == pytest.approx(best[n], abs=1e-9)


@settings(max_examples=many(60))
@given(problems(14))
def test_an_order_of_best_cuts_has_borders_where_all_classes_meet_the_criteria(problem: Problem) -> None:
    table, _, columns, wanted = problem
    wanted = replace(wanted, k=2)
    asked = conditions(columns, wanted, len(table), 1000.0)
    order = bestcut(table, 2, asked)
    assert sorted(order.tolist()) == list(range(len(table)))
    _, labels = best_consecutive(table.space, order, 2, cut=asked.best_sizes)
    assert all(holds(members, columns, wanted, range(len(table))) for members in plain.classes_of(labels))


def _spread(n: int) -> tuple[Records, Sensitive]:
    """Two attributes, and a value that a quarter of the records have, wherever they are."""
    rng = np.random.default_rng(1)
    table = records([attribute("age", rng.integers(0, 60, n)), attribute("income", rng.integers(0, 500, n))])
    return table, Sensitive((rng.random(n) < 0.25).astype(np.int32), 2, False)


@pytest.mark.parametrize("method", ["order", "bestcut"])
def test_cuts_under_the_criteria_lose_less_than_joining(method: str) -> None:
    table, column = _spread(4000)
    wanted = PrivacyCriteria(5, 2, Fraction(3, 10))
    found = private_classes(table, wanted, method, sensitive=[column])
    joined = settle_classes(table, anonymize(table, 5, method), [column], wanted)
    ours, theirs = (plain.total_loss(table, plain.classes_of(one.labels)) for one in (found, joined))
    assert ours < 0.9 * theirs
    assert all(holds(members, [column], wanted, range(4000)) for members in plain.classes_of(found.labels))


@settings(max_examples=many(30))
@given(problems(12))
def test_order_meets_all_criteria_and_loses_no_more_than_joining(problem: Problem) -> None:
    table, _, columns, wanted = problem
    wanted = replace(wanted, k=2)
    found = private_classes(table, wanted, "order", sensitive=columns)
    kept = np.flatnonzero(found.labels >= 0).tolist()
    classes = [members for members in plain.classes_of(found.labels) if found.labels[members[0]] >= 0]
    assert found.dropped == len(table) - len(kept) <= wanted.suppress * len(table)
    assert all(holds(members, columns, wanted, kept) for members in classes)
    joined = settle_classes(table, anonymize(table, 2, "order"), columns, wanted)
    theirs = [members for members in plain.classes_of(joined.labels) if joined.labels[members[0]] >= 0]
    assert plain.total_loss(table, classes) + found.dropped <= plain.total_loss(table, theirs) + joined.dropped + 1e-9


def test_classes_follow_from_the_records_and_not_from_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also block by block, and among equal records, which differ in what is sensitive alone."""
    monkeypatch.setattr("duckanon.engines.kanon.blocks.BLOCK", 500)
    monkeypatch.setattr(blocks_of, "BLOCK", 500)
    rng = np.random.default_rng(3)
    table, column = _spread(1600)
    table = records([replace(a, codes=a.codes // 8) for a in table.attributes])
    content = rng.permutation(1600).astype(np.uint64)
    moved = rng.permutation(1600).astype(np.int32)
    wanted = PrivacyCriteria(5, 2, Fraction(3, 10))
    one = private_classes(table, wanted, "order", content=content, sensitive=[column])
    other = private_classes(
        table.take(moved),
        wanted,
        "order",
        content=content[moved],
        sensitive=[replace(column, codes=column.codes[moved])],
        control=Control(2),
    )
    assert {frozenset(members) for members in plain.classes_of(one.labels)} == {
        frozenset(moved[members].tolist()) for members in plain.classes_of(other.labels)
    }
