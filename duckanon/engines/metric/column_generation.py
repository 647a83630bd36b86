"""The default method: column generation over the cone of vectors that a mechanism's columns may be.

A mechanism is the all-ones vector, written as a sum of vectors of the cone with weights >= 0. Each vector is added to
the column of the output where it costs least. Sums of vectors of the cone satisfy metric differential privacy, whatever
the weights. The master program has a row for each record and a column for each vector. Source: papers' README,
section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.metric.interior_point import Interior, solve
from duckanon.engines.metric.pricing import UNLIMITED, Pricing, into_cone
from duckanon.engines.metric.problem import Limits, Program, Solution, Step, relative_gap

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# The weight of the best dual prices so far when they are averaged with the master's (stabilisation).
_SMOOTH = 0.3
# Columns kept for each row.
_MOST_COLUMNS = 4
# The master is solved to this share of the current gap.
_AHEAD = 0.6
# If no vector can be added, it is solved to at most this share of the wanted gap.
_FINEST = 1e-3
# Smaller entries are set to zero in the master, because they only slow it down.
_NEGLIGIBLE = 1e-25
# Another epsilon's program is solved to this gap for the vectors to begin with.
_ROUGH = 1e-2
# How often epsilon is doubled at most, in search of one at which the rays alone make a mechanism.
_DOUBLINGS = 3
# A weight that is negative by no more than this share of the largest is a rounding error.
_NEGATIVE = 1e-12


@dataclass
class Master:
    """The master program.

    vectors: of the cone, shape (vectors, nodes), of mean 1. place: the output where each costs least; cost: there.
    """

    vectors: Floats
    program: Program

    def __post_init__(self) -> None:
        self.vectors, self.place, self.cost = self._priced(self.vectors)

    def _priced(self, vectors: Floats) -> tuple[Floats, Ints, Floats]:
        vectors = vectors / vectors.mean(axis=1, keepdims=True)
        costs = vectors @ self.program.cost
        place = costs.argmin(axis=1)
        return vectors, place, np.take_along_axis(costs, place[:, None], axis=1).ravel()

    def saving(self, vectors: Floats, prices: Floats, least: float) -> Floats:
        """The vectors whose value at these prices, scaled to mean 1, exceeds their cost by more than `least`."""
        vectors, _, cost = self._priced(vectors)
        return vectors[vectors @ prices - cost > least]

    def add(self, vectors: Floats, solved: Interior) -> None:
        """Add vectors; drop old ones of the largest reduced cost if there are too many."""
        nodes = self.vectors.shape[1]
        if len(self.vectors) > _MOST_COLUMNS * nodes:
            cheapest = np.argsort(solved.slack, kind="stable")[: int(0.7 * _MOST_COLUMNS * nodes)]
            kept = np.union1d(cheapest, np.flatnonzero(solved.x > 1e-9 * solved.x.max()))
            # The all-ones vector keeps the program feasible.
            kept = np.union1d(kept, [nodes])
            self.vectors, self.place, self.cost = self.vectors[kept], self.place[kept], self.cost[kept]
        vectors, place, cost = self._priced(vectors)
        self.vectors = np.concatenate([self.vectors, vectors])
        self.place, self.cost = np.concatenate([self.place, place]), np.concatenate([self.cost, cost])

    def solve(self, tolerance: float, until: float) -> Interior | None:
        rows = np.where(self.vectors < _NEGLIGIBLE, 0.0, self.vectors).T
        return solve(np.ascontiguousarray(rows), self.cost, np.ones(len(rows)), tolerance, until)

    def mechanism(self, weights: Floats) -> Floats:
        """The matrix of these weights, shape (nodes, outputs): each vector is in the column where it costs least."""
        used = np.flatnonzero(weights > 0)
        place = self.place[used]
        matrix = np.zeros(self.program.cost.shape)
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        weighed = self.vectors[used[order]] * weights[used[order], None]
        matrix[:, place[order][starts]] = np.add.reduceat(weighed, starts, axis=0).T
        return matrix


def _basis(rays: Floats, cost: Floats) -> Interior | None:
    """Weights and prices if only the ray of each record is used; None if a weight would be negative."""
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
    # BLAS factors matrices of a few hundred rows several times faster with one thread than with many.
    with _libraries().limit(limits=1):
        return _generate(program, limits)[0]


@cache
def _libraries() -> Any:
    # Imported before, so that its thread pool is limited too.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _generate(program: Program, limits: Limits, doublings: int = _DOUBLINGS) -> tuple[Solution, Floats]:
    """A solution, and the vectors that the master had at the end, shape (vectors, nodes).

    doublings: how often epsilon may be doubled for vectors to begin with.
    """
    nodes = len(program.paths)
    scale = float(np.abs(program.cost).max()) / nodes
    if scale == 0:
        first = np.zeros(program.cost.shape)
        first[:, 0] = 1.0
        return Solution(first, 0.0), np.ones((1, nodes))
    begun = _begin(program, limits, doublings)
    master, best, fast, floor, smooth = begun.master, begun.best, begun.fast, begun.floor, _SMOOTH
    pricing = Pricing(program, limits)
    lower, best_prices = -np.inf, np.zeros(nodes)
    history: list[Step] = []
    tolerance, most = 0.1, max(20, nodes // 10)
    while True:
        solved = fast if fast is not None and not history else master.solve(tolerance, limits.until)
        if solved is None:
            break
        best, upper = master.mechanism(solved.x), float(master.cost @ solved.x)
        prices = solved.y if lower == -np.inf else smooth * best_prices + (1 - smooth) * solved.y
        whole = pricing.run(prices, UNLIMITED if fast is not None and not history else most)
        if whole:
            bound = pricing.bound(prices)
            if bound > lower:
                lower, best_prices = bound, prices
        history.append(Step(len(history) + 1, upper, max(lower, floor)))
        limits.tell(history[-1])
        gap = relative_gap(upper, lower)
        if history[-1].gap <= limits.gap or limits.expired:
            break
        # Weights add up to 1, so vectors that save less than this each save less than this together.
        vectors = master.saving(pricing.worth(1e-12 * abs(upper) / nodes), solved.y, _FINEST * limits.gap * abs(upper))
        if not whole and (len(vectors) < 0.05 * len(pricing.values) or gap < 1):
            most = min(most * 3, UNLIMITED)
        if not len(vectors):
            # No vector can be added at these prices: use the master's own prices, and solve it more precisely.
            if whole and smooth == 0 and tolerance <= _FINEST * limits.gap:
                break
            smooth, tolerance = 0.0, max(0.05 * tolerance, _FINEST * limits.gap)
            continue
        smooth = _SMOOTH
        tolerance = min(0.1, max(_AHEAD * min(gap, 1.0), 0.05 * limits.gap))
        master.add(vectors, solved)
    return Solution(best, max(lower, floor), tuple(history)), master.vectors


@dataclass(frozen=True, eq=False)
class _Begun:
    """What the search begins with. best: the exponential mechanism, shape (nodes, outputs), until the master is solved
    once. fast: weights and prices of the rays alone, if they make a mechanism. floor: no mechanism loses less.
    """

    master: Master
    best: Floats
    fast: Interior | None
    floor: float


def _begin(program: Program, limits: Limits, doublings: int) -> _Begun:
    nodes = len(program.paths)
    rays = np.exp(-program.paths)
    fast = _basis(rays, (rays @ program.cost).min(axis=1))
    # The columns of the exponential mechanism and the all-ones vector keep the program feasible.
    half = np.sqrt(rays)
    start = np.concatenate([rays, np.ones((1, nodes)), (half / half.sum(axis=1, keepdims=True)).T])
    weights = np.append(np.zeros(nodes + 1), start[nodes + 1 :].mean(axis=1))
    master = Master(start, program)
    best = master.mechanism(weights)
    if fast is not None:
        mean = rays.mean(axis=1)
        fast = Interior(np.append(fast.x * mean, np.zeros(nodes + 1)), fast.y, master.cost - start @ fast.y, 0.0, 0)
    elif doublings:
        # What is not needed again is let go first: each epsilon holds its own.
        del half, start, master
        vectors, floor = _from_twice(program, limits, doublings - 1)
        return _Begun(Master(np.concatenate([rays, np.ones((1, nodes)), vectors]), program), best, None, floor)
    return _Begun(master, best, fast, -np.inf)


def _from_twice(program: Program, limits: Limits, doublings: int) -> tuple[Floats, float]:
    """Vectors of the program's cone, shape (vectors, nodes), and a lower bound, from the same program at twice the
    epsilon, which is solved roughly.

    Half the logarithms of a vector of that cone are those of a vector of this one, and where the one was useful, so is
    the other. A mechanism is one at twice the epsilon too, so none loses less than the best there.
    """
    part = program.component
    twice = replace(part, edges=part.edges.with_length(2.0 * part.edges.length))
    rough = replace(limits, gap=max(_ROUGH, limits.gap), until=monotonic() + limits.left / 2, tell=lambda _: None)
    solution, vectors = _generate(replace(program, component=twice), rough, doublings)
    logs = np.log(np.maximum(vectors, np.finfo(np.float64).tiny))
    return into_cone(logs / 2, program.edges, limits.threads), solution.lower
