"""Utility and risk against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.records import Records, attribute, records
from duckanon.engines.kanon.risk import Sensitive, report
from duckanon.engines.kanon.utility import utility
from duckanon.errors import InvalidInput
from tests.engines.kanon import plain
from tests.engines.kanon.strategies import tables


def released(records: Records, members: list[int]) -> tuple[object, ...]:
    """What a class shows of each attribute."""
    cells: list[object] = []
    for a in records.attributes:
        codes = {int(a.codes[i]) for i in members}
        if a.distinct in codes:
            cells.append(None)
        elif a.joins is not None:
            loss = max(a.joins[min(codes) : max(codes)], default=0.0)
            below = [c for c in range(a.distinct) if max(a.joins[min(c, *codes) : max(c, *codes)], default=0.0) <= loss]
            cells.append(frozenset(below))
        else:
            cells.append(frozenset(codes) if a.categorical else (min(codes), max(codes)))
    return tuple(cells)


@given(tables(), st.data())
def test_utility(records: Records, data: st.DataObject) -> None:
    n = len(records)
    labels = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), dtype=np.int32)
    classes = plain.classes_of(labels)
    merged: dict[tuple[object, ...], int] = {}
    for members in classes:
        key = released(records, members)
        merged[key] = merged.get(key, 0) + len(members)
    target = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), dtype=np.int32)
    found = utility(records, labels, target)
    assert (found.information_loss - records.floor) * n == pytest.approx(plain.total_loss(records, classes), abs=1e-9)
    assert found.classes == len(merged)
    assert found.min_class == min(merged.values())
    assert found.avg_class == pytest.approx(n / len(merged))
    held: dict[tuple[object, ...], list[int]] = {}
    for members in classes:
        held.setdefault(released(records, members), []).extend(target[members].tolist())
    most = sum(max(values.count(v) for v in values) for values in held.values())
    assert found.classification == pytest.approx(1 - most / n)
    assert found.discernibility == sum(size**2 for size in merged.values())


def distance(p: list[float], q: list[float], ordered: bool) -> float:
    """Earth mover's distance by its formulas (Li et al. 2007, section 4)."""
    if not ordered:
        return sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
    if len(p) < 2:
        return 0.0
    gaps = np.abs(np.cumsum(np.array(p) - np.array(q)))
    return float(gaps.sum() / (len(p) - 1))


@given(
    st.lists(st.lists(st.integers(-1, 6), min_size=1, max_size=8), min_size=1, max_size=6),
    st.integers(0, 3),
    st.booleans(),
)
def test_report(classes: list[list[int]], unused: int, ordered: bool) -> None:
    """-1 is no value."""
    distinct = 7 + unused
    codes = np.array([c for members in classes for c in members], dtype=np.int32)
    sizes = np.array([len(members) for members in classes])
    found = report(sizes, [Sensitive(codes, distinct, ordered)])
    known = [[v for v in members if v >= 0] for members in classes]
    share = [[mine.count(v) / len(mine) for v in range(distinct)] for mine in known if mine]
    overall = [sum(mine.count(v) for mine in known) / max(sum(map(len, known)), 1) for v in range(distinct)]
    assert found.l == min(map(len, map(set, known)))
    entropies = [-sum(p * np.log(p) for p in row if p) for row in share]
    assert found.entropy_l == pytest.approx(np.exp(min(entropies)) if all(known) else 0)
    ratios = [max(row) / (1 - max(row)) if max(row) < 1 else np.inf for row in share]
    assert found.recursive_c == pytest.approx(max(ratios) if all(known) else np.inf)
    assert found.t == pytest.approx(max((distance(row, overall, ordered) for row in share), default=0), abs=1e-12)
    assert found.records == len(codes)
    assert found.k == sizes.min()
    assert found.singletons == (sizes == 1).sum()
    assert found.avg_risk == pytest.approx(np.mean([1 / len(members) for members in classes for _ in members]))
    assert found.max_risk == 1 / sizes.min()


def test_the_worst_sensitive_column_counts() -> None:
    sizes = np.array([2, 2])
    same = Sensitive(np.array([0, 0, 1, 1], dtype=np.int32), 2, False)
    mixed = Sensitive(np.array([0, 1, 0, 1], dtype=np.int32), 2, False)
    both = report(sizes, [mixed, same])
    assert (both.l, both.entropy_l, both.t) == (1, 1.0, 0.5)
    assert report(sizes, []).l is None


def test_the_salary_example_of_t_closeness() -> None:
    # Li et al. 2007, section 4.2: salaries 3k to 11k; {3k, 4k, 5k} is farther from all nine than {6k, 8k, 11k}.
    all_nine = list(range(9))
    low = Sensitive(np.array([0, 1, 2, *all_nine[3:]], dtype=np.int32), 9, True)
    assert report(np.array([3, 6]), [low]).t == pytest.approx(0.375, abs=1e-12)
    spread = Sensitive(np.array([3, 5, 8, 0, 1, 2, 4, 6, 7], dtype=np.int32), 9, True)
    third = distance([0, 0, 0, 1 / 3, 0, 1 / 3, 0, 0, 1 / 3], [1 / 9] * 9, True)
    assert third == pytest.approx(0.167, abs=5e-4)
    assert report(np.array([3, 6]), [spread]).t == pytest.approx(third, abs=1e-12)


@pytest.mark.parametrize("weights", [[-1.0, 1.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_weights_that_mean_nothing(weights: list[float]) -> None:
    with pytest.raises(InvalidInput):
        records(attribute(f"x{j}", [1, 2], weight=w) for j, w in enumerate(weights))
