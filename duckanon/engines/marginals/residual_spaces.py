"""The parts of which marginals consist: what a table says beyond its own margins.

The residual space of a set B of attributes holds the arrays over B whose sums along each attribute are zero. A table
over A is the sum of one array from the space of each B within A, which is spread evenly over the other attributes, and
these arrays are orthogonal. So a marginal with independent noise of equal variance measures each space within it
independently of the others: with sigma^2 times the product of the sizes of the attributes that were added up.

Xiao, He, Zhang and Kifer 2023, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss
Functions" (ResidualPlanner), sections 3 and 4, which measures the spaces themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

# The attributes of a marginal or of a residual space: their positions, increasing.
Table = tuple[int, ...]
Floats = NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)


def within(table: Table) -> Iterator[Table]:
    """The residual spaces of a table: all sets of its attributes, from none to all."""
    for size in range(len(table) + 1):
        yield from combinations(table, size)


def closure(tables: Iterable[Table]) -> tuple[Table, ...]:
    """All residual spaces of some tables, from small to large."""
    return tuple(sorted({space for table in tables for space in within(table)}, key=lambda space: (len(space), space)))


def precision_of(sizes: Sequence[int], measured: Table, space: Table) -> Fraction:
    """How precisely a marginal measures a space within it: the inverse variance, for noise of variance 1 in a cell."""
    return Fraction(1, prod(sizes[at] for at in measured if at not in space))


def part_of_a_cell(sizes: Sequence[int], table: Table, space: Table) -> Fraction:
    """The variance that a space gives to each cell of a table, for a measurement of the space with variance 1."""
    part = Fraction(1)
    for at in table:
        part *= Fraction(sizes[at] - 1, sizes[at]) if at in space else Fraction(1, sizes[at] ** 2)
    return part


def summed(cells: NDArray[Any], table: Table, space: Table) -> NDArray[Any]:
    """The sums of a table's cells over all attributes that are not in the space."""
    return cells.sum(axis=tuple(axis for axis, at in enumerate(table) if at not in space))  # type: ignore[no-any-return]


def centred(values: Floats) -> Floats:
    """An array's part in the residual space of all its attributes: sums along each axis are zero."""
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def spread(sizes: Sequence[int], table: Table, space: Table, residual: Floats) -> Floats:
    """What an array from a space adds to the cells of a table: evenly over its other attributes, to be broadcast."""
    others = prod(sizes[at] for at in table if at not in space)
    return residual.reshape([sizes[at] if at in space else 1 for at in table]) / others
