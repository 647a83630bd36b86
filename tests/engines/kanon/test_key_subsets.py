"""Subsets of the quasi-identifiers and minimal sample uniques, against their definitions."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.key_subsets import Key, check_size, class_labels, subsets, subsets_up_to
from duckanon.engines.kanon.minimal_uniques import (
    MinimalUniques,
    intrusion,
    intrusion_by_record,
    minimal_uniques,
    weight,
)
from duckanon.errors import InvalidInput

Rows = list[tuple[int, ...]]


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    """Records of up to five columns, of which some have few values and some many."""
    n, columns = draw(st.integers(1, 14)), draw(st.integers(1, 5))
    widths = draw(st.lists(st.sampled_from([1, 2, 3, 12]), min_size=columns, max_size=columns))
    return [tuple(draw(st.integers(0, width - 1)) for width in widths) for _ in range(n)]


def keys(rows: Rows) -> list[Key]:
    columns = [np.array(column, np.int32) for column in zip(*rows, strict=True)]
    return [Key(column, int(column.max()) + 1) for column in columns]


def sizes(rows: Rows, columns: tuple[int, ...]) -> list[int]:
    """How many records share a record's values of these columns, for each record."""
    shown = [tuple(row[j] for j in columns) for row in rows]
    count = Counter(shown)
    return [count[one] for one in shown]


def every_subset(columns: int, size: int) -> list[tuple[int, ...]]:
    return [one for many in range(1, size + 1) for one in combinations(range(columns), many)]


@given(tables(), st.integers(1, 6))
def test_the_classes_of_each_subset(rows: Rows, size: int) -> None:
    found = {tuple(sorted(one.columns)): one for one in subsets(keys(rows), size)}
    wanted = every_subset(len(rows[0]), size)
    assert sorted(found) == sorted(wanted)
    assert len(wanted) == subsets_up_to(len(rows[0]), min(size, len(rows[0])))
    for columns in wanted:
        counts = sizes(rows, columns)
        one = found[columns]
        assert one.classes == len({tuple(row[j] for j in columns) for row in rows})
        assert one.least == min(counts)
        assert one.singletons == counts.count(1)


@given(tables())
def test_a_subset_comes_after_all_that_it_contains(rows: Rows) -> None:
    seen: set[frozenset[int]] = set()
    for one in subsets(keys(rows), 5):
        inside = [frozenset(part) for r in range(1, len(one.columns)) for part in combinations(one.columns, r)]
        assert seen.issuperset(inside)
        seen.add(frozenset(one.columns))


@given(tables())
def test_labels(rows: Rows) -> None:
    labels = class_labels(keys(rows)).tolist()
    assert len(set(zip(labels, rows, strict=True))) == len(set(labels)) == len(set(rows))
    assert max(labels) == len(set(rows)) - 1


@given(tables(), st.integers(1, 6))
def test_minimal_uniques(rows: Rows, size: int) -> None:
    n, most = len(rows), min(size, len(rows[0]))
    alone = {columns: [one == 1 for one in sizes(rows, columns)] for columns in every_subset(len(rows[0]), most)}
    counts = np.zeros((n, most), int)
    for columns, unique in alone.items():
        for i in range(n):
            smaller = (part for r in range(1, len(columns)) for part in combinations(columns, r))
            if unique[i] and not any(alone[part][i] for part in smaller):
                counts[i, len(columns) - 1] += 1
    found = minimal_uniques(keys(rows), size)
    assert found.counts.tolist() == counts.tolist()
    assert found.total.tolist() == counts.sum(axis=1).tolist()
    for i in range(n):
        assert found.smallest[i] == next((s for s in range(1, most + 1) if counts[i, s - 1]), 0)
        assert found.scores[i] == sum(counts[i, s - 1] * weight(s, most, len(rows[0])) for s in range(1, most + 1))


def units_of(rows: Rows, columns: tuple[int, ...], units: list[int]) -> list[int]:
    """How many units have a record's values of these columns, for each record."""
    shown = [tuple(row[j] for j in columns) for row in rows]
    return [len({unit for one, unit in zip(shown, units, strict=True) if one == own}) for own in shown]


@st.composite
def of_units(draw: st.DrawFn) -> tuple[Rows, list[int]]:
    """Records with their units, -1 for none; one of them has one."""
    rows = draw(tables())
    units = draw(st.lists(st.integers(-1, 4), min_size=len(rows), max_size=len(rows)))
    return rows, [0, *units[1:]]


@given(of_units(), st.integers(1, 6))
def test_where_units_count_the_classes_of_each_subset_have_units(table: tuple[Rows, list[int]], size: int) -> None:
    rows, units = table
    kept = [(row, unit) for row, unit in zip(rows, units, strict=True) if unit >= 0]
    owned, owners = [row for row, _ in kept], [unit for _, unit in kept]
    for one in subsets(keys(rows), size, units=np.array(units, np.int32)):
        columns = tuple(sorted(one.columns))
        counts = units_of(owned, columns, owners)
        of_class = {tuple(row[j] for j in columns): many for row, many in zip(owned, counts, strict=True)}
        assert one.classes == len(of_class)
        assert one.members == sum(of_class.values())
        assert one.least == min(of_class.values())
        assert one.singletons == list(of_class.values()).count(1)
        assert one.units_alone == len({unit for unit, many in zip(owners, counts, strict=True) if many == 1})


