"""Empirical Bayes: how far shapes lie from their parent's, and what that says of each region.

The model of a region with G groups under a parent with m_s of size s out of M, share w = G / M:

    n_s = w m_s (1 + f . h_s + e_s) + (what chance adds, variance w m_s (1 - w))

f, standard normal, one a region and factor: where the region stands in the FACTORS main ways in which shapes differ (h,
common to the level). e_s has variance kappa tau_s: tau_s common to the level, kappa one a region, for some regions are
just different. All of it is fitted to the noisy counts alone by expectation and maximisation (Dempster, Laird and Rubin
1977), so it costs no privacy, and the noise's known variance decides how much is shrunk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.groups.gaussian_conditioning import Model, condition
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats
from duckanon.engines.groups.kalman_smoother import smooth

FACTORS = 2
ROUNDS = 30
# What is believed before the data speaks: shapes differ by a tenth, with the weight of so many regions (or sizes).
_TENTH = 0.01
_TAU_WEIGHT, _KAPPA_WEIGHT = 5.0, 4.0


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one level that can hold groups: the sizes that the region's parent has.

    start: region c has the cells start[c]:start[c + 1]. size: of each, from 0. expected: w m_s. chance: w m_s (1 - w).
    seen, blur: the mean of the noisy cumulative counts that stand for the cell, less the expected, and its variance.
    plain: noise was on the numbers themselves, and `seen` is the noisy number less the expected.
    """

    start: Ints
    size: Ints
    expected: Floats
    chance: Floats
    seen: Floats
    blur: Floats
    plain: bool


def cells(above: Ints, parent: Ints, totals: Ints, noisy: Floats, variances: Floats, plain: bool = False) -> Cells:
    """The cells under `above`, the parents' groups.

    noisy: t_s or, if `plain`, n_s; (regions, max_size), with each region's variance.
    """
    active = (above > 0).sum(axis=1)
    start = np.concatenate([[0], np.cumsum(active[parent])])
    size = np.empty(start[-1], dtype=np.int64)
    expected, chance, seen, blur = (np.empty(start[-1]) for _ in range(4))
    found = Cells(start, size, expected, chance, seen, blur, plain)
    _gather(
        above, above.sum(axis=1), parent, totals, noisy, variances, plain,
        start, size, found.expected, found.chance, found.seen, found.blur,
    )  # fmt: skip
    return found


@compiled
def _gather(
    above: Ints,
    whole: Ints,
    parent: Ints,
    totals: Ints,
    noisy: Floats,
    variances: Floats,
    plain: bool,
    start: Ints,
    size: Ints,
    expected: Floats,
    chance: Floats,
    seen: Floats,
    blur: Floats,
) -> None:
    for c in range(len(parent)):
        p, cell = parent[c], start[c]
        share = totals[c] / whole[p] if whole[p] > 0 else 0.0
        left = float(totals[c])
        # Where the parent has no groups the walk stands still, and several sights of one place are averaged.
        pooled, sights = 0.0, 0
        for s in range(above.shape[1]):
            pooled += noisy[c, s]
            sights += 1
            if above[p, s] > 0:
                size[cell] = s
                expected[cell] = share * above[p, s]
                chance[cell] = expected[cell] * (1 - share)
                if plain:
                    seen[cell], blur[cell] = noisy[c, s] - expected[cell], variances[c]
                else:
                    seen[cell], blur[cell] = pooled / sights - left, variances[c] / sights
                left -= expected[cell]
                pooled, sights = 0.0, 0
                cell += 1


