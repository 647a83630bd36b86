"""Weighted sums of discrete Gaussians, enumerated."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

import numpy as np

# Chances below that are left out of the enumeration.
_NOTHING = 1e-14


def chances(variance: float) -> tuple[np.ndarray, np.ndarray]:
    """The values of a discrete Gaussian and their chances."""
    reach = ceil(sqrt(variance) * 9) + 2
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values.astype(np.float64) ** 2) / (2 * variance))
    return values, weights / weights.sum()


def outside(variances: Sequence[float], weights: Sequence[float], width: float) -> float:
    """The chance that a weighted sum of discrete Gaussians is farther from zero than a width, by enumeration."""
    total: tuple[np.ndarray, np.ndarray] = np.zeros(1), np.ones(1)
    for variance, weight in zip(variances, weights, strict=True):
        values, each = chances(variance)
        kept = each > _NOTHING
        sums = np.add.outer(total[0], weight * values[kept]).reshape(-1)
        found = np.multiply.outer(total[1], each[kept]).reshape(-1)
        known, at = np.unique(np.round(sums, 9), return_inverse=True)
        together = np.bincount(at, found)
        total = known[together > _NOTHING], together[together > _NOTHING]
    return float(total[1][np.abs(total[0]) > width + 1e-9].sum())