@given(of_units(), st.integers(1, 6))
def test_a_record_is_alone_where_all_with_its_values_are_of_its_unit(table: tuple[Rows, list[int]], size: int) -> None:
    rows, units = table
    most = min(size, len(rows[0]))
    alone = {
        columns: [
            unit >= 0
            and {own for own, row in zip(units, rows, strict=True) if own >= 0 and same(row, rows[i], columns)}
            == {unit}
            for i, unit in enumerate(units)
        ]
        for columns in every_subset(len(rows[0]), most)
    }
    counts = np.zeros((len(rows), most), int)
    for columns, unique in alone.items():
        for i in range(len(rows)):
            smaller = (part for r in range(1, len(columns)) for part in combinations(columns, r))
            if unique[i] and not any(alone[part][i] for part in smaller):
                counts[i, len(columns) - 1] += 1
    assert minimal_uniques(keys(rows), size, units=np.array(units, np.int32)).counts.tolist() == counts.tolist()


def same(one: tuple[int, ...], other: tuple[int, ...], columns: tuple[int, ...]) -> bool:
    return all(one[j] == other[j] for j in columns)


@given(tables(), st.integers(1, 6))
def test_units_of_one_record_each_are_records(rows: Rows, size: int) -> None:
    each = np.arange(len(rows), dtype=np.int32)[::-1].copy()
    plain, of_each = subsets(keys(rows), size), subsets(keys(rows), size, units=each)
    for one, other in zip(plain, of_each, strict=True):
        assert (one.columns, one.classes, one.members, one.least, one.singletons) == (
            other.columns, other.classes, other.members, other.least, other.singletons,
        )  # fmt: skip
        assert one.members == len(rows)


# Residence, gender, education, labour status: the table of ten records of the World Bank's and IHSN's practice guide
# to statistical disclosure control (Benschop, Machingauta and Welch 2022, section "SUDA").
GUIDE = [
    ("urban", "female", "secondary incomplete", "employed"),
    ("urban", "female", "secondary incomplete", "employed"),
    ("urban", "female", "primary incomplete", "non-LF"),
    ("urban", "male", "secondary complete", "employed"),
    ("rural", "female", "secondary complete", "unemployed"),
    ("urban", "male", "secondary complete", "employed"),
    ("urban", "female", "primary complete", "non-LF"),
    ("urban", "male", "post-secondary", "unemployed"),
    ("urban", "female", "secondary incomplete", "non-LF"),
    ("urban", "female", "secondary incomplete", "non-LF"),
]


def guide() -> MinimalUniques:
    codes = [[sorted(set(column)).index(one) for one in column] for column in zip(*GUIDE, strict=True)]
    return minimal_uniques(keys(list(zip(*codes, strict=True))), 3)


def test_the_practice_guides_scores() -> None:
    found = guide()
    assert found.scores.tolist() == [0, 0, 6, 0, 12, 0, 6, 10, 0, 0]
    # The fifth record: {rural}, and three sets of two.
    assert found.counts[4].tolist() == [1, 3, 0]


def test_the_practice_guides_risk_by_record() -> None:
    """Its last column was computed from an older scale of the scores: 1.75 for one column, 0.5 for two."""
    older = guide().counts @ np.array([1.75, 0.5, 0.25])
    found = intrusion_by_record(older, 4, 6, 0.01, 4)
    assert found.round(4).tolist() == [0, 0, 0.0051, 0, 0.0107, 0, 0.0051, 0.0088, 0, 0]


def test_the_risk_of_a_file() -> None:
    # Skinner and Elliot 2002: of U unique and P paired records, U f / (U f + P (1 - f)).
    assert intrusion(4, 6, 0.01) == pytest.approx(0.04 / 5.98)
    assert intrusion(3, 0, 0.1) == 1.0
    assert intrusion(0, 4, 0.1) == 0.0
    assert intrusion_by_record(np.zeros(3), 0, 2, 0.1, 4).tolist() == [0, 0, 0]
    # Where all scores are alike, each record has the file's risk.
    assert intrusion_by_record(np.full(5, 7.0), 5, 4, 0.2, 6) == pytest.approx(intrusion(5, 4, 0.2))


def test_too_many_subsets() -> None:
    with pytest.raises(InvalidInput, match=r"^60 columns have 5,985,197 subsets of up to 5, too many to search with"):
        check_size(10, 60, 5)
    with pytest.raises(InvalidInput, match=r"^size must be 1 or more: the number of columns"):
        check_size(10, 6, 0)
    check_size(100_000, 8, 4)
