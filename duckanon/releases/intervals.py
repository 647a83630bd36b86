"""How far noise moves a number: half the width of 95 % intervals, from the scale of the noise alone."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, log


def spread(scale: Fraction) -> int:
    """The least m with P(|noise| > m) <= 5 %, for discrete Laplace noise of that scale."""
    a = exp(-1 / scale)
    return max(0, ceil(log(0.05 * (1 + a) / 2) / log(a)) - 1) if a > 0 else 0


def half_width(scale: Fraction) -> float:
    """As `spread`, for noise so fine that it is continuous: the sum of c such numbers is within sqrt(c) times that.

    The sum of more than one has lighter tails than one, for the same variance, so 95 % is what it holds at least.
    """
    return -log(0.05) * float(scale)
