"""Empirical Bayes estimates of group sizes: each region's distribution of sizes is shrunk toward its parent's.

The shape of a region is the share of its groups that have each size. How much shapes differ from their parents' is
estimated from all regions of a level together, and then used for each region. The model of a region with G groups,
under a parent that has M groups, m_s of them of size s, with share w = G / M:

    n_s = w m_s (1 + f . h_s + e_s) + c_s

h: the FACTORS main ways in which the shapes of a level differ, for each size (factor loadings).
f: the region's factors, independent and standard normal.
e_s: the region's own deviation, of variance kappa tau_s: tau_s is the same for the level, kappa for the region.
c_s: sampling deviation, of variance w m_s (1 - w).

h, tau and kappa are fitted to the noisy counts by expectation and maximisation (Dempster, Laird and Rubin 1977). That
is post-processing, so it costs no privacy. The larger the known variance of the noise, the more a region's estimate is
pulled toward its parent's shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.groups.gaussian_conditioning import Model, condition
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats
from duckanon.engines.groups.kalman_smoother import smooth

FACTORS = 2
ROUNDS = 30
# The prior: shapes differ from their parent's by a tenth, variance 0.01. Its weight is that of so many regions (tau, h)
# or sizes (kappa).
_TENTH = 0.01
_TAU_WEIGHT, _KAPPA_WEIGHT = 5.0, 4.0
# How many cells are computed at a time.
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells (region, size) of one level in which the region's parent has groups; others must be empty.

    start: region c has the cells start[c]:start[c + 1]. size: of each cell, from 0. expected: w m_s.
    chance: w m_s (1 - w). deviation: the observation of each cell less what is expected of it: the noisy cumulative
    count t_s, averaged over sizes between which t_s cannot change, by inverse variances; or the noisy n_s, if `plain`.
    blur: the variance of the observation's noise.
    """

    start: Ints
    size: Ints
    expected: Floats
    chance: Floats
    deviation: Floats
    blur: Floats
    plain: bool


def cells(above: Ints, parent: Ints, totals: Ints, noisy: Floats, variances: Floats, plain: bool = False) -> Cells:
    """The cells of a level. above: the groups of the parents, (parents, max_size).

    noisy: t_s or, if `plain`, n_s; (regions, max_size). variances: of its noise, (regions, max_size).
    """
    whole = above.sum(axis=1)[parent]
    share = np.divide(totals, whole, out=np.zeros(len(parent)), where=whole > 0)
    table = share[:, None] * above[parent]
    region, size = np.nonzero(above[parent] > 0)
    start = np.concatenate([[0], np.cumsum(np.bincount(region, minlength=len(parent)))])
    expected = table[region, size]
    chance = expected * (1 - share[region])
    if plain:
        deviation, blur = noisy[region, size] - expected, variances[region, size]
        return Cells(start, size, expected, chance, deviation, blur, plain)
    # The expected t_s: the total less the expected numbers of all smaller sizes.
    left = np.cumsum(np.column_stack([totals.astype(np.float64), -table[:, :-1]]), axis=1)[region, size]
    first = np.concatenate([[0], size[:-1] + 1])
    first[start[:-1][np.diff(start) > 0]] = 0
    mean, blur = _run_means(noisy, variances, region, first, size)
    return Cells(start, size, expected, chance, mean - left, blur, plain)


def _run_means(noisy: Floats, variances: Floats, region: Ints, first: Ints, last: Ints) -> tuple[Floats, Floats]:
    """Means of noisy[region, first], ..., noisy[region, last], weighted by inverse variances, and their variances.

    Where the parent has no groups of a size, t_s does not change, so its observations are averaged.
    """
    weights = 1 / variances[region, first]
    sums = noisy[region, first] * weights
    longer, ahead = np.flatnonzero(last > first), 1
    while len(longer):
        at = region[longer], first[longer] + ahead
        sums[longer] += noisy[at] / variances[at]
        weights[longer] += 1 / variances[at]
        ahead += 1
        longer = longer[last[longer] - first[longer] >= ahead]
    return sums / weights, 1 / weights


