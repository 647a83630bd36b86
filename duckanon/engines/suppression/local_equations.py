"""The equations of few cells out of many: a program over a neighbourhood is made of them in a fraction of the time that
it takes to solve it, which slices of a large sparse matrix do not allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LocalEquations:
    """row, cell, sign: shape (entries,), of each entry, by the equations' and the cells' own numbers from 0 on; ordered
    by cells. rows: how many equations have one of the cells. width: how many cells.
    """

    row: Ints
    cell: Ints
    sign: Ints
    rows: int
    width: int

    def differences(self, units: Ints) -> Ints:
        """Shape (rows,): what is left in each equation. units: shape (width,)."""
        left = np.zeros(self.rows, dtype=np.int64)
        np.add.at(left, self.row, self.sign * units[self.cell])
        return left

    def both_ways(self) -> csr_array:
        """Shape (rows, 2 width): the equations of what cells gain, beside those of what they lose."""
        from scipy.sparse import csr_array

        row = np.concatenate([self.row, self.row])
        order = np.argsort(row, kind="stable")
        starts = np.zeros(self.rows + 1, dtype=np.int64)
        np.cumsum(np.bincount(row, minlength=self.rows), out=starts[1:])
        column = np.concatenate([self.cell, self.cell + self.width])
        sign = np.concatenate([self.sign, -self.sign]).astype(np.float64)
        return csr_array((sign[order], column[order], starts), shape=(self.rows, 2 * self.width))

    def of(self, cells: Ints) -> LocalEquations:
        """Those of some of the cells, by their numbers here, ascending."""
        place = np.full(self.width, -1, dtype=np.int64)
        place[cells] = np.arange(len(cells))
        kept = place[self.cell] >= 0
        return _numbered(self.row[kept], place[self.cell[kept]], self.sign[kept], len(cells))


class EquationsByCells:
    """All equations of a system, of which those of few cells are asked for again and again."""

    def __init__(self, equations: csr_array) -> None:
        columns = equations.tocsc()
        self._starts = columns.indptr.astype(np.int64)
        self._rows = columns.indices.astype(np.int64)
        self._signs = columns.data.astype(np.int64)

    def of(self, cells: Ints) -> LocalEquations:
        """cells: ascending."""
        first = self._starts[cells]
        lengths = self._starts[cells + 1] - first
        before = np.cumsum(lengths) - lengths
        entries = np.arange(int(lengths.sum())) + np.repeat(first - before, lengths)
        cell = np.repeat(np.arange(len(cells)), lengths)
        return _numbered(self._rows[entries], cell, self._signs[entries], len(cells))


def _numbered(row: Ints, cell: Ints, sign: Ints, width: int) -> LocalEquations:
    """With equations numbered from 0 on."""
    known, number = np.unique(row, return_inverse=True)
    return LocalEquations(number, cell, sign, len(known), width)
