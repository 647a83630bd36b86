"""The default mechanism: empirical Bayes from the root down, rounded to whole numbers that add up.

Noise is added to t_s = n_s + n_(s+1) + ..., or to n_s where that needs much less noise (`Mechanism.query`). On t_s it
may have another scale for each size, chosen by a first look at the root (`split`), which is used as a measurement too.
The root is estimated by isotonic regression (Hay et al. 2010). Then, level by level, each region's numbers are shrunk
toward its parent's shape, the more the larger the known variance of the noise is (`empirical_bayes`). The children of a
parent then become the nearest table of whole numbers that adds up to the parent's numbers and to the children's totals
(`controlled_rounding`).
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.groups.acceptance_regions import LEVEL
from duckanon.engines.groups.confidence_intervals import draws_of, tail
from duckanon.engines.groups.controlled_rounding import column, fit, project_to_sum
from duckanon.engines.groups.draws import Draws, margin, variance
from duckanon.engines.groups.empirical_bayes import Cells, cells, posterior_cells
from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import Floats, pool_rows, sparse
from duckanon.engines.groups.measurements import MOST, Estimate, Measurements
from duckanon.engines.groups.queries import HISTOGRAM
from duckanon.engines.groups.region_totals import share_out
from duckanon.engines.groups.relaxed_least_squares import upwards

# Standard deviations on either side of an estimate for 95 %; measured coverage: docs/benchmarks.md.
_WIDTH = 1.96


def auto(measured: Measurements) -> Estimate:
    """The mechanism described at the top of this module. Where totals are public, every region keeps its own."""
    tree, plain = measured.hierarchy, measured.query is HISTOGRAM
    curves, variances = upwards(tree, *_with_look(measured))
    if plain:
        above = _plain_root(curves[0][0], variances[0][0, 0], measured.total)
    else:
        above = _root(curves[0], variances[0], measured.total)
    if measured.totals is not None and not plain:
        # t_1 has no noise, and so no variance that anything would use.
        curves = tuple(np.column_stack([known, curve]) for known, curve in zip(measured.totals, curves, strict=True))
        variances = tuple(
            np.column_stack([np.ones(len(level_variances)), level_variances]) for level_variances in variances
        )
    drawn = [measured.noise[0]] * measured.max_size if plain else draws_of(measured, 0)
    low, high = _root_interval(measured, above, drawn)
    spread = np.array([[sum(map(variance, draws)) for draws in drawn]])
    lows, highs = [low], [high]
    for level, families in enumerate(tree.starts):
        parent, curve, blur = tree.parents[level], curves[level + 1], variances[level + 1]
        if measured.totals is not None:
            totals, total_variances = measured.totals[level + 1], np.zeros(len(parent))
        else:
            totals, total_variances = share_out(above, parent, curve, blur, families, plain)
        level_cells = cells(above, parent, totals, curve, blur, plain)
        posterior, cell_variances = posterior_cells(level_cells, measured.max_size)
        groups = fit(level_cells.start, level_cells.size, posterior, cell_variances, above, totals, families)
        spread = _spread(level_cells, parent, cell_variances, spread, above, totals, total_variances)
        most = totals + _whole(np.ceil(_WIDTH * np.sqrt(total_variances)))
        low, high = _interval(groups, spread, above, parent, totals, np.minimum(high[parent], most[:, None]))
        lows.append(low)
        highs.append(high)
        above = groups
    return Estimate(above, (tuple(lows), tuple(highs)))


def _whole(numbers: Floats) -> Ints:
    """As int64, cut to [0, MOST]."""
    return np.clip(numbers, 0, MOST).astype(np.int64)


def _with_look(measured: Measurements) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """The values and their variances, level by level; the look is averaged into the root's, by inverse variances."""
    noisy: list[Floats] = [level.astype(np.float64) for level in measured.values]
    variances = [measured.variances(level) for level in range(len(noisy))]
    if measured.look is not None:
        own, of_look = variances[0], variance(measured.look.noise)
        noisy[0] = (noisy[0] * of_look + measured.look.values * own) / (own + of_look)
        variances[0] = own * of_look / (own + of_look)
    return tuple(noisy), tuple(variances)


def _root(curve: Floats, variances: Floats, total: int | None) -> Ints:
    """The root's groups from noisy t_s, (1, values): differences of the nearest non-increasing whole numbers.

    A public t_1 is not among them. variances: of the values.
    """
    backward = np.ascontiguousarray(curve[:, ::-1]), 0.0, float(MOST if total is None else total)
    steps = _whole(np.rint(pool_rows(*backward, 1 / variances[:, ::-1])))[:, ::-1]
    if total is not None:
        steps = np.column_stack([np.array([[total]]), steps])
    return -np.diff(steps, axis=1, append=0)


def _plain_root(noisy: Floats, noise: float, total: int | None) -> Ints:
    """The root's groups from noisy n_s, (max_size,), by `sparse`; a public total is kept. noise: its variance."""
    estimates, variances = sparse(noisy, noise)
    if total is None:
        rounded = _whole(np.rint(estimates))
        if rounded.sum() <= MOST:
            return rounded[None, :]
        total = MOST
    whole = np.empty(len(estimates), dtype=np.int64)
    column(project_to_sum(estimates, variances, float(total)), total, whole)
    return whole[None, :]


def _root_interval(measured: Measurements, groups: Ints, drawn: list[Draws]) -> tuple[Ints, Ints]:
    """The root's intervals, from the noise alone: cut to what is possible, and widened to include the release.

    drawn: the noise in each size's number.
    """
    total, noisy = measured.total, measured.histogram(0)
    margins = {draws: margin(draws, LEVEL) if draws else 0 for draws in set(drawn)}
    q = np.array([margins[draws] for draws in drawn])
    low = np.minimum(np.maximum(noisy - q, 0), groups)
    high = np.maximum(noisy + q, 0)
    if measured.query is not HISTOGRAM:
        bound = tail(measured.values[0], measured.variances(0))
        high = np.minimum(high, bound if total is None else np.column_stack([np.array([[total]]), bound]))
    if total is not None:
        high = np.minimum(high, total)
    return low, np.maximum(high, groups)


def _spread(
    level_cells: Cells,
    parent: Ints,
    cell_variances: Floats,
    upper: Floats,
    above: Ints,
    totals: Ints,
    total_variances: Floats,
) -> Floats:
    """The variance of each region's numbers: the cell's own, a share of the parent's, and a share of the total's."""
    share = totals / np.maximum(above.sum(axis=1), 1)[parent]
    spread: Floats = upper[parent] * (share * share)[:, None]
    region = np.repeat(np.arange(len(parent)), np.diff(level_cells.start))
    part = level_cells.expected / np.maximum(totals, 1)[region]
    spread[region, level_cells.size] += cell_variances + part * part * total_variances[region]
    return spread


def _interval(groups: Ints, spread: Floats, above: Ints, parent: Ints, totals: Ints, most: Ints) -> tuple[Ints, Ints]:
    """Normal intervals where the parent has groups; elsewhere from 0 to a likely share of the parent's upper end."""
    reach = _WIDTH * np.sqrt(spread)
    low, high = _whole(np.floor(groups - reach)), _whole(np.ceil(groups + reach))
    share = totals / np.maximum(above.sum(axis=1), 1)[parent]
    chance = share[:, None] * most
    unseen = _whole(np.where(chance < 0.025, 0, np.ceil(chance + 2 * np.sqrt(chance))))
    empty = above[parent] == 0
    low[empty], high[empty] = 0, unseen[empty]
    return low, np.maximum(np.minimum(high, most), groups)
