"""Random octets that can be had again. Not part of the package: no production code can make one."""

import numpy as np


class Seeded:
    """One stream of octets for each seed, however it is cut."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._ready = b""

    def octets(self, count: int) -> bytes:
        if len(self._ready) < count:
            self._ready += self._generator.bytes(max(count, 1 << 16))
        taken, self._ready = self._ready[:count], self._ready[count:]
        return taken
