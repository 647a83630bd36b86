"""Suppression where NULL may stand for any value, beside all ways to give the records to persons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon.wildcard.matching import Groups, Kinds, contained, numbered, possible
from duckanon.engines.kanon.wildcard.search import suppress
from duckanon.engines.kanon.wildcard_check import least_possible

# A value of None is none at all.
Person = tuple[int | None, ...]

worlds = st.lists(st.tuples(*[st.sampled_from([None, 0, 1, 2])] * 3), min_size=3, max_size=5)
some = settings(max_examples=40, deadline=None)
few = settings(max_examples=10, deadline=None)


def shown(person: Person, pattern: int) -> tuple[int | None, ...]:
    return tuple(None if pattern >> column & 1 else one for column, one in enumerate(person))


def covers(released: tuple[int | None, ...], person: Person) -> bool:
    return all(one in (None, own) for one, own in zip(released, person, strict=True))


def enumerated(persons: Sequence[Person], patterns: Sequence[int]) -> int:
    """The k of a release, from all perfect matchings."""
    released = [shown(*one) for one in zip(persons, patterns, strict=True)]
    allowed = {
        pair
        for order in permutations(range(len(persons)))
        if all(covers(released[i], persons[j]) for i, j in enumerate(order))
        for pair in enumerate(order)
    }
    every = range(len(persons))
    by_record = min(sum((i, j) in allowed for j in every) for i in every)
    return min(by_record, min(sum((i, j) in allowed for i in every) for j in every))


def world(persons: Sequence[Person]) -> tuple[Groups, list[int]]:
    values = np.array([[3 if one is None else one for one in person] for person in persons], np.int64)
    group = numbered(values)
    first = np.unique(group, return_index=True)[1]
    missing = (values[first] == 3) @ (1 << np.arange(values.shape[1]))
    return Groups(values[first], np.bincount(group), missing), group.tolist()


def kinds(group: Sequence[int], patterns: Sequence[int]) -> Kinds:
    return Kinds(np.array(group), np.array(patterns), np.ones(len(group), np.int64))


def checked(persons: Sequence[Person], patterns: Sequence[int]) -> int:
    def text(values: tuple[int | None, ...]) -> tuple[bytes | None, ...]:
        return tuple(None if one is None else str(one).encode() for one in values)

    return least_possible(
        [(text(person), text(shown(person, pattern)), 1) for person, pattern in zip(persons, patterns, strict=True)]
    )


@some
@given(worlds, st.data())
def test_what_matchings_allow(persons: list[Person], data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.integers(0, 7), min_size=len(persons), max_size=len(persons)))
    groups, group = world(persons)
    # A record shows no value that its person lacks.
    patterns = [one | int(groups.missing[own]) for one, own in zip(drawn, group, strict=True)]
    expected = enumerated(persons, patterns)
    assert possible(groups, kinds(group, patterns)).least == expected
    assert checked(persons, patterns) == expected


def test_containment_promises_more() -> None:
    """Rows (a, b), (a, *), (a, *) of (a, b), (a, c), (a, d): three records cover the first person, who has only one."""
    persons, patterns = [(0, 0, 0), (0, 1, 0), (0, 2, 0)], [0, 2, 2]
    groups, group = world(persons)
    assert contained(groups, kinds(group, patterns)).records.tolist() == [3, 2, 2]
    found = possible(groups, kinds(group, patterns))
    assert found.records.tolist() == [1, 2, 2]
    assert found.persons.tolist() == [1, 2, 2]
    assert checked(persons, patterns) == 1


@some
@given(worlds, st.integers(2, 3))
def test_a_release_holds(persons: list[Person], k: int) -> None:
    groups, group = world(persons)
    found = suppress(groups, k, np.ones(3), tries=3)
    patterns, left = list[int](), [0] * len(groups.sizes)
    rows = {g: np.repeat(found.kinds.patterns, found.kinds.counts * (found.kinds.groups == g)).tolist() for g in group}
    for g in group:
        patterns.append(rows[g][left[g]])
        left[g] += 1
    assert left == groups.sizes.tolist()
    assert enumerated(persons, patterns) >= k
    values = zip(persons, patterns, strict=True)
    lost = sum(shown(person, pattern).count(None) - person.count(None) for person, pattern in values)
    assert found.lost == lost >= found.bound


def test_who_lacks_a_value_is_covered_by_those_who_lose_it() -> None:
    """Every record covers k persons as it is, and yet the person without a value has one record only."""
    groups, _ = world([(0,), (0,), (None,)])
    found = suppress(groups, 2, np.ones(1))
    assert (found.lost, found.bound) == (1, 0)


@few
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=3, max_size=4))
def test_the_bound_is_below_the_optimum(persons: list[Person]) -> None:
    groups, _ = world(persons)
    optimum = min(
        sum(one.bit_count() for one in patterns)
        for patterns in product(range(4), repeat=len(persons))
        if checked(persons, list(patterns)) >= 2
    )
    found = suppress(groups, 2, np.ones(2))
    assert found.bound <= optimum <= found.lost <= optimum + 2


def test_dear_columns_are_kept() -> None:
    """The column that costs less is suppressed, by a bound that counts it so."""
    groups, _ = world([(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)])
    for costs, dearer in (([1.0, 3.0, 1.0], 1), ([3.0, 1.0, 1.0], 0)):
        found = suppress(groups, 2, np.array(costs))
        assert found.lost == pytest.approx(found.bound) == pytest.approx(4.0)
        assert not (found.kinds.patterns >> dearer & 1).any()
    # Where a column has no values, records show none of it, at no cost.
    empty = Groups(groups.values, groups.sizes, np.full(4, 3))
    assert suppress(empty, 4, np.ones(3)).lost == 0
