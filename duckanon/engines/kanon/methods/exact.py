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
# The share of a time limit for the prices to begin with.
_FIRST = 0.4
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

    def prices(self) -> tuple[float, Floats]:
        """The linear program's value, and the price of each record."""
        solve(self._highs)
        return float(self._highs.getInfo().objective_function_value), np.array(self._highs.getSolution().row_dual)


def _pick(classes: dict[tuple[int, ...], float], prices: Floats, until: float | None) -> tuple[Labels | None, float]:
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
    each = csc_array((np.ones(len(rows)), rows, edges), shape=(len(prices), len(names)))
    limits: dict[str, object] = {"mip_rel_gap": 0.0, "mip_max_nodes": _NODES}
    left = within(inf if until is None else until - monotonic())
    if left < inf:
        limits["time_limit"] = max(left, 0.1)
    costs = np.array([classes[name] for name in names]) - each.T @ prices
    once, one = np.ones(len(prices)), np.ones(len(names))
    answer = solved(Program(costs, each, once, once, 0.0 * one, one, whole=one > 0), **limits)
    if answer.is_infeasible:
        return None, np.inf
    bound = float(answer.bound + prices.sum())
    if answer.x is None:
        return None, bound
    labels = np.full(len(prices), -1, dtype=np.int32)
    for label, c in enumerate(np.flatnonzero(answer.x > 0.5)):
        labels[list(names[c])] = label
    return (labels if labels.min() >= 0 else None), bound


def _pooled(found: Found) -> Iterable[tuple[tuple[int, ...], float]]:
    for members, cost in zip(found.members, found.cost, strict=True):
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


def exact(records: Records, k: int, start: Labels, control: Control, steps: int = WORK) -> Solution:
    """The best partition of a small table, with a proof, or the best found with a bound.

    records: in canonical order. start: a good partition, shape (n,), from 0. Without a time limit the effort is limited
    by counted `steps`, so that the result is the same every time. Raises InvalidInput above `MANY_RECORDS` records.
    """
    n, space = len(records), records.space
    if n > MANY_RECORDS:
        raise InvalidInput(
            f"Method 'exact' takes at most {MANY_RECORDS:,} rows: use 'refine', or anonymise parts on their own."
        )
    seconds = control.seconds
    until = None if seconds is None else monotonic() + seconds
    best, loss = start, total_loss(space, start)
    centre = _first_prices(records, k, start, control)
    bound = float(centre.sum())

    def over(share: float) -> bool:
        return until is not None and seconds is not None and monotonic() > until - (1 - share) * seconds

    def result() -> Solution:
        return Solution(best, loss, min(bound, loss))

    classes, points = _Classes(n), distinct(records)
    edges = np.append(0, np.cumsum(np.bincount(start))).astype(np.int32)
    inside = by_label(start)
    for c, cost in enumerate(class_losses(space, inside, edges)):
        classes.add(tuple(inside[edges[c] : edges[c + 1]].tolist()), float(cost))
    tries, idle, left = _STEPS, 0, steps
    while loss - bound > 1e-9 * max(1.0, loss) and not over(0.6):
        if until is None and (idle >= _PATIENCE or left <= 0):
            break
        value, prices = classes.prices()
        control.progress(min(1.0, bound / value) if value else 1.0)
        if value - bound <= _MET * max(1.0, value):
            break
        added = 0
        for tried in (_SMOOTHING * centre + (1 - _SMOOTHING) * prices, prices):
            try:
                priced = valid_prices(points, _by_point(points, tried), k, Effort(tries, _KEPT), lambda _: over(0.6))
            except OutOfTime:
                break
            each = (priced.prices[points.of] - points.slack) / GRAINS
            lower, complete = float(each.sum()), not priced.cut.any()
            idle += 1
            left -= priced.spent
            if lower > bound:
                idle = 0 if lower > bound + 1e-6 * loss else idle
                bound, centre = lower, each
            for members, cost in _improving(points, priced, prices):
                added += classes.add(members, cost)
            if added:
                break
        if not added:
            if tries >= _MOST_STEPS or complete:
                break
            tries = min(10 * tries, _MOST_STEPS)
    if result().proven:
        return result()
    # The classes that prices single out are few, and may hold no good partition.
    for keep in _NEAR:
        near = price(space, centre, k, loss - bound, keep, keep * n, tries)
        picked, _ = _pick(classes.known | dict(_pooled(near)), centre, until)
        if picked is not None and total_loss(space, picked) < loss:
            best, loss = picked, total_loss(space, picked)
        if loss - bound <= _SMALL * loss or over(0.8):
            break
    if result().proven or over(0.8):
        return result()
    return _close(records, k, result(), centre, until, steps)


def _close(records: Records, k: int, solution: Solution, prices: Floats, until: float | None, steps: int) -> Solution:
    """List every class that a partition better than the best could use, and pick from them."""
    n, space = len(records), records.space
    tries = max(min(_MOST_STEPS, steps // n), 1)
    found = price(space, prices, k, _ZERO, 1, 4 * n, tries)
    if not found.complete:
        return solution
    lower = float(prices.sum() + found.least.sum())
    # Reduced costs of a partition add up to its loss less the sum of prices, and no seed's is below its least.
    slack = solution.loss - lower + 1e-9
    listed = price(space, prices, k, slack + _ZERO, 0, _LISTED, tries)
    if not listed.complete:
        return solution
    classes = dict(_pooled(listed))
    labels, bound = _pick(classes, prices, until)
    # A partition outside the list is no better than the one at hand.
    bound = max(solution.bound, min(bound, solution.loss))
    if labels is None or (loss := total_loss(space, labels)) >= solution.loss:
        return Solution(solution.labels, solution.loss, bound)
    return Solution(labels, loss, min(bound, loss))
