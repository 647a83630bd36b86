"""The methods that a listing names are those that run, and agree where several apply."""

from __future__ import annotations

import numpy as np
import pytest

from duckanon.engines.tables.methods import METHODS
from duckanon.engines.tables.part import part_around
from duckanon.engines.tables.released import Releases, counts, shares

TWO = [[0, 0], [0, 1], [1, 0], [1, 1]]
COUNTS = Releases((2, 2, 2), (counts("a", (0, 1), TWO, [4, 1, 2, 3]), counts("b", (1, 2), TWO, [5, 1, 2, 2])))
SHARES = Releases((2, 2), (shares("a", (1,), (0,), TWO, ["3/7", "4/7", "5/8", "3/8"]),), 30)


@pytest.mark.parametrize(
    ("name", "releases", "target"), [("frechet", COUNTS, (0, 1, 2)), ("conditional", SHARES, (0, 1))]
)
def test_closed_forms_agree_with_programs(name: str, releases: Releases, target: tuple[int, ...]) -> None:
    part = part_around(releases, frozenset(target))
    closed = METHODS[name].run(releases, part, target, None)
    programs = METHODS["programs"].run(releases, part, target, None)
    assert closed is not None
    assert programs is not None
    one, other = closed.ordered(), programs.ordered()
    for field in ("codes", "lower", "upper"):
        assert np.array_equal(getattr(one, field), getattr(other, field))


@pytest.mark.parametrize(
    ("name", "releases", "target"), [("frechet", SHARES, (0, 1)), ("conditional", COUNTS, (0, 1, 2))]
)
def test_closed_forms_say_where_they_do_not_apply(name: str, releases: Releases, target: tuple[int, ...]) -> None:
    assert METHODS[name].run(releases, part_around(releases, frozenset(target)), target, None) is None
