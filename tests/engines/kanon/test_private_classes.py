"""Classes of subjects, and records that are dropped: beside brute force, and what comes out beside the definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import duckanon.engines.kanon.private_classes as module
from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria.enforcement import settle_classes
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.outliers import outliers
from duckanon.engines.kanon.private_classes import private_classes
from duckanon.engines.kanon.records import Records, attribute, records
from duckanon.engines.kanon.risk import Sensitive
from duckanon.errors import InvalidInput
from tests.amounts import many
from tests.engines.kanon import plain
from tests.engines.kanon.diversities import diverse
from tests.engines.kanon.strategies import tables


@st.composite
def problems(draw: st.DrawFn, most: int = 9) -> tuple[Records, np.ndarray, int]:
    """Records, the subject of each, and a k that they can have."""
    table = draw(tables(min_size=4, max_size=most))
    n = len(table)
    subjects = np.array(draw(st.lists(st.integers(-1, max(n - 2, 2)), min_size=n, max_size=n)), np.int32)
    k = draw(st.integers(2, 4))
    assume(len(set(subjects[subjects >= 0].tolist())) >= k)
    return table, subjects, k


def units(members: Sequence[int], subjects: np.ndarray) -> set[int]:
    return {int(subjects[i]) for i in members if subjects[i] >= 0}


def optimum(table: Records, subjects: np.ndarray, k: int) -> float:
    """The least loss of a partition whose classes have k subjects, by a table over sets of records."""
    n = len(table)
    best = {0: 0.0}
    for left in range(1, 1 << n):
        items = [i for i in range(n) if left >> i & 1]
        found = np.inf
        for size in range(len(items)):
            for others in combinations(items[1:], size):
                members = [items[0], *others]
                rest = left & ~sum(1 << i for i in members)
                if len(units(members, subjects)) >= k:
                    found = min(found, best[rest] + len(members) * plain.class_loss(table, members))
        best[left] = found
    return best[(1 << n) - 1]


@pytest.mark.parametrize("method", ["auto", "order", "exact"])
@given(problems(most=7))
@settings(deadline=None, max_examples=10)
def test_classes_hold_k_subjects(method: str, problem: tuple[Records, np.ndarray, int]) -> None:
    table, subjects, k = problem
    found = private_classes(table, PrivacyCriteria(k), method, subjects=subjects)
    assert found.labels.min() == 0
    assert found.dropped == 0
    classes = plain.classes_of(found.labels)
    assert all(len(units(c, subjects)) >= k for c in classes)
    loss, best = plain.total_loss(table, classes), optimum(table, subjects, k)
    assert loss >= best - 1e-9


def test_the_search_finds_most_optima() -> None:
    rng = np.random.default_rng(5)
    met = 0
    for _ in range(10):
        n = 7
        table = records([attribute("a", rng.integers(0, 30, n)), attribute("b", rng.integers(0, 30, n))])
        subjects = rng.integers(0, 6, n).astype(np.int32)
        if len(set(subjects.tolist())) < 2:
            continue
        found = private_classes(table, PrivacyCriteria(2), subjects=subjects)
        best = optimum(table, subjects, 2)
        met += plain.total_loss(table, plain.classes_of(found.labels)) <= best + 1e-9
    assert met >= 9


@given(problems(most=14), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=8)
def test_the_order_of_the_records_changes_nothing(problem: tuple[Records, np.ndarray, int], random: object) -> None:
    table, subjects, k = problem
    moved = np.arange(len(table), dtype=np.int32)
    random.shuffle(moved)  # type: ignore[attr-defined]
    content = np.arange(len(table)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    wanted = PrivacyCriteria(k, suppress=Fraction(1, 5))
    one = private_classes(table, wanted, content=content, subjects=subjects)
    other = private_classes(table.take(moved), wanted, content=content[moved], subjects=subjects[moved])
    assert (one.labels[moved] == other.labels).all()


def test_large_tables_are_improved_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class larger than a part stands last, and records that are dropped are found block by block."""
    rng = np.random.default_rng(4)
    ages = np.append(rng.integers(0, 500, 700), np.full(300, 900))
    table, subjects = records([attribute("age", ages)]), rng.integers(0, 600, 1_000).astype(np.int32)
    wanted = PrivacyCriteria(4, suppress=Fraction(1, 100))
    whole = private_classes(table, wanted, subjects=subjects)
    monkeypatch.setattr("duckanon.engines.kanon.private_classes._BLOCK", 120)
    monkeypatch.setattr("duckanon.engines.kanon.outliers.BLOCK", 90)
    parts = private_classes(table, wanted, subjects=subjects)
    kept = np.flatnonzero(parts.labels >= 0).astype(np.int32)
    assert (whole.labels < 0).tolist() == (parts.labels < 0).tolist()
    assert all(len(units(kept[c].tolist(), subjects)) >= 4 for c in plain.classes_of(parts.labels[kept]))
    losses = [total_loss(table.take(kept).space, found.labels[kept]) for found in (whole, parts)]
    assert losses[1] <= 1.1 * losses[0]


