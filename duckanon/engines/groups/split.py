"""How epsilon is divided over the levels of a hierarchy: alike for all sizes, or for each size in its own way.

Where a size has many groups in each leaf region, noise on the leaves matters most; where it has hardly any, the leaves
take their numbers from the levels above, and noise matters there. So a small part of epsilon pays for a look: noisy
counts of the root alone. They choose for each size one of several ways to divide the rest. Every way adds up to the
same sum, so the choice does not change what a release costs: one record moves one count of each level, and at each
level the count of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.isotonic_regression import pool_rows
from duckanon.errors import DuckanonError, InvalidInput

# The look's share of epsilon.
_LOOK = Fraction(1, 50)
# The ways go in so many equal steps from that for sizes without groups to that for sizes with many.
_STEPS = 4
# The middle way is for sizes with so many groups of at least that size a leaf, in units of sensitivity / epsilon.
_MIDDLE = 0.6
# No way gives a level less than this part of an equal share.
LEAST = Fraction(1, 4)
# With fewer counts there is too little to choose.
_FEWEST = 8


@dataclass(frozen=True)
class Split:
    """ways: for each way the epsilon of each level, from the root; without a look there is one way. look: its epsilon.

    Raises DuckanonError for ways that are not above zero, or do not all add up to `epsilon` together with the look.
    """

    epsilon: Fraction
    ways: tuple[tuple[Fraction, ...], ...]
    look: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        sums = {self.look + sum(way) for way in self.ways}
        if sums != {self.epsilon} or self.look < 0 or min(map(min, self.ways)) <= 0:
            raise DuckanonError("The parts of epsilon do not add up: this is a bug in duckanon, nothing was released.")

    def choose(self, look: Ints, leaves: int, distance: int) -> Ints:
        """For each size the number of its way. look: the noisy t_s of the root. distance: the sensitivity of t_s."""
        falling = pool_rows(look[None, ::-1].astype(np.float64), 0.0, np.inf)[0, ::-1]
        each = falling / leaves * float(self.epsilon / distance)
        chosen: Ints = np.rint(each / (each + _MIDDLE) * (len(self.ways) - 1)).astype(np.int64)
        return chosen


def as_asked(epsilon: Fraction, shares: tuple[Fraction, ...] | None, depth: int) -> Split:
    """One way for all sizes: equal shares, or the ones given. Raises InvalidInput unless they make sense."""
    if epsilon <= 0:
        raise InvalidInput("epsilon must be positive.")
    if shares is None:
        shares = (Fraction(1, depth),) * depth
    if len(shares) != depth:
        raise InvalidInput(f"split must have one share for each of the {depth} levels, the whole included.")
    if min(shares) <= 0 or sum(shares) != 1:
        raise InvalidInput("The shares of split must be positive and add up to exactly one.")
    return Split(Fraction(epsilon), (tuple(Fraction(epsilon) * share for share in shares),))


def by_size(epsilon: Fraction, regions: tuple[int, ...], counts: int) -> Split:
    """Ways for a look to choose from. regions: of each level, from the root. counts: how many t_s each region has.

    One way, equal shares, where there is one level, or where there are too few counts.
    """
    depth = len(regions)
    if depth == 1 or counts < _FEWEST:
        return as_asked(epsilon, None, depth)
    many, none = _shares(regions)
    rest = epsilon * (1 - _LOOK)
    ways = tuple(
        tuple(rest * (low + Fraction(step, _STEPS) * (high - low)) for high, low in zip(many, none, strict=True))
        for step in range(_STEPS + 1)
    )
    return Split(epsilon, ways, epsilon * _LOOK)


def _shares(regions: tuple[int, ...]) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Shares of each level where a size has many groups, and where it has none: how they were found is on auto.md."""
    depth = len(regions)
    many = [Fraction(4 + 3 * level) for level in range(depth)]
    none = [Fraction(depth + 2 - level) for level in range(depth - 1)] + [Fraction(1)]
    return tuple(x / sum(many) for x in many), tuple(x / sum(none) for x in none)
