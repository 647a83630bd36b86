"""ResidualPlanner in closed form: the least mean variance of any Gaussian noise, correlated noise included.

Xiao, He, Zhang and Kifer 2023, section 5: the residual space of A gets noise of variance s_A, which costs rho = p_A by
2 s_A with p_A the product of (n - 1) / n, and adds v_A s_A to the sum of all cells' variances. So the least sum at a
charge is (sum of sqrt(p_A v_A))^2 / (2 rho), with s_A proportional to sqrt(p_A / v_A).
"""

from __future__ import annotations

from fractions import Fraction
from math import prod, sqrt

from duckanon.engines.marginals.residual_spaces import Table, within
from duckanon.engines.marginals.workload import Workload


def factors(workload: Workload) -> tuple[dict[Table, float], dict[Table, float]]:
    """p and v of each residual space."""
    sizes, costs, adds = workload.sizes, {}, dict.fromkeys(workload.spaces, 0.0)
    for table, weight in zip(workload.tables, workload.weights, strict=True):
        for space in within(table):
            part = prod((sizes[at] - 1) / sizes[at] if at in space else 1 / sizes[at] ** 2 for at in table)
            adds[space] += float(weight) * workload.counted(table) * part
    for space in workload.spaces:
        costs[space] = prod((sizes[at] - 1) / sizes[at] for at in space)
    return costs, adds


def least_error(workload: Workload, rho: Fraction) -> float:
    """The mean variance of the cells that count."""
    costs, adds = factors(workload)
    cells = sum(
        float(weight) * workload.counted(table) for table, weight in zip(workload.tables, workload.weights, strict=True)
    )
    return sum(sqrt(costs[space] * adds[space]) for space in costs) ** 2 / (2 * float(rho)) / cells


def variances(workload: Workload, rho: Fraction) -> dict[Table, float]:
    """The variance of the noise of each residual space."""
    costs, adds = factors(workload)
    whole = sum(sqrt(costs[space] * adds[space]) for space in costs)
    return {space: sqrt(costs[space] / adds[space]) * whole / (2 * float(rho)) for space in costs}
