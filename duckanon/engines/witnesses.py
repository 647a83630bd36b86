"""Whole solutions of linear equations, with each unknown as small and as large as it can be: witnesses of what is open.

Every solution is checked in whole numbers. Whether another one would be smaller or larger still, is the solver's word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.highs import new_highs, solve
from duckanon.errors import InvalidInput

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Equations:
    """sum(coefficient * unknown) = right, for each row; every unknown is from `least` to `most`.

    rows: coefficients by unknown, of each equation. unknowns: how many.
    """

    unknowns: int
    rows: Sequence[Mapping[int, int]]
    right: Sequence[int]
    least: int
    most: int

    def hold(self, solution: Sequence[int]) -> bool:
        inside = all(self.least <= unknown <= self.most for unknown in solution)
        sums = (sum(factor * solution[at] for at, factor in row.items()) for row in self.rows)
        return inside and all(total == right for total, right in zip(sums, self.right, strict=True))


@dataclass(frozen=True)
class Witnesses:
    """solutions: different ones. smallest, largest: for each unknown, the number of the solution that shows it."""

    solutions: list[list[int]]
    smallest: list[int]
    largest: list[int]


def witnesses(equations: Equations) -> Witnesses:
    """Solutions for the ends of all unknowns. Raises InvalidInput if there is none."""
    linear, whole = _program(equations, whole=False), _program(equations, whole=True)
    known: dict[tuple[int, ...], int] = {}
    ends: tuple[list[int], list[int]] = ([], [])
    for at in range(equations.unknowns):
        for sign, end in zip((1, -1), ends, strict=True):
            solution = _solution(linear, at, sign, equations) or _solution(whole, at, sign, equations)
            if solution is None:
                raise InvalidInput("No table agrees with the numbers that are shown: the totals do not add up.")
            end.append(known.setdefault(tuple(solution), len(known)))
    return Witnesses([list(numbers) for numbers in known], *ends)


def _program(equations: Equations, *, whole: bool) -> Any:
    import highspy

    program = highspy.HighsLp()
    size = equations.unknowns
    program.num_col_, program.num_row_ = size, len(equations.rows)
    program.col_cost_ = np.zeros(size)
    program.col_lower_, program.col_upper_ = np.full(size, float(equations.least)), np.full(size, float(equations.most))
    right = np.array(equations.right, dtype=np.float64)
    program.row_lower_ = program.row_upper_ = right
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.cumsum([0, *map(len, equations.rows)]).astype(np.int32)
    program.a_matrix_.index_ = np.array([at for row in equations.rows for at in row], dtype=np.int32)
    program.a_matrix_.value_ = np.array(
        [coefficient for row in equations.rows for coefficient in row.values()], dtype=np.float64
    )
    highs = new_highs(mip_rel_gap=0.0) if whole else new_highs(simplex_strategy=4)
    highs.passModel(program)
    if whole:
        kinds = np.full(size, highspy.HighsVarType.kInteger)
        highs.changeColsIntegrality(size, np.arange(size, dtype=np.int32), kinds)
    return highs


def _solution(highs: Any, at: int, sign: int, equations: Equations) -> list[int] | None:
    """A whole solution with sign times an unknown as small as can be; None if the solver's is none."""
    highs.changeColCost(at, float(sign))
    solve(highs)
    unrounded = np.array(highs.getSolution().col_value)
    highs.changeColCost(at, 0.0)
    if len(unrounded) != equations.unknowns or not np.isfinite(unrounded).all():
        return None
    solution: list[int] = np.rint(unrounded).astype(np.int64).tolist()
    return solution if equations.hold(solution) else None
