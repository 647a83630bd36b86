"""Keys found with noise: values that so many privacy units have that one unit hardly shows.

Each value's number of units gets Gaussian noise, and a value is told where that is at least a threshold. Korolova,
Kenthapadi, Mishra and Ntoulas 2009 do so with Laplace noise; the page of the guarantee has the proof for the noise and
the threshold here.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.noise import Gaussian
from duckanon.engines.randomness import Source
from duckanon.rational_bounds import exponential_at_least


def threshold(noise: Gaussian, lone_values: int, delta: Fraction) -> int:
    """The least noisy number of units at which a value is told.

    lone_values: how many values a single unit may have alone. One of them is told with a probability of at most delta:
    each has one unit, and noise of threshold - 1 or more has a probability of at most
    exp(-(threshold - 1)^2 / (2 variance)), by Chernoff's bound (Canonne, Kamath and Steinke 2020, corollary 17). It is
    compared in fractions.
    """

    def is_enough(above: int) -> bool:
        return exponential_at_least(above**2 / (2 * noise.variance)) * delta >= lone_values

    low, high = 0, 1 + isqrt(int(2 * noise.variance)) * 2
    while not is_enough(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return 1 + high


def select(units: NDArray[np.int64], noise: Gaussian, least: int, most: int, source: Source) -> NDArray[np.int64]:
    """The positions of the values that are told, in order: those of `least` noisy units or more, at most `most`."""
    noisy = units + noise.draw(units.shape, source, is_wide=False)
    positions = np.flatnonzero(noisy >= least)
    if len(positions) > most:
        # Of equal ones the first; they stand in the order of the values.
        positions = np.sort(positions[np.argsort(-noisy[positions], kind="stable")[:most]])
    return positions.astype(np.int64)
