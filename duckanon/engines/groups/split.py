"""How an epsilon or a rho is divided over the levels of a hierarchy: alike for all sizes, or for each in its own way.

Where a size has many groups in each leaf region, noise on the leaves matters most; where it has hardly any, the leaves
take their numbers from the levels above, and noise matters there. So a small part pays for a look: noisy counts of the
root alone. They choose for each size one of several ways to divide the rest. Every way adds up to the same sum, so the
choice does not change what a release costs: one record moves one count of each level, and at each level the count of
the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import pool_rows
from duckanon.engines.groups.loss import Concentrated, Loss, Pure
from duckanon.errors import DuckanonError, InvalidInput

# No way gives a level less than this part of an equal share.
LEAST = {Pure: Fraction(2, 5), Concentrated: Fraction(1, 4)}
# For sizes with many groups the root gives up to this part of an equal share to the leaves, in so many steps.
_FROM_ROOT, _GIFTS = Fraction(11, 20), 4
# For sizes without groups the leaves keep this part of an equal share; each level gets twice as much of the rest as the
# one below it.
_KEPT = Fraction(1, 2)
# From sizes without groups to sizes with many the ways go in so many steps. The middle one is for sizes with so many
# groups of at least that size a leaf, in scales of noise: `Loss.rate`.
_STEPS, _MIDDLE = 4, 16.0
# How much wider the root's noise may get: in equal shares, summed over sizes, per square root of the number of leaves.
_WIDER = 0.125
# With fewer counts there is too little to choose.
_FEWEST = 8


@dataclass(frozen=True)
class Split:
    """ways: for each way the part of each level, from the root; without a look there is one way. look: its part.

    Raises DuckanonError for ways that are not above zero, or do not all add up to the whole together with the look.
    """

    loss: Loss
    ways: tuple[tuple[Fraction, ...], ...]
    look: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        sums = {self.look + sum(way) for way in self.ways}
        if sums != {self.loss.total} or self.look < 0 or min(map(min, self.ways)) <= 0:
            raise DuckanonError(
                f"The parts of {self.loss.name} do not add up: this is a bug in duckanon, nothing was released."
            )

    def choose(self, look: Ints, leaves: int, rate: float) -> Ints:
        """For each size the number of its way: any choice costs the same.

        look: the noisy t_s of the root. leaves: how many leaf regions there are. rate: `Loss.rate`. The root
        gives as much to the leaves as its own error allows.
        """
        falling = pool_rows(look[None, ::-1].astype(np.float64), 0.0, np.inf)[0, ::-1]
        in_leaf = falling / leaves * rate
        step = np.rint(in_leaf / (in_leaf + _MIDDLE) * _STEPS).astype(np.int64)
        of_root = np.array([float(way[0]) for way in self.ways]).reshape(-1, _STEPS + 1)
        even = float(self.loss.total - self.look) / len(self.ways[0])
        wider = np.maximum(self.loss.wider(even / of_root[:, step]) - 1, 0.0).sum(axis=1)
        gift = np.flatnonzero(wider <= _WIDER * sqrt(leaves))[-1]
        chosen: Ints = gift * (_STEPS + 1) + step
        return chosen


def as_asked(loss: Loss, shares: tuple[Fraction, ...] | None, depth: int) -> Split:
    """One way for all sizes: equal shares, or the ones given. Raises InvalidInput unless they make sense."""
    if loss.total <= 0:
        raise InvalidInput(f"{loss.name} must be positive.")
    if shares is None:
        shares = (Fraction(1, depth),) * depth
    if len(shares) != depth:
        raise InvalidInput(f"split must have one share for each of the {depth} levels, the whole included.")
    if min(shares) <= 0 or sum(shares) != 1:
        raise InvalidInput("The shares of split must be positive and add up to exactly one.")
    return Split(loss, (tuple(loss.total * share for share in shares),))


def by_size(loss: Loss, depth: int, counts: int) -> Split:
    """Ways for a look to choose from; equal shares where there is one level, or where there are too few counts.

    counts: how many t_s each region has. For each gift of the root to the leaves, from none on, there are the ways from
    sizes without groups to sizes with many.
    """
    if depth == 1 or counts < _FEWEST:
        return as_asked(loss, None, depth)
    rest, even, without_groups = loss.total * (1 - loss.look), Fraction(1, depth), _without_groups(depth)
    ways = []
    for gift in range(_GIFTS + 1):
        moved = even * _FROM_ROOT * Fraction(gift, _GIFTS)
        with_groups = (even - moved, *[even] * (depth - 2), even + moved)
        for step in range(_STEPS + 1):
            toward = Fraction(step, _STEPS)
            shares = [low + toward * (high - low) for low, high in zip(without_groups, with_groups, strict=True)]
            ways.append(tuple(rest * share for share in loss.shares(shares)))
    return Split(loss, tuple(ways), loss.total * loss.look)


def _without_groups(depth: int) -> tuple[Fraction, ...]:
    """Each level's share where a size has no groups."""
    even = Fraction(1, depth)
    parts = [Fraction(1, 2**level) for level in range(depth - 1)]
    return (*(even + even * (1 - _KEPT) * part / sum(parts) for part in parts), even * _KEPT)
