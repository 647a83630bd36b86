"""The whole linear program at once (Qiu 2024, equations 4 to 7), by HiGHS.

Solved in u with Z_ik = exp(-D_ir) u_ik, r being the node that output k costs least: ratios of u are near 1, where those
of Z span hundreds of decimals and a solver's tolerance would let them go to infinity (papers' README, section 4).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.metric.pricing import UNLIMITED, Pricing
from duckanon.engines.metric.problem import Limits, Program, Solution, Step
from duckanon.errors import InvalidInput

Floats = npt.NDArray[np.float64]

# Bounds of ratios beyond exp of this are left to the repair: the solver would take them for errors.
_WIDEST = 60.0
# The finest tolerance that HiGHS takes.
_FINEST = 1e-10


def lp(program: Program, limits: Limits) -> Solution:
    """The optimum to HiGHS's tolerance, with a bound that does not depend on it.

    Raises InvalidInput if the time does not suffice: there is no solution before the end.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, csr_array

    nodes, outputs = program.cost.shape
    anchor = np.exp(-program.paths[:, program.roots])
    first, second = program.edges.ends
    pairs = len(first)
    # exp(-a/2) u_i - exp(a/2) u_j <= 0 with a = w_ij + D_ir - D_jr, for each edge and output.
    reach = program.paths[:, program.roots]
    allowed = np.minimum(program.edges.length[:, None] + reach[first] - reach[second], _WIDEST).ravel()
    row = np.arange(pairs * outputs)
    k = np.tile(np.arange(outputs), pairs)
    here, there = np.repeat(first, outputs) * outputs + k, np.repeat(second, outputs) * outputs + k
    ratios = coo_array(
        (
            np.concatenate([np.exp(-allowed / 2), -np.exp(allowed / 2)]),
            (np.concatenate([row, row]), np.concatenate([here, there])),
        ),
        shape=(len(row), nodes * outputs),
    ).tocsr()
    sums = csr_array(
        (anchor.ravel(), np.arange(nodes * outputs), np.arange(nodes + 1) * outputs), shape=(nodes, nodes * outputs)
    )
    # A solver's tolerances are absolute: the largest loss becomes 1.
    scale = float(program.cost.max()) or 1.0
    options = {"primal_feasibility_tolerance": _FINEST, "dual_feasibility_tolerance": _FINEST}
    if limits.left < float("inf"):
        options["time_limit"] = limits.left
    found = linprog(
        (program.cost / scale * anchor).ravel(),
        A_ub=ratios,
        b_ub=np.zeros(len(row)),
        A_eq=sums,
        b_eq=np.ones(nodes),
        method="highs",
        options=options,
    )
    if found.x is None or found.status == 1:
        raise InvalidInput(
            "The method 'lp' was not done when the time was up: take method := 'columns', or a longer time_limit."
        )
    matrix = found.x.reshape(nodes, outputs) * anchor
    prices = np.asarray(found.eqlin.marginals) * scale
    pricing = Pricing(program, limits.threads)
    pricing.run(prices, UNLIMITED)
    lower = pricing.bound(prices)
    step = Step(1, float((matrix * program.cost).sum()), lower)
    limits.tell(step)
    return Solution(matrix, lower, (step,))
