"""Patterns without a search tree: cells are added along cheapest flows, and those that nothing needs are taken back.

Source: Fischetti and Salazar 2000, section 5; the flows relax the fixed cost of a cell to a cost for each unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check
from duckanon.engines.suppression.attacker import Attacker, Target
from duckanon.engines.suppression.problem import DOWN, UP, Problem
from duckanon.engines.suppression.solver import Program

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A unit through a cell that is suppressed already, in shares of the least cost: short ways are better than long ones.
_DETOUR = 1e-6


class _Flows:
    """The program of additive deviations, each split into its parts upwards and downwards, which cost."""

    def __init__(self, problem: Problem, allowed: Bools) -> None:
        """allowed: shape (cells,), those that may deviate."""
        from scipy.sparse import csr_array, hstack

        self._room, self._cells = problem.room, np.flatnonzero(allowed)
        self._open = np.ones(len(self._cells))
        equations = problem.table.equations[:, self._cells]
        none = np.zeros(2 * len(self._cells))
        self._program = Program(none, none, none, primal=True, largest=problem.largest)
        right = np.zeros(equations.shape[0])
        self._program.add(csr_array(hstack([equations, -equations])), right, right)

    def allow(self, cell: int, allowed: bool) -> None:
        """Whether that cell may deviate from now on."""
        self._open[np.searchsorted(self._cells, cell)] = allowed

    def cells(self, target: Target, cost: Floats) -> Ints | None:
        """The cells of a deviation that protects the target, cheap by their costs for each unit; None without any.

        cost: shape (cells,), of suppressing a cell that is not yet suppressed, or else 0.
        """
        demand, width = float(target.demand), len(self._cells)
        up, down = (self._open * np.minimum(self._room[way][self._cells], 4 * demand) for way in (UP, DOWN))
        at = int(np.searchsorted(self._cells, target.cell))
        upper, lower = np.concatenate([up, down]), np.zeros(2 * width)
        ahead, back = (at, width + at) if target.direction == UP else (width + at, at)
        lower[ahead], upper[ahead], upper[back] = demand, demand, 0.0
        prices = cost[self._cells] + _DETOUR
        self._program.price(np.concatenate([prices, prices]) / np.maximum(1.0, np.minimum(upper, demand)))
        self._program.bound(lower, upper)
        optimum = self._program.solve()
        if optimum is None:
            return None
        return self._cells[np.abs(optimum.x[:width] - optimum.x[width:]) > 1e-7]


def repaired(problem: Problem, targets: Sequence[Target], pattern: Bools, cost: Floats) -> Bools:
    """A pattern that contains this one and protects every target, where flows can. cost: see `_Flows.cells`."""
    flows, grown = _Flows(problem, problem.always | problem.free), pattern.copy()
    attacker = Attacker(problem, grown.astype(np.float64))
    for target in targets:
        check()
        if attacker.attack(target).protects(target):
            continue
        cells = flows.cells(target, np.where(grown, 0.0, cost))
        if cells is not None:
            grown[cells] = True
            attacker = Attacker(problem, grown.astype(np.float64))
    return grown


def thinned(problem: Problem, targets: Sequence[Target], pattern: Bools) -> Bools:
    """The pattern without secondary cells that no target needs, the dearest first. The pattern protects."""
    flows, thin, free = _Flows(problem, pattern), pattern.copy(), np.zeros(problem.table.cells)
    used = [flows.cells(target, free) for target in targets]
    secondary = np.flatnonzero(pattern & ~problem.always)
    for cell in secondary[np.argsort(-problem.cost[secondary], kind="stable")].tolist():
        check()
        flows.allow(cell, False)
        instead: dict[int, Ints] = {}
        for k, cells in enumerate(used):
            if cells is None or cell in cells:
                other = flows.cells(targets[k], free)
                if other is None:
                    flows.allow(cell, True)
                    break
                instead[k] = other
        else:
            thin[cell] = False
            for k, cells in instead.items():
                used[k] = cells
    return thin
