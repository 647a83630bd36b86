"""The workload that benchmarks and tests share: all tables of a few attributes."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from duckanon.engines.marginals.workload import Workload


def all_tables(sizes: tuple[int, ...], ways: int, *, outside: int = 0) -> Workload:
    """All tables of one to so many attributes. sizes: without cells outside, of which each gets so many."""
    tables = tuple(table for size in range(1, ways + 1) for table in combinations(range(len(sizes)), size))
    return Workload(tuple(size + outside for size in sizes), tables, (Fraction(1),) * len(tables), sizes)
