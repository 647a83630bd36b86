"""What attackers can exclude about many cells at once: deviations that reach far in many cells, block by block.

Suppressed cells that no chain of equations connects have nothing to do with each other: each block is a program of its
own. One deviation shows for all the cells where it reaches as far as they must that they are protected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check
from duckanon.engines.suppression.attacker import Target
from duckanon.engines.suppression.problem import DOWN, UP, Problem
from duckanon.engines.suppression.solver import Program

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A round of deviations of all cells together ends where it reaches less than this share of the cells that are left.
_WORTH = 0.1


@dataclass(frozen=True)
class Deviation:
    """An additive deviation. cells: shape (k,). units: shape (k,), not 0."""

    cells: Ints
    units: Ints


def blocks(problem: Problem, allowed: Bools) -> list[Ints]:
    """The cells that may deviate, in groups that share no equation."""
    from scipy.sparse import bmat
    from scipy.sparse.csgraph import connected_components

    cells = np.flatnonzero(allowed)
    matrix = problem.table.equations[:, cells]
    matrix = abs(matrix[np.diff(matrix.indptr) > 0])
    _, label = connected_components(bmat([[None, matrix.T], [matrix, None]]), directed=False)
    order = np.argsort(label[: len(cells)], kind="stable")
    cuts = np.flatnonzero(np.diff(label[: len(cells)][order])) + 1
    return [np.sort(cells[block]) for block in np.split(order, cuts) if len(block)]


class Block:
    """The program of the deviations of some cells, all others being published."""

    def __init__(self, problem: Problem, cells: Ints) -> None:
        self._cells = cells
        matrix = problem.table.equations[:, cells]
        self._equations = matrix[np.diff(matrix.indptr) > 0].astype(np.int64)
        self._room = {way: problem.room[way][cells] for way in (UP, DOWN)}
        none = np.zeros(2 * len(cells))
        self._program = Program(none, none, none, primal=True, largest=problem.largest)
        from scipy.sparse import csr_array, hstack

        right = np.zeros(self._equations.shape[0])
        both = csr_array(hstack([self._equations, -self._equations]).astype(np.float64))
        self._program.add(both, right, right)

    def reach(self, targets: Sequence[Target]) -> Deviation | None:
        """A deviation that goes, of all these cells together, as far as it can towards what each must reach."""
        width = len(self._cells)
        upper = np.concatenate([self._room[UP], self._room[DOWN]])
        cost = np.full(2 * width, 1e-7)
        at = np.searchsorted(self._cells, [target.cell for target in targets])
        for place, target in zip(at.tolist(), targets, strict=True):
            ahead = place if target.direction == UP else place + width
            cost[ahead], upper[ahead] = -1.0 / target.demand, target.demand
            cost[(ahead + width) % (2 * width)] = 1.0 / target.demand
        self._program.price(cost)
        largest = float(max(target.demand for target in targets))
        self._program.bound(np.zeros(2 * width), np.minimum(upper, max(largest * 64, 1024.0)))
        optimum = self._program.solve()
        return None if optimum is None else self.whole(optimum.x[:width] - optimum.x[width:])

    def whole(self, moved: Floats) -> Deviation | None:
        """The deviation in whole units; None if these do not add up, or leave the room there is."""
        units = np.rint(moved).astype(np.int64)
        fits = (units <= self._room[UP]) & (units >= -self._room[DOWN])
        if not fits.all() or (self._equations @ units).any():
            return None
        moving = np.flatnonzero(units)
        return Deviation(self._cells[moving], units[moving])


def reached(targets: Sequence[Target], deviation: Deviation) -> Bools:
    """Shape (targets,): which ones the deviation takes as far as they must go."""
    if not len(deviation.cells) or not targets:
        return np.zeros(len(targets), dtype=bool)
    cells = np.array([target.cell for target in targets])
    at = np.minimum(np.searchsorted(deviation.cells, cells), len(deviation.cells) - 1)
    moved = np.where(deviation.cells[at] == cells, deviation.units[at], 0)
    met: Bools = moved * np.array([target.direction for target in targets]) >= np.array(
        [target.demand for target in targets]
    )
    return met


def protected_together(
    problem: Problem, pattern: Bools, targets: Sequence[Target]
) -> tuple[list[Target], list[Deviation]]:
    """The targets that no deviation of many cells at once protects, in their order; the deviations of the others."""
    of = np.full(problem.table.cells, -1, dtype=np.int64)
    groups = blocks(problem, pattern)
    for number, cells in enumerate(groups):
        of[cells] = number
    apart: dict[int, list[Target]] = {}
    for target in targets:
        apart.setdefault(int(of[target.cell]), []).append(target)
    open_: set[Target] = set()
    used: list[Deviation] = []
    for number, own in apart.items():
        check()
        left, deviations = _together(Block(problem, groups[number]), own)
        open_.update(left)
        used += deviations
    return [target for target in targets if target in open_], used


def _together(block: Block, targets: list[Target]) -> tuple[list[Target], list[Deviation]]:
    """The same for one block: round after round, while that helps."""
    left, used = targets, []
    while left:
        deviation = block.reach(left)
        if deviation is None:
            break
        met = reached(left, deviation)
        if met.any():
            used.append(deviation)
        before = len(left)
        left = [target for target, done in zip(left, met.tolist(), strict=True) if not done]
        if met.sum() < _WORTH * before:
            break
    return left, used
