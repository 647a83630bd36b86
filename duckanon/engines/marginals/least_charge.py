"""The least precision that keeps each of several errors within what is allowed.

The program: precisions x of the marginals that may be measured, zero or more; M x are the precisions of the residual
spaces; least sum of x with C (1 / (M x)) <= 1. It is convex, since 1 / y is. Its dual has prices w of the spaces'
precisions and multipliers l of the errors, zero or more: the largest 2 sum of sqrt(w C'l) - sum of l with M'w <= 1.

Both are solved together by a primal-dual interior point method (Boyd and Vandenberghe 2004, *Convex Optimization*,
section 11.7). The precisions sqrt(C'l / w) that follow from prices stand beside M x, and become equal to them: so only
square roots are made linear by a step. Its system is solved by conjugate gradients, since M and C have few entries.

The dual bounds what any plan needs, so each answer says how near it is to the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The search ends this near to the bound, or after so many steps.
_NEAR, _MOST_STEPS = 1e-6, 100
# The share of the products of bounds and multipliers that a step leaves, where precisions from prices are this near.
_LEFT, _CLOSE = 0.3, 0.5
# How far a step goes towards the nearest bound.
_FAR = 0.95
# Marginals with less than one of these shares, of an equal one, are left out if all together cost at most so much.
_SHARES, _SPARED = (1e-2, 1e-3, 1e-4, 1e-5), 5e-5


@dataclass(frozen=True)
class Precisions:
    """of_marginals: precisions, zero or more; errors are within what is allowed, up to rounding.

    gap: their sum is at most this much above the least one, relatively.
    """

    of_marginals: Floats
    gap: float


@dataclass(frozen=True)
class _Point:
    """x: precisions of the marginals. prices: of the spaces. multipliers and slack: of the errors. All above zero."""

    x: Floats
    prices: Floats
    multipliers: Floats
    slack: Floats


class _Program:
    """The program with both matrices and their transposes, and with errors in a unit of which equal precisions need 1.

    spaces: the precision that each space (row) has from a marginal (column). errors: what the variance of each space
    (column) adds to each error (row), relative to what is allowed.
    """

    def __init__(self, spaces: Any, errors: Any) -> None:
        self.spaces, self.marginals = spaces.tocsr(), spaces.T.tocsr()
        self.squares = self.marginals.multiply(self.marginals).tocsr()
        self.equal = np.full(spaces.shape[1], 1 / spaces.shape[1])
        self.unit = float((errors @ (1 / (self.spaces @ self.equal))).max())
        self.errors = (errors / self.unit).tocsr()
        self.errors_of = self.errors.T.tocsr()

    def first(self) -> _Point:
        """A point within all bounds of both programs, whose precisions are equal to those from its prices."""
        x, multipliers = 2 * self.equal, np.ones(self.errors.shape[0])
        variances = 1 / (self.spaces @ x)
        prices = (self.errors_of @ multipliers) * variances**2
        scale = 0.5 / float((self.marginals @ prices).max())
        return _Point(x, prices * scale, multipliers * scale, 1 - self.errors @ variances)

    def room(self, point: _Point) -> Floats:
        """What the prices leave of the bound 1 for each marginal."""
        return 1 - self.marginals @ point.prices  # type: ignore[no-any-return]

    def needed(self, x: Floats) -> float:
        """The factor with which precisions just keep all errors within what is allowed."""
        return float((self.errors @ (1 / (self.spaces @ x))).max())

    def gap(self, point: _Point) -> float:
        """How much the sum of the precisions that are needed is at most above the least one, relatively."""
        together = float(np.sqrt((self.errors_of @ point.multipliers) * point.prices).sum())
        # Multipliers may be scaled: c gives 2 sqrt(c) together - c sum, which is largest here. And so may prices.
        least = together**2 / float(point.multipliers.sum()) / float((self.marginals @ point.prices).max())
        return float(point.x.sum()) * self.needed(point.x) / least - 1

    def step(self, point: _Point) -> _Point:
        """The next point: Newton's step towards smaller products of bounds and multipliers, as far as bounds allow."""
        x, prices, multipliers, slack = point.x, point.prices, point.multipliers, point.slack
        room, weights = self.room(point), self.errors_of @ multipliers
        precisions = np.sqrt(weights / prices)
        apart = self.spaces @ x - precisions
        products = float(x @ room + multipliers @ slack) / (len(x) + len(slack))
        aim = products * (_LEFT if float(np.abs(apart / precisions).max()) < _CLOSE else 1.0)
        # Slopes of the variances 1 / precisions, without sign; and of the logarithms of prices, times prices.
        slopes, curvature = 1 / precisions**2, 2 * prices / precisions
        missing = 1 - slack - self.errors @ (1 / precisions)
        towards = (aim - multipliers * (slack + missing + self.errors @ (slopes * apart))) / slack

        def matrix(move: Floats) -> Any:
            spaces = self.spaces @ move
            errors = multipliers / slack * (self.errors @ (slopes * spaces))
            return room / x * move + self.marginals @ (curvature * spaces + slopes * (self.errors_of @ errors))

        right = aim / x - room + self.marginals @ (slopes * (self.errors_of @ towards) - curvature * apart)
        of_x = _conjugate_gradients(matrix, right, 1 / (room / x + self.squares @ curvature))
        of_precisions = self.spaces @ of_x + apart
        of_slack = missing + self.errors @ (slopes * of_precisions)
        of_multipliers = (aim - multipliers * (slack + of_slack)) / slack
        of_prices = prices * ((self.errors_of @ of_multipliers) / weights) - curvature * of_precisions
        moves = ((x, of_x), (prices, of_prices), (multipliers, of_multipliers), (slack, of_slack))
        reach = min(_reach(room, -(self.marginals @ of_prices)), *(_reach(*pair) for pair in moves))
        return _Point(*(current + min(1.0, _FAR * reach) * move for current, move in moves))