def test_one_unit_with_many_records_is_no_class() -> None:
    """A patient with five stays was a "class of five"."""
    ages, patients = [30] * 5 + [50, 51, 52, 53, 54], [0] * 5 + [1, 2, 3, 4, 5]
    table = records([attribute("age", ages)])
    found = private_classes(table, PrivacyCriteria(3), subjects=np.array(patients, np.int32))
    assert all(len({patients[i] for i in c}) >= 3 for c in plain.classes_of(found.labels))
    # The five stays may lie in several classes, but one class holds them at the least loss.
    assert len({int(label) for label in found.labels[:5]}) == 1


def test_too_few_units() -> None:
    table = records([attribute("age", [1, 2, 3, 4])])
    with pytest.raises(InvalidInput, match="The unit has fewer than k = 3 distinct values"):
        private_classes(table, PrivacyCriteria(3), subjects=np.array([0, 0, 1, -1], np.int32))


@given(problems(most=12), st.data())
@settings(deadline=None, max_examples=12)
def test_sensitive_values_count_once_a_unit(problem: tuple[Records, np.ndarray, int], data: st.DataObject) -> None:
    table, subjects, k = problem
    n = len(table)
    values = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n)), np.int32)
    asked: list[tuple[str, int | Fraction, Fraction | None]]
    asked = [("distinct", 2, None), ("entropy", Fraction(3, 2), None), ("recursive", 2, Fraction(2))]
    kind, l, c = data.draw(st.sampled_from(asked))  # noqa: E741
    wanted = PrivacyCriteria(k, l, None, diversity=kind, c=c)

    def counts(members: Sequence[int]) -> list[int]:
        pairs = {(int(subjects[i]), int(values[i])) for i in members if subjects[i] >= 0 and values[i] >= 0}
        return list(Counter(value for _, value in pairs).values())

    column = Sensitive(values, 4, False)
    assume(diverse(counts(range(n)), kind, l, c))
    found = private_classes(table, wanted, sensitive=[column], subjects=subjects)
    for members in plain.classes_of(found.labels):
        assert len(units(members, subjects)) >= k
        assert diverse(counts(members), kind, l, c)


def test_a_rebuilt_class_keeps_its_closeness() -> None:
    rng = np.random.default_rng(3)
    n = 300
    table = records([attribute("a", rng.integers(0, 90, n)), attribute("b", rng.integers(0, 9, n), categorical=True)])
    subjects, values = rng.integers(0, 200, n).astype(np.int32), rng.integers(0, 3, n).astype(np.int32)
    wanted = PrivacyCriteria(4, t=Fraction(2, 5))
    column = Sensitive(values, 3, False)
    found = private_classes(table, wanted, sensitive=[column], subjects=subjects)
    pairs = {(int(s), int(v)) for s, v in zip(subjects, values, strict=True)}
    whole = np.bincount([v for _, v in pairs], minlength=3) / len(pairs)
    for members in plain.classes_of(found.labels):
        mine = {(int(subjects[i]), int(values[i])) for i in members}
        share = np.bincount([v for _, v in mine], minlength=3) / len(mine)
        assert np.abs(share - whole).sum() / 2 <= 0.4 + 1e-9
    start = settle_classes(table, found.labels, [column], wanted, subjects=subjects)
    assert start.joined == 0


# --- suppression ------------------------------------------------------------------------------------------------------


def test_one_person_of_104_stretches_no_interval() -> None:
    ages = [*range(60, 90), 104]
    table = records([attribute("age", ages)])
    found = private_classes(table, PrivacyCriteria(3, suppress=Fraction(1, 20)))
    assert found.dropped == 1
    assert found.labels[-1] == -1
    assert found.labels[:-1].min() == 0


