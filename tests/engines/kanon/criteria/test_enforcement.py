"""PrivacyCriteria on sensitive columns: decided as defined, and reached by the joins that add least."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.criteria.classes import centres, class_boxes, near_boxes, take
from duckanon.engines.kanon.criteria.diversity import Tally
from duckanon.engines.kanon.criteria.enforcement import Released, measured, meets_together, settle_classes
from duckanon.engines.kanon.criteria.merging import failing, join
from duckanon.engines.kanon.criteria.privacy_criteria import (
    Counted,
    CriteriaArrays,
    PrivacyCriteria,
    check_table,
    criteria_arrays,
    meets,
    present,
    tally_for,
)
from duckanon.engines.kanon.records import Records, attribute, records
from duckanon.engines.kanon.risk import Sensitive, report
from duckanon.errors import InvalidInput
from tests.engines.kanon import plain
from tests.engines.kanon.diversities import DIVERSITIES, diverse
from tests.engines.kanon.strategies import tables

SHARES = st.fractions(0, 1, max_denominator=12)


def known(codes: np.ndarray) -> list[int]:
    """The values of records, without those that have none."""
    return [code for code in codes.tolist() if code >= 0]


def counts(column: Sensitive) -> np.ndarray:
    """How often each value of a column occurs."""
    return np.bincount(np.array(known(column.codes), np.int64), minlength=column.distinct)


def distance(members: Sequence[int], table: Sequence[int], ordered: bool) -> Fraction:
    """Earth mover's distance by its formulas, exactly; none from a class without values."""
    if not members:
        return Fraction(0)
    values = sorted(set(table))
    gaps = [Fraction(members.count(v), len(members)) - Fraction(list(table).count(v), len(table)) for v in values]
    if not ordered:
        return sum((abs(gap) for gap in gaps), Fraction(0)) / 2
    if len(values) < 2:
        return Fraction(0)
    return sum((abs(sum(gaps[: i + 1], Fraction(0))) for i in range(len(values))), Fraction(0)) / (len(values) - 1)


@compiled
def met(asked: CriteriaArrays, chosen: np.ndarray, size: int, tally: Tally) -> bool:
    return meets(asked, chosen, len(chosen), size, tally)


def holds(members: Sequence[int], columns: Sequence[Sensitive], wanted: PrivacyCriteria, kept: Sequence[int]) -> bool:
    """Whether records `members` make a class, of a release of the records `kept`."""
    if len(members) < wanted.k:
        return False
    for column in columns:
        mine, table = known(column.codes[list(members)]), known(column.codes[list(kept)])
        if wanted.l is not None and not diverse(list(Counter(mine).values()), wanted.diversity, wanted.l, wanted.c):
            return False
        if wanted.t is not None and distance(mine, table, column.ordered) > wanted.t:
            return False
    return True


