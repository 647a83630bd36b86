"""The Kalman smoother of a random walk for each region, which starts and ends at zero and has a few unknown trends.

A region's numbers of groups deviate by n_j from what its parent's shape predicts, j = 1, ..., max_size. Their sums from
j on, T_1 = 0, T_(j+1) = T_j - n_j, are a random walk. It ends at zero, because the totals agree. T_j is observed with
noise.
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.groups.gaussian_conditioning import Model, Posterior, with_trends
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats


def smooth(model: Model, observed: Floats) -> Posterior:
    """The posterior of the steps n_j, given noisy observations of the walk and its end at zero.

    observed: T_j, (steps,), each with the model's noise; the first of each region, T_1, is not used.
    Source: Durbin and Koopman 2012, chapters 4 and 6 (fixed-interval smoothing; augmented filter for regression).
    """
    regions, row_count = len(model.start) - 1, len(model.trends) + 1
    states = np.zeros((len(model.steps) + regions, row_count))
    variances = np.zeros(len(states))
    products = np.zeros((regions, row_count, row_count))
    _filter(
        model.start,
        model.steps,
        observed,
        model.noise,
        model.trends,
        states,
        variances,
        products,
        np.empty((2, row_count)),
    )
    moves, variance = np.empty((row_count, len(model.steps))), np.empty(len(model.steps))
    _smooth(model.start, model.steps, states, variances, moves, variance)
    return with_trends(model, products, moves, variance)


@compiled
def _filter(
    start: Ints,
    steps: Floats,
    observed: Floats,
    noise: Floats,
    trends: Floats,
    states: Floats,
    variances: Floats,
    products: Floats,
    spare: Floats,
) -> None:
    """Forward: the walk's mean and variance after each observation.

    Into states, (steps + regions, rows), and variances: a region of L steps has L + 1 states, the first of them zero.
    Row 0 is the observed walk; the others are the walks that each trend alone would make. Into products, (regions,
    rows, rows), lower half: sums of products of the rows' innovations, divided by the variance. spare: (2, rows).
    """
    row_count = states.shape[1]
    for c in range(len(start) - 1):
        state = start[c] + c
        for k in range(row_count):
            spare[0, k] = 0.0
        for i in range(start[c], start[c + 1]):
            inside = i + 1 < start[c + 1]
            ahead = variances[state] + steps[i]
            total = ahead + (noise[i + 1] if inside else 0.0)
            gain = ahead / total if total > 0 else 0.0
            variances[state + 1] = ahead * (1 - gain)
            spare[0, 0] = observed[i + 1] if inside else 0.0
            for k in range(row_count):
                if k > 0:
                    spare[0, k] -= trends[k - 1, i]
                spare[1, k] = spare[0, k] - states[state, k]
                states[state + 1, k] = states[state, k] + gain * spare[1, k]
                if total > 0:
                    for m in range(k + 1):
                        products[c, k, m] += spare[1, k] * spare[1, m] / total
            state += 1


@compiled
def _smooth(start: Ints, steps: Floats, states: Floats, variances: Floats, moves: Floats, variance: Floats) -> None:
    """Backward: each step's mean, for each row, into moves, (rows, steps), and its variance. states is overwritten."""
    for c in range(len(start) - 1):
        later = variances[start[c + 1] + c]
        for i in range(start[c + 1] - 1, start[c] - 1, -1):
            state = i + c
            ahead = variances[state] + steps[i]
            back = variances[state] / ahead if ahead > 0 else 0.0
            here = variances[state] + back * back * (later - ahead)
            for k in range(len(moves)):
                states[state, k] += back * (states[state + 1, k] - states[state, k])
                moves[k, i] = states[state, k] - states[state + 1, k]
            variance[i] = max(0.0, here + later - 2 * back * later)
            later = here
