"""One component's program: the least expected loss under metric differential privacy (Qiu 2024, equations 4 to 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check
from duckanon.engines.metric.graph import Component, Edges, shortest_paths

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Program:
    """Minimise the sum of cost * Z over stochastic Z with Z_ik <= exp(length_ij) Z_jk along every edge.

    cost: shape (nodes, outputs), the loss of each choice times the prior of the node. component: its graph.
    reach: makes the privacy lengths from nodes to outputs, of the same shape. points: the nodes' features,
    shape (nodes, features), if there are any.
    """

    component: Component
    cost: Floats
    reach: Callable[[], Floats]
    points: Floats | None = None

    @cached_property
    def edges(self) -> Edges:
        """The edges that a solution has to respect: a margin shorter than the bounds."""
        return self.component.edges.inner()

    @property
    def neighbours(self) -> Edges:
        """Every pair of neighbours, also those that other edges imply."""
        return self.component.neighbours

    @cached_property
    def paths(self) -> Floats:
        """Shortest paths along `edges`, shape (nodes, nodes)."""
        return shortest_paths(self.edges)

    @cached_property
    def roots(self) -> Ints:
        """For each output the node where it costs least, shape (outputs,)."""
        return np.asarray(self.cost.argmin(axis=0), dtype=np.int64)


@dataclass(frozen=True)
class Limits:
    """When to stop. gap: the (loss - lower bound) / loss at which to stop. until: a time of the monotonic clock."""

    gap: float = 1e-4
    until: float = float("inf")
    threads: int = 1
    tell: Callable[[Step], None] = lambda _: None

    @property
    def expired(self) -> bool:
        check()
        return monotonic() >= self.until

    @property
    def left(self) -> float:
        """Seconds."""
        check()
        return max(0.0, self.until - monotonic())


@dataclass(frozen=True)
class Step:
    """The bounds of the component's least loss after an iteration."""

    iteration: int
    upper: float
    lower: float

    @property
    def gap(self) -> float:
        return relative_gap(self.upper, self.lower)


@dataclass(frozen=True)
class Solution:
    """matrix: shape (nodes, outputs), to be repaired. lower: no mechanism loses less; -inf where nothing is proved."""

    matrix: Floats
    lower: float
    history: tuple[Step, ...] = field(default=())


def relative_gap(upper: float, lower: float) -> float:
    """The relative gap (upper - lower) / upper; 0 if both are 0."""
    if upper == lower:
        return 0.0
    return (upper - lower) / abs(upper) if upper else float("inf")
