"""A connection with duckanon whose work shows its progress and stops at Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from duckanon.integrations.terminal.errors import Cancelled
from duckanon.integrations.terminal.output import messages
from duckanon.integrations.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from duckanon.connection import Connection

T = TypeVar("T")

# Seconds that Windows may take to notice Ctrl-C; other systems notice at once.
_GLANCE = 0.2


class Session:
    """One database, and a progress line for what runs on it. role: as for `connect`.

    Raises duckdb.Error if the database cannot be opened, InvalidInput as `connect`, and Cancelled after Ctrl-C.
    """

    def __init__(
        self, database: str | os.PathLike[str] = ":memory:", *, read_only: bool = False, role: str | None = None
    ) -> None:
        from duckanon.connection import connect

        self._line = ProgressLine(messages())
        self._stopped = False
        # What runs here uses only methods that both roles' connections have.
        opened: Any = self._watched(
            lambda: connect(database, role=role, read_only=read_only, progress=self._progress), stop=lambda: None
        )
        self.con: Connection = opened
        if self._stopped:
            self.con.close()
            raise Cancelled

    def _progress(self, step: str, share: float) -> None:
        """Show an engine's progress. An engine cannot be interrupted; after Ctrl-C this call stops it by raising."""
        if self._stopped:
            raise Cancelled
        self._line.tell(step, share)

    def run(self, step: str, work: Callable[[Connection], T]) -> T:
        """Run `work` and return its result. step: what it does, for the progress line.

        Raises Cancelled after Ctrl-C, and what `work` raises.
        """
        with self._line.shown(step):
            return self._watched(lambda: work(self.con), stop=self.con.interrupt)

    def _watched(self, work: Callable[[], T], stop: Callable[[], None]) -> T:
        """What `work` returns. It runs on a thread of its own, in this thread's context.

        Python raises KeyboardInterrupt on the main thread, in whatever runs there. If that were a function called by
        DuckDB, DuckDB would report it as an error of its own.
        """
        self._stopped = False
        with ThreadPoolExecutor(max_workers=1) as pool:
            future = pool.submit(copy_context().run, work)
            while not self._ended(future, stop):
                pass
            if self._stopped and future.exception():
                raise Cancelled
            return future.result()

    def _ended(self, future: Future[T], stop: Callable[[], None]) -> bool:
        """Wait until the work has ended, or until Ctrl-C: then stop it, and it has not ended yet."""
        try:
            while not future.done():
                wait([future], timeout=_GLANCE)
            return True
        except KeyboardInterrupt:
            self._stopped = True
            stop()
            return False

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.con.close()