def least_precisions(spaces: Any, errors: Any) -> Precisions:
    """The precisions of least sum for which each error is at most 1.

    spaces, errors: sparse matrices, as in `_Program`, without a row or column of zeros.
    """
    program = _Program(spaces, errors)
    point = best = program.first()
    least = program.gap(point)
    for _ in range(_MOST_STEPS):
        if least <= _NEAR:
            break
        point = program.step(point)
        gap = program.gap(point)
        if not gap < np.inf:
            break
        if gap < least:
            best, least = point, gap
    x = _sparse(program, best.x)
    precisions = x * program.needed(x)
    return Precisions(
        precisions * program.unit, (1 + least) * precisions.sum() / (best.x.sum() * program.needed(best.x)) - 1
    )


def _sparse(program: _Program, x: Floats) -> Floats:
    """The precisions without the small ones: the search leaves each marginal some, and several plans may be best."""
    most = (1 + _SPARED) * x.sum() * program.needed(x)
    for share in _SHARES:
        kept = np.where(x >= share * x.mean(), x, 0.0)
        if (program.spaces @ kept > 0).all() and kept.sum() * program.needed(kept) <= most:
            return kept
    return x


def _reach(bounded: Floats, moves: Floats) -> float:
    """How often the moves can be added while all values stay above zero."""
    falling = moves < 0
    return float(np.min(-bounded[falling] / moves[falling])) if falling.any() else np.inf


def _conjugate_gradients(matrix: Any, right: Floats, scales: Floats) -> Floats:
    """The solution of a positive definite system. scales: the inverse of about its diagonal."""
    solution, left = np.zeros_like(right), right.copy()
    scaled = scales * left
    along, size = scaled.copy(), float(left @ scaled)
    enough = 1e-16 * size
    for _ in range(4 * len(right) + 100):
        if size <= enough:
            break
        image = matrix(along)
        length = size / float(along @ image)
        solution += length * along
        left -= length * image
        scaled = scales * left
        size, last = float(left @ scaled), size
        along = scaled + size / last * along
    return solution
