"""Prices fitted to a pool of classes: coordinate ascent on a linear program's dual, smoothed by entropy.

The dual's optimum has the highest prices u that exceed no class of the pool. Smoothed, it is the maximum of
c u - mu sum over classes of exp((u(C) - cost(C)) / mu), where c counts the copies of each point. A step puts one price
where the derivative by it is zero, as far as the terms at hand tell; mu is by how much a class may be exceeded.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.certificate.points import Whole
from duckanon.engines.kanon.certificate.pool import Columns, Pool, Rows
from duckanon.engines.kanon.records import Codes, Floats

# Terms below the greatest by more than this power of e are left out.
_LEFT_OUT = -30.0
# Passes after which the ascent looks whether prices still move, by more than this share of mu; and how often it does.
_PASSES, _MOVES, _ROUNDS = 10, 0.05, 6


@compiled
def _ascend(
    columns: Columns,
    rows: Rows,
    excess: Floats,
    copies: Whole,
    prices: Floats,
    most: Floats,
    order: Codes,
    mu: float,
    passes: int,
) -> float:
    """Change prices in place, keeping them between 0 and `most`; the greatest step of the last pass, as a share of mu.

    excess: room, shape (classes,).
    """
    for c in range(excess.shape[0]):
        excess[c] = -columns.cost[c]
        for e in range(columns.starts[c], columns.starts[c + 1]):
            excess[c] += columns.times[e] * prices[columns.members[e]]
    moved = 0.0
    n = order.shape[0]
    for turn in range(passes):
        moved = 0.0
        for place in range(n):
            i = order[place] if turn % 2 == 0 else order[n - 1 - place]
            first = rows.starts[i]
            last = rows.starts[i + 1]
            if first == last or most[i] <= 0.0:
                continue
            top = -np.inf
            for e in range(first, last):
                top = max(top, excess[rows.column[e]])
            once = 0.0
            twice = 0.0
            times = 1
            for e in range(first, last):
                power = (excess[rows.column[e]] - top) / mu
                if power > _LEFT_OUT:
                    term = rows.times[e] * math.exp(power)
                    once += term
                    twice += term * rows.times[e]
                    times = max(times, rows.times[e])
            step = math.log(copies[i] / once) - top / mu
            # A class with several records of the point moves as many times as far.
            step *= mu / times if step > 0.0 else mu * once / twice
            step = max(min(prices[i] + step, most[i]), 0.0) - prices[i]
            moved = max(moved, abs(step) / mu)
            prices[i] += step
            for e in range(first, last):
                excess[rows.column[e]] += step * rows.times[e]
    return moved


def ascend(
    pool: Pool,
    copies: Whole,
    prices: Floats,
    most: Floats,
    mu: float,
    rng: np.random.Generator,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Fit prices to the pool, in place, until they hardly move or `is_over` is true.

    most: shape (points,), above which no price is useful.
    """
    rows, excess = pool.rows(), np.empty(len(pool))
    for _ in range(_ROUNDS):
        order = rng.permutation(len(prices)).astype(np.int32)
        moved = _ascend(pool.columns, rows, excess, copies, prices, most, order, mu, _PASSES)
        if moved < _MOVES or is_over():
            return