@st.composite
def problems(draw: st.DrawFn, most: int = 14) -> tuple[Records, np.ndarray, list[Sensitive], PrivacyCriteria]:
    """Records, labels of classes of k or more, sensitive columns, and conditions that the whole table holds."""
    found = draw(tables(min_size=4, max_size=most, max_attributes=3))
    n = len(found)
    k = draw(st.integers(1, 2))
    # At most six classes, so that every way to join them can be tried.
    labels = (np.arange(n) // draw(st.integers(max(k, -(-n // 6)), 4))).astype(np.int32)
    if (labels == labels[-1]).sum() < k:
        labels[labels == labels[-1]] -= 1
    columns = []
    for _ in range(draw(st.integers(1, 2))):
        # Some records may have no value.
        values = st.integers(draw(st.integers(-1, 0)), 4)
        codes = np.array(draw(st.lists(values, min_size=n, max_size=n)), dtype=np.int32)
        columns.append(Sensitive(codes, 5, draw(st.booleans())))
    whole = [list(Counter(known(column.codes)).values()) for column in columns]
    possible = DIVERSITIES.filter(lambda asked: all(diverse(one, *asked) for one in whole))
    asked = draw(st.none() | possible if all(whole) else st.none())
    kind, l, c = ("distinct", None, None) if asked is None else asked  # noqa: E741
    wanted = PrivacyCriteria(k, l, draw(st.none() | SHARES), draw(st.just(Fraction(0)) | SHARES) / 2, kind, c)
    return found, labels, columns, wanted


@settings(max_examples=settings().max_examples // 2)
@given(problem=problems(), data=st.data())
def test_a_class_is_judged_by_the_definitions(problem: tuple, data: st.DataObject) -> None:
    found, labels, columns, wanted = problem
    asked = criteria_arrays(labels, columns, wanted)
    chosen = data.draw(st.lists(st.integers(0, int(labels.max())), min_size=1, unique=True))
    members = np.flatnonzero(np.isin(labels, chosen)).tolist()
    judged = met(asked, np.array(chosen, np.int32), len(members), tally_for(asked))
    assert judged == holds(members, columns, wanted, range(len(found)))


@settings(max_examples=settings().max_examples // 2)
@given(problem=problems(), data=st.data())
def test_a_class_of_a_part_is_judged_by_the_whole_table(problem: tuple, data: st.DataObject) -> None:
    found, labels, columns, wanted = problem
    some = data.draw(st.sets(st.integers(0, int(labels.max())), min_size=1))
    mine = np.flatnonzero(np.isin(labels, list(some)))
    whole = [present(column) for column in columns]
    tables = list(map(counts, whole))
    parts = [
        replace(column, codes=column.codes[mine], table=table) for column, table in zip(whole, tables, strict=True)
    ]
    fits = [
        meets_together(Counted(counts(part), table, part.ordered), wanted)
        for part, table in zip(parts, tables, strict=True)
    ]
    any_size = replace(wanted, k=1)
    assert fits == [holds(mine.tolist(), [column], any_size, range(len(found))) for column in columns]
    _, dense = np.unique(labels[mine], return_inverse=True)
    try:
        asked = criteria_arrays(dense.astype(np.int32), parts, wanted)
    except InvalidInput:
        assert not all(
            holds(mine.tolist(), [column], replace(any_size, t=None), range(len(found))) for column in columns
        )
        return
    for c in range(len(some)):
        members = mine[dense == c].tolist()
        judged = met(asked, np.array([c], np.int32), len(members), tally_for(asked))
        assert judged == holds(members, columns, wanted, range(len(found)))


def test_a_part_may_be_of_a_table_whose_own_sums_would_be_too_large() -> None:
    whole = np.array([10**9, 10**9, 10**9])
    check_table(Counted(whole, whole, True), PrivacyCriteria(5, t=Fraction(1, 5)), most=10**6)
    with pytest.raises(InvalidInput, match=r"^A sensitive column has too many distinct values for t"):
        check_table(Counted(whole, whole, True), PrivacyCriteria(5, t=Fraction(1, 5)), most=10**9)
    part = Counted(np.array([3, 2, 2]) * 10**5, whole, True)
    assert meets_together(part, PrivacyCriteria(5, t=Fraction(1, 5)))
    assert not meets_together(part, PrivacyCriteria(5, t=Fraction(1, 100)))


def test_the_salary_example_of_t_closeness() -> None:
    # Li et al. 2007, section 4.2: nine salaries; {3k, 4k, 5k} is 0.375 away.
    column = Sensitive(np.arange(9, dtype=np.int32), 9, True)
    unit = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1], np.int32)
    for t, close in ((Fraction(3, 8), True), (Fraction(3, 8) - Fraction(1, 10**9), False)):
        asked = criteria_arrays(unit, [column], PrivacyCriteria(3, t=t))
        assert met(asked, np.array([0], np.int32), 3, tally_for(asked)) == close


@settings(max_examples=settings().max_examples // 2)
@given(problems())
def test_every_join_is_the_one_that_adds_least(problem: tuple) -> None:
    found, labels, columns, wanted = problem
    units, unit = class_boxes(found, labels)
    every = np.arange(len(units.size))
    asked = criteria_arrays(unit, columns, wanted)
    owner, joins = join(take(units, every), near_boxes(centres(found, unit)), asked, failing(asked, units.size))
    classes = {u: np.flatnonzero(unit == u).tolist() for u in every.tolist()}

    def added(a: int, b: int) -> float:
        return plain.total_loss(found, [classes[a] + classes[b]]) - plain.total_loss(found, [classes[a], classes[b]])

    def fails(a: int) -> bool:
        return not holds(classes[a], columns, wanted, range(len(found)))

    for a, b in joins.tolist():
        least = min(added(x, y) for x in classes for y in classes if x != y and fails(x))
        assert fails(a)
        assert added(a, b) == pytest.approx(least, abs=1e-9)
        classes[a] += classes.pop(b)
    assert len(classes) == 1 or not any(map(fails, classes))
    for a, members in classes.items():
        assert {int(owner[unit[i]]) for i in members} == {a}


def unions(classes: list[list[int]]) -> Iterator[list[list[int]]]:
    """Every way to join some of the classes."""
    if not classes:
        yield []
        return
    first, *others = classes
    for rest in unions(others):
        yield [first, *rest]
        for i in range(len(rest)):
            yield [*rest[:i], first + rest[i], *rest[i + 1 :]]


@settings(max_examples=settings().max_examples // 3)
@given(problems())
def test_what_comes_out_holds_and_is_never_better_than_the_optimum(problem: tuple) -> None:
    found, labels, columns, wanted = problem
    n = len(found)
    settled = settle_classes(found, labels, columns, wanted)
    kept = np.flatnonzero(settled.labels >= 0).tolist()
    classes = plain.classes_of(settled.labels[kept])
    classes = [[kept[i] for i in members] for members in classes]
    assert settled.dropped == n - len(kept) <= wanted.suppress * n
    assert all(holds(members, columns, wanted, kept) for members in classes)
    for c in set(labels.tolist()):  # never torn
        assert len(set(settled.labels[labels == c].tolist())) == 1
    starts = [members for members in plain.classes_of(labels) if members[0] in kept]
    ways = [way for way in unions(starts) if all(holds(members, columns, wanted, kept) for members in way)]
    best = min(plain.total_loss(found, way) for way in ways)
    assert plain.total_loss(found, classes) >= best - 1e-9
    if settled.joined == 0 and not settled.dropped:
        assert plain.total_loss(found, classes) == pytest.approx(plain.total_loss(found, starts), abs=1e-9)


@settings(max_examples=settings().max_examples // 4)
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_records_changes_nothing(problem: tuple, random: object) -> None:
    found, labels, columns, wanted = problem
    order = np.arange(len(found), dtype=np.int32)
    random.shuffle(order)  # type: ignore[attr-defined]
    first = settle_classes(found, labels, columns, wanted).labels
    moved = [Sensitive(column.codes[order], column.distinct, column.ordered) for column in columns]
    assert (settle_classes(found.take(order), labels[order], moved, wanted).labels == first[order]).all()


def many(n: int) -> tuple[Records, np.ndarray, Sensitive, Sensitive]:
    rng = np.random.default_rng(5)
    found = records(
        [
            attribute("a", rng.integers(0, 50, n).tolist()),
            attribute("b", rng.integers(0, 30, n).tolist()),
            attribute("c", rng.choice(["x", "y", "z"], n).tolist(), categorical=True),
        ]
    )
    order = np.lexsort([a.codes for a in found.attributes])
    labels = np.empty(n, np.int32)
    labels[order] = np.arange(n) // 4
    illness, pay = rng.integers(0, 4, n).astype(np.int32), rng.integers(0, 40, n).astype(np.int32)
    return found, labels, Sensitive(illness, 4, False), Sensitive(pay, 40, True)


@pytest.mark.parametrize(
    "wanted",
    [
        PrivacyCriteria(4, l=3),
        PrivacyCriteria(4, t=Fraction(1, 4)),
        PrivacyCriteria(4, 3, Fraction(3, 10), Fraction(1, 20)),
        PrivacyCriteria(4, Fraction(5, 2), suppress=Fraction(1, 20), diversity="entropy"),
        PrivacyCriteria(4, 3, diversity="recursive", c=Fraction(2)),
        PrivacyCriteria(15),
    ],
)
def test_many_classes(wanted: PrivacyCriteria) -> None:
    found, labels, illness, pay = many(4000)
    settled = settle_classes(found, labels, [illness, pay], wanted, threads=2)
    again = settle_classes(found, labels, [illness, pay], wanted)
    assert (again.labels == settled.labels).all()
    kept = np.flatnonzero(settled.labels >= 0)
    assert settled.dropped == 4000 - len(kept) <= wanted.suppress * 4000
    assert (settled.dropped > 0) == (wanted.suppress > 0)
    order = kept[np.argsort(settled.labels[kept], kind="stable")]
    risk = report(
        np.bincount(settled.labels[kept]),
        [Sensitive(c.codes[order], c.distinct, c.ordered) for c in (illness, pay)],
        least=wanted.least,
    )
    assert risk.k >= wanted.k
    assert risk.l is not None
    assert risk.l >= (wanted.l or 0)
    assert risk.entropy_l is not None
    assert risk.entropy_l >= (wanted.l or 0) or wanted.diversity != "entropy"
    assert risk.recursive_c is not None
    assert risk.recursive_c < (wanted.c or np.inf) or wanted.c is None
    assert risk.t is not None
    assert risk.t <= float(wanted.t if wanted.t is not None else 1) + 1e-9
    if wanted.k == 4:
        assert settled.joined > 0
        assert len(np.unique(settled.labels)) > 100


def test_dropped_records_lose_everything() -> None:
    found, labels, illness, _ = many(400)

    def released(wanted: PrivacyCriteria) -> Released:
        return measured(found, settle_classes(found, labels, [illness], wanted), [illness], wanted)

    free = released(PrivacyCriteria(4, l=4))
    some = released(PrivacyCriteria(4, l=4, suppress=Fraction(1, 10)))
    assert (free.dropped, some.dropped > 0) == (0, True)
    kept = 400 - some.dropped
    assert some.utility.avg_class * some.utility.classes == pytest.approx(kept)
    assert some.utility.information_loss > some.dropped / 400
    assert some.utility.discernibility > some.dropped * 400
    assert some.risk is not None
    assert some.risk.l == 4


def test_more_values_than_there_are() -> None:
    found, labels, illness, _ = many(40)
    with pytest.raises(InvalidInput, match="fewer distinct values"):
        settle_classes(found, labels, [illness], PrivacyCriteria(4, l=5))
