"""What no partition into classes of at least k has less than, as a sum of squares, and better classes on the way.

A class of 2k points or more can be split without raising its sum, so classes of k to 2k - 1 suffice. A linear program
picks from those met so far, so that each point is in one (column generation; Aloise, Hansen, Rocha and Santi 2014). Its
prices, a step away from the best valid ones so far, are made valid by searches (`pricing`), which meet classes that
would improve it. When there are none, triples that its solution violates get a price (subset-row cuts). At times a
partition is picked from all classes by an integer program.

Sums are floats, with a relative error far below `_ERROR`; prices are lowered by more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import inf
from time import monotonic

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import within
from duckanon.engines.highs import Program, new_highs, solve, solved
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.microaggregation.local_search import class_sums
from duckanon.engines.kanon.microaggregation.pricing import (
    OutOfTime,
    Space,
    least_distances,
    triples,
    valid_prices,
)
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats

# The relative error of sums of squares and of prices that is allowed for.
_ERROR = 1e-12
# The step from the best valid prices, at first, at most, and how it changes after a better and after another round.
_STEP, _LARGEST, _LEAST, _UP, _DOWN = 0.5, 0.9, 0.05, 1.25, 0.7
# Steps of a search, and classes that each hands over at most. The same when classes for a partition are gathered, and
# how much higher prices are then, as a share of the best gap.
_STEPS, _KEEP = 100_000, 6
_GATHERED, _HIGHER = 12, 1.0
# A bound that is this near to the linear program's value is as good; a bound this near to the best partition is met.
_NEAR, _MET = 5e-4, 1e-9
# Triples that get a price at a time, and how much more than one class they must have.
_TRIPLES, _VIOLATED = 1_000, 0.01
# What all searches may look at, in pairs, unless there is a time limit; and rounds, at most.
_WORK, _ROUNDS = 3_000_000_000, 400
# Classes of the integer program, for each point, and its nodes, at most; and the gap that it may leave.
_PICKED, _NODES, _ENOUGH = 4, 50, 1e-3


@dataclass(frozen=True, eq=False)
class Proven:
    """labels: shape (n,), the best classes met. sum, bound: of squares; no partition has less than the bound.

    prices: shape (n,), or None: of no class do they add up to more than its sum of squares. With `cuts` they prove the
    bound only beside prices of triples.
    """

    labels: Labels
    sum: float
    bound: float
    prices: Floats | None = None


class _Program:
    """The linear program over the classes met so far: each point in one, and at most one for each triple."""

    def __init__(self, points: Floats, k: int) -> None:
        import highspy

        self._points, self._most, self._infinity = points, 2 * k - 1, highspy.kHighsInf
        self._highs = new_highs()
        self.first = 0  # classes that stand first, a partition
        self.known: dict[tuple[int, ...], float] = {}
        self.triples = np.zeros((0, 3), np.int32)
        self._members = np.zeros((0, self._most), np.int32)
        for _ in range(len(points)):
            self._highs.addRow(1.0, 1.0, 0, np.zeros(0, np.int32), np.zeros(0))

    def sums(self, members: Codes) -> Floats:
        """The sums of squares of classes, shape (classes, 2k - 1), -1 behind the last member."""
        held = (members >= 0)[:, :, None]
        held_points = np.where(held, self._points[np.maximum(members, 0)], 0.0)
        means = held_points.sum(axis=1) / held.sum(axis=1)
        away = np.where(held, held_points - means[:, None], 0.0)
        sums: Floats = (away * away).sum(axis=(1, 2))
        return sums

    def add(self, members: Codes) -> int:
        """Add classes; how many are new."""
        members = np.sort(np.where(members < 0, len(self._points), members), axis=1)
        members = np.where(members == len(self._points), -1, members).astype(np.int32)
        fresh = []
        for row, cost in zip(members, self.sums(members), strict=True):
            inside = row[row >= 0]
            name = tuple(inside.tolist())
            if name in self.known:
                continue
            self.known[name] = float(cost)
            fresh.append(row)
            cut_rows = len(self._points) + np.flatnonzero(np.isin(self.triples, inside).sum(axis=1) >= 2)
            rows = np.concatenate([inside, cut_rows]).astype(np.int32)
            self._highs.addCol(float(cost), 0.0, self._infinity, len(rows), rows, np.ones(len(rows)))
        self._members = np.concatenate([self._members, np.array(fresh, np.int32).reshape(-1, self._most)])
        return len(fresh)

    def pick(self, prices: Floats, paid: Floats, slack: float, until: float | None) -> Labels | None:
        """The best partition out of the classes met, by an integer program; None if none is found.

        It is less than `slack` above the bound of these valid prices, so classes that are not can be left out.
        """
        from scipy.sparse import csc_array, vstack

        n, held = len(self._points), self._members >= 0
        cuts = _pairs_of(self._members, self.triples)
        costs = np.array(list(self.known.values()))
        more = costs - np.where(held, prices[np.maximum(self._members, 0)], 0).sum(axis=1)
        more += cuts[:, : len(paid)] @ paid
        more[: self.first] = -np.inf
        kept = np.argsort(more, kind="stable")[: _PICKED * n]
        kept = np.sort(kept[more[kept] <= slack])
        members, cuts, held = self._members[kept], cuts[kept], held[kept]
        membership = csc_array((np.ones(int(held.sum())), (members[held], np.nonzero(held)[0])), shape=(n, len(kept)))
        rows = csc_array(vstack([membership, csc_array(cuts.T.astype(np.float64))]))
        least = np.append(np.ones(n), np.full(len(self.triples), -np.inf))
        limits: dict[str, object] = {"mip_rel_gap": _ENOUGH, "mip_max_nodes": _NODES}
        seconds = within(inf if until is None else until - monotonic())
        if seconds < inf:
            limits["time_limit"] = max(seconds, 0.1)
        lower, upper = np.zeros(len(kept)), np.ones(len(kept))
        program = Program(costs[kept], rows, least, np.ones(len(least)), lower, upper, whole=upper > 0)
        answer = solved(program, **limits)
        if answer.x is None:
            return None
        labels = np.full(n, -1, np.int32)
        for label, c in enumerate(np.flatnonzero(answer.x > 0.5)):
            labels[members[c][held[c]]] = label
        return labels if labels.min() >= 0 else None

    def solve(self) -> tuple[float, Floats, Floats, Floats]:
        """Its value, the prices of points and of triples, and how much of each class is taken."""
        solve(self._highs)
        solution, n = self._highs.getSolution(), len(self._points)
        dual = np.array(solution.row_dual)
        objective = float(self._highs.getInfo().objective_function_value)
        return objective, dual[:n], np.maximum(-dual[n:], 0.0), np.array(solution.col_value)

    def cut(self, shares: Floats) -> int:
        """Give the triples a row of which classes with two or more are taken more than once; how many there are."""
        used = np.flatnonzero(shares > 1e-6)
        pairs, whole = dict[tuple[int, int], float](), dict[tuple[int, int, int], float]()
        beside = dict[int, set[int]]()
        for c in used:
            inside = [int(i) for i in self._members[c] if i >= 0]
            for pair in combinations(inside, 2):
                pairs[pair] = pairs.get(pair, 0.0) + float(shares[c])
                beside.setdefault(pair[0], set()).add(pair[1])
            for three in combinations(inside, 3):
                whole[three] = whole.get(three, 0.0) + float(shares[c])
        violated = []
        for (a, b), share in pairs.items():
            for third in beside[a] & beside.get(b, set()):
                more = share + pairs[a, third] + pairs[b, third] - 2.0 * whole.get((a, b, third), 0.0)
                if more > 1.0 + _VIOLATED:
                    violated.append((-more, a, b, third))
        chosen = [violation[1:] for violation in sorted(violated)[:_TRIPLES]]
        for three in chosen:
            rows = np.flatnonzero(np.isin(self._members, three).sum(axis=1) >= 2).astype(np.int32)
            self._highs.addRow(-self._infinity, 1.0, len(rows), rows, np.ones(len(rows)))
        self.triples = np.concatenate([self.triples, np.array(chosen, np.int32).reshape(-1, 3)])
        return len(chosen)


def _pairs_of(members: Codes, three: Codes) -> npt.NDArray[np.bool_]:
    """Which classes have two or more points of which triples. Shape (classes, triples)."""
    counts = np.zeros((len(members), len(three)), np.int8)
    for x in range(members.shape[1]):
        for part in range(3):
            counts += members[:, x, None] == three[None, :, part]
    return counts >= 2


def _as_members(labels: Labels, k: int) -> Codes:
    order, sizes = by_label(labels), np.bincount(labels)
    members = np.full((len(sizes), 2 * k - 1), -1, np.int32)
    members[labels[order], np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)] = order
    return members


class _Search:
    """The best partition and the best valid prices so far."""

    def __init__(self, points: Floats, k: int, labels: Labels, control: Control, *, cuts: bool) -> None:
        self.points, self.k, self.labels, self.control, self.cuts = points, k, labels, control, cuts
        self.least = least_distances(points, 2 * k - 1)
        self.sum = float(class_sums(points, labels).sum())
        self.program = _Program(points, k)
        self.program.first = self.program.add(_as_members(labels, k))
        self.until = None if control.seconds is None else monotonic() + control.seconds
        self.spent, self.bound = 0, 0.0
        self.prices, self.paid, self.step = np.zeros(len(points)), np.zeros(0), _STEP

    def is_over(self, more: int) -> bool:
        if self.until is not None:
            return monotonic() > self.until
        return self.spent + more > _WORK

    def valid(self, raw: Floats, paid: Floats, keep: int) -> tuple[Floats, float, Codes]:
        """Valid prices near these, their bound, and the classes met."""
        space = Space(self.points, self.least, triples(self.program.triples, paid, len(raw)))
        prices, met, looked = valid_prices(space, np.maximum(raw, 0.0), self.k, (_STEPS, keep), self.is_over)
        self.spent += looked
        prices = prices - 4 * _ERROR * (np.abs(prices) + paid.sum())
        return prices, float(prices.sum() - paid.sum()) * (1.0 - _ERROR), met

    def round(self) -> bool:
        """Try prices a step away from the best ones. False if there is nothing to add."""
        objective, raw, paid, shares = self.program.solve()
        before = np.concatenate([self.paid, np.zeros(len(paid) - len(self.paid))])
        tried = before + self.step * (paid - before)
        prices, bound, met = self.valid(self.prices + self.step * (raw - self.prices), tried, _KEEP)
        better, near = bound > self.bound, objective - max(bound, self.bound) < _NEAR * self.sum
        if better:
            self.prices, self.paid, self.bound = prices, tried, bound
        fresh = self.program.add(met)
        if near or (not fresh and self.step >= 1.0):
            self.step = _STEP
            return self.cuts and self.program.cut(shares) > 0
        if not fresh:
            self.step = 1.0
        else:
            self.step = min(_LARGEST, self.step * _UP) if better else max(_LEAST, self.step * _DOWN)
        return True

    def pick(self) -> None:
        """Gather classes whose prices nearly pay for them, and pick a partition from all."""
        higher = self.prices + _HIGHER * (self.sum - self.bound) / len(self.prices)
        self.program.add(self.valid(higher, self.paid, _GATHERED)[2])
        labels = self.program.pick(self.prices, self.paid, self.sum - self.bound, self.until)
        if labels is None:
            return
        total = float(class_sums(self.points, labels).sum())
        if total < self.sum:
            self.labels, self.sum = labels, total


def prove(points: Floats, k: int, labels: Labels, control: Control, *, cuts: bool = True) -> Proven:
    """A bound for the points, shape (n, d), and a partition that is no worse than the one given, of k .. 2k - 1.

    cuts: whether triples may have prices too; without them the prices of points alone prove the bound, and no better
    partition is looked for. Without a time limit the effort is counted, and the result is the same every time.
    """
    search = _Search(points, k, labels, control, cuts=cuts)
    try:
        for turn in range(_ROUNDS):
            if search.sum - search.bound <= _MET * search.sum or search.is_over(0):
                break
            control.progress(turn / _ROUNDS)
            if not search.round():
                break
        if cuts:
            search.pick()
    except OutOfTime:
        pass
    return Proven(search.labels, search.sum, min(search.bound, search.sum), search.prices)
