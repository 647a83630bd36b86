"""A lower bound on the loss of every k-anonymous partition, certified by prices.

If the prices of the records of each class of k to 2k - 1 add up to no more than the class loses, no partition loses
less than all prices together: classes of 2k or more can be split, which costs nothing. Such prices are found by column
generation at scale: prices are fitted to a pool of classes (`ascent`), made valid by an exact search from each point
(`pricing`), which meets new classes for the pool, and so on. Each round's prices are tried a step away from the best
valid ones so far. Any round's bound holds, however early the search ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import nextafter
from time import monotonic

import numpy as np

from duckanon.engines.kanon.certificate.ascent import ascend
from duckanon.engines.kanon.certificate.growing import grown, near_points
from duckanon.engines.kanon.certificate.points import GRAINS, MOST_POINTS, Distinct, Whole, distinct
from duckanon.engines.kanon.certificate.pool import Pool, as_members
from duckanon.engines.kanon.certificate.pricing import Effort, OutOfTime, total, valid_prices
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.box import class_losses
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.kernels.partition import split_large
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats, Records

# Above this k no search comes far enough to be better than the box bound.
LARGEST_K = 100
# What all searches may look at unless there is a time limit: for each distinct point, and in all. Below the least for
# each, not even the first prices would become valid.
_WORK_EACH, _MOST_WORK, _LEAST_EACH = 5_000, 50_000_000, 200
# Box losses are computed with floats, whose rounding is far below this.
_BOX_ERROR = 1e-9
# Temperature of the ascent: at first and at last, as a share of what a class of the partition loses, and how it cools.
_HOT, _COLD, _COOLING = 0.04, 0.003, 0.75
# Classes that fall behind their prices by so many temperatures leave the pool.
_SLACK = 30.0
# The first step from the best valid prices, at most, and times k. How it changes: after a round that was better, and
# after one that was not. The search ends with steps below the last one.
_FIRST_STEP, _FIRST_BY_K, _LARGEST_STEP, _UP, _DOWN, _LEAST_STEP = 0.5, 2.0, 0.9, 1.25, 0.6, 0.01
_BETTER = 1.0005
# Steps of a search, at first and at most. They rise where searches that were cut short cost more than this share of
# what prices were lowered by, and of the bound.
_STEPS, _MOST_STEPS, _RISE, _OPEN, _MATTERS = 3_000, 1_000_000, 2.0, 0.5, 0.004
# How often prices are fitted to the pool in a round, as long as new classes are more than this share of the points.
_FITS, _FEW = 4, 0.01
# Points whose near points take a fifth of a second to find, or less: a time limit below that does without.
_NEAR_A_SECOND = 10_000
# Classes that a search hands over at most.
_KEEP = 6
# Up to this k the box bound is searched for, and no price is useful that is k times as high.
_SEARCHED = 12


@dataclass(frozen=True, eq=False)
class Certificate:
    """What proves that no partition loses less than `bound`, an information loss.

    prices: shape (n,), in grains of 2^-40, records in the order given, equal ones alike: those of no class of k to
    2k - 1 records add up to more than what it loses beside the floor.
    """

    prices: Whole
    bound: float

    def suppressible(self, floor: float) -> float:
        """A bound that holds where records may be left out too, each of which counts as a loss of 1."""
        return bound_of(np.minimum(self.prices, int((1.0 - floor) * GRAINS) - 1), floor)


def bound_of(prices: Whole, floor: float) -> float:
    """The information loss that prices of all records prove, rounded down. floor: as in `Records`."""
    mean = Fraction(int(prices.astype(object).sum()), GRAINS * len(prices))
    return max(nextafter(nextafter(float(mean), -1.0) + floor, -1.0), 0.0)


def certificate(
    records: Records,
    k: int,
    box: Floats,
    labels: Labels,
    control: Control | None = None,
    work: int | None = None,
) -> Certificate:
    """Prices that prove as high a bound as the effort allows, never below the box bound.

    box: shape (n,), the box bound of each record (`bounds.box_losses`). labels: shape (n,), a partition from 0 into
    classes of at least k; the better it is, the better are the prices. Without a time limit the effort is counted, as
    `work` or by default so that it takes about as long as `auto`, and the result is the same every time.
    """
    control, began = control or Control(), monotonic()
    distinct_points = distinct(records)
    prices = np.zeros(len(distinct_points), np.int64)
    prices[distinct_points.of] = _grains(box - _BOX_ERROR)
    if work is None:
        work = min(_MOST_WORK, _WORK_EACH * len(distinct_points))
    possible = control.seconds is not None or work >= _LEAST_EACH * len(distinct_points)
    if k <= LARGEST_K and len(distinct_points) <= MOST_POINTS and possible:
        affordable = control.seconds is None or len(distinct_points) < control.seconds * _NEAR_A_SECOND
        near = near_points(distinct_points, control.threads) if affordable else None
        rounds = _Rounds(distinct_points, k, prices, split_large(labels, k), near)
        rounds.run(control, work, began)
        prices = rounds.best
    # A class may lose a little less than it is counted with.
    record_prices = prices[distinct_points.of] - distinct_points.slack
    control.progress(1.0)
    return Certificate(record_prices, bound_of(record_prices, records.floor))


def _grains(prices: Floats) -> Whole:
    grains: Whole = np.floor(np.maximum(prices, 0.0) * GRAINS).astype(np.int64)
    return grains


class _Rounds:
    """The search for prices: the best valid ones so far, and those that fit the pool."""

    def __init__(self, distinct_points: Distinct, k: int, first: Whole, labels: Labels, near: Codes | None) -> None:
        self.distinct, self.k, self.best, self.bound = distinct_points, k, first, total(distinct_points, first)
        self.pool, self.rng = Pool(distinct_points), np.random.default_rng(0)
        self.pool.add(*as_members(distinct_points, labels, k))
        self.initial = len(self.pool)
        box = first / GRAINS
        paid = self._paid(labels)
        self.class_loss = k * float(paid @ distinct_points.points.copies) / len(distinct_points.of)
        self.most = k * (box if k <= _SEARCHED else np.maximum(box, paid))
        self.fitted = np.minimum(paid, self.most)
        self.near = near
        self.step = min(_FIRST_STEP, _FIRST_BY_K / k)
        self.temperature, self.effort = _HOT, Effort(_STEPS, _KEEP)

    def _paid(self, labels: Labels) -> Floats:
        """What the records of each point lose in a partition, on average; shape (points,)."""
        starts = np.append(0, np.cumsum(np.bincount(labels))).astype(np.int32)
        sizes = np.diff(starts)
        losses = class_losses(self.distinct.records.space, self.distinct.of[by_label(labels)], starts) / np.maximum(
            sizes, 1
        )
        paid: Floats = np.bincount(self.distinct.of, losses[labels], len(self.distinct)) / self.distinct.points.copies
        return paid

    def run(self, control: Control, work: int, began: float) -> None:
        """Go on until the time, from `began` on, or the work is used up, or prices no longer rise."""
        spent, seconds = 0, control.seconds

        def share(more: int) -> float:
            return (spent + more) / work if seconds is None else (monotonic() - began) / seconds

        self._fit(lambda: share(0) >= 1.0)
        while self.step >= _LEAST_STEP and self.class_loss > 0 and share(0) < 1.0:
            try:
                spent += self._round(lambda more: share(more) >= 1.0)
            except OutOfTime:
                return
            control.progress(min(1.0, share(0)))

    def _round(self, is_over: Callable[[int], bool]) -> int:
        """Try prices a step away from the best ones, and fit the others to the classes met; what was looked at.

        is_over: as for `valid_prices`. Raises OutOfTime.
        """
        best = self.best / GRAINS
        raw = _grains(best + self.step * (self.fitted - best))
        priced = valid_prices(self.distinct, raw, self.k, self.effort, is_over)
        claimed, reached = total(self.distinct, raw), total(self.distinct, priced.prices)
        better = reached > self.bound * _BETTER
        self.step = min(_LARGEST_STEP, self.step * _UP) if better else self.step * _DOWN
        if reached > self.bound:
            self.best, self.bound = priced.prices, reached
        if total(self.distinct, priced.cut) > max(_OPEN * (claimed - reached), _MATTERS * self.bound):
            self.effort = Effort(min(int(self.effort.steps * _RISE), _MOST_STEPS), _KEEP)
        self.pool.add(priced.members, priced.times)
        self.temperature = max(self.temperature * _COOLING, _COLD)
        self._fit(lambda: is_over(priced.spent))
        return priced.spent

    def _fit(self, is_over: Callable[[], bool]) -> None:
        """Fit prices to the pool, and the pool to the prices, by classes that are quickly found."""
        mu = self.temperature * self.class_loss
        self.pool.drop(self.fitted, _SLACK * mu, self.initial)
        for _ in range(_FITS):
            ascend(self.pool, self.distinct.points.copies, self.fitted, self.most, mu, self.rng, is_over)
            if self.near is None:
                return
            new = self.pool.add(*grown(self.distinct, self.near, _grains(self.fitted), self.k))
            if new < _FEW * len(self.distinct) or is_over():
                return
