"""Linked tables against an attacker's integer program, which knows records and tables and nothing of the engine.

The attacker sees the published cells of all tables, writes down each equation from the definition of a total, and asks
an integer solver for the least and the largest value of each sensitive cell.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from duckanon.engines.suppression import suppress as search
from duckanon.engines.suppression.problem import problem
from duckanon.engines.suppression.rules import Cells, Threshold, levels
from duckanon.engines.suppression.suppress import suppress
from duckanon.engines.suppression.system import Layout, System
from duckanon.engines.suppression.table import Dimension
from duckanon.errors import Infeasible
from tests.amounts import many

N = 3
# Regions with two overlapping groupings, a nested side, and a flat one: leaf, and what it is a part of.
SIDES: tuple[dict[str, list[str]], ...] = (
    {"T": ["A", "B"], "A": ["a1", "a2"], "B": ["b1", "b2"], "X": ["a1", "b1"], "Y": ["a2", "b2"], "T'": ["X", "Y"]},
    {"T": ["m", "f"]},
    {"T": ["u", "v", "w"]},
)
# The two totals of the first side are one node.
SAME = {"T'": "T"}
Place = tuple[str, ...]
SYSTEMS = many(200)


@dataclass(frozen=True)
class Published:
    """values: of all cells of all tables. hidden: which ones are suppressed."""

    values: dict[Place, int]
    hidden: set[Place]


def leaves(side: dict[str, list[str]], node: str) -> set[str]:
    parts = side.get(node)
    return {node} if parts is None else set().union(*(leaves(side, part) for part in parts))


def nodes(side: dict[str, list[str]], groupings: str) -> list[str]:
    """The nodes of a side. groupings: which of the overlapping ones there are."""
    found = {"T", *(leaf for leaf in leaves(side, "T"))}
    found |= {node for node in side if node in groupings and node not in SAME}
    return sorted(found)


def tables_of(rng: np.random.Generator) -> list[list[list[str]]]:
    """Two or three tables: the nodes of each side."""
    shapes = [("AB", True, False), ("XY", False, True), ("ABXY", True, False), ("XY", True, True), ("AB", False, True)]
    chosen = rng.choice(len(shapes), size=int(rng.integers(2, 4)), replace=False)
    found = []
    for at in chosen.tolist():
        groupings, *used = shapes[at]
        found.append(
            [nodes(SIDES[0], groupings)] + [nodes(s, "") if u else ["T"] for s, u in zip(SIDES[1:], used, strict=True)]
        )
    return found


def counts(rng: np.random.Generator, tables: list[list[list[str]]]) -> dict[Place, int]:
    ends = [sorted(leaves(side, "T")) for side in SIDES]
    records = [
        tuple(end[int(rng.integers(len(end)) * rng.random())] for end in ends) for _ in range(int(rng.integers(15, 60)))
    ]
    places = {place for table in tables for place in product(*table)}
    below = {place: [leaves(side, node) for side, node in zip(SIDES, place, strict=True)] for place in places}
    return {p: sum(all(x in s for x, s in zip(one, below[p], strict=True)) for one in records) for p in sorted(places)}


def attacked(tables: list[list[list[str]]], shown: Published) -> dict[Place, tuple[float, float]]:
    """What follows about each sensitive cell from the tables together."""
    hidden = sorted(shown.hidden)
    lines, right = [], []
    for table in tables:
        for d, side in enumerate(SIDES):
            for total, parts in side.items():
                node = SAME.get(total, total)
                if node not in table[d] or not set(parts) <= set(table[d]):
                    continue
                for place in product(*table[:d], [node], *table[d + 1 :]):
                    line = np.zeros(len(hidden))
                    known = 0
                    for sign, cell in [(1, place), *((-1, (*place[:d], part, *place[d + 1 :])) for part in parts)]:
                        if cell in shown.hidden:
                            line[hidden.index(cell)] += sign
                        else:
                            known += sign * shown.values[cell]
                    lines.append(line)
                    right.append(-known)
    found = {}
    for at, cell in enumerate(hidden):
        if shown.values[cell] >= N:
            continue
        ends = []
        for sign in (1, -1):
            cost = np.zeros(len(hidden))
            cost[at] = sign
            rows = LinearConstraint(np.array(lines), right, right)
            solved = milp(cost, constraints=rows, bounds=Bounds(1, 10_000), integrality=np.ones(len(hidden)))
            assert solved.x is not None
            ends.append(round(solved.x[at]))
        found[cell] = (ends[0], ends[1])
    return found


def suppressed(tables: list[list[list[str]]], values: dict[Place, int]) -> set[Place] | None:
    """The engine's pattern for tables that it protects together."""
    names = [sorted({node for table in tables for node in table[d]}) for d in range(len(SIDES))]
    dimensions = []
    for own, side in zip(names, SIDES, strict=True):
        first, second = np.full(len(own), -1), np.full(len(own), -1)
        for total, parts in side.items():
            into = second if total in {"X", "Y", "T'"} else first
            if all(part in own for part in parts) and SAME.get(total, total) in own:
                into[[own.index(part) for part in parts]] = own.index(SAME.get(total, total))
        dimensions.append(Dimension.of(len(own), first, second))
    grids = [[[own.index(node) for node in nodes] for own, nodes in zip(names, table, strict=True)] for table in tables]
    layout = Layout.of(dimensions, grids)
    places = [tuple(own[node] for own, node in zip(names, place, strict=True)) for place in layout.places.tolist()]
    system = System.of(layout, [values[place] for place in places])
    try:
        found = suppress(problem(system, levels(Cells.of(system), [Threshold(N)])), effort=0)
    except Infeasible:
        return None
    if found.undecided.any():
        return None
    return {place for place, gone in zip(places, (found.primary | found.secondary).tolist(), strict=True) if gone}


