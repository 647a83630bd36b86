"""Who asks: the name that a ledger's lines get, and whose allotment a charge spends."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Lock

_ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)


@dataclass
class Asker:
    """A user for whom something is done. spent: what was charged for it meanwhile."""

    name: str
    spent: Fraction = field(default=Fraction(0))


@contextmanager
def asking(asker: Asker) -> Iterator[None]:
    """What this thread does inside is done for this user."""
    token = _ASKER.set(asker)
    try:
        yield
    finally:
        _ASKER.reset(token)


class Askers:
    """Who asks on one instance.

    DuckDB calls functions on threads of its own, which do not know for whom. So users whose statements call functions
    that write to the ledger take turns, with `turn`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._in_turn: Asker | None = None

    @contextmanager
    def turn(self, asker: Asker) -> Iterator[None]:
        """What DuckDB's threads do inside is done for this user; others wait."""
        with self._lock, asking(asker):
            self._in_turn = asker
            try:
                yield
            finally:
                self._in_turn = None

    def current(self) -> Asker:
        """For whom this thread works; without one it is the operating system's user."""
        return _ASKER.get() or self._in_turn or Asker(_user())


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
