"""The one place that knows numba: loops compiled to machine code, cached on disk, run without the GIL."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile `function` on its first call; later processes load the machine code from numba's cache.

    Kernels hold no global state and start no threads of their own (numba's thread pools cannot be entered from two
    DuckDB threads at once), so any number of them may run side by side.
    """
    return cast(F, numba.njit(cache=True, nogil=True)(function))
