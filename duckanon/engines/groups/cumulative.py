"""M_c^dp: noise on cumulative counts, each region made monotone, then the nearest consistent whole numbers."""

from __future__ import annotations

import numpy as np

from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic import whole_rows
from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.engines.groups.prices import nearest_tree

# No bound, and yet safe in sums.
_MOST = 2**60


def c_dp(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, Algorithm 2: isotonic regression in [0, G], rounding, then M_H^dp.

    With private totals the counts come from above and G is no bound; otherwise nothing differs.
    """
    total = measured.total
    if total is None:
        histograms = tuple(_differences(values[:, ::-1], _MOST)[:, ::-1] for values in measured.values)
    else:
        histograms = tuple(_differences(values, total) for values in measured.values)
    return Estimate(nearest_tree(measured.hierarchy, histograms, total))


def _differences(values: Ints, most: int) -> Ints:
    return np.diff(whole_rows(values, 0, most), axis=1, prepend=0)
