"""A stable order of whole numbers. NumPy's radix sort takes 16 bits; several passes of it beat its merge sort."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# With fewer numbers, the merge sort is as fast.
_FEW = 1000
_BITS = 16


def stable_order(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """The positions of the keys in ascending order; equal ones keep their order.

    keys: int64 of shape (n,), zero or more.
    """
    if len(keys) < _FEW:
        return np.argsort(keys, kind="stable")
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    rest = int(keys.max()) >> _BITS
    for shift in range(_BITS, _BITS + rest.bit_length(), _BITS):
        order = order[np.argsort((keys[order] >> shift).astype(np.uint16), kind="stable")]
    return order
