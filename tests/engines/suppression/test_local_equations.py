"""Equations of few cells against slices of the whole matrix."""

import numpy as np
import pytest

from duckanon.engines.suppression.local_equations import EquationsByCells
from duckanon.engines.suppression.system import with_sums
from tests.bench.suppression_data import crossed


@pytest.mark.parametrize("seed", range(5))
def test_they_are_those_of_the_system(seed: int) -> None:
    rng = np.random.default_rng(seed)
    system = with_sums(crossed(((2, 3), (2, 2), (3, 1)), 200, seed)[0], [np.array([4, 7, 9]), np.array([30, 31])])
    known = EquationsByCells(system.equations)
    for size in (0, 1, 5, 40):
        cells = np.sort(rng.choice(system.cells, size, replace=False))
        slices = system.equations[:, cells]
        slices = slices[np.diff(slices.indptr) > 0]
        among = known.of(cells)
        assert (among.rows, among.width) == slices.shape
        assert (among.both_ways().toarray() == np.hstack([slices.toarray(), -slices.toarray()])).all()
        units = rng.integers(-5, 6, size)
        assert among.differences(units).tolist() == (slices.astype(np.int64) @ units).tolist()
        some = np.sort(rng.choice(size, size // 2, replace=False))
        again, direct = among.of(some), known.of(cells[some])
        assert (again.both_ways().toarray() == direct.both_ways().toarray()).all()
