"""M_H^dp: noise on the counts themselves, then the nearest consistent whole numbers."""

from __future__ import annotations

from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.engines.groups.prices import nearest_tree


def h_dp(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, sections 6 and 7: exact least squares over the tree."""
    return Estimate(nearest_tree(measured.hierarchy, measured.histograms(), measured.total))
