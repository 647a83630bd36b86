"""The whole linear program at once (Qiu 2024, equations 4 to 7), by HiGHS."""

from __future__ import annotations

import numpy as np

from duckanon.cancellation import within
from duckanon.engines import highs
from duckanon.engines.metric.pricing import UNLIMITED, Pricing
from duckanon.engines.metric.problem import Limits, Program, Solution, Step
from duckanon.engines.metric.scaled_program import FINEST, Scaled
from duckanon.errors import InvalidInput

# The most ratios: HiGHS needs about 1.3 kB for each, ten gigabytes in all.
MANY_RATIOS = 8_000_000


def lp(program: Program, limits: Limits) -> Solution:
    """The optimum up to HiGHS's tolerance, and a lower bound that holds whatever HiGHS's errors are.

    Raises InvalidInput above `MANY_RATIOS` ratios, and if the time runs out: there is no solution before the end.
    """
    from scipy.sparse import csc_array, vstack

    nodes, outputs = program.cost.shape
    if len(program.edges.length) * outputs > MANY_RATIOS:
        raise InvalidInput(
            f"The method 'lp' takes at most {MANY_RATIOS:,} ratios, edges times outputs, for want of memory: "
            "take method := 'columns'."
        )
    scaled = Scaled(program)
    place = np.arange(nodes) * outputs
    options = {"primal_feasibility_tolerance": FINEST, "dual_feasibility_tolerance": FINEST}
    left = within(limits.left)
    if left < float("inf"):
        options["time_limit"] = left
    ratios = scaled.ratios(*program.edges.ends, program.edges.length, place, nodes * outputs)
    sums = scaled.sums(np.arange(nodes), place, nodes * outputs)
    rows = csc_array(vstack([ratios, sums], format="csc"))
    none, any_size = np.zeros(nodes * outputs), np.full(nodes * outputs, np.inf)
    least = np.concatenate([np.full(ratios.shape[0], -np.inf), np.ones(nodes)])
    most = np.concatenate([np.zeros(ratios.shape[0]), np.ones(nodes)])
    answer = highs.solved(highs.Program(scaled.cost.ravel(), rows, least, most, none, any_size), **options)
    if answer.is_late:
        raise InvalidInput(
            "The method 'lp' was not done when the time was up: take method := 'columns', or a longer time_limit."
        )
    if answer.x is None:
        raise InvalidInput(
            "HiGHS could not solve the program of the method 'lp' as precisely as is needed: take method := 'columns'."
        )
    matrix = answer.x.reshape(nodes, outputs) * scaled.anchor
    prices = answer.duals[-nodes:] * scaled.scale
    pricing = Pricing(program, limits)
    pricing.run(prices, UNLIMITED)
    step = Step(1, float((matrix * program.cost).sum()), pricing.bound(prices))
    limits.tell(step)
    return Solution(matrix, step.lower, (step,))
