"""The interval of each cell that the published table leaves, from what is published alone.

The lower and upper end are each attained by a whole table, which is checked in integers: it agrees with every published
cell, with every equation and with what attackers know. So nothing between a protected cell's ends is excluded, whether
or not attackers know that cells are whole numbers. That the ends are the last possible ones follows from the duals of
the linear program, rounded and then evaluated in integers; `exact` says for which ends that proof succeeds.
Floats only guide the search: a wrong one can make an interval look narrower than it is, never wider.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.solver import Program, whole_optimum
from duckanon.engines.suppression.table import Axis, Table
from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Duals are taken to the nearest 1 / _DENOMINATOR.
_DENOMINATOR = 720720


@dataclass(frozen=True)
class Published:
    """What everybody sees, and what attackers know in addition.

    units: shape (rows, columns), 0 where a cell is suppressed. suppressed: shape (rows, columns). least, most: shape
    (cells,), bounds in units that attackers have beforehand; most may be infinite.
    """

    units: Ints
    suppressed: Bools
    rows: Axis
    columns: Axis
    least: Ints
    most: Floats

    @staticmethod
    def of(table: Table, suppressed: Bools, least: Ints, most: Floats) -> Published:
        """The table without its suppressed cells, shape (cells,)."""
        mask = suppressed.reshape(table.units.shape)
        return Published(np.where(mask, 0, table.units), mask, table.rows, table.columns, least, most)


@dataclass(frozen=True)
class Intervals:
    """cells: shape (k,), flat numbers. lower, upper: shape (k,), attained, in units; upper may be infinite.

    exact_lower, exact_upper: shape (k,), whether it is proven that attackers can know no better end.
    """

    cells: Ints
    lower: Floats
    upper: Floats
    exact_lower: Bools
    exact_upper: Bools


def intervals(published: Published, cells: Iterable[int]) -> Intervals:
    """The intervals of those suppressed cells. Raises InvalidInput if no table agrees with the published one."""
    asked = np.array(list(cells), dtype=np.int64)
    audit = _Audit(published)
    unbounded = _unbounded(published)
    ends = np.zeros((2, len(asked)))
    exact = np.zeros((2, len(asked)), dtype=bool)
    for k, cell in enumerate(asked.tolist()):
        ends[0, k], exact[0, k] = audit.end(cell, -1)
        ends[1, k], exact[1, k] = (np.inf, True) if unbounded[cell] else audit.end(cell, 1)
    return Intervals(asked, ends[0], ends[1], exact[0], exact[1])


class _Audit:
    """The program of all tables that agree with what is published: one column for each suppressed cell."""

    def __init__(self, published: Published) -> None:
        equations = Table(published.units, published.rows, published.columns, 1.0).equations.astype(np.int64)
        self._cells = np.flatnonzero(published.suppressed)
        self._least, self._most = published.least[self._cells], published.most[self._cells]
        right = -(equations @ published.units.ravel())
        among = equations[:, self._cells]
        used = np.flatnonzero(np.diff(among.indptr))
        if right[np.setdiff1d(np.arange(len(right)), used)].any():
            raise _contradiction()
        self._equations: csr_array = among[used]
        self._right = right[used]
        self._columns = self._equations.tocsc()
        least, finite = self._least.astype(np.float64), self._most[np.isfinite(self._most)]
        largest = float(max(np.abs(one).max(initial=1.0) for one in (self._right, least, finite)))
        self._program = Program(np.zeros(len(self._cells)), least, self._most, primal=True, largest=largest)
        self._program.add(self._equations, self._right.astype(np.float64), self._right.astype(np.float64))

    def end(self, cell: int, sign: int) -> tuple[float, bool]:
        """The largest (sign 1) or smallest (-1) value that a whole table gives the cell, and whether that is proven."""
        at = int(np.searchsorted(self._cells, cell))
        self._program.price_one(at, -float(sign))
        found = self._program.solve()
        self._program.price_one(at, 0.0)
        if found is None:
            raise _contradiction()
        bound = self._bound(at, sign, found.duals)
        table = np.rint(found.x).astype(np.int64)
        if not self._agrees(table):
            table = self._whole(at, sign)
        return float(table[at]), bound is not None and sign * int(table[at]) == bound

    def _agrees(self, table: Ints) -> bool:
        inside = bool((table >= self._least).all() and (table <= self._most).all())
        return inside and bool((self._equations @ table == self._right).all())

    def _whole(self, at: int, sign: int) -> Ints:
        """A whole table with that end, where the linear program's is not whole."""
        cost = np.zeros(len(self._cells))
        cost[at] = -sign
        found = whole_optimum(cost, self._least.astype(np.float64), self._most, self._equations, self._right)
        if found is None or not self._agrees(found):
            raise _contradiction()
        return found

    def _bound(self, at: int, sign: int, duals: Floats) -> int | None:
        """No table has more than this for sign * cell: the duals' bound, in integers; None if they prove nothing."""
        multiples = np.rint(duals * _DENOMINATOR).astype(np.int64)
        reduced = -(self._columns.T @ multiples)
        reduced[at] -= sign * _DENOMINATOR
        # sign * cell <= -(duals . right) - (reduced . table), each cell where that is largest.
        total = -sum(int(m) * int(r) for m, r in zip(multiples.tolist(), self._right.tolist(), strict=True) if m)
        for i in np.flatnonzero(reduced).tolist():
            most = self._most[i]
            if reduced[i] < 0 and not np.isfinite(most):
                return None
            total -= int(reduced[i]) * (int(most) if reduced[i] < 0 else int(self._least[i]))
        return total // _DENOMINATOR


def _unbounded(published: Published) -> Bools:
    """Shape (cells,): which cells have no upper end: records may be added to a leaf below without any trace."""
    open_ = published.suppressed & np.isinf(published.most).reshape(published.units.shape)
    for side, axis in ((open_, published.rows), (open_.T, published.columns)):
        for node in axis.upward[::-1].tolist():
            if axis.parents[node] >= 0:
                side[node] &= side[axis.parents[node]]
    found = open_ & np.outer(published.rows.leaves, published.columns.leaves)
    for side, axis in ((found, published.rows), (found.T, published.columns)):
        for node in axis.upward.tolist():
            if axis.parents[node] >= 0:
                side[axis.parents[node]] |= side[node]
    return found.ravel()


def _contradiction() -> InvalidInput:
    return InvalidInput("No table agrees with what is published: check the totals and what attackers know.")
