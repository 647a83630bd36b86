"""Further rows of long results wait for statements that have just begun.

Rows are fetched and written in Python, where one thread runs at a time: a short statement takes that turn some twenty
times, and would wait for each of another user's long results every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from time import monotonic

# In seconds: for how long a statement counts as just begun, and how long a piece of a long result waits at most, for
# the others and for another piece.
_YOUNG, _MOST = 0.05, 0.02


class FirstRows:
    """What all sessions of a server share."""

    def __init__(self) -> None:
        self._changed, self._piece = Condition(), Lock()
        self._begun: dict[object, float] = {}

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """A context from the beginning of a statement until its first rows are written."""
        statement = object()
        with self._changed:
            self._begun[statement] = monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._begun[statement]
                self._changed.notify_all()

    @contextmanager
    def behind(self) -> Iterator[None]:
        """A context for the next piece of a result: one result at a time, and behind statements just begun.

        It waits for a moment only, so that a piece that DuckDB still computes holds up no other for long.
        """
        is_alone = self._piece.acquire(timeout=_MOST)
        try:
            with self._changed:
                self._changed.wait_for(self._is_quiet, _MOST)
            yield
        finally:
            if is_alone:
                self._piece.release()

    def _is_quiet(self) -> bool:
        now = monotonic()
        return all(now - begun > _YOUNG for begun in self._begun.values())
