"""Equations 1 and 2 as integer programs for HiGHS: a baseline. Bounds only, two programs for each kind of row."""

from __future__ import annotations

import numpy as np

from duckanon.cancellation import check
from duckanon.engines.cells.knapsack import FREE, Extremes, Knapsack
from duckanon.engines.cells.viability import simplify
from duckanon.engines.highs import Program, solved
from duckanon.errors import DuckanonError, InvalidInput

# From here on the solver's floats are not exact enough for the whole numbers that may occur.
_MOST = 2**31


def milp(problem: Knapsack) -> Extremes:
    """The smallest and largest nu of each kind. Kinds that the simplifications of section 3.2 settle are not solved.

    Source: Wright and Smucker 2014, equations 1 and 2; solver HiGHS. Raises InvalidInput for
    N - R >= 2^31, where floats are no longer safe, and DuckanonError if the solver gives up.
    """
    from scipy.sparse import csc_array

    if problem.target >= _MOST:
        raise InvalidInput("The sample is too large for the integer program: use residues.")
    settled = simplify(problem)
    kinds, target = len(problem), problem.target
    # Two variables a kind: one for one of its rows, one for its other rows together.
    own = target // problem.sums
    own = np.where(problem.uppers == FREE, own, np.minimum(own, problem.uppers))
    alike = np.minimum(target // problem.sums, own * (problem.copies - 1))
    equation = csc_array(np.concatenate([problem.sums, problem.sums])[None, :].astype(np.float64))
    right, most = np.array([float(target)]), np.concatenate([own, alike]).astype(np.float64)
    lower, upper = np.full(kinds, -1, dtype=np.int64), np.full(kinds, -1, dtype=np.int64)
    for k in range(kinds):
        check()
        for sign, known, into in ((1.0, settled.lower, lower), (-1.0, settled.upper, upper)):
            if known[k] >= 0 and k:
                into[k] = known[k]
                continue
            cost = np.zeros(2 * kinds)
            cost[k] = sign
            answer = solved(Program(cost, equation, right, right, np.zeros(len(most)), most, whole=most >= 0))
            if answer.is_infeasible:  # and so for every kind
                return Extremes(np.full(kinds, -1, dtype=np.int64), np.full(kinds, -1, dtype=np.int64))
            if not answer.is_optimal or answer.x is None:
                raise DuckanonError("The integer program was not solved: use residues.")
            into[k] = round(float(answer.x[k]))
    return Extremes(lower, upper)
