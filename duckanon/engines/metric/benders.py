"""Benders decomposition (Qiu 2024, section 3.2).

The nodes are divided into parts. A master program chooses the rows of boundary nodes, and estimates the loss of each
part's internal nodes. A subproblem for each part computes the best rows of its internal nodes given the boundary's, and
returns a cut: a feasibility cut if there are no such rows, an optimality cut if the estimate was too low. Solutions of
all subproblems give an upper bound. The lower bound is computed from the master's dual prices, as `columns` does,
because the master's own value can be too high by far more than its solver's tolerance (by a tenth, for small losses).

At the boundary rows that the master chooses, as in the paper, the subproblems are infeasible for hundreds of rounds.
So they are solved at a point between the best mechanism known, at first the exponential one, and the master's choice
(in-out separation, Ben-Ameur and Neto 2007). Then there is a mechanism from the first round on, and cuts are deeper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.engines.metric.exponential import exponential
from duckanon.engines.metric.graph import edges_of, reduced
from duckanon.engines.metric.highs import Model, Optimum
from duckanon.engines.metric.partitions import Partition
from duckanon.engines.metric.pricing import UNLIMITED, Pricing
from duckanon.engines.metric.problem import Limits, Program, Solution, Step, relative_gap
from duckanon.engines.metric.repair import repair
from duckanon.engines.metric.scaled_program import FINEST, Scaled
from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# How much probability a subproblem may lack before it counts as infeasible.
_SHORT = 1e-8
# Cuts are taken at this share of the way from the best mechanism known to the master's choice; beyond `_CLOSE`, at
# the choice itself, as in the paper.
_TRUST = 0.5
_CLOSE, _NEAR = 0.95, 1 / 64
# After so many rounds in which the gap does not shrink by this relative amount, the solver's precision is exhausted.
_PATIENCE, _PROGRESS = 50, 1e-9


@dataclass(frozen=True)
class _Cut:
    """slope . u_Y (+ w_l, for an optimality cut) >= constant, over the boundary's variables.

    part: the subproblem that found it. optimality: False for a feasibility cut. prices: the duals of the part's row
    sums, shape (internal,).
    """

    slope: Floats
    constant: float
    part: int
    optimality: bool
    prices: Floats

    def violated(self, boundary: Floats, guesses: Floats) -> bool:
        """Whether the master's choice violates the cut."""
        left_side = float(self.slope @ boundary) + (float(guesses[self.part]) if self.optimality else 0.0)
        return left_side < self.constant - 1e-12


