"""The user for whom something is done: named in the ledger's lines, and the one whose allotment a charge spends."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Lock

# In seconds: how often somebody who waits looks whether to go on.
_LOOK = 0.2
_ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)


@dataclass
class Asker:
    """A user for whom something is done. spent: what was charged for it meanwhile."""

    name: str
    spent: Fraction = field(default=Fraction(0))


@contextmanager
def asking(asker: Asker) -> Iterator[None]:
    """Until the block ends, this thread works for this user."""
    token = _ASKER.set(asker)
    try:
        yield
    finally:
        _ASKER.reset(token)


class Askers:
    """The users of one instance.

    DuckDB calls functions on threads of its own, for which no user is known. So users whose statements call functions
    that depend on it take turns, with `turn`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._in_turn: Asker | None = None

    @contextmanager
    def turn(self, asker: Asker, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Until the block ends, DuckDB's threads work for this user; other users wait.

        check: called while it waits; what it raises ends the waiting.
        """
        while not self._lock.acquire(timeout=_LOOK):
            check()
        try:
            with asking(asker):
                self._in_turn = asker
                yield
        finally:
            self._in_turn = None
            self._lock.release()

    def current(self) -> Asker:
        """The user for whom this thread works; the operating system's user if none was set."""
        return _ASKER.get() or self._in_turn or Asker(_user())


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
