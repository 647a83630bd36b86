"""Which tables are kept for a target: those around it, and what others tell of the variables that they share."""

from __future__ import annotations

from duckanon.engines.tables.part import part_around
from duckanon.engines.tables.released import Counts, Releases, counts, shares

TWO = [[0, 0], [0, 1], [1, 0], [1, 1]]
NEAR = counts("near", (0, 1), TWO, [4, 1, 2, 3])
FAR = counts("far", (1, 2), TWO, [5, 1, 2, 2])


def test_a_table_that_shares_a_variable_adds_nothing_where_its_counts_are_known_already() -> None:
    part = part_around(Releases((2, 2, 2), (NEAR, FAR)), frozenset((0, 1)))
    assert part.tables == (NEAR,)


def test_a_table_that_shares_a_variable_is_kept_as_a_table_of_that_variable() -> None:
    near = shares("near", (1,), (0,), TWO, ["4/5", "1/5", "2/5", "3/5"])
    part = part_around(Releases((2, 2, 2), (near, FAR)), frozenset((0, 1)))
    assert part.tables[0] is near
    (added,) = part.tables[1:]
    assert added.scope == (1,)
    assert added.known_counts
    assert isinstance(added.content, Counts)
    assert added.content.lower.tolist() == [6, 4]
