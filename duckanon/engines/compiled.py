"""The one place that knows numba: loops compiled to machine code, cached on disk, run without the GIL."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., object])

_log = logging.getLogger("duckanon")


class _Announcer(event.Listener):
    """Says, once a process, that compiling is what takes so long. A warm cache compiles nothing."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        if not self._said and getattr(function, "__module__", "").startswith("duckanon."):
            self._said = True
            _log.warning(
                "duckanon is compiling its engines for this machine; this happens once and takes some seconds."
            )

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]


def compiled(function: F) -> F:
    """Compile `function` on its first call; later processes load the machine code from numba's cache.

    Kernels hold no global state and start no threads of their own (numba's thread pools cannot be entered from two
    DuckDB threads at once), so any number of them may run side by side.
    """
    return cast("F", numba.njit(cache=True, nogil=True)(function))


def compiled_exact_sums(function: F) -> F:
    """As `compiled`, for loops whose sums have no rounding, so that the order of their terms may be any: vectorised.

    No number may be NaN.
    """
    # Flags of the compiler, no licence: sums that are exact are the same in any order, on any machine.
    return cast("F", numba.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "nnan"})(function))
