"""Sensitivities: derived in the code, found again by listing all neighbours, for every query of every mechanism."""

import numpy as np
import pytest

from duckanon.engines.groups.methods import METHODS
from duckanon.engines.groups.queries import ABOVE, CHAIN, FORWARD, HISTOGRAM, Privacy, Query, Unit
from tests.engines.groups.plain import TREES, neighbours, of_units

USES = sorted(
    {(mechanism.public.name, False) for mechanism in METHODS.values()}
    | {(mechanism.private.name, True) for mechanism in METHODS.values() if mechanism.private}
)
QUERIES = {query.name: query for m in METHODS.values() for query in (m.public, m.private) if query}


def farthest(query: Query, tree: str, step: int, private: bool, sizes: int = 5) -> list[int]:
    """The largest L1 distance between neighbours, level by level. One group of each size everywhere: any may move."""
    hierarchy = TREES[tree]
    groups = np.ones((hierarchy.sizes[-1], sizes), dtype=np.int64)
    before = [query.of(level) for level in hierarchy.levels(groups)]
    worst = [0] * hierarchy.depth
    for other in neighbours(groups, step, private):
        for level, (a, b) in enumerate(zip(before, map(query.of, hierarchy.levels(other)), strict=True)):
            worst[level] = max(worst[level], int(np.abs(a - b).sum()))
    return worst


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize(("name", "private"), USES)
def test_sensitivities(name: str, private: bool, tree: str, step: int) -> None:
    query = QUERIES[name]
    assert farthest(query, tree, step, private) == [query.sensitivity(r, step) for r in TREES[tree].sizes]


UNITS: list[tuple[str, Unit, int]] = [
    *((name, "record", n) for name in ("histogram", "above") for n in (1, 2, 3)),
    *((name, "group", n) for name in QUERIES for n in (1, 2, 3, 9)),
]


@pytest.mark.parametrize("tree", ["root", "two", "deep"])
@pytest.mark.parametrize(("name", "unit", "contributions"), UNITS)
def test_sensitivities_of_units(name: str, unit: Unit, contributions: int, tree: str) -> None:
    """Of units of several records, and of whole groups: the largest distance of all neighbours is what is derived."""
    sizes, step = 4, 1 if contributions == 3 else 2
    query, hierarchy = QUERIES[name], TREES[tree]
    groups = np.full((hierarchy.sizes[-1], sizes), 3)
    worst = [0] * hierarchy.depth
    for other in of_units(groups, step, contributions, unit):
        for level, (a, b) in enumerate(zip(hierarchy.levels(groups), hierarchy.levels(other), strict=True)):
            worst[level] = max(worst[level], int(np.abs(query.of(a) - query.of(b)).sum()))
    privacy = Privacy(step, contributions, unit)
    assert worst == [query.distance(privacy, regions, sizes) for regions in hierarchy.sizes]


def test_the_paper_s_chain_is_not_private() -> None:
    """Section 9.2 adds noise for a sensitivity of 1; one person moves 1, 3, 8 entries on levels of 1, 3, 8 regions."""
    assert farthest(CHAIN, "eight", 1, private=False) == [1, 3, 8]
    assert farthest(FORWARD, "eight", 1, private=False) == [1, 1, 1]


def test_counts_from_the_front_need_public_totals() -> None:
    """Where a group may appear, the cumulative counts of the paper move everywhere; those from above do not."""
    assert farthest(FORWARD, "two", 1, private=True) == [5, 5]
    assert farthest(ABOVE, "two", 1, private=True) == [1, 1]
    assert farthest(HISTOGRAM, "two", 1, private=True) == [2, 2]


def test_tops_stop_a_move() -> None:
    """Sizes above max_size count as max_size: a person there moves nothing, and a bound above it costs no more."""
    assert farthest(ABOVE, "root", 9, private=True, sizes=3) == [3]


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("tree", ["root", "eight"])
def test_back(name: str, tree: str) -> None:
    """From the exact values of a query its groups come back."""
    groups = np.random.default_rng(1).integers(0, 9, (TREES[tree].sizes[-1], 4))
    query = QUERIES[name]
    assert (query.back(query.of(groups), groups.sum(axis=1)) == groups).all()
