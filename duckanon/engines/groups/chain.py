"""M_c^ch: cumulative counts in one chain for each level, over all regions, size after size, with the noise needed."""

from __future__ import annotations

import numpy as np

from duckanon.engines.groups.draws import variance
from duckanon.engines.groups.isotonic_regression import pool
from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.errors import InvalidInput


def chain(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, section 9.2 and Model 3, solved exactly by one isotonic regression.

    A region's value in the chain must equal that of the last leaf below it (C9), so equal values are replaced by their
    weighted mean. The chain is monotone (C8) and ends at G (C7). Weights are the inverse variances of the levels'
    noise. They differ, because one person changes as many entries of a level as it has regions. (The paper takes the
    sensitivity to be 1, which is not private.)
    """
    total = measured.total
    if total is None:
        raise InvalidInput("chain needs totals := 'public'.")
    sums, weights = np.zeros(measured.values[-1].shape), np.zeros(measured.values[-1].shape)
    # The last leaf below each region, from the leaves up.
    last = np.arange(measured.hierarchy.sizes[-1])
    for level in reversed(range(measured.hierarchy.depth)):
        trust = 1 / variance(measured.noise[level][0])
        sums[:, last] += trust * measured.values[level]
        weights[:, last] += trust
        if level:
            last = last[measured.hierarchy.starts[level - 1][1:] - 1]
    fitted = np.full(sums.size, float(total))
    fitted[:-1] = pool((sums / weights).reshape(1, -1)[:, :-1], weights.reshape(1, -1)[:, :-1])[0]
    steps = np.rint(np.clip(fitted, 0, total)).astype(np.int64)
    return Estimate(np.ascontiguousarray(np.diff(steps, prepend=0).reshape(sums.shape).T))
