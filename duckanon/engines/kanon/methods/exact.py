"""The optimum, or a certified gap: partitions as a set-partition problem, solved by column generation.

A linear program picks classes so that every record is in one. Its prices, lowered until they are valid
(`certificate.pricing`), add up to a lower bound that holds for every partition, and the classes met on the way are
those that would improve it. When the bound meets the best partition, that one is the optimum. Otherwise every class
that a better partition could use is listed (`kernels.pricing`), and an integer program picks from them; classes of 2k
or more are never needed, as splitting them costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from time import monotonic

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import within
from duckanon.engines.highs import Program, new_highs, solve, solved
from duckanon.engines.kanon.bounds import box_losses
from duckanon.engines.kanon.certificate.certificate import certificate
from duckanon.engines.kanon.certificate.points import GRAINS, Distinct, distinct
from duckanon.engines.kanon.certificate.pool import once
from duckanon.engines.kanon.certificate.pricing import Effort, OutOfTime, Priced, valid_prices
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.box import class_losses, total_loss
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.kernels.pricing import Found, as_class, price
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Floats, Records
from duckanon.errors import InvalidInput

MANY_RECORDS = 2_000
# Share of the best prices so far in those that are tried next: prices that change much from step to step find few
# useful classes.
_SMOOTHING = 0.6
# A reduced cost above this counts as zero.
_ZERO = -1e-9
# A bound that is short of a loss by no more than this share of it meets it: prices are rounded to grains.
_MET = 1e-7
# The shares of a time limit for the prices to begin with, and at which the bound, and a good partition, are left alone.
_FIRST, _BOUNDED, _PICKED = 0.4, 0.6, 0.8
# Classes that each search of a pricing round hands over at most.
_KEPT = 3
# Classes of each seed from which a partition is picked, one try after the other while the gap is larger than a share.
_NEAR, _SMALL = (3, 30), 0.05
# What a seed's search may try at first; ten times as much whenever that is too little, up to the second figure.
_STEPS, _MOST_STEPS = 3_000, 3_000_000
# What all searches together may try, unless there is a time limit.
WORK = 100_000_000
# Rounds without a better bound after which the linear program is given up, unless there is a time limit.
_PATIENCE = 60
# Classes from which the integer program may pick, and how far it goes.
_LISTED, _NODES = 400_000, 20_000


@dataclass(frozen=True, eq=False)
class Solution:
    """labels: shape (n,). loss, bound: summed over records; the loss of no partition is below the bound."""

    labels: Labels
    loss: float
    bound: float

    @property
    def proven(self) -> bool:
        return self.bound >= self.loss - _MET * max(1.0, self.loss)


@dataclass(frozen=True)
class _Clock:
    """How long the method may take. seconds: inf without a limit. until: a time of the monotonic clock."""

    seconds: float
    until: float

    @classmethod
    def started(cls, seconds: float | None) -> _Clock:
        return cls(inf, inf) if seconds is None else cls(seconds, monotonic() + seconds)

    @property
    def is_limited(self) -> bool:
        return self.until < inf

    @property
    def left(self) -> float:
        """Seconds."""
        return self.until - monotonic()

    def over(self, share: float) -> bool:
        """Whether that share of the time is gone."""
        return self.is_limited and self.left < (1 - share) * self.seconds


class _Classes:
    """The classes made so far, and the linear program over them."""

    def __init__(self, n: int) -> None:
        import highspy

        self.n = n
        self.known: dict[tuple[int, ...], float] = {}
        self._highs = new_highs()
        self._infinity = highspy.kHighsInf
        nothing = (np.zeros(0, dtype=np.int32), np.zeros(0))
        for _ in range(n):
            self._highs.addRow(1.0, 1.0, 0, *nothing)

    def add(self, members: tuple[int, ...], cost: float) -> bool:
        """Add a class; False if it was there."""
        if members in self.known:
            return False
        self.known[members] = cost
        rows = np.array(members, dtype=np.int32)
        self._highs.addCol(cost, 0.0, self._infinity, len(rows), rows, np.ones(len(rows)))
        return True

    def add_all(self, labels: Labels, costs: Floats) -> None:
        """Add the classes of a partition. costs: what each loses."""
        edges, inside = _edges(labels), by_label(labels)
        for c, cost in enumerate(costs):
            self.add(tuple(inside[edges[c] : edges[c + 1]].tolist()), float(cost))

    def prices(self) -> tuple[float, Floats]:
        """The linear program's value, and the price of each record."""
        solve(self._highs)
        return float(self._highs.getInfo().objective_function_value), np.array(self._highs.getSolution().row_dual)