class _Sub:
    """One part's subproblem (equations 13 to 17): rows of its internal nodes, given the boundary's."""

    def __init__(self, program: Program, scaled: Scaled, inside: Ints, place: Ints, boundary_width: int) -> None:
        from scipy.sparse import csr_array, eye_array, hstack, vstack

        self.inside, self._scaled = inside, scaled
        outputs = program.cost.shape[1]
        self._width = width = len(inside) * outputs
        own = np.full(program.edges.nodes, -1)
        own[inside] = np.arange(len(inside)) * outputs
        first, second = program.edges.ends
        touching = (own[first] >= 0) | (own[second] >= 0)
        # The variables in one row: those of the internal nodes, then the boundary's.
        at = np.where(own >= 0, own, width + place)
        ratios = scaled.ratios(
            first[touching], second[touching], program.edges.length[touching], at, width + boundary_width
        )
        sums = scaled.sums(inside, at, width + boundary_width)
        self._ratios, self._sums = ratios.shape[0], sums.shape[0]
        whole = vstack([ratios, sums]).tocsr()
        inner, self._outer = csr_array(whole[:, :width]), csr_array(whole[:, width:])
        cost = scaled.cost[inside].ravel()
        # Its tolerance makes it feasible wherever the next model lacks no more than `_SHORT`.
        self._best = self._model(inner, cost, 10 * _SHORT)
        # The same rows with slack at a cost of 1. The least cost is 0 if there is a solution.
        slack = vstack([-eye_array(self._ratios), csr_array((self._sums, self._ratios))])
        short = vstack(
            [csr_array((self._ratios, 2 * self._sums)), hstack([eye_array(self._sums), -eye_array(self._sums)])]
        )
        room = csr_array(hstack([inner, slack, short]))
        price = np.concatenate([np.zeros(width), np.ones(self._ratios + 2 * self._sums)])
        self._possible = self._model(room, price, FINEST)

    def _model(self, rows: csr_array, cost: Floats, tolerance: float) -> Model:
        model = Model(cost, np.zeros(len(cost)), tolerance)
        lower = np.concatenate([np.full(self._ratios, -np.inf), np.ones(self._sums)])
        upper = np.concatenate([np.zeros(self._ratios), np.ones(self._sums)])
        model.add(rows, lower, upper)
        return model

    def answer(self, boundary: Floats, part: int, limits: Limits) -> tuple[_Cut | None, Optimum | None]:
        """A cut, None if the solver gave up; and the internal rows, None if there are none."""
        from_boundary = self._outer @ boundary
        right = np.concatenate([np.zeros(self._ratios), np.ones(self._sums)]) - from_boundary
        rows = np.arange(self._ratios)
        for model in (self._possible, self._best):
            model.bounds(rows, np.full(self._ratios, -np.inf), right[: self._ratios])
        lacking = self._possible.solve(limits.left)
        if lacking is None:
            return None, None
        fixed = np.concatenate([np.zeros(self._ratios), np.ones(self._sums)])
        if lacking.objective > _SHORT:
            # A dual ray: duals . (fixed - outer u) <= 0 for every u with a solution.
            ray = lacking.duals / np.abs(lacking.duals).max()
            return _Cut(self._outer.T @ ray, float(ray @ fixed), part, False, ray[self._ratios :]), None
        optimum = self._best.solve(limits.left)
        if optimum is None:
            return None, None
        duals = optimum.duals
        return _Cut(self._outer.T @ duals, float(duals @ fixed), part, True, duals[self._ratios :]), optimum


class _Master:
    """The master program: the rows of boundary nodes and an estimate of each part's loss, under the cuts found so far.

    Its variables are the boundary's, `width` of them, and after these the estimates. place: where each boundary node's
    row begins, shape (nodes,); -1 for internal nodes.
    """

    def __init__(self, program: Program, scaled: Scaled, boundary: Ints, insides: list[Ints], threads: int) -> None:
        nodes, outputs = program.cost.shape
        self.boundary, self._insides = boundary, insides
        self.place = np.full(nodes, -1)
        self.place[boundary] = np.arange(len(boundary)) * outputs
        self.width = len(boundary) * outputs
        self._variables = self.width + len(insides)
        cost = np.concatenate([scaled.cost[boundary].ravel(), np.ones(len(insides))])
        self._model = Model(cost, np.zeros(self._variables))
        self._cuts: list[_Cut] = []
        self._ratios = self._bind_boundary(program, scaled, threads) if len(boundary) else 0

    def _bind_boundary(self, program: Program, scaled: Scaled, threads: int) -> int:
        """Add what binds the boundary's rows by themselves; returns how many ratios of two rows are bounded.

        These are edges between boundary nodes and, as initial cuts, shortest paths between them (property 3.2), without
        those that others imply.
        """
        boundary = self.boundary
        among = reduced(edges_of(program.paths[np.ix_(boundary, boundary)]), threads)
        first, second = among.ends
        ratios = scaled.ratios(boundary[first], boundary[second], among.length, self.place, self._variables)
        self._model.add(ratios, upper=np.zeros(ratios.shape[0]))
        sums = scaled.sums(boundary, self.place, self._variables)
        self._model.add(sums, np.ones(len(boundary)), np.ones(len(boundary)))
        return int(ratios.shape[0])

    def solve(self, limits: Limits) -> Optimum | None:
        return self._model.solve(limits.left)

    def prices(self, duals: Floats) -> Floats:
        """The price of each node's row sum, shape (nodes,), from the duals of the master's rows and of its cuts."""
        sums = self._ratios + len(self.boundary)
        prices = np.zeros(len(self.place))
        prices[self.boundary] = duals[self._ratios : sums]
        for dual, cut in zip(duals[sums:].tolist(), self._cuts, strict=True):
            prices[self._insides[cut.part]] += max(dual, 0.0) * cut.prices
        return prices

    def add(self, cuts: list[_Cut]) -> None:
        from scipy.sparse import csr_array

        slopes = np.zeros((len(cuts), self._variables))
        for row, cut in zip(slopes, cuts, strict=True):
            row[: self.width] = cut.slope
            if cut.optimality:
                row[self.width + cut.part] = 1.0
        self._model.add(csr_array(slopes), lower=np.array([cut.constant for cut in cuts]))
        self._cuts += cuts


