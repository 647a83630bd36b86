"""Whether the statement that a thread works for is to end: one flag, at which all that works for it looks.

A thread that DuckDB runs a function on does not know for which statement. So the query that a call becomes holds the
number of the flag, which the engine's call gets back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from threading import Lock
from time import monotonic
from typing import overload
from weakref import WeakValueDictionary

# In seconds: how often somebody who waits looks at the flag.
LOOK = 0.2


class Stopped(BaseException):
    """The statement is to end. No `except Exception` on the way catches it."""


class Flag:
    """Of one statement. number: by which `numbered` finds it while the statement runs."""

    def __init__(self) -> None:
        self.number = next(_NUMBERS)
        self._is_set, self._stops = False, list[Callable[[], None]]()
        # Whether the statement only waits for an answer, which is made elsewhere.
        self.only_waits = False
        self._lock = Lock()
        # By the clock `monotonic`.
        self._until: float | None = None
        _FLAGS[self.number] = self

    @property
    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """The statement is to end. May be called from any thread, and again: what runs by then is stopped too."""
        with self._lock:
            self._is_set = True
            # Under the lock: what has ended is not stopped any more, since others may use its connection.
            for stop in self._stops:
                stop()

    def limit(self, seconds: float) -> None:
        """The statement has so much time from now on."""
        self._until = monotonic() + seconds

    @property
    def left(self) -> float | None:
        """How many seconds the statement has left; None where there is no limit."""
        return None if self._until is None else max(self._until - monotonic(), 0.0)

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """A context in which setting the flag also calls `stop`, such as the interrupt of a connection."""
        with self._lock:
            self._stops.append(stop)
        try:
            check()
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)


_NUMBERS = count(1)
_FLAGS: WeakValueDictionary[int, Flag] = WeakValueDictionary()
_CURRENT: ContextVar[Flag | None] = ContextVar("flag", default=None)


def current() -> Flag | None:
    """The flag of the statement that this thread works for; None if it works for none."""
    return _CURRENT.get()


def numbered(number: int | None) -> Flag | None:
    """The flag of a statement that runs; None if it has ended."""
    return None if number is None else _FLAGS.get(number)


@contextmanager
def working_for(flag: Flag | None) -> Iterator[None]:
    """A context in which this thread works for a statement."""
    token = _CURRENT.set(flag)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def check() -> None:
    """Raises Stopped if the statement that this thread works for is to end."""
    flag = _CURRENT.get()
    if flag is not None and flag.is_set:
        raise Stopped


@overload
def within(seconds: float) -> float: ...
@overload
def within(seconds: float | None) -> float | None: ...
def within(seconds: float | None) -> float | None:
    """The lesser of a limit and of the time that the statement has left; None for no limit, as results depend on it."""
    flag = _CURRENT.get()
    left = None if flag is None else flag.left
    return seconds if left is None or seconds is None else min(seconds, left)


@contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """A context in which `stop` is called if the statement that this thread works for is to end."""
    flag = _CURRENT.get()
    if flag is None:
        yield
        return
    with flag.stopping(stop):
        yield


def acquired(lock: Lock) -> None:
    """Acquire a lock. Raises Stopped if the statement is to end while this thread waits."""
    while not lock.acquire(timeout=LOOK):
        check()


class Statements:
    """The flags of the statements of one connection. interrupt: stops what DuckDB runs on it. ended: what is raised."""

    def __init__(self, interrupt: Callable[[], None], ended: Callable[[str], Exception]) -> None:
        self._interrupt, self._ended = interrupt, ended
        # It is kept after the statement's call, since its rows may be fetched later.
        self._flag: Flag | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """A context in which a statement runs, which `interrupt` of another thread ends with `ended`.

        A thread that works for a statement already goes on with that one.
        """
        flag = self._flag = current() or Flag()
        try:
            with working_for(flag), flag.stopping(self._interrupt):
                yield
        except Stopped:
            pass
        except Exception:
            # DuckDB's error may be about a function that stopped.
            if not flag.is_set:
                raise
        else:
            return
        raise self._ended("INTERRUPT Error: Interrupted!")

    def interrupt(self) -> None:
        """End the statement that runs."""
        flag = self._flag
        if flag is not None:
            flag.set()
        self._interrupt()
