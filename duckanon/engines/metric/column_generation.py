"""The default method: columns of the mechanism are sums of rays of one cone, generated as they are needed.

A mechanism is the all-ones vector written as a non-negative sum of vectors of the cone, each given to the output where
it costs least; what is summed satisfies metric differential privacy whatever the weights. The master program has one
row a record and one column a vector. Source: papers' README, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.metric.interior_point import Interior, solve
from duckanon.engines.metric.pricing import UNLIMITED, Pricing
from duckanon.engines.metric.problem import Limits, Program, Solution, Step, relative_gap

Floats = npt.NDArray[np.float64]

# How much of the best prices so far is mixed into the master's.
_SMOOTH = 0.3
# Columns kept for each row.
_MOST_COLUMNS = 8
# The master is solved to this share of the gap that is left.
_AHEAD = 0.6
# ... but, where nothing is left to add, finer than this share of the gap that is wanted.
_FINEST = 1e-3
# In the master, smaller entries are zeros: they only slow it down.
_NEGLIGIBLE = 1e-25
# A weight that is no more negative than this, relative to the largest, is rounding.
_NEGATIVE = 1e-12


@dataclass
class Master:
    """Vectors of the cone, shape (vectors, nodes), each of mean 1, and what each costs where it costs least."""

    vectors: Floats
    program: Program

    def __post_init__(self) -> None:
        self.vectors, self.cost = self._priced(self.vectors)

    def _priced(self, vectors: Floats) -> tuple[Floats, Floats]:
        vectors = vectors / vectors.mean(axis=1, keepdims=True)
        return vectors, (vectors @ self.program.cost).min(axis=1)

    def saving(self, vectors: Floats, prices: Floats, least: float) -> Floats:
        """Those of the vectors whose price, at mean 1, is above their cost by more than `least`."""
        vectors, cost = self._priced(vectors)
        return vectors[vectors @ prices - cost > least]

    def add(self, vectors: Floats, solved: Interior) -> None:
        """Add vectors; drop the dearest of the old ones if there are too many."""
        nodes = self.vectors.shape[1]
        if len(self.vectors) + len(vectors) > _MOST_COLUMNS * nodes + len(vectors):
            wanted = np.argsort(solved.slack, kind="stable")[: int(0.7 * _MOST_COLUMNS * nodes)]
            kept = np.union1d(wanted, np.flatnonzero(solved.x > 1e-9 * solved.x.max()))
            # The all-ones vector keeps the program feasible.
            kept = np.union1d(kept, [nodes])
            self.vectors, self.cost = self.vectors[kept], self.cost[kept]
        more, cost = self._priced(vectors)
        self.vectors, self.cost = np.concatenate([self.vectors, more]), np.concatenate([self.cost, cost])

    def solve(self, tolerance: float) -> Interior:
        rows = np.where(self.vectors < _NEGLIGIBLE, 0.0, self.vectors).T
        return solve(np.ascontiguousarray(rows), self.cost, np.ones(len(rows)), tolerance)

    def mechanism(self, weights: Floats) -> Floats:
        """The matrix that weighs the vectors so, each in the output where it costs least: shape (nodes, outputs)."""
        used = np.flatnonzero(weights > 0)
        place = (self.vectors[used] @ self.program.cost).argmin(axis=1)
        found = np.zeros(self.program.cost.shape)
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        weighed = self.vectors[used[order]] * weights[used[order], None]
        found[:, place[order][starts]] = np.add.reduceat(weighed, starts, axis=0).T
        return found


def _basis(rays: Floats, cost: Floats) -> Interior | None:
    """The weights and prices if each record's own ray is used and no other; None if a weight would be negative."""
    from scipy.linalg import LinAlgError, lu_factor, lu_solve

    try:
        factor = lu_factor(rays.T, check_finite=False)
    except (LinAlgError, ValueError):
        return None
    weights = lu_solve(factor, np.ones(len(rays)), check_finite=False)
    prices = lu_solve(factor, cost, trans=1, check_finite=False)
    if not (np.isfinite(weights).all() and np.isfinite(prices).all()):
        return None
    if weights.min() < -_NEGATIVE * weights.max():
        return None
    return Interior(np.maximum(weights, 0.0), prices, cost - rays @ prices, 0.0, 0)


def columns(program: Program, limits: Limits) -> Solution:
    """Column generation to a relative gap of `limits.gap`, or the best there is when the time is up."""
    # Factors of a few hundred rows come several times slower from BLAS threads than from one.
    with _libraries().limit(limits=1):
        return _generate(program, limits)


@cache
def _libraries() -> Any:
    # Loaded first, so that its threads are limited too.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _generate(program: Program, limits: Limits) -> Solution:
    nodes = len(program.paths)
    scale = float(np.abs(program.cost).max()) / nodes
    if scale == 0:
        first = np.zeros(program.cost.shape)
        first[:, 0] = 1.0
        return Solution(first, 0.0)
    rays = np.exp(-program.paths)
    fast = _basis(rays, (rays @ program.cost).min(axis=1))
    # The columns of the exponential mechanism, and the one that says nothing, keep the program feasible.
    half = np.sqrt(rays)
    start = np.concatenate([rays, np.ones((1, nodes)), (half / half.sum(axis=1, keepdims=True)).T])
    master = Master(start, program)
    if fast is not None:
        mean = rays.mean(axis=1)
        fast = Interior(np.append(fast.x * mean, np.zeros(nodes + 1)), fast.y, master.cost - start @ fast.y, 0.0, 0)
    del rays, half, start
    pricing = Pricing(program, limits.threads)
    lower, best_prices = -np.inf, np.zeros(nodes)
    history: list[Step] = []
    tolerance, most = 0.1, max(20, nodes // 10)
    weights, smooth = np.zeros(0), _SMOOTH
    while True:
        solved = fast if fast is not None and not history else master.solve(tolerance)
        weights = solved.x
        upper = float(master.cost @ weights)
        prices = solved.y if lower == -np.inf else smooth * best_prices + (1 - smooth) * solved.y
        whole = pricing.run(prices, UNLIMITED if fast is not None and not history else most)
        if whole:
            found = pricing.bound(prices)
            if found > lower:
                lower, best_prices = found, prices
        history.append(Step(len(history) + 1, upper, lower))
        limits.tell(history[-1])
        gap = relative_gap(upper, lower)
        if gap <= limits.gap or limits.expired:
            break
        # All weights together are 1, so vectors that save less than this each save no more together.
        vectors = master.saving(pricing.worth(1e-12 * abs(upper) / nodes), solved.y, _FINEST * limits.gap * abs(upper))
        if not whole and (len(vectors) < 0.05 * len(pricing.values) or gap < 1):
            most = min(most * 3, UNLIMITED)
        if not len(vectors):
            # Nothing is missing at these prices: only the master's own prices, and better ones, can prove more.
            if whole and smooth == 0 and tolerance <= _FINEST * limits.gap:
                break
            smooth, tolerance = 0.0, max(0.05 * tolerance, _FINEST * limits.gap)
            continue
        smooth = _SMOOTH
        tolerance = min(0.1, max(_AHEAD * min(gap, 1.0), 0.05 * limits.gap))
        master.add(vectors, solved)
    return Solution(master.mechanism(weights), lower, tuple(history))
