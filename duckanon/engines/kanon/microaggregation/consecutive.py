"""The least sum of squares of consecutive classes of an order, by dynamic programming.

Source: Hansen and Mukherjee 2003, who find the optimum of one column so: its sorted order has it.
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Codes, Floats, Order


@compiled
def _fill(points: Floats, order: Order, k: int, best: Floats, size: Codes, total: Floats) -> None:
    """For each end the least sum, and the size of the class that stops there. total: room, shape (d,)."""
    n = order.shape[0]
    best[0] = 0.0
    for end in range(1, n + 1):
        best[end] = np.inf
        total[:] = 0.0
        within = 0.0
        for count in range(1, min(2 * k - 1, end) + 1):
            i = order[end - count]
            apart = 0.0
            for j in range(points.shape[1]):
                # The distance from the mean of the others (Welford 1962).
                away = points[i, j] - (total[j] / (count - 1) if count > 1 else points[i, j])
                apart += away * away
                total[j] += points[i, j]
            within += apart * (count - 1) / count
            if count >= k and best[end - count] + within < best[end]:
                best[end] = best[end - count] + within
                size[end] = count


def best_consecutive(points: Floats, order: Order, k: int) -> Labels:
    """Labels of shape (n,), from 0, of classes of k .. 2k - 1 records that follow one another in the order."""
    n = len(order)
    size = np.zeros(n + 1, np.int32)
    _fill(points, order, k, np.empty(n + 1), size, np.empty(points.shape[1]))
    labels, end, label = np.empty(n, np.int32), n, 0
    while end > 0:
        labels[order[end - size[end] : end]] = label
        end, label = end - size[end], label + 1
    return labels