def shrunk(found: Cells, sizes: int) -> tuple[Floats, Floats]:
    """Posterior mean and variance of each cell's number of groups under the fitted model."""
    tau, kappa = np.full(sizes, _TENTH), np.ones(len(found.start) - 1)
    counted = np.bincount(found.size, minlength=sizes)
    factors = _first_factors(found, sizes)
    region = np.repeat(np.arange(len(kappa)), np.diff(found.start))
    posterior_of = condition if found.plain else smooth
    for _ in range(ROUNDS):
        own_variance = tau[found.size] * kappa[region] * (found.expected * found.expected)
        trends = found.expected * factors[:, found.size]
        posterior = posterior_of(Model(found.start, own_variance + found.chance, trends, found.blur), found.seen)
        squares, crossed, squared = np.zeros(sizes), np.zeros((sizes, FACTORS)), np.zeros((sizes, FACTORS, FACTORS))
        _moments(
            found.start, found.size, found.expected, found.chance, own_variance, trends, posterior.mean,
            posterior.variance, posterior.own, posterior.coefficients, posterior.covariance, tau, factors, kappa,
            squares, crossed, squared,
        )  # fmt: skip
        common = (squares.sum() + _TAU_WEIGHT * _TENTH) / (counted.sum() + _TAU_WEIGHT)
        tau = (squares + _TAU_WEIGHT * common) / (counted + _TAU_WEIGHT)
        solved = np.linalg.solve(squared + _TAU_WEIGHT * np.eye(FACTORS), crossed[:, :, None])
        factors = np.ascontiguousarray(solved[:, :, 0].T, dtype=np.float64)
    return found.expected + posterior.mean, posterior.variance


def _first_factors(found: Cells, sizes: int) -> Floats:
    """Where the search starts: slope and bend over the logarithm of the size, orthogonal under the expected groups."""
    weight = np.bincount(found.size, found.expected, minlength=sizes)
    basis: list[Floats] = [np.ones(sizes)]
    for power, height in ((1, 0.1), (2, 0.05)):
        curve: Floats = np.log(np.arange(1, sizes + 1)) ** power
        for other in basis:
            curve = curve - other * (weight @ (curve * other)) / max(float(weight @ (other * other)), 1e-300)
        length = np.sqrt(weight @ (curve * curve) / max(float(weight.sum()), 1e-300))
        basis.append(np.clip(curve * height / length, -0.5, 0.5) if length > 1e-9 else np.zeros(sizes))
    return np.array(basis[1:])


@compiled
def _moments(
    start: Ints,
    size: Ints,
    expected: Floats,
    chance: Floats,
    own_variance: Floats,
    trends: Floats,
    mean: Floats,
    variance: Floats,
    own: Floats,
    f: Floats,
    covariance: Floats,
    tau: Floats,
    factors: Floats,
    kappa: Floats,
    squares: Floats,
    crossed: Floats,
    squared: Floats,
) -> None:
    """Expectations under the posterior: each region's new kappa into `kappa`, and sums over regions for each size.

    The sums: into squares, (sizes,), e_s^2 / kappa; into crossed, (sizes, factors), the relative deviation times
    f / kappa; into squared, (sizes, factors, factors), f f' / kappa. f: the posterior means, (regions, factors).
    """
    many = len(factors)
    for c in range(len(start) - 1):
        if start[c] == start[c + 1]:
            continue
        strange = 0.0
        for i in range(start[c], start[c + 1]):
            steps = own_variance[i] + chance[i]
            if expected[i] <= 0 or steps <= 0:
                continue
            s = size[i]
            rest, rest_variance = mean[i], variance[i]
            for k in range(many):
                rest -= f[c, k] * trends[k, i]
                for m in range(many):
                    # The posterior variance is that of the whole deviation; the residual's has `own` for the trends.
                    pull = (trends[k, i] - own[k, i]) * (trends[m, i] - own[m, i])
                    rest_variance += (own[k, i] * own[m, i] - pull) * covariance[c, k, m]
            part = own_variance[i] / steps
            square = part * part * (rest * rest + max(0.0, rest_variance)) + part * chance[i]
            square /= expected[i] * expected[i]
            strange += square / tau[s]
            squares[s] += square / kappa[c]
            relative = part * rest / expected[i]
            for k in range(many):
                together = relative * f[c, k]
                for m in range(many):
                    product = f[c, k] * f[c, m] + covariance[c, k, m]
                    squared[s, k, m] += product / kappa[c]
                    together += factors[m, s] * product
                    together -= part * own[m, i] * covariance[c, m, k] / expected[i]
                crossed[s, k] += together / kappa[c]
        kappa[c] = (strange + _KAPPA_WEIGHT) / (start[c + 1] - start[c] + _KAPPA_WEIGHT)
