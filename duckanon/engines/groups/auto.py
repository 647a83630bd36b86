"""The default mechanism: counts from above, empirical Bayes from the root down, margins kept in whole numbers.

Noise on t_s = n_s + n_(s+1) + ..., sensitivity 1; the root by isotonic regression (Hay et al. 2010); then, level by
level, each region's curve is shrunk toward its parent's shape by as much as the known variance of the noise warrants
(`shapes`), and the regions of one parent are moved to the nearest table with the parent's sizes and their own totals
(`margins`).
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.groups.combine import upwards
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.intervals import LEVEL, tail
from duckanon.engines.groups.isotonic import Floats, whole_rows
from duckanon.engines.groups.margins import fit
from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.engines.groups.noise import margin, variance
from duckanon.engines.groups.shapes import Cells, cells, shrunk
from duckanon.engines.groups.totals import share_out

# Standard deviations on either side of an estimate for 95 %; measured coverage: docs/benchmarks.md.
_WIDTH = 1.96


def auto(measured: Measurements) -> Estimate:
    """See above. The release has every region's total where totals are public."""
    tree = measured.hierarchy
    curves, variances = upwards(tree, measured.values, tuple(map(variance, measured.scales)))
    if measured.totals is not None:
        curves = tuple(np.column_stack([known, curve]) for known, curve in zip(measured.totals, curves, strict=True))
    above, low, high, spread = _root(measured, curves[0])
    lows, highs = [low], [high]
    for level, families in enumerate(tree.starts):
        parent, curve, blur = tree.parents[level], curves[level + 1], variances[level + 1]
        if measured.totals is not None:
            totals, unsure = measured.totals[level + 1], np.zeros(len(parent))
        else:
            totals, unsure = share_out(above, parent, curve, blur, families)
        found = cells(above, parent, totals, curve, blur)
        wanted, doubt = shrunk(found, measured.max_size)
        groups = np.empty((len(parent), measured.max_size), dtype=np.int64)
        fit(found.start, found.size, wanted, doubt, above, totals, families, groups)
        spread = _spread(found, parent, doubt, spread, above, totals, unsure)
        most = totals + np.ceil(_WIDTH * np.sqrt(unsure)).astype(np.int64)
        low, high = _interval(groups, spread, above, parent, totals, np.minimum(high[parent], most[:, None]))
        lows.append(low)
        highs.append(high)
        above = groups
    return Estimate(above, (tuple(lows), tuple(highs)))


def _root(measured: Measurements, curve: Floats) -> tuple[Ints, Ints, Ints, Floats]:
    """The root's groups by isotonic regression, an interval from the noise alone, and the variance of what is noisy."""
    total = measured.total
    if total is None:
        steps = whole_rows(np.rint(curve[:, ::-1]).astype(np.int64), 0, np.iinfo(np.int64).max // 2)[:, ::-1]
    else:
        inner = whole_rows(np.rint(curve[:, :0:-1]).astype(np.int64), 0, total)[:, ::-1]
        steps = np.column_stack([np.array([[total]]), inner])
    groups = -np.diff(steps, axis=1, append=0)
    noisy = measured.histogram(0)
    q = margin(measured.scales[0], measured.query.terms, LEVEL)
    low = np.minimum(np.maximum(noisy - q, 0), groups)
    bound = tail(measured.values[0], measured.scales[0])
    if total is not None:
        bound = np.column_stack([np.array([[total]]), np.minimum(bound, total)])
    high = np.maximum(np.minimum(np.maximum(noisy + q, 0), bound), groups)
    return groups, low, high, np.full(groups.shape, 2 * variance(measured.scales[0]))


def _spread(
    found: Cells, parent: Ints, doubt: Floats, upper: Floats, above: Ints, totals: Ints, unsure: Floats
) -> Floats:
    """Variance of each region's numbers: its own, its share of its parent's, its shape's share of its total's."""
    share = totals / np.maximum(above.sum(axis=1), 1)[parent]
    spread: Floats = upper[parent] * (share * share)[:, None]
    region = np.repeat(np.arange(len(parent)), np.diff(found.start))
    part = found.expected / np.maximum(totals, 1)[region]
    spread[region, found.size] += doubt + part * part * unsure[region]
    return spread


def _interval(groups: Ints, spread: Floats, above: Ints, parent: Ints, totals: Ints, most: Ints) -> tuple[Ints, Ints]:
    """Normal intervals where the parent has groups; elsewhere what chance could give it of the parent's high."""
    reach = _WIDTH * np.sqrt(spread)
    low = np.maximum(np.floor(groups - reach), 0).astype(np.int64)
    high = np.ceil(groups + reach).astype(np.int64)
    share = totals / np.maximum(above.sum(axis=1), 1)[parent]
    chance = share[:, None] * most
    unseen = np.where(chance < 0.025, 0, np.ceil(chance + 2 * np.sqrt(chance))).astype(np.int64)
    empty = above[parent] == 0
    low[empty], high[empty] = 0, unseen[empty]
    return low, np.maximum(np.minimum(high, most), groups)
