"""The exponential mechanism: Pr(i -> k) proportional to exp(-epsilon d_ik / 2) (Qiu 2024, equation 47)."""

from __future__ import annotations

import numpy as np

from duckanon.engines.metric.problem import Limits, Program, Solution
from duckanon.errors import InvalidInput


def exponential(program: Program, _: Limits) -> Solution:
    """Nearer outputs are likelier; what they cost is not used. No lower bound is proved.

    Distances that satisfy the triangle inequality are used as they are. Otherwise shortest paths in the graph are, and
    outputs in other components get no probability. Raises InvalidInput if a component then has no output at all.
    """
    lengths = program.reach()
    nearest = lengths.min(axis=1, keepdims=True)
    if not np.isfinite(nearest).all():
        raise InvalidInput("The method 'exponential' finds no output near some records: use 'columns'.")
    weights = np.exp((nearest - lengths) / 2)
    return Solution(weights / weights.sum(axis=1, keepdims=True), -np.inf)
