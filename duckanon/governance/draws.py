"""Draws of answers that were charged. They go on whatever becomes of those who asked, on threads of their own.

So neither a time limit nor a cancelled statement nor a client that is gone says anything of the records. A draw that
fails is final for its question: drawn again with more memory, success would say how much the records need.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import TypeVar

from duckanon.cancellation import LOOK, Flag, check, current, working_for
from duckanon.errors import was_interrupted
from duckanon.governance.concurrency import Key
from duckanon.governance.threads import start

# How many draws are made at a time.
_AT_A_TIME = 4

T = TypeVar("T")


class NotKept(Exception):
    """What was drawn could not be stored, and nobody has seen it: it may be drawn again."""


class Draws:
    """The draws that are being made. alone: a context in which nothing else needs the instance's memory."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._running: dict[Key, Future[None]] = {}
        self.alone: Callable[[], AbstractContextManager[None]] = nullcontext

    def running(self, key: Key) -> Future[None] | None:
        """The draw that is being made under a key."""
        with self._lock:
            return self._running.get(key)

    def start(self) -> None:
        """Make the threads now, and not when they are needed."""
        with self._lock:
            self._threads = ThreadPoolExecutor(_AT_A_TIME, "draw")
            start(self._threads, _AT_A_TIME)

    def begin(
        self, key: Key, draw: Callable[[], T], keep: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> Future[None]:
        """Begin a draw. It works for no statement, so nothing stops it.

        keep: stores what was drawn; whether that succeeds follows from the form of the answer. failed: called with what
        the draw itself fails of. Whoever begins it waits for it from now on (`waited`).
        """
        flag = current()
        if flag is not None:
            # Before the draw runs: if it needs the memory of all others, those who wait for it are not ended.
            flag.only_waits = True
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_AT_A_TIME, "draw")
            future = self._running[key] = self._threads.submit(self._made, key, draw, keep, failed)
        return future

    def _made(
        self, key: Key, draw: Callable[[], T], keep: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        try:
            with working_for(None):
                try:
                    drawn = self._drawn(draw)
                except Exception as error:
                    # Nobody who asks can interrupt it; a process that ends can.
                    if not was_interrupted(error):
                        failed(error)
                    raise
                try:
                    keep(drawn)
                except Exception as error:
                    raise NotKept from error
        finally:
            with self._lock:
                del self._running[key]

    def _drawn(self, draw: Callable[[], T]) -> T:
        try:
            return draw()
        except Exception as error:
            # Where memory or the disk is full, it may fail of anything: a thread or an engine's array.
            if was_interrupted(error):
                raise
        # What others needed has no say in whether it succeeds.
        with self.alone():
            return draw()

    def end(self) -> None:
        """Wait until all draws are made."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()


def waited(draw: Future[None]) -> None:
    """Wait for a draw, and raise what it raises. Raises Stopped if the statement that waits is to end before."""
    flag = current() or Flag()
    flag.only_waits = True
    try:
        _waited(draw)
    finally:
        flag.only_waits = False


def _waited(draw: Future[None]) -> None:
    while True:
        try:
            draw.result(timeout=LOOK)
            return
        except NotYet:
            if draw.done():
                raise
            check()