def posterior_cells(level_cells: Cells, sizes: int) -> tuple[Floats, Floats]:
    """Posterior mean and variance of each cell's number of groups under the fitted model."""
    tau, kappa = np.full(sizes, _TENTH), np.ones(len(level_cells.start) - 1)
    counted = np.bincount(level_cells.size, minlength=sizes)
    factors = _first_factors(level_cells, sizes)
    blocks = list(_blocks(level_cells))
    for _ in range(ROUNDS):
        squares, crossed, squared = np.zeros(sizes), np.zeros((sizes, FACTORS)), np.zeros((sizes, FACTORS, FACTORS))
        posteriors = [_expect(cells, tau, kappa[own], factors, squares, crossed, squared) for own, cells in blocks]
        common = (squares.sum() + _TAU_WEIGHT * _TENTH) / (counted.sum() + _TAU_WEIGHT)
        tau = (squares + _TAU_WEIGHT * common) / (counted + _TAU_WEIGHT)
        solved = np.linalg.solve(squared + _TAU_WEIGHT * np.eye(FACTORS), crossed[:, :, None])
        factors = np.ascontiguousarray(solved[:, :, 0].T, dtype=np.float64)
    mean, variance = (np.concatenate(part) for part in zip(*posteriors, strict=True))
    return level_cells.expected + mean, variance


def _blocks(level_cells: Cells) -> Iterator[tuple[slice, Cells]]:
    """The cells in blocks of whole regions, small enough that intermediate results stay in the processor's cache."""
    ends = np.searchsorted(level_cells.start, np.arange(_BLOCK, level_cells.start[-1] + _BLOCK, _BLOCK))
    bounds = np.unique(
        np.concatenate([[0], np.minimum(ends, len(level_cells.start) - 1), [len(level_cells.start) - 1]])
    ).tolist()
    for a, b in pairwise(bounds):
        own = slice(level_cells.start[a], level_cells.start[b])
        expected, chance, deviation, blur = (
            numbers[own]
            for numbers in (level_cells.expected, level_cells.chance, level_cells.deviation, level_cells.blur)
        )
        start = level_cells.start[a : b + 1] - level_cells.start[a]
        yield slice(a, b), Cells(start, level_cells.size[own], expected, chance, deviation, blur, level_cells.plain)


def _expect(
    level_cells: Cells, tau: Floats, kappa: Floats, factors: Floats, squares: Floats, crossed: Floats, squared: Floats
) -> tuple[Floats, Floats]:
    """The posterior mean and variance of each cell's deviation. Adds the sums that maximisation needs: `_moments`."""
    # `take` is faster than indexing. All sizes are in [0, sizes), so clipping changes nothing.
    own_variance = tau.take(level_cells.size, mode="clip")
    own_variance *= np.repeat(kappa, np.diff(level_cells.start))
    own_variance *= level_cells.expected * level_cells.expected
    trends = factors.take(level_cells.size, axis=1, mode="clip")
    trends *= level_cells.expected
    model = Model(level_cells.start, own_variance + level_cells.chance, trends, level_cells.blur)
    posterior = condition(model, level_cells.deviation) if level_cells.plain else smooth(model, level_cells.deviation)
    _moments(
        level_cells.start, level_cells.size, level_cells.expected, level_cells.chance, own_variance, trends,
        posterior.mean, posterior.variance, posterior.own, posterior.coefficients, posterior.covariance, tau, factors,
        kappa, squares, crossed, squared,
    )  # fmt: skip
    return posterior.mean, posterior.variance


def _first_factors(level_cells: Cells, sizes: int) -> Floats:
    """The starting point of h: a line and a parabola in log(size), orthogonal under the expected groups."""
    weight = np.bincount(level_cells.size, level_cells.expected, minlength=sizes)
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
    # A constant, so that the compiler unrolls the loops over it.
    factor_count = FACTORS
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
            for k in range(factor_count):
                rest -= f[c, k] * trends[k, i]
                for m in range(factor_count):
                    # The posterior variance is that of the whole deviation; the residual's has `own` for the trends.
                    pull = (trends[k, i] - own[k, i]) * (trends[m, i] - own[m, i])
                    rest_variance += (own[k, i] * own[m, i] - pull) * covariance[c, k, m]
            part = own_variance[i] / steps
            square = part * part * (rest * rest + max(0.0, rest_variance)) + part * chance[i]
            square /= expected[i] * expected[i]
            strange += square / tau[s]
            squares[s] += square / kappa[c]
            relative = part * rest / expected[i]
            for k in range(factor_count):
                together = relative * f[c, k]
                for m in range(factor_count):
                    product = f[c, k] * f[c, m] + covariance[c, k, m]
                    squared[s, k, m] += product / kappa[c]
                    together += factors[m, s] * product
                    together -= part * own[m, i] * covariance[c, m, k] / expected[i]
                crossed[s, k] += together / kappa[c]
        kappa[c] = (strange + _KAPPA_WEIGHT) / (start[c + 1] - start[c] + _KAPPA_WEIGHT)
