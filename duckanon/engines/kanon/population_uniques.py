"""How many records that are alone in a sample are alone in the population too: Pitman's model.

The model needs nothing but the sizes of the classes. It fits populations with many rare combinations of values, and
where it holds, the expectation given the sample is exact: by Pitman's sampling formula the sample has the population's
parameters, and a class of one stays a class of one while the other people arrive, each independently of the past but
for the sizes of the classes.

Sources: Pitman 1995 (the formula); Hoshino 2001 (its use for disclosure risk); Dankar et al. 2012 (the comparison with
other estimators, by which it is the most accurate for samples of up to a tenth).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# The discount is searched between these; at 0 the model is Ewens's, at 1 every record is alone.
_LEAST, _MOST, _GRID = 1e-6, 1 - 1e-9, 21


@dataclass(frozen=True)
class Pitman:
    """A population of classes by Pitman's model. discount: alpha, from 0 to 1; strength: theta, above -discount.

    After n records a class of j gets the next one with probability (j - discount) / (n + strength).
    """

    discount: float
    strength: float

    def stays_alone(self, n: int, people: float) -> float:
        """The chance that a record which is alone among n is alone among all people, whose number is n or more."""
        from scipy.special import gammaln

        a, b = self.strength + self.discount, self.strength
        rising = gammaln(a + people - 1) - gammaln(a + n - 1)
        return min(1.0, exp(rising - gammaln(b + people) + gammaln(b + n)))


def fit(sizes: Ints, times: Ints) -> Pitman:
    """The most likely model of classes of these sizes, of which there are `times` each; not all of them of one record.

    The likelihood is that of Pitman 1995, Proposition 9.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    n, classes = int(sizes @ times), int(times.sum())

    def likelihood(a: float, b: float) -> float:
        new = (classes - 1) * log(a) + gammaln(b / a + classes) - gammaln(b / a + 1)
        joined = times @ (gammaln(sizes - a) - gammaln(1 - a))
        return float(new + joined - gammaln(b + n) + gammaln(b + 1))

    def best(a: float) -> tuple[float, float]:
        """The most likely strength for a discount, and how likely it is."""
        optimum = minimize_scalar(
            lambda x: -likelihood(a, exp(x) - a), bounds=(log(1e-9), log(1e4 * n)), method="bounded",
            options={"xatol": 1e-9},
        )  # fmt: skip
        return exp(optimum.x) - a, -optimum.fun

    # The likelihood may have several maxima in the discount: the best of a grid says between which points to search.
    grid = np.linspace(_LEAST, _MOST, _GRID)
    place = int(np.argmax([best(float(a))[1] for a in grid]))
    around = (float(grid[max(place - 1, 0)]), float(grid[min(place + 1, _GRID - 1)]))
    optimum = minimize_scalar(lambda a: -best(a)[1], bounds=around, method="bounded", options={"xatol": 1e-9})
    discount = max(float(optimum.x), float(grid[place]), key=lambda a: best(a)[1])
    return Pitman(discount, best(discount)[0])


def population_uniques(sizes: Ints, times: Ints, people: float) -> float:
    """The expected number of records that are alone in their class and in the population.

    sizes, times: of the sample's classes, shape (sizes,), in any order; people: how many there are in all. The sample
    should be drawn with the same chance for everybody. If all records of the sample are alone, so may all be in the
    population: then their number is returned, for nothing in the sample says otherwise.
    """
    # In one order, so that no sum depends on that of the classes.
    sizes, place = np.unique(sizes, return_inverse=True)
    times = np.bincount(place.ravel(), times).astype(np.int64)
    n, alone = int(sizes @ times), int(times[sizes == 1].sum())
    if alone in (0, n) or people <= n:
        return float(alone)
    return alone * fit(sizes, times).stays_alone(n, people)
