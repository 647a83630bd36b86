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
    """reached: the largest deviation, the demand at most. duals: shape (equations,)."""

    reached: float
    duals: Floats

    def protects(self, target: Target) -> bool:
        """Whether the target deviates as far as it must, up to the solver's tolerance; audits are exact."""
        return self.reached >= target.demand - 1e-6 * max(1.0, target.demand * 1e-3)


class Attacker:
    """Attacks one pattern, one target after another. Patterns may be fractional: shares of each cell's room.

    The program has a column for each cell that is suppressed at all.
    """

    def __init__(self, problem: Problem, pattern: Floats) -> None:
        """pattern: shape (cells,), from 0 (published) to 1 (suppressed)."""
        self._problem = problem
        self._cells = np.flatnonzero(pattern > 0)
        share = pattern[self._cells]
        self._room = {way: share * room[self._cells] for way, room in problem.room.items()}
        self._share, self._whole = share, bool((share == 1.0).all())
        equations, none = problem.table.equations, np.zeros(len(self._cells))
        self._program = Program(none, none, none, primal=True, largest=problem.largest)
        self._program.add(equations[:, self._cells], np.zeros(equations.shape[0]), np.zeros(equations.shape[0]))

    def attack(self, target: Target) -> Attack:
        """How far the target can deviate."""
        demand, at = float(target.demand), int(np.searchsorted(self._cells, target.cell))
        # Fractional patterns: a flow of `demand` units needs no more, and less room gives sharper constraints.
        most = np.inf if self._whole else self._share * demand
        lower, upper = -np.minimum(self._room[DOWN], most), np.minimum(self._room[UP], most)
        lower[at] = 0.0 if target.direction == UP else -demand
        upper[at] = demand if target.direction == UP else 0.0
        self._program.bound(lower, upper)
        self._program.price_one(at, -float(target.direction))
        optimum = self._program.solve()
        self._program.price_one(at, 0.0)
        assert optimum is not None, "no deviation at all is always possible"
        return Attack(float(optimum.x[at]) * target.direction, optimum.duals)


def capacities(problem: Problem, target: Target, duals: Floats) -> Floats:
    """Shape (cells,): capacities such that a pattern y protects the target only if capacities @ y >= demand."""
    rounded = np.rint(duals / _FINEST) * _FINEST
    reduced = -(problem.table.equations.T @ rounded)
    # weight d_target = -(the other reduced costs) @ d for every additive d.
    weight = float(reduced[target.cell]) * target.direction
    reduced[target.cell] = 0.0
    if weight <= 0:
        return np.where(problem.always | problem.free, float(target.demand), 0.0)
    room = problem.room
    with np.errstate(invalid="ignore"):
        coefficients = np.where(reduced < 0, -reduced * room[UP], reduced * room[DOWN])
    return np.where(reduced == 0, 0.0, np.minimum(coefficients / weight, target.demand))
