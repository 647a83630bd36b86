"""A linear program in HiGHS to which rows are added; each solve starts from the last one's solution."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.highs import new_highs, solve
from duckanon.engines.metric.scaled_program import FINEST

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Settings that are tried until HiGHS finds an optimum: from the last basis; from scratch; with coarser tolerances;
# with its interior point method.
_COARSE = {"primal_feasibility_tolerance": 1e-8, "dual_feasibility_tolerance": 1e-8}
_ATTEMPTS: tuple[dict[str, Any], ...] = ({}, {"presolve": "choose"}, _COARSE, {**_COARSE, "solver": "ipm"})


@dataclass(frozen=True)
class Optimum:
    """x: shape (columns,). duals: shape (rows,), of the rows' right sides. objective: the least cost."""

    x: Floats
    duals: Floats
    objective: float


class Model:
    """min cost . x, lower <= x, and rows with bounds on both sides."""

    def __init__(self, cost: Floats, lower: Floats, tolerance: float = FINEST) -> None:
        import highspy

        self._optimal = highspy.HighsModelStatus.kOptimal
        self._usual: dict[str, Any] = {
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": FINEST,
            "presolve": "choose",
            "solver": "choose",
        }
        self._highs = new_highs(**self._usual)
        self._highs.addVars(len(cost), lower, np.full(len(cost), highspy.kHighsInf))
        self._highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
        self._infinity = highspy.kHighsInf

    def add(self, rows: csr_array, lower: Floats | None = None, upper: Floats | None = None) -> None:
        """Add rows with lower <= rows x <= upper; None is no bound."""
        count = rows.shape[0]
        self._highs.addRows(
            count,
            np.full(count, -self._infinity) if lower is None else lower,
            np.full(count, self._infinity) if upper is None else upper,
            rows.nnz,
            rows.indptr[:-1].astype(np.int32),
            rows.indices.astype(np.int32),
            rows.data,
        )

    def bounds(self, rows: Ints, lower: Floats, upper: Floats) -> None:
        """Change the bounds of some rows; infinite ones are none."""
        for row, low, high in zip(rows.tolist(), lower.tolist(), upper.tolist(), strict=True):
            self._highs.changeRowBounds(row, max(low, -self._infinity), min(high, self._infinity))

    def solve(self, seconds: float) -> Optimum | None:
        """The optimum; None if there is none, or not in that time."""
        until = monotonic() + seconds
        for attempt in _ATTEMPTS:
            for option, setting in attempt.items():
                self._highs.setOptionValue(option, setting)
            if attempt:
                # The last solve's basis may be what made HiGHS fail.
                self._highs.clearSolver()
            # HiGHS's clock runs on from solve to solve.
            left = max(0.0, until - monotonic())
            self._highs.setOptionValue("time_limit", min(self._highs.getRunTime() + left, 1e9))
            solve(self._highs)
            optimal = self._highs.getModelStatus() == self._optimal
            for option in attempt:
                self._highs.setOptionValue(option, self._usual[option])
            if optimal:
                break
        else:
            return None
        solution = self._highs.getSolution()
        return Optimum(
            np.array(solution.col_value),
            np.array(solution.row_dual),
            float(self._highs.getInfo().objective_function_value),
        )