def _pick(classes: dict[tuple[int, ...], float], prices: Floats, clock: _Clock) -> tuple[Labels | None, float]:
    """The best partition out of the given classes, by an integer program, and a lower bound on any made of them.

    prices: shape (n,), of the records. Less these, what the classes of a partition lose adds up to its loss less the
    same sum; near the optimum that is nearly zero, and the program is solved many times faster.
    """
    from scipy.sparse import csc_array

    if not classes:
        return None, np.inf
    names = list(classes)
    edges = np.append(0, np.cumsum([len(name) for name in names])).astype(np.int32)
    rows = np.concatenate([np.array(name, dtype=np.int32) for name in names])
    membership = csc_array((np.ones(len(rows)), rows, edges), shape=(len(prices), len(names)))
    limits: dict[str, object] = {"mip_rel_gap": 0.0, "mip_max_nodes": _NODES}
    left = within(clock.left)
    if left < inf:
        limits["time_limit"] = max(left, 0.1)
    costs = np.array([classes[name] for name in names]) - membership.T @ prices
    once, upper = np.ones(len(prices)), np.ones(len(names))
    answer = solved(Program(costs, membership, once, once, 0.0 * upper, upper, whole=upper > 0), **limits)
    if answer.is_infeasible:
        return None, np.inf
    bound = float(answer.bound + prices.sum())
    if answer.x is None:
        return None, bound
    labels = np.full(len(prices), -1, dtype=np.int32)
    for label, c in enumerate(np.flatnonzero(answer.x > 0.5)):
        labels[list(names[c])] = label
    return (labels if labels.min() >= 0 else None), bound


def _pooled(listed: Found) -> Iterable[tuple[tuple[int, ...], float]]:
    for members, cost in zip(listed.members, listed.cost, strict=True):
        yield as_class(members), float(cost)


def _by_point(points: Distinct, prices: Floats) -> npt.NDArray[np.int64]:
    """Prices of records as prices of points, in grains: equal records are worth the same."""
    means = np.bincount(points.of, prices, len(points)) / points.points.copies
    return np.floor(means * GRAINS).astype(np.int64)


def _improving(points: Distinct, priced: Priced, prices: Floats) -> Iterable[tuple[tuple[int, ...], float]]:
    """The classes that were met whose reduced cost is negative, each of the dearest records at its points, and what
    each loses.
    """
    members, times = once(priced.members, priced.times)
    held = members >= 0
    sizes = held.sum(axis=1)
    starts = np.append(0, np.cumsum(sizes)).astype(np.int32)
    if not len(sizes):
        return
    losses = class_losses(points.records.space, members[held], starts) / sizes * times.sum(axis=1)
    dearest = np.lexsort((-prices, points.of)).astype(np.int32)
    first = np.append(0, np.cumsum(points.points.copies))[np.maximum(members, 0)]
    sums = np.append(0.0, np.cumsum(prices[dearest]))
    paid = (sums[first + times] - sums[first]).sum(axis=1)
    for c in np.flatnonzero(losses - paid < _ZERO):
        parts = [dearest[at : at + count] for at, count in zip(first[c, held[c]], times[c, held[c]], strict=True)]
        yield tuple(np.sort(np.concatenate(parts)).tolist()), float(losses[c])


def _first_prices(records: Records, k: int, start: Labels, control: Control) -> Floats:
    """Valid prices to begin with, shape (n,): those of a certificate."""
    box = box_losses(records, k, control.threads)
    if total_loss(records.space, start) <= box.sum():
        return box
    seconds = None if control.seconds is None else _FIRST * control.seconds
    own = replace(control, seconds=seconds, progress=lambda _: None)
    first: Floats = certificate(records, k, box, start, own).prices / GRAINS
    return first


