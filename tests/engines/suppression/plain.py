"""Suppression the slow and obvious way: list all tables, list all patterns. Twins to test against."""

from itertools import product

import numpy as np

from duckanon.engines.suppression.problem import Problem
from duckanon.engines.suppression.table import Axis, Table


def with_totals(leaves: np.ndarray, rows: Axis, columns: Axis) -> np.ndarray:
    """Any numbers in cells that are no sums; the sums are filled in. leaves: shape (..., rows, columns)."""
    table = leaves.copy()
    for view, axis in ((table, rows), (np.swapaxes(table, -1, -2), columns)):
        for node in axis.upward:
            parts = np.flatnonzero(axis.parents == node)
            if len(parts):
                view[..., node, :] = view[..., parts, :].sum(axis=-2)
    return table


def all_tables(problem: Problem) -> np.ndarray:
    """Shape (tables, cells): every additive table within what attackers know. Upper bounds must be finite."""
    table = problem.table
    assert isinstance(table, Table)
    leaf = np.outer(table.rows.leaves, table.columns.leaves).ravel()
    choices = [range(int(problem.least[i]), int(problem.most[i]) + 1) for i in np.flatnonzero(leaf)]
    grid = np.zeros((int(np.prod([len(c) for c in choices])), table.cells), dtype=np.int64)
    grid[:, leaf] = np.array(list(product(*choices)), dtype=np.int64).reshape(len(grid), -1)
    found = with_totals(grid.reshape(-1, *table.units.shape), table.rows, table.columns).reshape(len(grid), -1)
    return found[((found >= problem.least) & (found <= problem.most)).all(axis=1)]


def intervals(problem: Problem, tables: np.ndarray, pattern: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value of each cell among the tables that agree with the published cells."""
    agree = tables[(tables[:, ~pattern] == problem.table.flat[~pattern]).all(axis=1)]
    return agree.min(axis=0), agree.max(axis=0)


def protects(problem: Problem, tables: np.ndarray, pattern: np.ndarray) -> bool:
    lower, upper = intervals(problem, tables, pattern)
    required = problem.required
    wide = (lower <= problem.table.flat - required.lower) & (upper >= problem.table.flat + required.upper)
    return bool((wide & (upper - lower >= required.width))[problem.primary].all())


def least_cost(problem: Problem, tables: np.ndarray) -> float | None:
    """The cost of the cheapest pattern that protects; None if none does."""
    free = np.flatnonzero(problem.free)
    if not protects(problem, tables, problem.primary | problem.free):
        return None
    patterns = np.array(list(product([False, True], repeat=len(free))), dtype=bool).reshape(2 ** len(free), len(free))
    costs = patterns @ problem.cost[free]
    for k in np.argsort(costs, kind="stable"):
        pattern = problem.primary.copy()
        pattern[free[patterns[k]]] = True
        if protects(problem, tables, pattern):
            return float(costs[k])
    return None
