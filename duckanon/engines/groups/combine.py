"""Noisy cumulative counts of a region and of all regions below it say the same twice: their best linear combination."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np

from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.isotonic import Floats


def variance(scale: Fraction) -> float:
    """Of the double-geometric distribution: 2 a / (1 - a)^2, a = exp(-1 / scale)."""
    a = exp(-1 / scale)
    return 2 * a / (1 - a) ** 2 if a > 0 else 0.0


def upwards(
    hierarchy: Hierarchy, values: tuple[Ints, ...], scales: tuple[Fraction, ...]
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Each region's own values and the sum of its children's combined, weighted by inverse variances, from the leaves up.

    values: one array a level, a row a region. Returns the combined values, and each row's variance, level by level.
    Source: the upward pass of Hay, Rastogi, Miklau and Suciu 2010, section 4, for any branching and split of epsilon.
    """
    combined = [values[-1].astype(np.float64)]
    variances = [np.full(len(values[-1]), variance(scales[-1]))]
    for level in reversed(range(hierarchy.depth - 1)):
        own, below = variance(scales[level]), hierarchy.up(level, variances[-1])
        trust = np.divide(below, own + below, out=np.ones_like(below), where=own + below > 0)
        sums = hierarchy.up(level, combined[-1])
        combined.append(trust[:, None] * values[level] + (1 - trust)[:, None] * sums)
        variances.append(trust * own)
    return tuple(reversed(combined)), tuple(reversed(variances))