@given(tables(min_size=6, max_size=40), st.integers(2, 4), st.sampled_from([0, 1, 3, 10]))
@settings(deadline=None, max_examples=12)
def test_no_more_are_dropped_than_allowed_and_the_others_lose_less(table: Records, k: int, allowed: int) -> None:
    gone = outliers(table, k, allowed)
    assert gone.sum() <= min(allowed, len(table) - k)
    wanted = PrivacyCriteria(k, suppress=Fraction(allowed, max(len(table), allowed + 1)))
    found = private_classes(table, wanted, "order")
    kept = np.flatnonzero(found.labels >= 0).astype(np.int32)
    assert min(Counter(found.labels[kept].tolist()).values()) >= k
    assert found.dropped == len(table) - len(kept) <= wanted.suppress * len(table)


def test_what_is_dropped_costs_most() -> None:
    rng = np.random.default_rng(8)
    n = 2_000
    table = records([attribute(name, np.round(rng.pareto(2.0, n), 2)) for name in "ab"])
    none = private_classes(table, PrivacyCriteria(5), control=Control(2))
    some = private_classes(table, PrivacyCriteria(5, suppress=Fraction(1, 100)), control=Control(2))
    assert some.dropped == 20
    kept = np.flatnonzero(some.labels >= 0).astype(np.int32)
    released = total_loss(table.take(kept).space, some.labels[kept]) / len(kept)
    assert released < 0.75 * total_loss(table.space, none.labels) / n


@st.composite
def conditioned(draw: st.DrawFn) -> tuple[Records, Sensitive, PrivacyCriteria]:
    """A small table, a sensitive column, and l and t that all records together meet."""
    n = draw(st.integers(4, 8))
    table = records([attribute("x", draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))])
    codes = np.array([*draw(st.lists(st.integers(-1, 1), min_size=n - 2, max_size=n - 2)), 0, 1], np.int32)
    t = draw(st.none() | st.sampled_from([Fraction(1, 4), Fraction(1, 2)]))
    return table, Sensitive(codes, 2, False), PrivacyCriteria(2, 2, t)


def _loss(table: Records, labels: np.ndarray) -> float:
    return plain.total_loss(table, plain.classes_of(labels))


@settings(max_examples=many(20))
@given(conditioned())
def test_conditions_are_met_inside_the_search(problem: tuple[Records, Sensitive, PrivacyCriteria]) -> None:
    """All classes meet l and t, none loses more than by joining afterwards, and few tables miss their optimum."""
    table, column, wanted = problem
    order = canonical(table)
    table, column = table.take(order), replace(column, codes=column.codes[order])
    settled = private_classes(table, wanted, sensitive=[column])

    def known(codes: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.bincount(codes[codes >= 0], minlength=2) / max((codes >= 0).sum(), 1)
        return found

    overall = known(column.codes)

    def meet(members: list[int]) -> bool:
        shares = known(column.codes[members])
        return bool(shares.min() > 0 and (wanted.t is None or abs(shares - overall).sum() / 2 <= wanted.t + 1e-12))

    assert all(meet(members) for members in plain.classes_of(settled.labels))
    joined = settle_classes(table, anonymize(table, wanted.k), [column], wanted)
    assert _loss(table, settled.labels) <= _loss(table, joined.labels) + 1e-9


def test_the_search_among_classes_that_meet_conditions_loses_less_than_joining() -> None:
    """By 15 % and more: joined, a class is at least twice as large as it need be."""
    rng = np.random.default_rng(1)
    age, income = rng.integers(0, 60, 400), rng.integers(0, 500, 400)
    table = records([attribute("age", age), attribute("income", income)])
    column = Sensitive((rng.random(400) < 0.25).astype(np.int32), 2, False)
    wanted = PrivacyCriteria(5, 2, Fraction(3, 10))
    joined = settle_classes(table, anonymize(table, 5), [column], wanted)
    assert _loss(table, private_classes(table, wanted, sensitive=[column]).labels) < 0.85 * _loss(table, joined.labels)


def test_parts_of_a_large_table_are_close_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is searched by itself, and what closeness compares with is the table's distribution."""
    monkeypatch.setattr(module, "_BLOCK", 60)
    rng = np.random.default_rng(2)
    table = records([attribute("x", np.sort(rng.integers(0, 900, 300)))])
    column = Sensitive((np.arange(300) % 10 < np.repeat([2, 5, 8], 100)).astype(np.int32), 2, False)
    labels = private_classes(table, PrivacyCriteria(3, None, Fraction(1, 4)), sensitive=[column]).labels
    share = column.codes.mean()
    for members in plain.classes_of(labels):
        assert abs(column.codes[members].mean() - share) <= 0.25 + 1e-12
