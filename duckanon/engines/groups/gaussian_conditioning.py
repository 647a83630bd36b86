"""Posteriors of many small Gaussian models at once, one a region; they have the same form and no parameters in common.

A region has steps n_j that add up to zero. Their prior is independent and normal around coefficients @ trends; the
coefficients are normal too. Here each step is observed with noise of its own. `kalman_smoother` has the same model with
noise on the steps' running sums instead.

Regions lie one after another in flat arrays: the steps of region c are start[c]:start[c + 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats


@dataclass(frozen=True, eq=False)
class Model:
    """start: (regions + 1,). steps: prior variances of the steps around coefficients @ trends, (steps,).

    trends: (trends, steps); the coefficients have independent standard normal priors. noise: the variance of each
    observation's noise, (steps,).
    """

    start: Ints
    steps: Floats
    trends: Floats
    noise: Floats


@dataclass(frozen=True, eq=False)
class Posterior:
    """mean, variance: of the steps, (steps,). coefficients: (regions, trends). covariance: theirs, (regions, trends,
    trends).

    own: (trends, steps): for each trend, the means the steps would have had, had the observations been the trend itself
    without noise. The covariance of the residuals with the coefficients is -own.T @ covariance.
    """

    mean: Floats
    variance: Floats
    coefficients: Floats
    covariance: Floats
    own: Floats


def condition(model: Model, observed: Floats) -> Posterior:
    """The posterior given noisy observations of the steps, and that each region's steps add up to zero.

    Source: Gaussian conditioning. Each observation shrinks its own step by gain = steps / (steps + noise), which leaves
    it the variance steps (1 - gain); that the sum is zero then moves each step by its share of these variances.
    """
    regions, row_count = len(model.start) - 1, len(model.trends) + 1
    rest, missing, products = (
        np.zeros(regions),
        np.zeros((regions, row_count)),
        np.zeros((regions, row_count, row_count)),
    )
    _shrink(model.start, model.steps, observed, model.noise, model.trends, rest, missing, products)
    means, variance = np.empty((row_count, len(model.steps))), np.empty(len(model.steps))
    _pin(model.start, model.steps, observed, model.noise, model.trends, rest, missing, means, variance)
    return with_trends(model, products, means, variance)


@compiled
def _shrink(
    start: Ints,
    steps: Floats,
    observed: Floats,
    noise: Floats,
    trends: Floats,
    rest: Floats,
    missing: Floats,
    products: Floats,
) -> None:
    """The effect of each observation on its own step. Row 0 is what was observed, the others are the trends, treated
    alike.

    Into rest, (regions,): the variance that the steps' sum is left with. Into missing, (regions, rows): how far the sum
    of each row is from zero. Into products, (regions, rows, rows), lower half: sums of products of the rows'
    innovations, divided by their variances; the sum's own is among them.
    """
    row_count = missing.shape[1]
    for c in range(len(start) - 1):
        for i in range(start[c], start[c + 1]):
            total = steps[i] + noise[i]
            gain = steps[i] / total
            rest[c] += steps[i] * (1 - gain)
            missing[c, 0] -= gain * observed[i]
            for k in range(row_count):
                row = observed[i] if k == 0 else trends[k - 1, i]
                if k > 0:
                    missing[c, k] += (1 - gain) * row
                for m in range(k + 1):
                    products[c, k, m] += row * (observed[i] if m == 0 else trends[m - 1, i]) / total
        if rest[c] > 0:
            for k in range(row_count):
                for m in range(k + 1):
                    products[c, k, m] += missing[c, k] * missing[c, m] / rest[c]


@compiled
def _pin(
    start: Ints,
    steps: Floats,
    observed: Floats,
    noise: Floats,
    trends: Floats,
    rest: Floats,
    missing: Floats,
    means: Floats,
    variance: Floats,
) -> None:
    """Each step's mean, for each row, into means, (rows, steps), and its variance, now that the sum is zero."""
    for c in range(len(start) - 1):
        for i in range(start[c], start[c + 1]):
            gain = steps[i] / (steps[i] + noise[i])
            left = steps[i] * (1 - gain)
            share = left / rest[c] if rest[c] > 0 else 0.0
            variance[i] = left * (1 - share)
            means[0, i] = gain * observed[i] + share * missing[c, 0]
            for k in range(1, len(means)):
                means[k, i] = gain * trends[k - 1, i] + share * missing[c, k]


def with_trends(model: Model, products: Floats, means: Floats, variance: Floats) -> Posterior:
    """The posterior with unknown trends, from what each row of data gives without them (augmented regression).

    products: (regions, rows, rows), lower half, as in `_shrink`. means: (rows, steps). variance: of the steps.
    """
    trend_count = len(model.trends)
    precision = np.empty((len(products), trend_count, trend_count))
    for k in range(trend_count):
        for m in range(trend_count):
            precision[:, k, m] = products[:, max(k, m) + 1, min(k, m) + 1] + (k == m)
    covariance = inverses(precision)
    coefficients = np.zeros((len(products), trend_count))
    for k in range(trend_count):
        for m in range(trend_count):
            coefficients[:, k] += covariance[:, k, m] * products[:, m + 1, 0]
    _add_trends(model.start, model.trends, coefficients, covariance, means, variance)
    return Posterior(means[0], variance, coefficients, covariance, means[1:])


@compiled
def _add_trends(
    start: Ints, trends: Floats, coefficients: Floats, covariance: Floats, means: Floats, variance: Floats
) -> None:
    """Add to row 0 of means the coefficients' part, and to variance the part of their uncertainty."""
    trend_count = len(trends)
    for c in range(len(start) - 1):
        for i in range(start[c], start[c + 1]):
            for k in range(trend_count):
                pull = trends[k, i] - means[k + 1, i]
                means[0, i] += coefficients[c, k] * pull
                for m in range(trend_count):
                    variance[i] += pull * covariance[c, k, m] * (trends[m, i] - means[m + 1, i])


def inverses(matrices: Floats) -> Floats:
    """Of small positive definite matrices, (matrices, size, size), by Gauss and Jordan; these need no pivoting."""
    inverted = matrices.copy()
    size = inverted.shape[1]
    for k in range(size):
        pivot = inverted[:, k, k].copy()
        inverted[:, k, k] = 1.0
        inverted[:, k] /= pivot[:, None]
        for i in range(size):
            if i != k:
                factor = inverted[:, i, k].copy()
                inverted[:, i, k] = 0.0
                inverted[:, i] -= factor[:, None] * inverted[:, k]
    return inverted
