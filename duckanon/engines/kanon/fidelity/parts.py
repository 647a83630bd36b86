"""The parts into which a column is divided to be tabulated: its categories, or ranges of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.fidelity.cells import Categories, Cells, Numbers

Floats = npt.NDArray[np.float64]

# Numbers are divided into ranges of about the same number of records; of categories the commonest are kept apart.
RANGES, MOST_CATEGORIES = 10, 20
OTHERS = "all others"


@dataclass(frozen=True, eq=False)
class Ranges:
    """Ranges of numbers. tops: the greatest number of each but the last, ascending; labels: of all of them."""

    tops: Sequence[float]
    labels: Sequence[str]

    def chances(self, column: Numbers) -> Floats:
        """The chance that a value of each cell lies in each range, shape (d, ranges)."""
        below = [column.chance(-inf, top) for top in self.tops]
        below = [np.zeros(len(column.low)), *below, np.where(column.missing, 0.0, 1.0)]
        return np.diff(np.stack(below, axis=1), axis=1)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of categories. group: of each code, shape (codes,); labels: of the groups."""

    group: npt.NDArray[np.int64]
    labels: Sequence[str]

    def chances(self, column: Categories) -> Floats:
        """The chance that a value of each cell is in each group, shape (d, groups)."""
        group_chances = np.zeros((len(column.missing), len(self.labels)))
        for number in range(len(self.labels)):
            group_chances[:, number] = column.chance(self.group == number)
        return group_chances


Parts = Ranges | Groups


def parts_of(table: Cells, column: int, write: Callable[[float], str]) -> Parts:
    """The parts of a column, by the table before its release. write: a number as text."""
    cells = table.columns[column]
    weights = table.weighed(column)
    return _ranges(cells, weights, write) if isinstance(cells, Numbers) else _groups(cells, weights)


def chances(parts: Parts, column: Numbers | Categories) -> Floats:
    """The chance of each part for each distinct cell of a column that was divided into them, shape (d, parts)."""
    return parts.chances(column)  # type: ignore[arg-type] # a column's own parts


def _ranges(column: Numbers, weights: Floats, write: Callable[[float], str]) -> Ranges:
    if column.missing.all():
        return Ranges([], [OTHERS])
    tops = sorted({column.quantile(weights, i / RANGES) for i in range(1, RANGES)})
    least, most = float(np.nanmin(column.low)), float(np.nanmax(column.high))
    tops = [top for top in tops if top < most]
    labels, bottom = [], least
    for i, top in enumerate([*tops, most]):
        if column.whole or i == 0:
            labels.append(write(top) if bottom == top else f"{write(bottom)} to {write(top)}")
        else:
            labels.append(f"above {write(bottom)} to {write(top)}")
        bottom = top + 1 if column.whole else top
    return Ranges(tops, labels)


def _groups(column: Categories, weights: Floats) -> Groups:
    codes = len(column.names)
    count = np.zeros(codes)
    for code in range(codes):
        chosen = np.zeros(codes, np.bool_)
        chosen[code] = True
        count[code] = weights @ column.chance(chosen)
    order = np.lexsort((np.arange(codes), -count))
    if codes <= MOST_CATEGORIES:
        return Groups(np.arange(codes), list(column.names))
    kept = np.sort(order[: MOST_CATEGORIES - 1])
    group = np.full(codes, len(kept))
    group[kept] = np.arange(len(kept))
    return Groups(group, [*(column.names[code] for code in kept), OTHERS])
