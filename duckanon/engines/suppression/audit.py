"""The interval of each cell that the published table leaves, from what is published alone.

The lower and upper end are each attained by a whole table, which is checked in integers: it agrees with every published
cell, with every equation and with what attackers know. So nothing between a protected cell's ends is excluded, whether
or not attackers know that cells are whole numbers. That the ends are the last possible ones follows from the duals of
the linear program, rounded and then evaluated in integers; `exact` says for which ends that proof succeeds.
Floats only guide the search: a wrong one can make an interval look narrower than it is, never wider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.solver import Program, whole_optimum
from duckanon.engines.suppression.system import Additive
from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Blocks of more cells are searched for tables that no witness leads to only where few ends are left, as each takes some
# ten seconds: up to so many ends times cells. What is not shown counts as narrow.
_SOUGHT, _MOST_SOUGHT = 8000, 400_000
# Duals are taken to the nearest 1 / _DENOMINATOR.
_DENOMINATOR = 720720
# What a solver's answer may be off.
_NOTHING = 1e-7


@dataclass(frozen=True)
class Published:
    """What everybody sees, and what attackers know in addition.

    units: in the table's shape, 0 where a cell is suppressed. suppressed: in the same shape. equations: shape
    (equations, cells), 1 for a sum and -1 for each of its parts. least, most: shape (cells,), bounds in units that
    attackers have beforehand; most may be infinite.
    """

    units: Ints
    suppressed: Bools
    equations: csr_array
    least: Ints
    most: Floats

    @staticmethod
    def of(table: Additive, suppressed: Bools, least: Ints, most: Floats) -> Published:
        """The table without its suppressed cells, shape (cells,)."""
        mask = suppressed.reshape(table.units.shape)
        return Published(np.where(mask, 0, table.units), mask, table.equations, least, most)


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
    numbers = np.array(list(cells), dtype=np.int64)
    audit = _Audit(published)
    unbounded = _unbounded(published)
    ends = np.zeros((2, len(numbers)))
    exact = np.zeros((2, len(numbers)), dtype=bool)
    for k, cell in enumerate(numbers.tolist()):
        ends[0, k], exact[0, k] = audit.end(cell, -1)
        ends[1, k], exact[1, k] = (np.inf, True) if unbounded[cell] else audit.end(cell, 1)
    return Intervals(numbers, ends[0], ends[1], exact[0], exact[1])


@dataclass(frozen=True)
class Witness:
    """What leads from one table to another, for an audit to check. cells: shape (k,), each once. units: shape (k,)."""

    cells: Ints
    units: Ints


def witnessed(
    published: Published,
    base: Ints,
    witnesses: Sequence[Witness],
    cells: Ints,
    low: Ints,
    high: Ints,
    near: Callable[[int], Ints] | None = None,
) -> Intervals:
    """Ends that are attained, where nobody needs to know the last possible ones: no cell is narrower than they say.

    base: shape (cells,), a table. witnesses: lead from it to others. Each of these is checked in integers, and those
    that agree with what is published count. low, high: shape (k,), of the cells, how far their ends should reach; where
    no witness does, the audit seeks a table of its own. near: some cells around a cell, in which tables may differ at
    first where a block is large. Raises InvalidInput if the base contradicts what is published.
    """
    audit = _Witnesses(published, base)
    for witness in audit.sound(witnesses):
        audit.take(witness)
    places = np.full(len(base), -1, dtype=np.int64)
    left = [(c, s, w) for s, ends in ((-1, low), (1, high)) for c, w in zip(cells.tolist(), ends.tolist(), strict=True)]
    left = [end for end in left if not audit.reaches(*end)]
    if left:
        suppressed = np.flatnonzero(published.suppressed)
        places[suppressed] = _connected(published.equations[:, suppressed])
        for block in np.unique(places[[end[0] for end in left]]).tolist():
            whole, ends = places == block, [end for end in left if places[end[0]] == block]
            size = int(whole.sum())
            if size > _SOUGHT and near is not None:
                for end in ends:
                    few = np.zeros(len(base), dtype=bool)
                    few[near(end[0])] = True
                    audit.seek(few & whole, [end])
                ends = [end for end in ends if not audit.reaches(*end)]
            if size <= _SOUGHT or size * len(ends) <= _MOST_SOUGHT:
                audit.seek(whole, ends)
    none = np.zeros(len(cells), dtype=bool)
    return Intervals(cells, audit.least[cells].astype(float), audit.most[cells].astype(float), none, none)


class _Witnesses:
    """The ends that tables attain, shape (cells,) each: least and most."""

    def __init__(self, published: Published, base: Ints) -> None:
        self._equations = published.equations.astype(np.int64)
        self._published, self._base = published, base
        gone = published.suppressed.ravel()
        within = (base >= published.least) & (base <= published.most)
        agrees = np.where(gone, within, base == published.units.ravel())
        if (self._equations @ base).any() or not agrees.all():
            raise _contradiction()
        self.least, self.most = base.copy(), base.copy()

    def sound(self, witnesses: Sequence[Witness]) -> list[Witness]:
        """Those that lead to tables which agree with everything."""
        from scipy.sparse import csc_array

        if not witnesses:
            return []
        starts = np.concatenate([[0], np.cumsum([len(witness.cells) for witness in witnesses])])
        cells = np.concatenate([witness.cells for witness in witnesses])
        units = np.concatenate([witness.units for witness in witnesses]).astype(np.int64)
        changes = csc_array((units, cells, starts), shape=(len(self._base), len(witnesses)))
        wrong = np.diff(csc_array(_without_zeros(self._equations @ changes)).indptr) > 0
        changed, gone = self._base[cells] + units, self._published.suppressed.ravel()[cells]
        outside = ~gone | (changed < self._published.least[cells]) | (changed > self._published.most[cells])
        wrong |= np.logical_or.reduceat(np.append(outside, False), starts[:-1]) & (np.diff(starts) > 0)
        return [witness for witness, bad in zip(witnesses, wrong.tolist(), strict=True) if not bad]

    def take(self, witness: Witness) -> None:
        """Extend the ends by a table."""
        changed = self._base[witness.cells] + witness.units
        self.least[witness.cells] = np.minimum(self.least[witness.cells], changed)
        self.most[witness.cells] = np.maximum(self.most[witness.cells], changed)

    def seek(self, among: Bools, ends: Sequence[tuple[int, int, int]]) -> None:
        """Take tables that differ from the base in some suppressed cells, for ends that no other reaches."""
        left = [end for end in ends if among[end[0]] and not self.reaches(*end)]
        if not left:
            return
        own, cells = _Audit(_only(self._published, self._base, among)), np.flatnonzero(among)
        for cell, sign, goal in left:
            if self.reaches(cell, sign, goal):
                continue
            table = own.table(cell, goal, self._base[cells])
            if table is not None:
                for witness in self.sound([Witness(cells, table - self._base[cells])]):
                    self.take(witness)

    def reaches(self, cell: int, sign: int, goal: int) -> bool:
        """Whether some table has the cell at the goal, or beyond it."""
        return bool(self.least[cell] <= goal if sign < 0 else self.most[cell] >= goal)


def _without_zeros(matrix: csr_array) -> csr_array:
    matrix.eliminate_zeros()
    return matrix


def _connected(equations: csr_array) -> Ints:
    """The number of the block of each column: of those that equations connect."""
    from scipy.sparse import block_array
    from scipy.sparse.csgraph import connected_components

    matrix = abs(equations)
    _, label = connected_components(block_array([[None, matrix.T], [matrix, None]]), directed=False)
    blocks: Ints = label[: equations.shape[1]].astype(np.int64)
    return blocks


def _only(published: Published, base: Ints, block: Bools) -> Published:
    """What would be left to find out if all but one block were known."""
    mask = block.reshape(published.suppressed.shape)
    units = np.where(block, 0, base).reshape(mask.shape)
    return Published(units, mask, published.equations, published.least, published.most)


class _Audit:
    """The program of all tables that agree with what is published: one column for each suppressed cell."""

    def __init__(self, published: Published) -> None:
        equations = published.equations.astype(np.int64)
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
        largest = float(max(np.abs(amounts).max(initial=1.0) for amounts in (self._right, least, finite)))
        self._program = Program(np.zeros(len(self._cells)), least, self._most, primal=True, largest=largest)
        self._program.add(self._equations, self._right.astype(np.float64), self._right.astype(np.float64))

    def end(self, cell: int, sign: int) -> tuple[float, bool]:
        """The largest (sign 1) or smallest (-1) value that a whole table gives the cell, and whether that is proven."""
        at = int(np.searchsorted(self._cells, cell))
        self._program.price_one(at, -float(sign))
        optimum = self._program.solve()
        self._program.price_one(at, 0.0)
        if optimum is None:
            raise _contradiction()
        bound = self._bound(at, sign, optimum.duals)
        table = np.rint(optimum.x).astype(np.int64)
        if not self._agrees(table):
            table = self._whole(at, sign)
        return float(table[at]), bound is not None and sign * int(table[at]) == bound

    def table(self, cell: int, goal: int, base: Ints) -> Ints | None:
        """A whole table, shape (suppressed cells,), in which the cell is at the goal; None if none is found.

        base: a table that agrees.
        """
        at = int(np.searchsorted(self._cells, cell))
        moved = self._nearest(at, goal, base)
        if moved is None:
            return None
        table: Ints = base + np.rint(moved).astype(np.int64)
        if self._agrees(table):
            return table
        few = self._searched(at, goal, base, np.abs(moved) > _NOTHING)
        return self._searched(at, goal, base, np.ones(len(base), dtype=bool)) if few is None else few

    def _nearest(self, at: int, goal: int, base: Ints) -> Floats | None:
        """What leads from the base to a near table in fractions, in which a cell is at the goal; None without one.

        It moves few cells, and so mostly by whole units.
        """
        room = np.concatenate([self._most - base, (base - self._least).astype(np.float64)])
        lower, move = np.zeros(2 * len(base)), float(goal - base[at])
        ahead, back = (at, at + len(base)) if move > 0 else (at + len(base), at)
        lower[ahead], room[ahead], room[back] = abs(move), abs(move), 0.0
        cost = 1.0 / np.maximum(1.0, np.minimum(room, abs(move)))
        largest = float(room[np.isfinite(room)].max(initial=1.0))
        program = Program(cost, lower, room, primal=False, largest=largest, presolve=False)
        none = np.zeros(self._equations.shape[0])
        program.add(_beside(self._equations, -self._equations), none, none)
        optimum = program.solve()
        return None if optimum is None else optimum.x[: len(base)] - optimum.x[len(base) :]

    def _searched(self, at: int, goal: int, base: Ints, moved: Bools) -> Ints | None:
        """As `table`, where it differs from the base in these cells only."""
        lower, upper = self._least.astype(np.float64), self._most.copy()
        lower[at] = upper[at] = goal
        table: Ints = np.where(moved, 0, base)
        right = self._right - self._equations @ table
        among = self._equations[:, np.flatnonzero(moved)]
        optimum = whole_optimum(np.zeros(among.shape[1]), lower[moved], upper[moved], among, right)
        if optimum is None:
            return None
        table[moved] = optimum
        return table if self._agrees(table) else None

    def _agrees(self, table: Ints) -> bool:
        inside = bool((table >= self._least).all() and (table <= self._most).all())
        return inside and bool((self._equations @ table == self._right).all())

    def _whole(self, at: int, sign: int) -> Ints:
        """A whole table with that end, where the linear program's is not whole."""
        cost = np.zeros(len(self._cells))
        cost[at] = -sign
        table = whole_optimum(cost, self._least.astype(np.float64), self._most, self._equations, self._right)
        if table is None or not self._agrees(table):
            raise _contradiction()
        return table

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
    """Shape (cells,): which cells have no upper end, since something may be added to them without any trace.

    What is added is not negative, so a published total leaves nothing to its parts, and a sum cannot grow unless one of
    its parts does. The cells of which that leaves the rest open are then found by one linear program, which is checked
    in integers.
    """
    open_ = published.suppressed.ravel() & np.isinf(published.most)
    signs = published.equations.tocoo()
    totals, parts = signs.data > 0, signs.data < 0
    while open_.any():
        grows, has = np.zeros(signs.shape[0], dtype=bool), np.zeros(signs.shape[0], dtype=bool)
        grows[signs.row[totals]] = open_[signs.col[totals]]
        np.logical_or.at(has, signs.row[parts], open_[signs.col[parts]])
        stays = open_.copy()
        stays[signs.col[totals & ~has[signs.row]]] = False
        stays[signs.col[parts & ~grows[signs.row]]] = False
        if (stays == open_).all():
            return _additions(published, open_)
        open_ = stays
    return open_


def _additions(published: Published, open_: Bools) -> Bools:
    """The cells among those that grow in some additive table without negative cells."""
    cells = np.flatnonzero(open_)
    equations = published.equations[:, cells]
    width, none = len(cells), np.zeros(equations.shape[0])
    # A table of additions may be scaled: up to one unit of each cell's counts, and the rest is free.
    costs = np.concatenate([-np.ones(width), np.zeros(width)])
    upper = np.concatenate([np.ones(width), np.full(width, np.inf)])
    program = Program(costs, np.zeros(2 * width), upper, primal=True)
    program.add(_beside(equations, equations), none, none)
    optimum = program.solve()
    growing = np.zeros(len(open_), dtype=bool)
    if optimum is not None:
        added = np.rint((optimum.x[:width] + optimum.x[width:]) * _DENOMINATOR).astype(np.int64)
        if not (equations.astype(np.int64) @ added).any():
            growing[cells[added > 0]] = True
    return growing


def _beside(*blocks: csr_array) -> csr_array:
    """Matrices side by side."""
    from scipy.sparse import csr_array, hstack

    return csr_array(hstack(blocks, format="csr"))


def _contradiction() -> InvalidInput:
    return InvalidInput("No table agrees with what is published: check the totals and what attackers know.")
