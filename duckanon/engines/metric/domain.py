"""The input of a mechanism: secrets, their distances and probabilities, and the loss of each replacement."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# A mechanism has the square of this many probabilities.
MOST_RECORDS = 10_000
# How far a prior may be from adding up to 1.
_SLACK = 1e-9


@dataclass(frozen=True)
class Domain:
    """N secrets and the K of them that are outputs.

    distances: shape (N, N), symmetric, zero on the diagonal, infinity where two secrets need not look alike.
    triangle: whether the distances satisfy the triangle inequality; if not, only distances of neighbours are used.
    prior: shape (N,), how likely each secret is. outputs: shape (K,), the number of each output's record.
    loss: shape (N, K), the loss of giving output k for secret i. points: shape (N, features), if there are any.
    """

    distances: Floats
    epsilon: float
    radius: float | None
    triangle: bool
    prior: Floats
    outputs: Ints
    loss: Floats
    points: Floats | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.radius)
        records = len(self.distances)
        if records < 2:
            raise InvalidInput("There is only one record: it has nothing to look like. Give two records or more.")
        if records > MOST_RECORDS:
            raise InvalidInput(
                f"There are more than {MOST_RECORDS} records, and a mechanism has a probability for each pair of them: "
                "make coarser records."
            )
        if not np.isfinite(self.prior).all() or (self.prior < 0).any():
            raise InvalidInput("The prior holds NaN, infinity or a negative number: probabilities are 0 or more.")
        if abs(math.fsum(self.prior) - 1) > _SLACK:
            raise InvalidInput("The prior does not add up to 1: divide it by its sum.")
        if not np.isfinite(self.loss).all() or (self.loss < 0).any():
            raise InvalidInput("The loss holds NaN, infinity or a negative number: losses are 0 or more.")

    @property
    def expected(self) -> Floats:
        """The loss of each choice times the prior, shape (N, K)."""
        return np.asarray(self.loss * self.prior[:, None])


def check_budget(epsilon: float, radius: float | None) -> None:
    """Raise InvalidInput unless epsilon and radius are numbers above 0."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InvalidInput("epsilon must be a number above 0: the smaller, the more alike neighbours look.")
    if radius is not None and not (math.isfinite(radius) and radius > 0):
        raise InvalidInput("radius must be a number above 0, or NULL to compare all pairs.")


def uniform(records: int) -> Floats:
    """The prior under which all records are equally likely."""
    return np.full(records, 1.0 / records)


def travel_loss(costs: Floats, weights: Floats) -> Floats:
    """The expected difference in travel cost to destinations (Qiu 2024, equation 48), shape (N, N).

    costs: shape (N, destinations), from each record to each destination. weights: how likely each destination is.
    """
    loss = np.zeros((len(costs), len(costs)))
    for cost, weight in zip(costs.T, weights, strict=True):
        loss += weight * np.abs(cost[:, None] - cost)
    return loss