@dataclass(frozen=True, eq=False)
class _Mechanism:
    """A mechanism of the scaled program. u: shape (nodes, outputs). core: the rows of boundary nodes, one by one."""

    u: Floats
    core: Floats
    loss: float


def _joined(scaled: Scaled, boundary: Ints, point: Floats, internal: Sequence[tuple[_Sub, Optimum]]) -> _Mechanism:
    """The mechanism of a point, the boundary's rows, and of the best internal rows of every part there."""
    u: Floats = np.zeros(scaled.cost.shape)
    u[boundary] = point.reshape(-1, u.shape[1])
    for sub, optimum in internal:
        u[sub.inside] = optimum.x.reshape(-1, u.shape[1])
    loss = float(scaled.cost[boundary].ravel() @ point) + sum(optimum.objective for _, optimum in internal)
    return _Mechanism(u, point, loss)


def benders(program: Program, limits: Limits, cut: Callable[[Program], Partition]) -> Solution:
    """Iterate until the relative gap or the time is reached.

    Raises InvalidInput if there was no time for a first bound.
    """
    partition, scaled = cut(program), Scaled(program)
    boundary = np.flatnonzero(partition.boundary)
    insides = [inside for inside in partition.internal if len(inside)]
    master = _Master(program, scaled, boundary, insides, limits.threads)
    subs = [_Sub(program, scaled, inside, master.place, master.width) for inside in insides]
    history: list[Step] = []
    start = _start(program, limits) / scaled.anchor
    # The best mechanism known; cuts are taken between it and the master's choice.
    best, lower = _Mechanism(start, start[boundary].ravel(), float((scaled.cost * start).sum())), -np.inf
    trust, idle = 0.0, 0
    pricing = Pricing(program, limits)
    while (decided := master.solve(limits)) is not None:
        prices = master.prices(decided.duals) * scaled.scale
        pricing.run(prices, UNLIMITED)
        lower = max(lower, pricing.bound(prices) / scaled.scale)
        choice, guesses = decided.x[: master.width], decided.x[master.width :]
        point = best.core + trust * (choice - best.core)
        answers = [sub.answer(point, part, limits) for part, sub in enumerate(subs)]
        optima = [optimum for _, optimum in answers if optimum is not None]
        if len(optima) == len(subs):
            joined = _joined(scaled, boundary, point, list(zip(subs, optima, strict=True)))
            best = joined if joined.loss < best.loss else best
            trust = max(trust, _TRUST)
        else:
            # The point is infeasible: move it closer to the best mechanism.
            trust = trust / 2 if trust > _NEAR else _TRUST
        step = Step(len(history) + 1, best.loss * scaled.scale, lower * scaled.scale)
        idle = idle + 1 if history and history[-1].gap <= step.gap * (1 + _PROGRESS) else 0
        history.append(step)
        limits.tell(step)
        if relative_gap(best.loss, lower) <= limits.gap or limits.expired or idle > _PATIENCE:
            break
        if cuts := [cut for cut, _ in answers if cut is not None and cut.violated(choice, guesses)]:
            master.add(cuts)
        elif trust == 1.0:
            break
        else:
            # No cut excludes the master's choice: move the point farther, at last to the choice itself.
            trust = 1.0 if trust > _CLOSE else (1 + trust) / 2
    if lower == -np.inf:
        raise InvalidInput(
            "The method 'benders' had no bound when the time was up or its solver gave up: "
            "take method := 'columns', or a longer time_limit."
        )
    return Solution(best.u * scaled.anchor, lower * scaled.scale, tuple(history))


def _start(program: Program, limits: Limits) -> Floats:
    """The exponential mechanism, repaired for this program; if there is none, the same uniform row for all nodes."""
    try:
        matrix = exponential(program, limits).matrix
    except InvalidInput:
        return np.full(program.cost.shape, 1 / program.cost.shape[1])
    return repair(matrix, program.edges, program.cost)
