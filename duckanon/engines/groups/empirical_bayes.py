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
from duckanon.engines.groups.gaussian_conditioning import look
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
    mean, spread = np.empty(len(found.size)), np.empty(len(found.size))
    for _ in range(ROUNDS):
        squares, crossed, moments = _expect(
            found.start, found.size, found.expected, found.chance, found.seen, found.blur, found.plain,
            tau, kappa, factors, mean, spread,
        )  # fmt: skip
        common = (squares.sum() + _TAU_WEIGHT * _TENTH) / (counted.sum() + _TAU_WEIGHT)
        tau = (squares + _TAU_WEIGHT * common) / (counted + _TAU_WEIGHT)
        solved = np.linalg.solve(moments + _TAU_WEIGHT * np.eye(FACTORS), crossed[:, :, None])
        factors = np.ascontiguousarray(solved[:, :, 0].T, dtype=np.float64)
    return found.expected + mean, spread


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
def _expect(
    start: Ints,
    size: Ints,
    expected: Floats,
    chance: Floats,
    seen: Floats,
    blur: Floats,
    plain: bool,
    tau: Floats,
    kappa: Floats,
    factors: Floats,
    mean: Floats,
    spread: Floats,
) -> tuple[Floats, Floats, Floats]:
    """One round: each region's posterior into `mean` and `spread`, its new kappa, and sums over regions for each size.

    The sums: squares of e_s / kappa, products of the relative deviation with f / kappa, and products of f with f /
    kappa.
    """
    many, sizes = factors.shape
    squares, crossed, moments = np.zeros(sizes), np.zeros((sizes, many)), np.zeros((sizes, many, many))
    for c in range(len(start) - 1):
        a, b = start[c], start[c + 1]
        if a == b:
            continue
        length = b - a
        own_variance, steps, trends = np.empty(length), np.empty(length), np.empty((many, length))
        for j in range(length):
            own_variance[j] = tau[size[a + j]] * kappa[c] * expected[a + j] ** 2
            steps[j] = own_variance[j] + chance[a + j]
            for k in range(many):
                trends[k, j] = expected[a + j] * factors[k, size[a + j]]
        if plain:
            f, covariance, own = look(steps, seen[a:b], blur[a:b], trends, mean[a:b], spread[a:b])
        else:
            f, covariance, own = smooth(steps, seen[a:b], blur[a:b], trends, mean[a:b], spread[a:b])
        strange = 0.0
        for j in range(length):
            if expected[a + j] <= 0 or steps[j] <= 0:
                continue
            s = size[a + j]
            rest, rest_variance = mean[a + j], spread[a + j]
            for k in range(many):
                rest -= f[k] * trends[k, j]
                for m in range(many):
                    # The spread is that of all the deviation; the residual's swaps the pull of the trends for `own`.
                    pull = (trends[k, j] - own[k, j]) * (trends[m, j] - own[m, j])
                    rest_variance += (own[k, j] * own[m, j] - pull) * covariance[k, m]
            part = own_variance[j] / steps[j]
            square = (part * part * (rest * rest + max(0.0, rest_variance)) + part * chance[a + j]) / expected[
                a + j
            ] ** 2
            strange += square / tau[s]
            square /= kappa[c]
            squares[s] += square
            relative = part * rest / expected[a + j]
            for k in range(many):
                together = relative * f[k]
                for m in range(many):
                    product = f[k] * f[m] + covariance[k, m]
                    moments[s, k, m] += product / kappa[c]
                    together += factors[m, s] * product
                    together -= part * own[m, j] * covariance[m, k] / expected[a + j]
                crossed[s, k] += together / kappa[c]
        kappa[c] = (strange + _KAPPA_WEIGHT) / (length + _KAPPA_WEIGHT)
    return squares, crossed, moments