def floors(tables: list[list[list[str]]], values: dict[Place, int]) -> dict[Place, int]:
    """What everybody knows of cells that are not published: they are not empty, and nor are their parts."""
    found = {place: min(1, value) for place, value in values.items()}
    before: dict[Place, int] = {}
    while before != found:
        before = dict(found)
        for table, (d, side) in product(tables, enumerate(SIDES)):
            for total, parts in side.items():
                node = SAME.get(total, total)
                if node in table[d] and set(parts) <= set(table[d]):
                    for place in product(*table[:d], [node], *table[d + 1 :]):
                        least = sum(found[(*place[:d], part, *place[d + 1 :])] for part in parts)
                        found[place] = max(found[place], least)
    return found


def exposed(tables: list[list[list[str]]], shown: Published) -> list[Place]:
    """Sensitive cells that the attacker knows to less than from 1, or what everybody knows, to the threshold."""
    ends, least = attacked(tables, shown), floors(tables, shown.values)
    return [p for p, (low, high) in ends.items() if 0 < shown.values[p] < N and (low > least[p] or high < N)]


@pytest.mark.parametrize("large", [False, True])
def test_no_cell_is_exposed_by_all_tables_together(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """large: as where a system has too many cells for the search for least cost."""
    if large:
        monkeypatch.setattr(search, "_MOST_TARGETS", -1)
    alone, tried = 0, 0
    systems = SYSTEMS // 2 if large else SYSTEMS // 6
    for seed in range(systems):
        rng = np.random.default_rng([seed, large])
        tables = tables_of(rng)
        values = counts(rng, tables)
        together = suppressed(tables, values)
        if together is None:
            continue
        tried += 1
        assert not exposed(tables, Published(values, together))
        apart = [suppressed([one], {p: values[p] for p in product(*one)}) for one in tables]
        if None in apart:
            continue
        # Each table protects its own cells. A cell of two tables stays hidden where either hides it.
        union: set[Place] = set().union(*(one for one in apart if one))
        for one, own in zip(tables, apart, strict=True):
            assert not exposed([one], Published({p: values[p] for p in product(*one)}, own or set()))
        shared = {p for p in union if sum(p in set(product(*one)) for one in tables) > 1}
        seen_elsewhere = {
            p
            for p in shared
            if any(p in set(product(*t)) and p not in (o or set()) for t, o in zip(tables, apart, strict=True))
        }
        alone += bool(exposed(tables, Published(values, union - seen_elsewhere))) or bool(
            {p for p in seen_elsewhere if 0 < values[p] < N}
        )
    assert tried > systems // 2
    assert alone > tried // 10
