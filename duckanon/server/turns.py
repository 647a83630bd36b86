"""A lock between statements and changes: no statement runs by a decision that a later change made obsolete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

_LOOK = 0.2


class Turns:
    """Any number of statements at a time, or any number of changes, but never both.

    A waiting change comes before statements that begin to wait later.
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._statements = self._changes = self._waiting = 0

    @contextmanager
    def statement(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """A context in which no change happens. check: called while it waits; an error that it raises ends the wait."""
        with self._condition:
            while self._changes or self._waiting:
                check()
                self._condition.wait(_LOOK)
            self._statements += 1
        try:
            yield
        finally:
            with self._condition:
                self._statements -= 1
                self._condition.notify_all()

    @contextmanager
    def change(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """A context in which no statement runs; waits until those that run have ended. check: as for `statement`."""
        with self._condition:
            self._waiting += 1
            try:
                while self._statements:
                    check()
                    self._condition.wait(_LOOK)
                self._changes += 1
            finally:
                self._waiting -= 1
                self._condition.notify_all()
        try:
            yield
        finally:
            with self._condition:
                self._changes -= 1
                self._condition.notify_all()
