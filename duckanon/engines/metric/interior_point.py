"""A primal-dual interior-point method for a dense program with few rows: min f . x, G x = b, x >= 0.

Mehrotra's predictor-corrector (1992). Column generation needs duals from the middle of the optimal face, and
stops the method early; a simplex method offers neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check
from duckanon.engines.highs import Program, solved

Floats = npt.NDArray[np.float64]

_STEPS = 80
# Programs with no more rows are always solved accurately.
_FEW = 64


@dataclass(frozen=True)
class Interior:
    """x: shape (columns,), positive. y: the rows' duals. slack: f - G' y, nearly. gap: relative to f . x."""

    x: Floats
    y: Floats
    slack: Floats
    gap: float
    steps: int


def _longest(point: Floats, direction: Floats) -> float:
    """The longest step, at most 1, that keeps `point` from falling below zero."""
    falling = direction < 0
    if not falling.any():
        return 1.0
    return min(1.0, float(np.min(-point[falling] / direction[falling])))


def _factor(rows: Floats, weight: Floats, accurate: bool) -> tuple[Any, bool]:
    """A triangular factor of rows * weight * rows'.

    accurate: by QR, which does not square the condition number as the product does, and takes twice as long.
    """
    from scipy.linalg import LinAlgError, cho_factor, qr
    from scipy.linalg.blas import dsyrk

    if accurate:
        triangle = qr((rows * np.sqrt(weight)).T, mode="r", check_finite=False)[0][: len(rows)]
        diagonal = np.abs(triangle.diagonal())
        triangle[np.diag_indices(len(rows))] += np.where(diagonal < 1e-15 * diagonal.max(), diagonal.max() * 1e-15, 0.0)
        return triangle, False
    # Half of the product is enough, and takes half as long.
    matrix = dsyrk(1.0, (rows * np.sqrt(weight)).T, trans=1).T
    mean = float(np.trace(matrix)) / len(matrix)
    ridge = 1e-14
    while True:
        matrix[np.diag_indices(len(matrix))] += ridge * mean
        try:
            triangle, lower = cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            ridge *= 100
        else:
            return triangle, bool(lower)


def _direction(
    rows: Floats, weight: Floats, factor: tuple[Any, bool], s: Floats, primal: Floats, dual: Floats, centre: Floats
) -> tuple[Floats, Floats, Floats]:
    """Newton's step to where x s has moved by `centre` and both residuals are gone, refined once."""
    from scipy.linalg import cho_solve

    normal_right = primal + rows @ (weight * dual - centre / s)
    dy = cho_solve(factor, normal_right, check_finite=False)
    dy += cho_solve(factor, normal_right - rows @ (weight * (dy @ rows)), check_finite=False)
    ds = dual - dy @ rows
    return centre / s - weight * ds, dy, ds


def solve(rows: Floats, cost: Floats, right: Floats, tolerance: float, until: float = np.inf) -> Interior | None:
    """Solve to a relative gap of `tolerance`. rows: shape (m, n), m no more than n.

    Where rounding keeps the method from getting there, HiGHS's simplex method takes over. until: a time of the
    monotonic clock at which to give up; then there is no result.
    """
    interior = None
    for accurate in (False, True):
        if accurate or len(rows) > _FEW:
            outcome = _solve(rows, cost, right, tolerance, until, accurate=accurate)
            if outcome is None:
                return None
            interior, converged = outcome
            if converged:
                return interior
    check()
    left = until - monotonic()
    return None if left <= 0 else _vertex(rows, cost, right, left) or interior


def _vertex(rows: Floats, cost: Floats, right: Floats, seconds: float) -> Interior | None:
    """An optimal vertex, if HiGHS finds one in that time."""
    from scipy.sparse import csc_array

    scale = float(np.abs(cost).max()) or 1.0
    none, any_size = np.zeros(len(cost)), np.full(len(cost), np.inf)
    vertex = solved(Program(cost / scale, csc_array(rows), right, right, none, any_size), time_limit=seconds)
    if not vertex.is_optimal or vertex.x is None:
        return None
    prices = vertex.duals * scale
    return Interior(np.maximum(vertex.x, 0.0), prices, cost - prices @ rows, 0.0, 0)


def _solve(
    rows: Floats, cost: Floats, right: Floats, tolerance: float, until: float, *, accurate: bool
) -> tuple[Interior, bool] | None:
    """The last step's result, and whether it is as precise as asked; None if the time is up."""
    from scipy.linalg import cho_solve

    before, transposed = monotonic(), rows.T
    factor = _factor(rows, np.ones(len(cost)), accurate)
    x = transposed @ cho_solve(factor, right)
    y = cho_solve(factor, rows @ cost)
    s = cost - transposed @ y
    x = np.maximum(x + max(-1.5 * x.min(), 0.0), 1e-2 * np.abs(x).mean() + 1e-12)
    s = np.maximum(s + max(-1.5 * s.min(), 0.0), 1e-2 * np.abs(cost).mean() + 1e-300)
    product = float(x @ s)
    x, s = x + 0.5 * product / s.sum(), s + 0.5 * product / x.sum()
    right_size, cost_size = 1 + np.linalg.norm(right), 1e-300 + np.linalg.norm(cost)
    gap, step, converged = np.inf, 0, False
    for step in range(_STEPS):  # noqa: B007 # the number of steps is returned
        primal, dual = right - rows @ x, cost - transposed @ y - s
        upper, lower = float(cost @ x), float(right @ y)
        gap = abs(upper - lower) / (abs(upper) + 1e-300)
        if (
            gap < tolerance
            and np.linalg.norm(primal) < 1e-9 * right_size
            and np.linalg.norm(dual) < max(1e-9, 0.01 * tolerance) * cost_size
        ):
            converged = True
            break
        # A step of a large program takes long, so one that would end too late is not begun.
        check()
        now = monotonic()
        if now + (now - before) >= until:
            return None
        before = now
        mu = float(x @ s) / len(x)
        weight = x / s
        factor = _factor(rows, weight, accurate)

        towards = partial(_direction, rows, weight, factor, s, primal, dual)
        # A direction that leaves the range of floats is no step: what was reached is not precise enough then.
        with np.errstate(over="ignore", invalid="ignore"):
            dx, dy, ds = towards(-x * s)
            reached = float((x + _longest(x, dx) * dx) @ (s + _longest(s, ds) * ds)) / len(x)
            dx, dy, ds = towards((reached / mu) ** 3 * mu - x * s - dx * ds)
        if not all(np.isfinite(move).all() for move in (dx, dy, ds)):
            break
        forward, upward = _longest(x, dx), _longest(s, ds)
        forward = 0.995 * forward if forward < 1 else 1.0
        upward = 0.995 * upward if upward < 1 else 1.0
        x = np.maximum(x + forward * dx, 1e-40)
        y = y + upward * dy
        s = np.maximum(s + upward * ds, 1e-40 * cost_size)
    return Interior(x, y, s, gap, step), converged
