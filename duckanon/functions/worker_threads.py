"""DuckDB's worker threads, as C++ modules of Python need them: with one Python thread state for all calls.

DuckDB makes a thread state for each call of a function and deletes it after the call. A module built with pybind11, as
highspy and parts of scipy are, remembers the state of the thread that imported the first such module. If that was a
worker thread, a later call on it uses the deleted state, and Python crashes. With DuckDB 2.0 the first such module is
mostly DuckDB's own, imported by the user's thread; that of DuckDB 1.4 has another version of pybind11.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

_THREAD = threading.local()


def on_lasting_state(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, so that the Python state of a thread that has called it lasts as long as Python.

    Each of DuckDB's threads leaves some twenty kilobytes for it.
    """

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        if not hasattr(_THREAD, "lasts"):
            # Counts one user more of this thread's state, who never leaves.
            ctypes.pythonapi.PyGILState_Ensure()
            _THREAD.lasts = True
        return function(*arguments)

    return call
