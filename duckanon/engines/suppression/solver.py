"""HiGHS for suppression: additive deviations from a table within bounds that change from one solve to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.engines import highs
from duckanon.engines.highs import new_highs, solve
from duckanon.errors import DuckanonError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Nodes of a search tree, after which the best found so far is taken.
_NODES = 5000
# HiGHS takes programs with larger numbers for unbounded: its tolerances are absolute.
_LARGEST = 20


@dataclass(frozen=True)
class Optimum:
    """x: shape (columns,). duals: shape (rows,). objective: the least cost."""

    x: Floats
    duals: Floats
    objective: float


class Program:
    """min cost . x with bounds on columns and on rows, solved by the simplex method from the last basis.

    One thread and no clock: the same calls give the same answers.
    """

    def __init__(
        self,
        cost: Floats,
        lower: Floats,
        upper: Floats,
        *,
        primal: bool,
        largest: float = 1.0,
        presolve: bool = True,
    ) -> None:
        """primal: simplex for bounds and costs that change while 0 stays feasible; or else dual, for rows that come.

        largest: of the finite bounds that columns and rows will have. HiGHS gets all of them divided by a power of two,
        which rounds nothing and leaves the duals as they are. presolve: whether it is made smaller before the first
        solve, which takes longer than to solve one of some hundreds of columns with few that move.
        """
        import highspy

        options = {} if presolve else {"presolve": "off"}
        self._highs = new_highs(simplex_strategy=4 if primal else 1, solver="simplex", **options)
        self._solved = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kModelEmpty)
        self._infeasible = highspy.HighsModelStatus.kInfeasible
        self._all = np.arange(len(cost), dtype=np.int32)
        self._unit = 2.0 ** max(0, int(np.frexp(largest)[1]) - _LARGEST)
        self._highs.addVars(len(cost), lower / self._unit, upper / self._unit)
        self.price(cost)

    def add(self, rows: csr_array, lower: Floats, upper: Floats) -> None:
        """Add rows with lower <= rows x <= upper."""
        starts, indices = rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32)
        bounds = lower / self._unit, upper / self._unit
        self._highs.addRows(rows.shape[0], *bounds, rows.nnz, starts, indices, rows.data.astype(np.float64))

    def price(self, cost: Floats) -> None:
        """New costs of all columns."""
        self._highs.changeColsCost(len(self._all), self._all, cost)

    def price_one(self, column: int, cost: float) -> None:
        self._highs.changeColCost(column, cost)

    def bound(self, lower: Floats, upper: Floats) -> None:
        """New bounds of all columns."""
        self._highs.changeColsBounds(len(self._all), self._all, lower / self._unit, upper / self._unit)

    def solve(self) -> Optimum | None:
        """The optimum, or None where there is none. Raises DuckanonError if the solver gives up."""
        for attempt in range(2):
            if attempt:
                # The last solve's basis can mislead the solver.
                self._highs.clearSolver()
            solve(self._highs)
            status = self._highs.getModelStatus()
            if status == self._infeasible:
                return None
            if status in self._solved:
                break
        else:
            raise DuckanonError(
                "The linear program of the suppression was not solved: sum larger units, such as thousands."
            )
        answer = self._highs.getSolution()
        objective = float(self._highs.getInfo().objective_function_value) * self._unit
        return Optimum(np.array(answer.col_value) * self._unit, np.array(answer.row_dual), objective)


def whole_optimum(cost: Floats, lower: Floats, upper: Floats, rows: csr_array, right: Ints) -> Ints | None:
    """A whole x of least cost with rows x = right, or the best of a limited search; None if it finds none."""
    every, amounts = np.ones(len(cost), np.bool_), right.astype(np.float64)
    program = highs.Program(cost, rows.tocsc(), amounts, amounts, lower, upper, whole=every)
    answer = highs.solved(program, mip_max_nodes=_NODES, mip_rel_gap=0.0)
    return None if answer.x is None else np.rint(answer.x).astype(np.int64)


@dataclass(frozen=True)
class Chosen:
    """y: shape (columns,). bound: no y costs less, as HiGHS has it. iterations: of the simplex method."""

    y: Bools
    bound: float
    iterations: int


class Choice:
    """min cost . y over y in {0, 1} and rows y >= 1, by HiGHS's branch and bound; one thread, no clock."""

    def __init__(self, cost: Floats, nodes: int) -> None:
        """nodes: of the search tree, at most."""
        import highspy

        self._highs = new_highs(mip_rel_gap=0.0, mip_abs_gap=1e-6, mip_max_nodes=nodes)
        every, count = np.arange(len(cost), dtype=np.int32), len(cost)
        self._highs.addVars(count, np.zeros(count), np.ones(count))
        self._highs.changeColsCost(count, every, cost)
        self._highs.changeColsIntegrality(count, every, np.full(count, highspy.HighsVarType.kInteger))

    def add(self, rows: csr_array) -> None:
        """Add rows with rows y >= 1."""
        count = rows.shape[0]
        starts, indices = rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32)
        self._highs.addRows(count, np.ones(count), np.full(count, np.inf), rows.nnz, starts, indices, rows.data)

    def solve(self) -> Chosen | None:
        """The best y of the search; None if there is no y, or none was found."""
        solve(self._highs)
        info = self._highs.getInfo()
        # 2 is a feasible solution.
        if int(info.primal_solution_status) != 2:
            return None
        y = np.array(self._highs.getSolution().col_value) > 0.5
        return Chosen(y, float(info.mip_dual_bound), int(info.simplex_iteration_count))
