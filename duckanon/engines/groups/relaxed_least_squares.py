"""M_H^r and M_c^r: the models in real numbers, solved by projections, then rounded with all sums kept.

The solution is the point nearest to the noisy values in the intersection of two convex sets: consistent trees with the
right total, and values that are >= 0, or non-decreasing. Projecting onto one set is easy (`upwards`, then `downwards`;
or isotonic regression). Dykstra's algorithm (Boyle and Dykstra 1986) finds the point by projecting onto both in turn.
The paper rounds each value by itself, which breaks the sums; here each parent's whole number is split by largest
remainders.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.compiled import allocating
from duckanon.engines.groups.controlled_rounding import column
from duckanon.engines.groups.hierarchy import Hierarchy, Ints, Number
from duckanon.engines.groups.isotonic_regression import Floats, pool_rows
from duckanon.engines.groups.measurements import Estimate, Measurements


def upwards(
    hierarchy: Hierarchy, values: tuple[NDArray[Number], ...], variances: tuple[Floats, ...]
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """The mean of each region's own values and the sum of its children's, weighted by inverse variances, leaves first.

    values: one array a level, a row a region. variances: one array a level, of each value of a row, or of all, (1,).
    Returns the combined values, and their variances, level by level: (regions, values of a row), or (regions, 1).
    """
    combined: list[Floats] = [values[-1].astype(np.float64)]
    summed: list[Floats] = [np.tile(variances[-1], (len(values[-1]), 1))]
    for level in reversed(range(hierarchy.depth - 1)):
        own, below = variances[level], hierarchy.up(level, summed[-1])
        trust = below / (own + below)
        combined.append(trust * values[level] + (1 - trust) * hierarchy.up(level, combined[-1]))
        summed.append(trust * own)
    return tuple(reversed(combined)), tuple(reversed(summed))


def downwards(
    hierarchy: Hierarchy, root: Floats, combined: tuple[Floats, ...], variances: tuple[Floats, ...]
) -> tuple[Floats, ...]:
    """The consistent values nearest to those that `upwards` combined, given the root's.

    What the children's sum lacks is divided among them in proportion to their variances.
    """
    levels = [root]
    for level, parent in enumerate(hierarchy.parents):
        lower, variance = combined[level + 1], variances[level + 1]
        missing = (levels[-1] - hierarchy.up(level, lower)) / hierarchy.up(level, variance)
        levels.append(lower + variance * missing[parent])
    return tuple(levels)


# The rounds end when both projections agree within this many groups.
_CLOSE = 0.01
_ROUNDS = 2000


def h_relaxed(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, Model 1 without integers (M_H^r)."""
    return _rounded(measured, h_real(measured))


def c_relaxed(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, Model 2 without integers (M_c^r); from above where totals are private."""
    return _rounded(measured, c_real(measured))


def h_real(measured: Measurements) -> tuple[Floats, ...]:
    """The optimum of Model 1 in real numbers, one array a level."""
    total = measured.total

    def meet(root: Floats) -> Floats:
        return root if total is None else root + (total - root.sum()) / root.size

    return _nearest(measured, meet, lambda values: np.maximum(values, 0.0))


def c_real(measured: Measurements) -> tuple[Floats, ...]:
    """The optimum of Model 2 in real numbers, as numbers of groups, one array a level."""
    total = measured.total

    def meet(root: Floats) -> Floats:
        if total is not None:
            root[:, -1] = total
        return root

    if total is not None:
        optimum = _nearest(measured, meet, lambda values: pool_rows(values, 0.0, np.inf))
        return tuple(np.diff(level, axis=1, prepend=0) for level in optimum)
    optimum = _nearest(measured, meet, lambda values: pool_rows(values[:, ::-1].copy(), 0.0, np.inf)[:, ::-1])
    return tuple(-np.diff(level, axis=1, append=0) for level in optimum)


def _nearest(
    measured: Measurements, meet: Callable[[Floats], Floats], admit: Callable[[Floats], Floats]
) -> tuple[Floats, ...]:
    """The nearest consistent values that are admissible, by Dykstra's projections.

    meet: projects the root onto those with the right total. admit: projects a level onto the admissible values.
    Consistent trees are an affine set, which needs no correction term. The result is consistent, and admissible to
    within `_CLOSE`.
    """
    tree = measured.hierarchy
    even = (np.ones(1),) * tree.depth
    points = tuple(level.astype(np.float64) for level in measured.values)
    corrections = tuple(np.zeros_like(level) for level in points)
    for _ in range(_ROUNDS):
        combined, variances = upwards(tree, points, even)
        consistent = downwards(tree, meet(combined[0]), combined, variances)
        moved = tuple(level + correction for level, correction in zip(consistent, corrections, strict=True))
        points = tuple(admit(level) for level in moved)
        corrections = tuple(level - point for level, point in zip(moved, points, strict=True))
        if max(np.abs(a - b).max() for a, b in zip(points, consistent, strict=True)) < _CLOSE:
            break
    return consistent


def _rounded(measured: Measurements, real: tuple[Floats, ...]) -> Estimate:
    """Whole numbers from the root down: the total, then each parent's number, split by largest remainders."""
    root = np.maximum(real[0], 0.0)
    whole = np.empty(root.shape, dtype=np.int64)
    total = measured.total
    column(root[0], round(float(root.sum())) if total is None else total, whole[0])
    for lower, starts in zip(real[1:], measured.hierarchy.starts, strict=True):
        below = np.empty(lower.shape, dtype=np.int64)
        _split(np.maximum(lower, 0.0), whole, starts, below)
        whole = below
    return Estimate(whole)


@allocating
def _split(real: Floats, above: Ints, starts: Ints, out: Ints) -> None:
    for p in range(len(starts) - 1):
        for s in range(real.shape[1]):
            column(real[starts[p] : starts[p + 1], s].copy(), above[p, s], out[starts[p] : starts[p + 1], s])
