"""The exponential mechanism: Pr(i -> k) proportional to exp(-epsilon d_ik / 2) (Qiu 2024, equation 47)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def exponential(lengths: Floats) -> Floats:
    """The matrix of shape (records, outputs), from privacy lengths (epsilon times distance) of the same shape.

    The lengths must satisfy the triangle inequality; infinity never happens. Rows sum to one.
    """
    weights = np.exp(-(lengths - lengths.min(axis=1, keepdims=True)) / 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
