"""HiGHS, quiet and on one thread.

HiGHS keeps one pool of threads for each thread that calls it, and runs no program that asks for another number than the
pool has. So every solver of this package asks for the same.

The constructor of `highspy.Highs` registers callbacks, and HiGHS prints its version to standard output when that
happens. No option can be set before. Its base class has all that is needed here, and registers none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import Flag, check, current

if TYPE_CHECKING:
    from scipy.sparse import csc_array

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

THREADS = 1


def new_highs(**options: object) -> Any:
    """A solver without a program. options: of HiGHS, beside those that make it quiet and use one thread."""
    import highspy

    solver: Any = highspy._Highs()  # type: ignore[attr-defined]
    for option, setting in {"output_flag": False, "threads": THREADS, **options}.items():
        solver.setOptionValue(option, setting)
    flag = current()
    if flag is not None:
        _stop_with(solver, flag)
    return solver


def solve(highs: Any) -> None:
    """Run a solver. Raises Stopped if the statement that this thread works for is to end."""
    check()
    highs.run()
    check()


@dataclass(frozen=True)
class Program:
    """min cost . x with least <= rows x <= most and lower <= x <= upper. whole: which of x are whole numbers, if any.

    cost, lower, upper, whole: shape (columns,). rows: shape (rows, columns). least, most: shape (rows,).
    """

    cost: Floats
    rows: csc_array
    least: Floats
    most: Floats
    lower: Floats
    upper: Floats
    whole: Bools | None = None


@dataclass(frozen=True)
class Outcome:
    """x: shape (columns,), the best that was met; None if none was. duals: shape (rows,), of a program without whole
    numbers. bound: no x of a program with whole numbers costs less.

    Where it is neither optimal nor infeasible, a limit was reached or HiGHS gave up.
    """

    x: Floats | None
    duals: Floats
    bound: float
    is_optimal: bool
    is_infeasible: bool
    is_late: bool


def solved(program: Program, **options: object) -> Outcome:
    """Solve a program once. Raises Stopped if the statement that this thread works for is to end: SciPy's `milp` and
    `linprog`, which have HiGHS too, cannot be stopped.
    """
    from highspy import HighsModelStatus, HighsVarType

    highs = new_highs(**options)
    highs.passModel(_as_model(program))
    if program.whole is not None:
        which = np.flatnonzero(program.whole).astype(np.int32)
        highs.changeColsIntegrality(len(which), which, np.full(len(which), HighsVarType.kInteger))
    solve(highs)
    status, info, solution = highs.getModelStatus(), highs.getInfo(), highs.getSolution()
    # 2 is a feasible solution.
    is_met = int(info.primal_solution_status) == 2
    return Outcome(
        np.array(solution.col_value) if is_met else None,
        np.array(solution.row_dual),
        float(info.mip_dual_bound),
        status == HighsModelStatus.kOptimal,
        status == HighsModelStatus.kInfeasible,
        status == HighsModelStatus.kTimeLimit,
    )


def _as_model(program: Program) -> Any:
    import highspy

    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = program.rows.shape
    model.col_cost_, model.col_lower_, model.col_upper_ = program.cost, program.lower, program.upper
    model.row_lower_, model.row_upper_ = program.least, program.most
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kColwise
    matrix.num_row_, matrix.num_col_ = program.rows.shape
    # (HiGHS takes no other whole numbers.)
    matrix.start_, matrix.index_ = program.rows.indptr.astype(np.int32), program.rows.indices.astype(np.int32)
    matrix.value_ = program.rows.data.astype(np.float64)
    return model


def _stop_with(highs: Any, flag: Flag) -> None:
    """Let a solver look at a flag while it runs, and stop when that is set."""
    from highspy import cb

    def look(_kind: Any, _message: str, _out: Any, into: Any, _data: Any) -> None:
        if into is not None and flag.is_set:
            into.user_interrupt = True

    highs.setCallback(look, None)
    for algorithm in ("Simplex", "Ipm", "Mip"):
        highs.startCallback(getattr(cb.HighsCallbackType, f"kCallback{algorithm}Interrupt"))
