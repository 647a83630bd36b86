"""M_c^ch with the noise that its guarantee needs: one chain a level, over all regions, size after size."""

from __future__ import annotations

import numpy as np

from duckanon.engines.groups.discrete_laplace import variance
from duckanon.engines.groups.isotonic_regression import pool
from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.errors import InvalidInput


def chain(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, section 9.2 and Model 3, solved exactly by one isotonic regression.

    A region's place in the chain is tied to the place of the last leaf below it (C9), so the tied values become one,
    their mean; the chain is monotone (C8) and ends at G (C7). Values weigh by the inverse variance of their level's
    noise, which differs here, as the sensitivity does: one person moves as many entries of a level as it has regions.
    (The paper's calibration takes it for 1, and is not private.)
    """
    total = measured.total
    if total is None:
        raise InvalidInput("chain needs totals := 'public'.")
    sums, weights = np.zeros(measured.values[-1].shape), np.zeros(measured.values[-1].shape)
    # The last leaf below each region, from the leaves up.
    last = np.arange(measured.hierarchy.sizes[-1])
    for level in reversed(range(measured.hierarchy.depth)):
        trust = 1 / variance(measured.scales[level])
        sums[:, last] += trust * measured.values[level]
        weights[:, last] += trust
        if level:
            last = last[measured.hierarchy.starts[level - 1][1:] - 1]
    fitted = np.full(sums.size, float(total))
    fitted[:-1] = pool((sums / weights).reshape(1, -1)[:, :-1], weights.reshape(1, -1)[:, :-1])[0]
    steps = np.rint(np.clip(fitted, 0, total)).astype(np.int64)
    return Estimate(np.ascontiguousarray(np.diff(steps, prepend=0).reshape(sums.shape).T))
