"""Cells that are suppressed because somebody decided so: they are protected as sensitive ones are.

Such a cell should be open by a percentage of its value to both sides. What must be published may leave less: then it is
open by one unit, and to one side at least.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check
from duckanon.engines.suppression.attacker import Attacker
from duckanon.engines.suppression.blocks import protected_together
from duckanon.engines.suppression.problem import DOWN, UP, Problem, Required, counted
from duckanon.engines.suppression.rules import Levels
from duckanon.engines.suppression.suppress import all_targets
from duckanon.errors import Infeasible

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def with_requested(demanded: Levels, units: Ints, requested: Bools, percent: float) -> Levels:
    """The levels of the rules, and a percentage of each further cell, at least one unit.

    units, requested: shape (cells,). requested: cells that no rule finds sensitive, and that are not zero.
    """
    level = np.where(requested, np.maximum(1, np.ceil(units * (percent / 100))), 0).astype(np.int64)
    lower, upper = np.maximum(demanded.lower, level), np.maximum(demanded.upper, level)
    return Levels(demanded.primary | requested, lower, upper, demanded.width)


def attainable(problem: Problem, requested: Bools) -> Problem:
    """The problem without demands on those cells that what must be published does not allow. requested: shape (cells,).

    Raises Infeasible if the value of one of them follows from what must be published.
    """
    everything = problem.always | problem.free
    targets = [target for target in all_targets(problem) if requested[target.cell]]
    left, _ = protected_together(problem, everything, targets)
    if not left:
        return problem
    ends = {UP: problem.upper.copy(), DOWN: problem.lower.copy()}
    alike = len(problem.directions) == 1
    attacker = Attacker(problem, everything.astype(np.float64))
    for target in left:
        check()
        attack = attacker.attack(target)
        if not attack.protects(target):
            for way in (UP, DOWN) if alike else (target.direction,):
                ends[way][target.cell] = int(attack.reached > 1 - 1e-6)
    known = int((requested & (ends[UP] == 0) & (ends[DOWN] == 0)).sum())
    if known:
        raise Infeasible(
            f"{counted(known, 'cell')} that apriori suppresses can be computed from cells that are published in any "
            "case, zeros among them: leave lines of apriori out, or suppress cells beside them, too."
        )
    lower, upper = (np.where(requested, ends[way], own) for way, own in ((DOWN, problem.lower), (UP, problem.upper)))
    required = Required(
        np.where(requested, ends[DOWN], problem.required.lower),
        np.where(requested, ends[UP], problem.required.upper),
        problem.required.width,
    )
    return replace(problem, lower=lower, upper=upper, required=required)
