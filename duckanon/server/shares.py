"""Threads for statements, in fair shares: each user has so many at a time, and those who wait take turns by user."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from duckanon.governance.threads import start

_T = TypeVar("_T")


class Shares:
    """Runs functions in threads. at_a_time: how many in all. each: how many of one user.

    What was left behind counts for its user until it ends, and not among all: others get threads in its place.
    """

    def __init__(self, at_a_time: int, each: int) -> None:
        self._at_a_time, self._each = at_a_time, each
        self._lock = Lock()
        # In place of those that are left behind, more are made.
        self._threads = ThreadPoolExecutor(10 * at_a_time + 100, "statement")
        start(self._threads, at_a_time)
        self._pauses, self._is_over = 0, False
        self._waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._running: dict[Future[Any], str] = {}
        self._left_behind: set[Future[Any]] = set()

    def submit(self, user: str, do: Callable[[], _T]) -> Future[_T]:
        """Call a function in a thread, once it is its turn."""
        future: Future[_T] = Future()
        with self._lock:
            self._waiting.setdefault(user, deque()).append((future, do))
        self._start()
        return future

    def leave_behind(self, future: Future[Any]) -> None:
        """Nobody waits for a function any more: another may have a thread in its place."""
        with self._lock:
            if future in self._running:
                self._left_behind.add(future)
        self._start()

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def _start(self) -> None:
        while (found := self._next()) is not None:
            future, do = found
            if not future.set_running_or_notify_cancel():
                self._ended(future)
                continue
            try:
                self._threads.submit(partial(self._call, future, do))
            except RuntimeError:
                # Where there is no memory for another thread, it waits for the next that ends its work.
                if self._is_over:
                    raise

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """What may run now, of the user whose turn it is."""
        with self._lock:
            if self._pauses or len(self._running) - len(self._left_behind) >= self._at_a_time:
                return None
            own = Counter(self._running.values())
            for user, waiting in self._waiting.items():
                if own[user] < self._each:
                    future, do = waiting.popleft()
                    # Behind all others that wait.
                    del self._waiting[user]
                    if waiting:
                        self._waiting[user] = waiting
                    self._running[future] = user
                    return future, do
            return None

    def _call(self, future: Future[Any], do: Callable[[], Any]) -> None:
        try:
            found = do()
        except BaseException as error:
            self._ended(future)
            future.set_exception(error)
        else:
            self._ended(future)
            future.set_result(found)

    def _ended(self, future: Future[Any]) -> None:
        with self._lock:
            self._running.pop(future, None)
            self._left_behind.discard(future)
        self._start()

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """A context in which nothing begins."""
        with self._lock:
            self._pauses += 1
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
            self._start()

    def has_ended(self, seconds: float) -> bool:
        """Whether all that runs ends in that time."""
        with self._lock:
            running = list(self._running)
        return not wait(running, seconds).not_done

    def end(self) -> None:
        """Take nothing more."""
        with self._lock:
            waiting = [future for one in self._waiting.values() for future, _ in one]
            self._waiting.clear()
        for future in waiting:
            future.cancel()
        self._is_over = True
        self._threads.shutdown(wait=False)
