"""95 % intervals of linear functions of an estimated table, and of quotients of two, that hold for all weights.

A linear function of the measurements is a sum W of independent discrete Gaussians N with weights, whatever is asked: of
variance V, with weights whose squares add up to V / v at most, where v is the least variance of the N. A distribution
is more peaked than another if it has more within every distance from zero.

- With a U that is uniform from -1/2 to 1/2 added, N is symmetric and unimodal, and more peaked than a normal variable
  of variance s^2 + 1/4, where s^2 is that of N. (A quarter is more than it takes, which tests enumerate: 0.195 at most,
  and 0.18 or less from s^2 = 4 on.) U itself is more peaked than a normal variable of variance 1 / (2 pi).
- Weighted sums of symmetric unimodal variables keep that order (Birnbaum 1948, "On random variables with comparable
  peakedness"). So W and the weighted sum of the U are together more peaked than a normal variable of variance
  V (1 + 1 / (4 v)), and the sum of the U is below -q sqrt(V / v) with a chance of at most Phi(-q sqrt(2 pi)).
- Both are independent and symmetric: where W is beyond t, the sum of the U takes back no more than q sqrt(V / v) with
  that chance left. So W is beyond z sqrt(V (1 + 1 / (4 v))) + q sqrt(V / v) in at most 5 %, if the normal law is beyond
  z in 5 % of what is left. `factor` takes the best q: the width is sqrt(V) times a number that depends on v alone.

Where all weights are whole numbers so is W, and half a step less does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import pi, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.marginals.linear_functions import Along, Noise, Weights
from duckanon.engines.marginals.residual_spaces import Floats

# How often the truth may lie outside.
_ALLOWED = 0.05
# What is added to the variance of a discrete Gaussian, and the deviation of a normal variable less peaked than a U.
MORE, UNIFORM = 0.25, 1 / sqrt(2 * pi)
# The q that are tried.
_TRIED = tuple(at / 100 for at in range(1, 400))


@lru_cache(1000)
def factor(least: float) -> float:
    """How many standard deviations 95 % are within, at most. least: the least variance of the measurements' noise.

    That is in the whole numbers that are measured; infinite for normal noise.
    """
    normal = NormalDist()

    def width(q: float) -> float:
        left = 1 - normal.cdf(-q / UNIFORM)
        return -normal.inv_cdf(_ALLOWED / 2 * left) * sqrt(1 + MORE / least) + q / sqrt(least)

    return min(map(width, _TRIED)) * (1 + 1e-9)


@dataclass(frozen=True)
class Widths:
    """How wide intervals are. factor: as the function. is_whole: whether functions with whole weights are whole.

    along: the attribute of the table that is added up as a number; None where it is none of those in `noise`, or the
    last one, whose cells are its parts.
    """

    noise: Noise
    factor: float
    is_whole: bool = False
    along: Along | None = None

    def of(self, cells: NDArray[np.int64], part_weights: Sequence[float]) -> Weights:
        """A linear function of some cells. part_weights: of a cell's parts; of one part where it has no number."""
        if self.along is None or len(part_weights) == 1:
            return Weights.of(cells, part_weights)
        return self.along.weights(self.noise.sizes, cells, part_weights)

    def alike(self, cells: NDArray[np.int64]) -> bytes:
        """Equal for cells whose functions have the same noise: any one cell alone, where no values are added up."""
        return b"alone" if len(cells) == 1 and self.along is None else cells.tobytes()

    def width(self, of: Weights) -> float:
        """How far 95 % of a linear function are from the truth at most."""
        is_whole = self.is_whole and bool((of.weights == np.round(of.weights)).all())
        return half_width(self.noise.variance(of), self.factor, is_whole=is_whole)

    def quotient(self, above: Weights, below: Weights) -> tuple[float, float, float]:
        """The variances of two functions, and their covariance."""
        return self.noise.variance(above), self.noise.variance(below), self.noise.covariance(above, below)

    def most(self, above: Weights, below: Weights) -> float:
        """How far 95 % of above - q below are from the truth at most, for every quotient q from 0 to 1."""
        of_above, of_below, shared = self.quotient(above, below)
        return self.factor * sqrt(max(of_above, of_above - 2 * shared + of_below, 0.0))


def half_width(variance: float, factor: float, *, is_whole: bool) -> float:
    """How far 95 % are from the truth at most, for noise of a variance, or whole numbers after half a step more."""
    return max(factor * sqrt(variance) - is_whole / 2, 0.0)


def quotient_ends(
    above: Floats, below: Floats, variances: Sequence[Floats], more: Floats, factor: float
) -> tuple[Floats, Floats]:
    """The least and the largest quotient q, from 0 to 1, that a noisy dividend and divisor allow at 95 %.

    variances: of above, of below, and their covariance. more: by how much above - q below may be off beside its noise.
    factor: as the function. Those q are allowed for which above - q below is within the width of its own variance
    (Fieller 1954). All of them are where the divisor may be zero.
    """
    of_above, of_below, shared = (factor**2 * variance for variance in variances)
    leading = below**2 - of_below
    ends = []
    for moved, sign in ((above - more, -1.0), (above + more, 1.0)):
        half = moved * below - shared
        inside = half**2 - leading * (moved**2 - of_above)
        known = (leading > 0) & (below > 0) & (inside >= 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            quotients = (half + sign * np.sqrt(np.maximum(inside, 0))) / leading
        ends.append(np.clip(np.where(known, quotients, 0.0 if sign < 0 else 1.0), 0.0, 1.0))
    return ends[0], ends[1]
