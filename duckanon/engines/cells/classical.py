"""The classical dynamic program (Algorithm 3.4), run again for every row: a baseline, and a reference for tests."""

from __future__ import annotations

import numpy as np

from duckanon.engines.array_kernels import assign
from duckanon.engines.cells.knapsack import FREE, Feasible, Ints, Knapsack, consecutive, feasible
from duckanon.engines.compiled import allocating
from duckanon.errors import InvalidInput

# The most numbers in one table of the dynamic program: 512 MiB.
_MOST = 2**26


@allocating
def _stages(sums: Ints, uppers: Ints, copies: Ints, last: int, target: int) -> Ints:
    """g(c) once all rows but one of the kind `last` are in: 0 if their multiples can add up to c, else target + 1."""
    g = np.full(target + 1, target + 1, dtype=np.int64)
    g[0] = 0
    before = g.copy()
    for k in range(len(sums)):
        r = sums[k]
        for _ in range(copies[k] - (k == last)):
            if uppers[k] < 0:
                for c in range(r, target + 1):
                    g[c] = min(g[c], g[c - r])
            else:
                assign(before, g)
                for times in range(1, uppers[k] + 1):
                    for c in range(times * r, target + 1):
                        g[c] = min(g[c], before[c - times * r])
    return g


def classical(problem: Knapsack) -> Feasible:
    """Every feasible nu of each kind. O((N - R) rows) steps for each kind; its last stage gives all nu at once.

    Source: Wright and Smucker 2014, Algorithm 3.4; bounded rows by Update 3.3. Raises InvalidInput for N - R >= 2^26.
    """
    target = problem.target
    if target >= _MOST:
        raise InvalidInput("The sample is too large for the classical method: use residues.")
    answers = []
    for k in range(len(problem)):
        item, upper = int(problem.sums[k]), int(problem.uppers[k])
        g = _stages(problem.sums, problem.uppers, problem.copies, k, target)
        top = target // item if upper == FREE else min(upper, target // item)
        within = g[target - item * np.arange(top + 1)] == 0
        answers.append(consecutive(np.flatnonzero(within).tolist()))
    return feasible(answers)
