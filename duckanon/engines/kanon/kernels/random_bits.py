"""Random bits for searches in compiled code, the same from a seed on every machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import inner

Bits = npt.NDArray[np.uint64]


@inner
def random_bits(state: Bits) -> int:
    """The next 63 random bits (xorshift64). state: shape (1,), not 0."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64(x >> np.uint64(1))  # type: ignore[return-value]


@inner
def random_below(state: Bits, below: int) -> int:
    """A random number from 0 to below - 1."""
    return random_bits(state) % below
