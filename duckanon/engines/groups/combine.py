"""Noisy values of a region and of all regions below it say the same twice: least squares over the tree, in two passes.

Source: Hay, Rastogi, Miklau and Suciu 2010, section 4.1, for any branching and any variances.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.groups.hierarchy import Hierarchy, Number
from duckanon.engines.groups.isotonic import Floats


def upwards(
    hierarchy: Hierarchy, values: tuple[NDArray[Number], ...], variances: tuple[float, ...]
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Each region's own values and the sum of its children's combined, by inverse variances, from the leaves up.

    values: one array a level, a row a region, each with the level's variance.
    Returns the combined values, and each row's variance, level by level.
    """
    combined: list[Floats] = [values[-1].astype(np.float64)]
    doubts = [np.full(len(values[-1]), variances[-1])]
    for level in reversed(range(hierarchy.depth - 1)):
        own, below = variances[level], hierarchy.up(level, doubts[-1])
        trust = below / (own + below)
        combined.append(trust[:, None] * values[level] + (1 - trust)[:, None] * hierarchy.up(level, combined[-1]))
        doubts.append(trust * own)
    return tuple(reversed(combined)), tuple(reversed(doubts))


def downwards(
    hierarchy: Hierarchy, root: Floats, combined: tuple[Floats, ...], doubts: tuple[Floats, ...]
) -> tuple[Floats, ...]:
    """The consistent values nearest to what `upwards` combined, given the root's: what is missing goes by doubt."""
    found = [root]
    for level, parent in enumerate(hierarchy.parents):
        lower, doubt = combined[level + 1], doubts[level + 1]
        missing = (found[-1] - hierarchy.up(level, lower)) / hierarchy.up(level, doubt)[:, None]
        found.append(lower + doubt[:, None] * missing[parent])
    return tuple(found)
