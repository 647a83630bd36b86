"""Marginals by matrices over all combinations of cells, as plain as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from duckanon.engines.marginals.residual_spaces import Table


def marginal_matrix(sizes: Sequence[int], table: Table) -> np.ndarray:
    """The 0-1 matrix whose rows are a table's cells, and whose columns all combinations of cells."""
    rows = product(*(range(sizes[at]) for at in table))
    columns = list(product(*(range(size) for size in sizes)))
    return np.array([[float(tuple(each[at] for at in table) == row) for each in columns] for row in rows])


class LeastSquares:
    """Weighted least squares over all combinations, by a pseudo-inverse."""

    def __init__(self, sizes: Sequence[int], measured: Mapping[Table, Fraction]) -> None:
        self.sizes = sizes
        self.weighted = {
            table: marginal_matrix(sizes, table).T / float(variance) for table, variance in measured.items()
        }
        normal = sum(self.weighted[table] @ marginal_matrix(sizes, table) for table in measured)
        self.covariance = np.linalg.pinv(normal, hermitian=True)

    def estimate(self, noisy: Mapping[Table, np.ndarray], table: Table) -> np.ndarray:
        right = sum(self.weighted[each] @ noisy[each].ravel().astype(float) for each in noisy)
        cells = marginal_matrix(self.sizes, table) @ self.covariance @ right
        return cells.reshape([self.sizes[at] for at in table])

    def covariance_of(self, table: Table) -> np.ndarray:
        """Of a table's cells, in the order of their positions."""
        matrix = marginal_matrix(self.sizes, table)
        return matrix @ self.covariance @ matrix.T
