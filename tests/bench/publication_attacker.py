"""A reader of everything that was published of few records, who lists all records there may be, and has nothing of
duckanon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

# Variables with how many values they have.
VARIABLES: Mapping[str, int] = {"a": 4, "b": 2, "c": 2}
ELEMENTARY = list(product(*map(range, VARIABLES.values())))
SMALL, MOST_JOINED = 3, 3
# What a share may be off by when it is written as a number of 64 bits.
_NOTHING = 1e-9

Counts = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]
# Some variables, and a value of each.
Cell = tuple[tuple[str, int], ...]


def worlds(records: int) -> Counts:
    """Shape (worlds, elementary cells): all ways to have so many records."""
    made = np.zeros((1, 0), dtype=np.int8)
    left = np.array([records])
    for _ in ELEMENTARY[1:]:
        repeats = left + 1
        own = np.concatenate([np.arange(count) for count in repeats])
        made = np.hstack([np.repeat(made, repeats, axis=0), own[:, None].astype(np.int8)])
        left = np.repeat(left, repeats) - own
    return np.hstack([made, left[:, None].astype(np.int8)])


def members(cell: Cell) -> Bools:
    """Shape (elementary cells,): which ones the cell is the sum of."""
    names = list(VARIABLES)
    return np.array([all(at[names.index(name)] == value for name, value in cell) for at in ELEMENTARY])


def cells_by(names: Sequence[str]) -> Iterator[Cell]:
    for values in product(*(range(VARIABLES[name]) for name in names)):
        yield tuple(zip(names, values, strict=True))


@dataclass(frozen=True)
class Publication:
    """kind: counts, shares, suppressed or perturbed. margins: the sets of variables that it shows, of a table of
    shares the first being those within which they add up to one. numbers: of the cells that it lists, None where there
    is no number. width: as its steward asked for. most: of perturbed counts, the largest change.
    """

    kind: str
    margins: tuple[tuple[str, ...], ...]
    numbers: Mapping[Cell, float | None]
    width: int
    most: int = 0

    def agrees(self, counts: Counts) -> Bools:
        """Which worlds it could have been made of."""
        same = np.ones(len(counts), dtype=bool)
        for margin in self.margins[1:] if self.kind == "shares" else self.margins:
            for cell in cells_by(margin):
                same &= self._agrees(counts, cell)
        return same

    def _agrees(self, counts: Counts, cell: Cell) -> Bools:
        count = counts[:, members(cell)].sum(axis=1, dtype=np.int64)
        number = self.numbers.get(cell, 0)
        if number is None:
            return count >= 1
        if self.kind == "perturbed":
            # A cell without records is not changed.
            return np.where(count == 0, number == 0, np.abs(count - number) <= self.most)
        if self.kind == "shares":
            whole = counts[:, members(tuple(at for at in cell if at[0] in self.margins[0]))].sum(axis=1, dtype=np.int64)
            return np.abs(count - number * whole) <= _NOTHING * np.maximum(whole, 1) if number else count == 0
        return count == number


def told_apart(published: Sequence[Publication], counts: Counts) -> Bools:
    """Which worlds have other records wherever perturbed counts differ: the same records have the same change."""
    shown = [
        (members(cell), one.numbers.get(cell, 0))
        for one in published
        if one.kind == "perturbed"
        for cell in cells_by(one.margins[0])
    ]
    same = np.ones(len(counts), dtype=bool)
    for (first, number), (second, other) in combinations(shown, 2):
        if number != other:
            apart = counts[:, first != second].sum(axis=1)
            same &= (apart > 0) | (counts[:, first].sum(axis=1) == 0)
    return same


def broken(true: Counts, published: Sequence[Publication]) -> list[Cell]:
    """Cells of few records, and unions of up to three values of one variable, that are known to be so, or to within the
    width. true: shape (elementary cells,).
    """
    possible = worlds(int(true.sum()))
    for one in sorted(published, key=lambda one: one.kind in ("shares", "perturbed")):
        possible = possible[one.agrees(possible)]
    possible = possible[told_apart(published, possible)]
    if not (possible == true).all(axis=1).any():
        raise RuntimeError("the true records are not among those that agree")
    width = max(one.width for one in published)
    used = [name for name in VARIABLES if any(name in margin for one in published for margin in one.margins)]
    known = []
    for size in range(1, len(used) + 1):
        for names in combinations(used, size):
            for cell, joined in _unions(names):
                if not 0 < true[joined].sum() < SMALL:
                    continue
                count = possible[:, joined].sum(axis=1, dtype=np.int64)
                if (count.min() > 0 and count.max() < SMALL) or count.max() - count.min() < width:
                    known.append(cell)
    return known


def _unions(names: Sequence[str]) -> Iterator[tuple[Cell, Bools]]:
    for cell in cells_by(names):
        yield cell, members(cell)
    for name in names:
        for rest in cells_by([other for other in names if other != name]):
            for size in range(2, min(MOST_JOINED, VARIABLES[name] - 1) + 1):
                for values in combinations(range(VARIABLES[name]), size):
                    yield rest, np.any([members((*rest, (name, value))) for value in values], axis=0)