class _Bound:
    """A lower bound on what any partition loses, which column generation raises.

    prices: valid ones, shape (n,), that add up to the bound, `value`. classes: all that were made. tries: what each
    search may try.
    """

    def __init__(self, records: Records, k: int, prices: Floats, steps: int) -> None:
        self.prices, self.value = prices, float(prices.sum())
        self.classes, self.tries = _Classes(len(records)), _STEPS
        self._points, self._k = distinct(records), k
        self._idle, self._left = 0, steps

    def rise(self, loss: float, control: Control, clock: _Clock) -> None:
        """Price and add classes until the bound meets the loss or the linear program, or the effort is spent."""
        while loss - self.value > 1e-9 * max(1.0, loss) and not clock.over(_BOUNDED):
            if not clock.is_limited and (self._idle >= _PATIENCE or self._left <= 0):
                break
            least, prices = self.classes.prices()
            control.progress(min(1.0, self.value / least) if least else 1.0)
            if least - self.value <= _MET * max(1.0, least):
                break
            is_improved, is_complete = self._round(prices, loss, clock)
            if not is_improved:
                if self.tries >= _MOST_STEPS or is_complete:
                    break
                self.tries = min(10 * self.tries, _MOST_STEPS)

    def _round(self, prices: Floats, loss: float, clock: _Clock) -> tuple[bool, bool]:
        """Search at smoothed prices and, if these make no class that improves, at the linear program's own.

        Returns whether a class was added, and whether the last search was complete.
        """
        is_complete = False
        for tried in (_SMOOTHING * self.prices + (1 - _SMOOTHING) * prices, prices):
            try:
                priced = self._searched(tried, clock)
            except OutOfTime:
                break
            self._take(priced, loss)
            is_complete = not priced.cut.any()
            added = [self.classes.add(members, cost) for members, cost in _improving(self._points, priced, prices)]
            if any(added):
                return True, is_complete
        return False, is_complete

    def _searched(self, prices: Floats, clock: _Clock) -> Priced:
        effort = Effort(self.tries, _KEPT)
        return valid_prices(
            self._points, _by_point(self._points, prices), self._k, effort, lambda _: clock.over(_BOUNDED)
        )

    def _take(self, priced: Priced, loss: float) -> None:
        """Keep the prices if they are the best so far."""
        prices = (priced.prices[self._points.of] - self._points.slack) / GRAINS
        lower = float(prices.sum())
        self._idle = 0 if lower > self.value + 1e-6 * loss else self._idle + 1
        self._left -= priced.spent
        if lower > self.value:
            self.value, self.prices = lower, prices


def exact(records: Records, k: int, start: Labels, control: Control, steps: int = WORK) -> Solution:
    """The best partition of a small table, with a proof, or the best found with a bound.

    records: in canonical order. start: a good partition, shape (n,), from 0. Without a time limit the effort is limited
    by counted `steps`, so that the result is the same every time. Raises InvalidInput above `MANY_RECORDS` records.
    """
    if len(records) > MANY_RECORDS:
        raise InvalidInput(
            f"Method 'exact' takes at most {MANY_RECORDS:,} rows: use 'refine', or anonymise parts on their own."
        )
    clock, loss = _Clock.started(control.seconds), total_loss(records.space, start)
    bound = _Bound(records, k, _first_prices(records, k, start, control), steps)
    bound.classes.add_all(start, class_losses(records.space, by_label(start), _edges(start)))
    bound.rise(loss, control, clock)
    solution = Solution(start, loss, min(bound.value, loss))
    if not solution.proven:
        solution = _picked(records, k, solution, bound, clock)
    if solution.proven or clock.over(_PICKED):
        return solution
    return _close(records, k, solution, bound.prices, clock, steps)


def _edges(labels: Labels) -> npt.NDArray[np.int32]:
    """Where each class begins among the records in the order of their labels, and where the last one ends."""
    return np.append(0, np.cumsum(np.bincount(labels))).astype(np.int32)


def _picked(records: Records, k: int, solution: Solution, bound: _Bound, clock: _Clock) -> Solution:
    """The best partition out of the classes that the prices single out: they are few, and may hold no good one."""
    n, space = len(records), records.space
    for keep in _NEAR:
        near = price(space, bound.prices, k, solution.loss - bound.value, keep, keep * n, bound.tries)
        labels, _ = _pick(bound.classes.known | dict(_pooled(near)), bound.prices, clock)
        if labels is not None and (loss := total_loss(space, labels)) < solution.loss:
            solution = Solution(labels, loss, min(bound.value, loss))
        if solution.loss - bound.value <= _SMALL * solution.loss or clock.over(_PICKED):
            break
    return solution


def _close(records: Records, k: int, solution: Solution, prices: Floats, clock: _Clock, steps: int) -> Solution:
    """List every class that a partition better than the best could use, and pick from them."""
    n, space = len(records), records.space
    tries = max(min(_MOST_STEPS, steps // n), 1)
    priced = price(space, prices, k, _ZERO, 1, 4 * n, tries)
    if not priced.complete:
        return solution
    lower = float(prices.sum() + priced.least.sum())
    # Reduced costs of a partition add up to its loss less the sum of prices, and no seed's is below its least.
    slack = solution.loss - lower + 1e-9
    listed = price(space, prices, k, slack + _ZERO, 0, _LISTED, tries)
    if not listed.complete:
        return solution
    classes = dict(_pooled(listed))
    labels, bound = _pick(classes, prices, clock)
    # A partition outside the list is no better than the one at hand.
    bound = max(solution.bound, min(bound, solution.loss))
    if labels is None or (loss := total_loss(space, labels)) >= solution.loss:
        return Solution(solution.labels, solution.loss, bound)
    return Solution(labels, loss, min(bound, loss))
