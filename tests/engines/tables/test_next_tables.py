"""Which table may be released next, against the audit of each candidate by enumeration."""

from __future__ import annotations

import pytest

from duckanon.engines.tables import clique
from duckanon.engines.tables.next_tables import next_tables, table_of_counts
from duckanon.engines.tables.released import Releases
from duckanon.engines.tables.truth import records

# Two variables tell each other nearly: with both margins known, their table follows.
TRUTH = records((2, 2, 2), [[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1]], [9, 1, 8, 7, 6])


def test_the_safest_and_then_the_most_detailed_comes_first() -> None:
    released = Releases(TRUTH.levels, (table_of_counts(TRUTH, [0], "a"), table_of_counts(TRUTH, [1], "b")), 31)
    found = next_tables(released, TRUTH, [(0, 1), (2,), (0, 2), (0, 1, 2)], [0, 1])
    # With (a, c) one knows no more of the cell of 1 record than without; the tables with a and b tell it.
    assert [one.variables for one in found] == [(0, 2), (2,), (0, 1, 2), (0, 1)]
    assert [one.harmless for one in found] == [True, True, False, False]
    assert [(one.disclosed, one.own_small, one.safe) for one in found] == [(0, 0, 1), (0, 0, 1), (1, 1, 0), (1, 1, 0)]


def test_nothing_is_released_yet() -> None:
    (found,) = next_tables(None, TRUTH, [(0,)], [1])
    assert (found.cells, found.disclosed, found.harmless) == (2, 0, True)


def test_what_is_too_large_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clique, "MOST_CELLS", 1)
    (found,) = next_tables(None, TRUTH, [(0, 1)], [0, 1])
    assert found.undecided or found.disclosed
    assert not found.harmless
