"""From a domain to a mechanism: each component is solved and repaired alone, and the whole matrix is certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import within
from duckanon.engines.metric.certificate import Certificate, certify
from duckanon.engines.metric.domain import Domain
from duckanon.engines.metric.graph import FEW, Component, Graph, mdp_graph
from duckanon.engines.metric.methods import DEFAULT, METHODS, Method
from duckanon.engines.metric.problem import Limits, Program, Step, relative_gap
from duckanon.engines.metric.repair import repair
from duckanon.errors import DuckanonError, InvalidInput

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ISOLATED = ("error", "keep", "suppress")


@dataclass(frozen=True)
class Options:
    """gap: relative, per component. time_limit: seconds for all components together. isolated: one of `ISOLATED`."""

    gap: float = 1e-4
    time_limit: float = 600.0
    isolated: str = "error"
    threads: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.gap < 1:
            raise InvalidInput("gap must be between 0 and 1, as in gap := 0.0001: the share of the loss left to save.")
        if not self.time_limit > 0:
            raise InvalidInput("time_limit must be a number of seconds above 0.")
        if self.isolated not in ISOLATED:
            raise InvalidInput("isolated must be 'error', 'keep' or 'suppress'.")


@dataclass(frozen=True)
class Mechanism:
    """matrix: shape (records, outputs); the rows of suppressed records are zero.

    loss: expected, suppressed records counting nothing. lower: no mechanism loses less; -inf where nothing is proved.
    """

    matrix: Floats
    suppressed: Flags
    certificate: Certificate
    loss: float
    lower: float

    @property
    def gap(self) -> float:
        return relative_gap(self.loss, self.lower)


Tell = Callable[[str, Step], None]


def _ignore(part: str, step: Step) -> None:
    """Ignore progress."""


def _isolated(graph: Graph, isolated: str) -> Flags:
    """The records without a neighbour; raises InvalidInput if that is an error."""
    alone = np.concatenate([part.nodes for part in graph.components if len(part.nodes) == 1] or [np.zeros(0, int)])
    records = np.isin(graph.node, alone)
    if records.any() and isolated == "error":
        raise InvalidInput(
            f"At this radius {int(records.sum())} records have no neighbour, which means no protection: widen the "
            "radius, or say isolated := 'keep' to release them as they are or isolated := 'suppress' to withhold them."
        )
    return records


def _program(domain: Domain, graph: Graph, component: Component, cost: Floats) -> Program:
    """The component's program. A node's cost is the sum of its records' costs."""
    order = np.argsort(graph.node, kind="stable")
    members = order[np.searchsorted(graph.node[order], component.nodes)]

    def reach() -> Floats:
        if domain.triangle:
            return domain.epsilon * domain.distances[np.ix_(members, domain.outputs)]
        distances = np.full((len(members), len(domain.outputs)), np.inf)
        place = np.full(graph.node.max() + 1, -1)
        place[component.nodes] = np.arange(len(members))
        inside = place[graph.node[domain.outputs]]
        distances[:, inside >= 0] = component.shortest()[:, inside[inside >= 0]]
        return distances

    points = None if domain.points is None else domain.points[members]
    return Program(component, np.ascontiguousarray(cost[component.nodes]), reach, points)


def optimise(domain: Domain, method: Method, options: Options = Options(), tell: Tell = _ignore) -> Mechanism:  # frozen
    """The mechanism of least expected loss that the method finds; all its ratios are certified.

    tell: called after each iteration with the number of the part and the bounds.
    Raises InvalidInput for isolated records (unless allowed), and what the method raises.
    """
    until = monotonic() + within(options.time_limit)
    graph = mdp_graph(domain.distances, domain.epsilon, domain.radius, options.threads)
    alone = _isolated(graph, options.isolated)
    suppressed = alone if options.isolated == "suppress" else np.zeros(len(alone), dtype=np.bool_)
    expected = np.where(suppressed[:, None], 0.0, domain.expected)
    cost = _by_node(expected, graph)
    rows = np.zeros(cost.shape)
    lower = 0.0
    # Small parts first, so that large ones can use all of the remaining time.
    parts = sorted(graph.components, key=lambda part: len(part.nodes))
    for number, part in enumerate(parts, 1):
        if len(part.nodes) == 1:
            node = int(part.nodes[0])
            # The output that costs least; among equal ones, as where the prior is 0, the one of least loss.
            own = int(np.lexsort((domain.loss[graph.node == node].sum(axis=0), cost[node]))[0])
            rows[node, own] = 1.0
            lower += float(cost[node, own])
            continue
        program = _program(domain, graph, part, cost)
        name = f"part {number} of {len(parts)}"
        threads = options.threads if len(part.nodes) > FEW else 1
        limits = Limits(options.gap, until, threads, partial(tell, name))
        solution = method.run(program, limits)
        rows[part.nodes] = repair(solution.matrix, program.edges, program.cost)
        # No row can do better than its cheapest output, however early the search ended.
        lower += max(solution.lower, float(program.cost.min(axis=1).sum()))
    matrix = rows[graph.node]
    certificate = certify(matrix, domain.distances, domain.epsilon, domain.radius, options.threads)
    if not certificate.holds or certificate.row_sum_error > 1e-12:
        raise DuckanonError("A ratio of probabilities is too large: this is a bug in duckanon, nothing was released.")
    matrix[suppressed] = 0.0
    return Mechanism(matrix, suppressed, certificate, float((matrix * expected).sum()), lower)


def _by_node(expected: Floats, graph: Graph) -> Floats:
    """Sums of the records' rows for each node."""
    order = np.argsort(graph.node, kind="stable")
    return np.add.reduceat(expected[order], np.flatnonzero(np.diff(graph.node[order], prepend=-1)), axis=0)


def report(
    domain: Domain, matrix: Floats, suppressed: Flags, options: Options, *, bound: bool, tell: Tell
) -> dict[str, Any]:
    """The columns of metric_report, by name.

    matrix: shape (records, outputs). suppressed: records that give no output. They add nothing to the loss. In every
    check being suppressed is an output of its own, so one suppressed record of two neighbours breaks the guarantee.
    bound: whether to look for a lower bound, which takes as long as finding a mechanism.
    """
    whole = np.concatenate([matrix, suppressed[:, None].astype(float)], axis=1) if suppressed.any() else matrix
    checked = certify(whole, domain.distances, domain.epsilon, domain.radius, options.threads)
    counted = replace(domain, loss=np.where(suppressed[:, None], 0.0, domain.loss))
    loss = float((matrix * counted.expected).sum())
    lower = optimise(counted, METHODS[DEFAULT], options, tell).lower if bound else None
    return {
        "pairs": checked.pairs,
        "max_violation": None if checked.pairs == 0 else checked.max_violation,
        "row_sum_error": checked.row_sum_error,
        "expected_loss": loss,
        "exponential_loss": optimise(counted, METHODS["exponential"], options).loss,
        "lower_bound": lower,
        "gap": None if lower is None else relative_gap(loss, lower),
    }
