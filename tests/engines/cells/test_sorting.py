"""The stable order, compared with NumPy's own."""

import numpy as np
import pytest

from duckanon.engines.cells.sorting import stable_order


@pytest.mark.parametrize("most", [0, 1, 2**16 - 1, 2**16, 2**31, 2**32, 2**48, 2**62, 2**63 - 1])
@pytest.mark.parametrize("many", [0, 1, 999, 1000, 3000])
def test_it_is_numpys(most: int, many: int) -> None:
    drawn = np.random.default_rng(many).integers(0, most, many, endpoint=True)
    keys = np.where(drawn % 3 == 0, most, drawn).astype(np.int64)
    assert (stable_order(keys) == np.argsort(keys, kind="stable")).all()
