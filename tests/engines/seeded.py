"""Random octets that can be had again. Not part of the package: no production code can make one."""

import numpy as np


class Seeded:
    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def octets(self, count: int) -> bytes:
        return self._generator.bytes(count)
