"""Steps that are seen one by one, each through noise of its own, and add up to zero, with a few unknown trends in them.

The same question as `walk` answers, where the noise is on the numbers of groups themselves and not on their sums.
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.groups.isotonic_regression import Floats
from duckanon.engines.groups.kalman_smoother import inverse


@compiled
def look(
    steps: Floats, seen: Floats, blur: Floats, trends: Floats, mean: Floats, spread: Floats
) -> tuple[Floats, Floats, Floats]:
    """Posterior of the steps n_j and of the trends' coefficients, given noisy sights of the steps.

    steps: prior variances of the n_j around coefficients @ trends. seen, blur: n_j as seen, and the variance of its
    noise. trends: (trends, steps); the coefficients have independent standard normal priors. The n_j add up to zero.
    Into mean, spread: posterior means and variances of the n_j. Returns what `walk.smooth` returns.
    Source: Gaussian conditioning. Each sight shrinks its own step by k_j = steps / (steps + blur), which leaves it the
    variance c_j = steps (1 - k_j); the sum, seen to be zero, then moves each by its part of the c. Coefficients: least
    squares of all innovations, the sum's among them, plus their prior.
    """
    length, many = len(steps), len(trends) + 1
    left = np.empty(length)
    # Column 0 is what was seen, the others the trends; all of it is linear. `off`: how far a column's sum is from zero.
    off, products = np.zeros(many), np.zeros((many, many))
    line = np.empty(many)
    rest = 0.0
    for j in range(length):
        total = steps[j] + blur[j]
        gain = steps[j] / total
        left[j] = steps[j] * (1 - gain)
        rest += left[j]
        line[0] = seen[j]
        off[0] -= gain * seen[j]
        for k in range(1, many):
            line[k] = trends[k - 1, j]
            off[k] += (1 - gain) * line[k]
        for k in range(many):
            for m in range(k + 1):
                products[k, m] += line[k] * line[m] / total
    if rest > 0:
        for k in range(many):
            for m in range(k + 1):
                products[k, m] += off[k] * off[m] / rest
    precision = np.zeros((many - 1, many - 1))
    for k in range(many - 1):
        for m in range(many - 1):
            precision[k, m] = products[max(k, m) + 1, min(k, m) + 1] + (1.0 if k == m else 0.0)
    covariance, coefficients = inverse(precision), np.zeros(many - 1)
    for k in range(many - 1):
        for m in range(many - 1):
            coefficients[k] += covariance[k, m] * products[m + 1, 0]
    own: Floats = np.empty((many - 1, length))
    pull = np.empty(many - 1)
    for j in range(length):
        gain = steps[j] / (steps[j] + blur[j])
        part = left[j] / rest if rest > 0 else 0.0
        mean[j] = gain * seen[j] + part * off[0]
        spread[j] = left[j] * (1 - part)
        for k in range(many - 1):
            own[k, j] = gain * trends[k, j] + part * off[k + 1]
            pull[k] = trends[k, j] - own[k, j]
            mean[j] += coefficients[k] * pull[k]
        for k in range(many - 1):
            for m in range(many - 1):
                spread[j] += pull[k] * covariance[k, m] * pull[m]
    return coefficients, covariance, own
