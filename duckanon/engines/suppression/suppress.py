"""Secondary suppression of least cost: capacity constraints until the cheapest pattern that they allow protects.

1. Primary cells that the primary suppressions alone protect need no more attention.
2. The master program's linear relaxation, with a capacity constraint for every target that an attacker of its
   fractional pattern hits: a lower bound on the cost of any pattern (Fischetti and Salazar 2000).
3. The master program in whole numbers; attackers add constraints until its pattern protects. It then costs least.
4. An audit of the published table alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.attacker import Attacker, Target
from duckanon.engines.suppression.audit import Intervals, Published, intervals
from duckanon.engines.suppression.master import Master
from duckanon.engines.suppression.problem import Problem
from duckanon.errors import DuckanonError, Infeasible

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Rounds of constraints for the relaxation, and of whole patterns.
_RELAXED, _WHOLE = 200, 200


@dataclass(frozen=True)
class Suppression:
    """A pattern and what was proven of it.

    primary, secondary: shape (rows, columns). cells: shape (primary cells,), their flat numbers; lower, upper: the
    values between which attackers can exclude nothing, in units, attained by whole tables (upper may be infinite);
    exact: whether these are proven to be all that attackers hold for possible. demand_lower, demand_upper: the values
    that the rule demands them to hold for possible. cost: of the secondary suppressions. bound: no protecting pattern
    costs less (linear relaxation with capacity constraints). optimal: whether the pattern is one of least cost,
    by the integer solver's own account.
    """

    primary: Bools
    secondary: Bools
    cells: Ints
    lower: Floats
    upper: Floats
    exact: Bools
    demand_lower: Ints
    demand_upper: Ints
    cost: float
    bound: float
    optimal: bool

    @property
    def gap(self) -> float:
        """How far the cost may be from the least one, relative to the bound."""
        return 0.0 if self.cost <= self.bound else (self.cost - self.bound) / max(self.bound, 1e-12)


def suppress(problem: Problem) -> Suppression:
    """A pattern that protects every primary cell. Raises Infeasible if none does."""
    search = _Search(problem)
    bound = search.relax()
    pattern, optimal = search.choose()
    found = audited(problem, pattern)
    if under_protected(problem, found).any():
        raise DuckanonError("The pattern failed its audit; nothing was released: please report this.")
    shape, cells = problem.table.units.shape, found.cells
    return Suppression(
        problem.primary.reshape(shape),
        (pattern & ~problem.primary).reshape(shape),
        cells,
        found.lower,
        found.upper,
        found.exact_lower & found.exact_upper,
        problem.table.flat[cells] - problem.lower[cells],
        problem.table.flat[cells] + problem.upper[cells],
        problem.cost_of(pattern),
        bound,
        optimal,
    )


def audited(problem: Problem, pattern: Bools) -> Intervals:
    """The primary cells' intervals, from the published table alone. pattern: shape (cells,)."""
    published = Published.of(problem.table, pattern, problem.least, problem.most)
    return intervals(published, np.flatnonzero(problem.primary).tolist())


def under_protected(problem: Problem, found: Intervals) -> Bools:
    """Shape (primary cells,): whose interval is narrower than its rule demands."""
    true = problem.table.flat[found.cells]
    return (found.lower > true - problem.lower[found.cells]) | (found.upper < true + problem.upper[found.cells])


class _Search:
    def __init__(self, problem: Problem) -> None:
        self._problem, self._attacker, self._master = problem, Attacker(problem), Master(problem)
        alone = problem.primary.astype(np.float64)
        everything = alone + problem.free
        targets = [
            Target(cell, direction, int(problem.demand[direction][cell]))
            for cell in np.flatnonzero(problem.primary).tolist()
            for direction in problem.directions
            if problem.demand[direction][cell] > 0
        ]
        self._targets = [one for one in targets if not self._attacker.attack(one, alone).protects(one)]
        if any(not self._attacker.attack(one, everything).protects(one) for one in self._targets):
            raise Infeasible("Some cells stay too narrow whatever is suppressed: let more cells be suppressed.")

    def relax(self) -> float:
        """The bound of the linear relaxation."""
        decided = self._master.solve()
        for _ in range(_RELAXED):
            if not self._separate(decided.pattern):
                break
            decided = self._master.solve()
        return max(0.0, decided.bound)

    def choose(self) -> tuple[Bools, bool]:
        """The pattern, shape (cells,), and whether it is proven to cost least."""
        for _ in range(_WHOLE):
            pattern, proven = self._master.choose()
            if self._separate(pattern.astype(np.float64)):
                continue
            if not under_protected(self._problem, audited(self._problem, pattern)).any():
                return pattern, proven
            self._master.forbid(pattern)
        raise DuckanonError("No pattern was found within the rounds allowed: give a larger step.")

    def _separate(self, pattern: Floats) -> int:
        """Add constraints that the pattern violates; how many."""
        added = 0
        for target in self._targets:
            attack = self._attacker.attack(target, pattern)
            if not attack.protects(target):
                added += self._master.cut(target, self._attacker.capacities(target, attack.duals), pattern)
        return added
