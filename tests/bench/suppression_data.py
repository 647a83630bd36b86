"""Magnitude tables with sections and divisions as rows, seeded: log-normal contributions, p% and threshold rules."""

import numpy as np

from duckanon.engines.suppression.rules import Cells, Levels, PPercent, Threshold, levels
from duckanon.engines.suppression.table import Table

SIZES = {407: (6, 30, 10), 1491: (10, 60, 20), 5053: (12, 150, 30)}


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
