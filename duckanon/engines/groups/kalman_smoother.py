"""The Kalman smoother of a random walk that starts and ends at zero, with a few unknown trends in it.

One region's numbers of groups deviate from what its parent's shape foretells; summed from above, the deviations are a
walk T_1 = 0, T_(j+1) = T_j - n_j, pinned to zero at both ends because the totals agree, and seen through noise.
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.compiled import compiled, inner
from duckanon.engines.groups.isotonic_regression import Floats


@compiled
def smooth(
    steps: Floats, seen: Floats, blur: Floats, trends: Floats, mean: Floats, spread: Floats
) -> tuple[Floats, Floats, Floats]:
    """Posterior of the steps n_j and of the trends' coefficients, given noisy sights of the walk.

    steps: prior variances of the n_j around coefficients @ trends. seen, blur: T_j as seen, and the variance of its
    noise; number 0 is not looked at. trends: (trends, steps); the coefficients have independent standard normal priors.
    Into mean, spread: posterior means and variances of the n_j.
    Returns the coefficients' means, their covariance, and, for each trend, the means that the n_j would have if the
    walk had been seen to be the trend's own: the residuals' covariance with the coefficients is -own.T @ covariance.
    Source: Durbin and Koopman 2012, chapters 4 and 6 (fixed-interval smoothing; augmented filter for regression).
    """
    length, many = len(steps), len(trends) + 1
    # Column 0 is the walk that was seen, the others the walks of the trends: the filter is linear and treats all alike.
    sights = np.zeros((length + 1, many))
    for j in range(1, length):
        sights[j, 0] = seen[j]
    for k in range(1, many):
        for j in range(length):
            sights[j + 1, k] = sights[j, k] - trends[k - 1, j]
    ahead, filtered = np.zeros((length + 1, many)), np.zeros((length + 1, many))
    ahead_var, filtered_var = np.zeros(length + 1), np.zeros(length + 1)
    products = np.zeros((many, many))
    for j in range(1, length + 1):
        ahead_var[j] = filtered_var[j - 1] + steps[j - 1]
        noise = blur[j] if j < length else 0.0
        total = ahead_var[j] + noise
        gain = ahead_var[j] / total if total > 0 else 0.0
        filtered_var[j] = ahead_var[j] * (1 - gain)
        for k in range(many):
            ahead[j, k] = filtered[j - 1, k]
            filtered[j, k] = ahead[j, k] + gain * (sights[j, k] - ahead[j, k])
            if total > 0:
                for m in range(k + 1):
                    products[k, m] += (sights[j, k] - ahead[j, k]) * (sights[j, m] - ahead[j, m]) / total
    precision = np.zeros((many - 1, many - 1))
    for k in range(many - 1):
        precision[k, k] = 1.0
        for m in range(many - 1):
            precision[k, m] += products[max(k, m) + 1, min(k, m) + 1]
    covariance, coefficients = inverse(precision), np.zeros(many - 1)
    for k in range(many - 1):
        for m in range(many - 1):
            coefficients[k] += covariance[k, m] * products[m + 1, 0]
    own: Floats = np.empty((many - 1, length))
    later, later_var = filtered[length].copy(), filtered_var[length]
    here = np.empty(many)
    pull = np.empty(many - 1)
    for j in range(length - 1, -1, -1):
        back = filtered_var[j] / ahead_var[j + 1] if ahead_var[j + 1] > 0 else 0.0
        here_var = filtered_var[j] + back * back * (later_var - ahead_var[j + 1])
        for k in range(many):
            here[k] = filtered[j, k] + back * (later[k] - ahead[j + 1, k])
        mean[j] = here[0] - later[0]
        spread[j] = max(0.0, here_var + later_var - 2 * back * later_var)
        for k in range(many - 1):
            own[k, j] = here[k + 1] - later[k + 1]
            pull[k] = trends[k, j] - own[k, j]
            mean[j] += coefficients[k] * pull[k]
        for k in range(many - 1):
            for m in range(many - 1):
                spread[j] += pull[k] * covariance[k, m] * pull[m]
        for k in range(many):
            later[k] = here[k]
        later_var = here_var
    return coefficients, covariance, own


@inner
def inverse(matrix: Floats) -> Floats:
    """Of a small positive definite matrix, by Gauss and Jordan; there it needs no pivoting."""
    size = len(matrix)
    found = matrix.copy()
    for k in range(size):
        pivot = found[k, k]
        found[k, k] = 1.0
        for j in range(size):
            found[k, j] /= pivot
        for i in range(size):
            if i != k:
                factor = found[i, k]
                found[i, k] = 0.0
                for j in range(size):
                    found[i, j] -= factor * found[k, j]
    return found
