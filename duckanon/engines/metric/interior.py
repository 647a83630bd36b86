"""A primal-dual interior-point method for a dense program with few rows: min f . x, G x = b, x >= 0.

Mehrotra's predictor-corrector (1992). Column generation wants its duals from the middle of the optimal face and stops it
early, which no simplex method can do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STEPS = 80


@dataclass(frozen=True)
class Interior:
    """x: shape (columns,), positive. y: the rows' duals. slack: f - G' y, nearly. gap: relative to f . x."""

    x: Floats
    y: Floats
    slack: Floats
    gap: float
    steps: int


def _longest(values: Floats, direction: Floats) -> float:
    """The longest step, at most 1, that keeps `values` from falling below zero."""
    falling = direction < 0
    if not falling.any():
        return 1.0
    return min(1.0, float(np.min(-values[falling] / direction[falling])))


def _factor(matrix: Floats) -> tuple[Any, bool]:
    """Cholesky's factor of a symmetric matrix, with no more on its diagonal than it takes."""
    from scipy.linalg import LinAlgError, cho_factor

    mean = float(np.trace(matrix)) / len(matrix)
    diagonal = np.diag_indices(len(matrix))
    ridge = 1e-14
    while True:
        matrix[diagonal] += ridge * mean
        try:
            return cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            ridge *= 100


def solve(rows: Floats, cost: Floats, right: Floats, tolerance: float) -> Interior:
    """Solve to a relative gap of `tolerance`. rows: shape (m, n) in Fortran's or C's order, m no more than n."""
    from scipy.linalg import cho_solve

    transposed = rows.T
    factor = _factor(rows @ transposed)
    x = transposed @ cho_solve(factor, right)
    y = cho_solve(factor, rows @ cost)
    s = cost - transposed @ y
    x = np.maximum(x + max(-1.5 * x.min(), 0.0), 1e-2 * np.abs(x).mean() + 1e-12)
    s = np.maximum(s + max(-1.5 * s.min(), 0.0), 1e-2 * np.abs(cost).mean() + 1e-300)
    product = float(x @ s)
    x, s = x + 0.5 * product / s.sum(), s + 0.5 * product / x.sum()
    right_size, cost_size = 1 + np.linalg.norm(right), 1e-300 + np.linalg.norm(cost)
    gap, step = np.inf, 0
    for step in range(_STEPS):  # noqa: B007 # how many were taken is told
        primal, dual = right - rows @ x, cost - transposed @ y - s
        upper, lower = float(cost @ x), float(right @ y)
        gap = abs(upper - lower) / (abs(upper) + 1e-300)
        if (
            gap < tolerance
            and np.linalg.norm(primal) < 1e-9 * right_size
            and np.linalg.norm(dual) < max(1e-9, 0.01 * tolerance) * cost_size
        ):
            break
        mu = float(x @ s) / len(x)
        weight = x / s
        factor = _factor((rows * weight) @ transposed)

        def direction(
            centre: Floats, x: Floats = x, s: Floats = s, primal: Floats = primal, dual: Floats = dual,
            weight: Floats = weight, factor: Any = factor,
        ) -> tuple[Floats, Floats, Floats]:
            wanted = primal + rows @ (weight * dual - centre / s)
            dy = cho_solve(factor, wanted, check_finite=False)
            left = wanted - rows @ (weight * (transposed @ dy))
            dy += cho_solve(factor, left, check_finite=False)
            ds = dual - transposed @ dy
            return centre / s - weight * ds, dy, ds

        dx, dy, ds = direction(-x * s)
        reached = float((x + _longest(x, dx) * dx) @ (s + _longest(s, ds) * ds)) / len(x)
        dx, dy, ds = direction((reached / mu) ** 3 * mu - x * s - dx * ds)
        forward, upward = _longest(x, dx), _longest(s, ds)
        forward = 0.995 * forward if forward < 1 else 1.0
        upward = 0.995 * upward if upward < 1 else 1.0
        x = np.maximum(x + forward * dx, 1e-40)
        y = y + upward * dy
        s = np.maximum(s + upward * ds, 1e-40 * cost_size)
    return Interior(x, y, s, gap, step)
