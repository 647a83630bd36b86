"""Slow twins of the engine: the linear program as it is printed, shortest paths and ratios by loops."""

import itertools

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from duckanon.engines.metric.domain import Domain

Floats = npt.NDArray[np.float64]


def neighbours(domain: Domain) -> list[tuple[int, int]]:
    """Both directions of every pair."""
    reach = np.inf if domain.radius is None else domain.radius
    return [
        (i, j)
        for i, j in itertools.permutations(range(len(domain.distances)), 2)
        if domain.distances[i, j] <= reach and np.isfinite(domain.distances[i, j])
    ]


def optimum(domain: Domain) -> float:
    """Equations 4 to 7, dense."""
    records, outputs = domain.loss.shape
    rows = []
    for i, j in neighbours(domain):
        bound = np.exp(domain.epsilon * domain.distances[i, j])
        for k in range(outputs):
            row = np.zeros((records, outputs))
            row[i, k], row[j, k] = 1 / bound, -1.0
            rows.append(row.ravel())
    found = linprog(
        domain.expected.ravel(),
        A_ub=np.array(rows) if rows else None,
        b_ub=np.zeros(len(rows)) if rows else None,
        A_eq=np.kron(np.eye(records), np.ones(outputs)),
        b_eq=np.ones(records),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.status == 0
    return float(found.fun)


def worst(matrix: Floats, domain: Domain) -> float:
    """The largest logarithm of a ratio less what is allowed."""
    found = -np.inf
    for i, j in neighbours(domain):
        for here, there in zip(matrix[i] / matrix[i].sum(), matrix[j] / matrix[j].sum(), strict=True):
            if here > 0:
                ratio = np.log(here) - np.log(there) if there > 0 else np.inf
                found = max(found, ratio - domain.epsilon * domain.distances[i, j])
    return found


def paths(lengths: Floats) -> Floats:
    """Floyd and Warshall."""
    found = lengths.copy()
    for m in range(len(found)):
        found = np.minimum(found, found[:, m, None] + found[m])
    return found


def in_cone(vector: Floats, lengths: Floats) -> bool:
    return all(
        vector[i] <= np.exp(lengths[i, j]) * vector[j] * (1 + 1e-9)
        for i, j in itertools.permutations(range(len(vector)), 2)
        if np.isfinite(lengths[i, j])
    )
