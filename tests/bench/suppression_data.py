"""Magnitude tables with sections and divisions as rows, seeded: log-normal contributions, p% and threshold rules."""

from itertools import product

import numpy as np

from duckanon.engines.suppression.rules import Cells, Levels, PPercent, Rule, Threshold, levels
from duckanon.engines.suppression.system import Layout, System
from duckanon.engines.suppression.table import Dimension, Table

SIZES = {407: (6, 30, 10), 1491: (10, 60, 20), 5053: (12, 150, 30), 20451: (20, 380, 50)}
# Groups of each dimension and parts of each group, and records.
CROSSED = {
    6160: (((3, 4), (2, 4), (6, 1), (4, 1)), 20_000),
    22134: (((5, 5), (4, 3), (6, 1), (5, 1)), 100_000),
    94668: (((5, 8), (4, 4), (6, 1), (13, 1)), 1_000_000),
    255285: (((6, 9), (5, 5), (8, 1), (14, 1)), 2_700_000),
    502200: (((8, 9), (5, 5), (9, 1), (19, 1)), 5_300_000),
    24640: (((3, 4), (2, 4), (6, 1), (4, 1), (3, 1)), 75_000),
    88536: (((5, 5), (4, 3), (6, 1), (5, 1), (3, 1)), 280_000),
    284004: (((5, 8), (4, 4), (6, 1), (13, 1), (2, 1)), 900_000),
    946680: (((5, 8), (4, 4), (6, 1), (13, 1), (9, 1)), 3_000_000),
}


def generated(sections: int, divisions: int, columns: int, seed: int = 0) -> tuple[Table, Levels]:
    """(1 + sections + divisions) x (columns + 1) cells, and p% with p = 10, fewer than 3, and 5 % at least."""
    rng = np.random.default_rng(seed)
    parents = np.r_[-1, np.zeros(sections, int), 1 + rng.integers(0, sections, divisions)]
    for section in range(sections):
        while (parents[1 + sections :] == 1 + section).sum() < 2:
            parents[1 + sections + rng.integers(divisions)] = 1 + section
    first = 1 + sections
    sizes = rng.poisson(np.exp(rng.normal(0, 1, (divisions, 1)) + rng.normal(0, 0.7, (1, columns))) * 6)
    leaves = {
        (first + i, j): np.round(np.exp(rng.normal(3, 1.3, sizes[i, j]))) + 1
        for i in range(divisions)
        for j in range(columns)
    }
    below = [[row] if row >= first else [] for row in range(len(parents))]
    for row in range(first, len(parents)):
        below[parents[row]].append(row)
        below[0].append(row)
    shape = (len(parents), columns + 1)
    values, counts, largest = np.zeros(shape), np.zeros(shape, int), np.zeros((2, *shape))
    for row in range(shape[0]):
        for column in range(shape[1]):
            which = [column] if column < columns else range(columns)
            parts = np.sort(np.concatenate([leaves[leaf, j] for leaf in below[row] for j in which]))[::-1]
            values[row, column], counts[row, column] = parts.sum(), len(parts)
            largest[: len(parts), row, column] = parts[:2]
    table = Table.of(values, parents, np.r_[np.full(columns, columns), -1])
    return table, levels(Cells.of(table, counts, largest), [PPercent(10), Threshold(3, safety=5)], safety=5)


def crossed(sides: tuple[tuple[int, int], ...], records: int, seed: int = 0) -> tuple[System, Levels]:
    """Dimensions of a total, groups and their parts (groups alone where they have one), and the same rules."""
    rng = np.random.default_rng(seed)
    parents = [
        np.array([-1] + [0] * groups + [1 + g for g in range(groups) for _ in range(each if each > 1 else 0)])
        for groups, each in sides
    ]
    dimensions = [Dimension.of(len(one), one) for one in parents]
    places = []
    for one in dimensions:
        leaves = np.flatnonzero(one.leaves)
        shares = rng.lognormal(0, 0.8, len(leaves))
        places.append(leaves[rng.choice(len(leaves), records, p=shares / shares.sum())])
    values = np.round(np.exp(rng.normal(3, 1.3, records))) + 1
    sizes = [one.nodes for one in dimensions]
    cells = int(np.prod(sizes))
    total, counts, first, second = np.zeros(cells), np.zeros(cells, dtype=int), np.zeros(cells), np.zeros(cells)
    for above in product(*(_above(one, parent) for one, parent in zip(places, parents, strict=True))):
        kept = np.all([one >= 0 for one in above], axis=0)
        at = np.ravel_multi_index([one[kept] for one in above], sizes)
        own = values[kept]
        total += np.bincount(at, own, cells)
        counts += np.bincount(at, minlength=cells)
        order = np.lexsort((-own, at))
        at, own = at[order], own[order]
        begins = np.r_[True, at[1:] != at[:-1]]
        follows = np.r_[False, begins[:-1]] & ~begins
        first[at[begins]], second[at[follows]] = own[begins], own[follows]
    system = System.of(Layout.of(dimensions), total)
    rules: list[Rule] = [PPercent(10), Threshold(3, safety=5)]
    return system, levels(Cells.of(system, counts, np.array([first, second])), rules, safety=5)


def _above(nodes: np.ndarray, parents: np.ndarray) -> list[np.ndarray]:
    """The nodes, and those above them, level by level; -1 above the total."""
    found = [nodes]
    while (found[-1] >= 0).any():
        found.append(np.where(found[-1] >= 0, parents[found[-1]], -1))
    return found[:-1]
