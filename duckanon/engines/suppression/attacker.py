"""What an attacker can conclude about one cell from a pattern: the largest deviation that the equations leave.

Deviations d of the suppressed cells from the true table are additive (equations d = 0) and stay within the room that
attackers leave each cell; a published cell has none. The program's duals give a capacity constraint, which every
pattern that protects the cell satisfies (Fischetti and Salazar 2000, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.problem import DOWN, UP, Problem
from duckanon.engines.suppression.solver import Program

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Duals are taken to the nearest multiple of this, so that capacities are exact in floats. Any duals give a valid
# constraint.
_FINEST = 2.0**-12


@dataclass(frozen=True)
class Target:
    """A primary cell and the direction in which it must be able to deviate, by `demand` units."""

    cell: int
    direction: int
    demand: int


@dataclass(frozen=True)
class Attack:
    """reached: the largest deviation, no more than the demand. deviation: shape (cells,). duals: shape (equations,)."""

    reached: float
    deviation: Floats
    duals: Floats

    def protects(self, target: Target) -> bool:
        """Whether the target deviates as far as it must, up to the solver's tolerance; audits are exact."""
        return self.reached >= target.demand - 1e-6 * max(1.0, target.demand * 1e-3)


class Attacker:
    """Solves for one target after another; patterns may be fractional (shares of a cell's room)."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._transposed = problem.table.equations.T.tocsr()
        equations, none = problem.table.equations, np.zeros(problem.table.cells)
        self._program = Program(none, none, none, primal=True)
        self._program.add(equations, np.zeros(equations.shape[0]), np.zeros(equations.shape[0]))
        self.solved = 0

    def attack(self, target: Target, pattern: Floats) -> Attack:
        """pattern: shape (cells,), from 0 (published) to 1 (suppressed)."""
        room, demand = self._problem.room, float(target.demand)
        lower, upper = -pattern * np.minimum(room[DOWN], demand), pattern * np.minimum(room[UP], demand)
        lower[target.cell] = 0.0 if target.direction == UP else -demand
        upper[target.cell] = demand if target.direction == UP else 0.0
        self._program.bound(lower, upper)
        self._program.price_one(target.cell, -float(target.direction))
        found = self._program.solve()
        self._program.price_one(target.cell, 0.0)
        self.solved += 1
        assert found is not None, "no deviation at all is always possible"
        return Attack(float(found.x[target.cell]) * target.direction, found.x, found.duals)

    def capacities(self, target: Target, duals: Floats) -> Floats:
        """Shape (cells,): capacities such that a pattern y protects the target only if capacities @ y >= demand."""
        rounded = np.rint(duals / _FINEST) * _FINEST
        reduced = -(self._transposed @ rounded)
        # weight d_target = -(the other reduced costs) @ d for every additive d.
        weight = float(reduced[target.cell]) * target.direction
        reduced[target.cell] = 0.0
        if weight <= 0:
            return np.where(self._problem.primary | self._problem.free, float(target.demand), 0.0)
        room = self._problem.room
        with np.errstate(invalid="ignore"):
            found = np.where(reduced < 0, -reduced * room[UP], reduced * room[DOWN])
        return np.where(reduced == 0, 0.0, np.minimum(found / weight, target.demand))
