"""Patterns without a search tree: cells are added along cheapest flows, and those that nothing needs are taken back.

Source: Fischetti and Salazar 2000, section 5; the flows relax the fixed cost of a cell to a cost for each unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

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

    def __init__(self, problem: Problem) -> None:
        from scipy.sparse import csr_array, hstack

        self._problem = problem
        self._cells = np.flatnonzero(problem.primary | problem.free)
        equations = problem.table.equations[:, self._cells]
        width, height = len(self._cells), equations.shape[0]
        none = np.zeros(2 * width)
        self._program = Program(none, none, none, primal=True)
        self._program.add(csr_array(hstack([equations, -equations])), np.zeros(height), np.zeros(height))

    def cells(self, target: Target, pattern: Bools, cost: Floats) -> Ints:
        """The cells of a flow that protects the target, as cheap as a cost for each unit can tell. May be none.

        pattern: shape (cells,), suppressed already. cost: shape (cells,), of suppressing the others.
        """
        room, demand, width = self._problem.room, float(target.demand), len(self._cells)
        up, down = (np.minimum(room[way][self._cells], 4 * demand) for way in (UP, DOWN))
        at = int(np.searchsorted(self._cells, target.cell))
        upper, lower = np.concatenate([up, down]), np.zeros(2 * width)
        ahead, back = (at, width + at) if target.direction == UP else (width + at, at)
        lower[ahead], upper[ahead], upper[back] = demand, demand, 0.0
        prices = np.where(pattern, 0.0, cost)[self._cells] + _DETOUR
        self._program.price(np.concatenate([prices, prices]) / np.maximum(1.0, np.minimum(upper, demand)))
        self._program.bound(lower, upper)
        found = self._program.solve()
        if found is None:
            return np.zeros(0, dtype=np.int64)
        return self._cells[np.abs(found.x[:width] - found.x[width:]) > 1e-7]


def repaired(problem: Problem, targets: Sequence[Target], pattern: Bools, cost: Floats) -> Bools:
    """A pattern that contains this one and protects every target, where flows can. cost: see `_Flows.cells`."""
    flows, found = _Flows(problem), pattern.copy()
    attacker = Attacker(problem, found.astype(np.float64))
    for target in targets:
        if not attacker.attack(target).protects(target):
            found[flows.cells(target, found, cost)] = True
            attacker = Attacker(problem, found.astype(np.float64))
    return found


def thinned(problem: Problem, targets: Sequence[Target], pattern: Bools) -> Bools:
    """The pattern without secondary cells that no target needs, the dearest first."""
    found = pattern.copy()
    attacker = Attacker(problem, pattern.astype(np.float64))
    used = [set(attacker.attack(target).used.tolist()) for target in targets]
    secondary = np.flatnonzero(pattern & ~problem.primary)
    for cell in secondary[np.argsort(-problem.cost[secondary], kind="stable")].tolist():
        attacker.publish(cell)
        instead = {}
        for k, target in enumerate(targets):
            if cell in used[k]:
                attack = attacker.attack(target)
                if not attack.protects(target):
                    attacker.suppress(cell)
                    break
                instead[k] = set(attack.used.tolist())
        else:
            found[cell] = False
            for k, cells in instead.items():
                used[k] = cells
    return found
