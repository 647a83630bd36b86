"""The exponential mechanism: Pr(i -> k) proportional to exp(-epsilon d_ik / 2) (Qiu 2024, equation 47)."""

from __future__ import annotations

import numpy as np

from duckanon.engines.metric.problem import Limits, Program, Solution
from duckanon.errors import InvalidInput


def exponential(program: Program, _: Limits) -> Solution:
    """Near outputs are likely, whatever they cost. No bound is proved.

    Where distances satisfy the triangle inequality they are used as they are; elsewhere shortest paths in the graph
    are, which never lead out of a component. Raises InvalidInput if a component then has no output at all.
    """
    lengths = program.reach()
    nearest = lengths.min(axis=1, keepdims=True)
    if not np.isfinite(nearest).all():
        raise InvalidInput("The method 'exponential' finds no output near some records: use 'columns'.")
    weights = np.exp((nearest - lengths) / 2)
    return Solution(weights / weights.sum(axis=1, keepdims=True), -np.inf)
