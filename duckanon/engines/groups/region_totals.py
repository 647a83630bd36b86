"""Estimates of each region's private number of groups, from all its noisy counts, not from t_1 alone."""

from __future__ import annotations

import numpy as np

from duckanon.engines.compiled import allocating
from duckanon.engines.groups.controlled_rounding import column, project_to_sum
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats

# The assumed relative variance of each size around the parent's shape. With noise on n_s itself, the sum of all sizes
# estimates the total without any shape; there a larger variance, which relies less on the shape, was measured to be
# better.
_APART, _PLAIN_APART = 0.01, 0.2


def share_out(
    above: Ints, parent: Ints, noisy: Floats, variances: Floats, families: Ints, plain: bool = False
) -> tuple[Ints, Floats]:
    """Whole totals >= 0 that add up to each parent's, near their generalised least-squares estimates; their variances.

    above: the parents' groups. noisy: t_s, or n_s if `plain`, of each region, each with its variance. families: where
    each parent's children begin and end.
    """
    whole = above.sum(axis=1)
    estimate = _estimate_plain if plain else _estimate
    estimates, variance_of = estimate(above, whole, parent, noisy, variances)
    totals = np.empty(len(parent), dtype=np.int64)
    _settle(whole, estimates, variance_of, families, totals)
    return totals, variance_of


@allocating
def _estimate(above: Ints, whole: Ints, parent: Ints, noisy: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Each region's total and its variance. Model: t_s = total * parent's curve + random walk + noise."""
    estimates, variance_of = np.zeros(len(parent)), np.ones(len(parent))
    for c in range(len(parent)):
        p = parent[c]
        if whole[p] == 0:
            continue
        # Twice, because the variance of the random walk depends on the total.
        guess = max(noisy[c, 0], 1.0)
        for _ in range(2):
            squares, products = 0.0, 0.0
            curve, walk, observed, expected = 1.0, 0.0, 0.0, 0.0
            pooled, weights = 0.0, 0.0
            for s in range(above.shape[1]):
                pooled += noisy[c, s] / variances[c, s]
                weights += 1 / variances[c, s]
                if above[p, s] > 0:
                    total = walk + 1 / weights
                    off_observed, off_expected = pooled / weights - observed, curve - expected
                    gain = 0.0
                    if total > 0:
                        squares += off_expected * off_expected / total
                        products += off_expected * off_observed / total
                        gain = walk / total
                    observed += gain * off_observed
                    expected += gain * off_expected
                    part = above[p, s] / whole[p]
                    walk = walk * (1 - gain) + guess * part + _APART * (guess * part) ** 2
                    curve -= part
                    pooled, weights = 0.0, 0.0
            # t after the last size is exactly zero: one more observation, without noise.
            if walk > 0:
                squares += expected * expected / walk
                products += expected * observed / walk
            if squares > 0:
                estimates[c], variance_of[c] = products / squares, 1 / squares
                guess = max(estimates[c], 1.0)
    return estimates, variance_of


@allocating
def _estimate_plain(above: Ints, whole: Ints, parent: Ints, noisy: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """The same from n_s. Model: the total times the parent's shape, plus deviations that add up to zero, plus noise.

    Their covariance is diag(s + v) - s s^T / sum(s), with s the deviations' variances and v the noise's; its inverse is
    by Sherman and Morrison.
    """
    estimates, variance_of = np.zeros(len(parent)), np.ones(len(parent))
    for c in range(len(parent)):
        p = parent[c]
        if whole[p] == 0:
            continue
        guess = 0.0
        for s in range(above.shape[1]):
            if above[p, s] > 0:
                guess += noisy[c, s]
        # Three times, because the deviations' variances depend on the total, and the sum is a rough first estimate.
        for _ in range(3):
            guess = max(guess, 1.0)
            squares, products, moved, pinned, left = 0.0, 0.0, 0.0, 0.0, 0.0
            for s in range(above.shape[1]):
                if above[p, s] > 0:
                    part = above[p, s] / whole[p]
                    own = guess * part + _PLAIN_APART * (guess * part) ** 2
                    total = own + variances[c, s]
                    squares += part * part / total
                    products += part * noisy[c, s] / total
                    moved += part * own / total
                    pinned += own * noisy[c, s] / total
                    left += own * variances[c, s] / total
            squares += moved * moved / left
            products += moved * pinned / left
            estimates[c], variance_of[c] = products / squares, 1 / squares
            guess = estimates[c]
    return estimates, variance_of


@allocating
def _settle(whole: Ints, estimates: Floats, variance_of: Floats, families: Ints, totals: Ints) -> None:
    """Round the estimates to whole totals that add up to each parent's, by weighted least squares, into `totals`."""
    for p in range(len(whole)):
        a, b = families[p], families[p + 1]
        column(project_to_sum(estimates[a:b], variance_of[a:b], float(whole[p])), whole[p], totals[a:b])
