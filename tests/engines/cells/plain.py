"""Cell bounds the slow and obvious way. Twins to test against."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from duckanon.engines.cells.knapsack import FREE, Knapsack


def reachable(rows: Sequence[tuple[int, int]], target: int) -> set[int]:
    """Every sum up to the target of multiples of (sum, upper bound)."""
    found = {0}
    for r, u in rows:
        top = target // r if u == FREE else u
        found = {x + r * k for x in found for k in range(top + 1) if x + r * k <= target}
    return found


def values(problem: Knapsack) -> list[list[int]]:
    """Every feasible nu of each kind, by listing all that the other rows can make."""
    alike = zip(problem.sums.tolist(), problem.uppers.tolist(), problem.copies.tolist(), strict=True)
    rows = [(r, u) for r, u, copies in alike for _ in range(copies)]
    found = []
    for r, u in zip(problem.sums.tolist(), problem.uppers.tolist(), strict=True):
        others = list(rows)
        others.remove((r, u))
        left = reachable(others, problem.target)
        top = problem.target // r if u == FREE else min(u, problem.target // r)
        found.append([nu for nu in range(top + 1) if problem.target - nu * r in left])
    return found


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def tables_like(table: Sequence[Sequence[int]]) -> list[tuple[tuple[int, ...], ...]]:
    """Every table with the same conditional proportions and sample size as `table`, by listing all tables."""
    n = sum(map(sum, table))
    shares = [[Fraction(x, sum(row)) for x in row] for row in table]
    options = []
    for share in shares:
        rows = []
        for total in range(1, n + 1):
            row = [total * p for p in share]
            if all(x.denominator == 1 for x in row):
                rows.append(tuple(int(x) for x in row))
        options.append(rows)
    return [found for found in product(*options) if sum(map(sum, found)) == n]


def arrays(table: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers and counts of all cells."""
    rows = np.repeat(np.arange(len(table)), [len(row) for row in table])
    return rows, np.array([x for row in table for x in row], dtype=np.int64)
