"""Statements and changes take turns: no statement runs under a decision that was made before a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

_LOOK = 0.2


class Turns:
    """Any number of statements at a time, or any number of changes, and never both.

    A change that waits goes before statements that come later.
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._statements = self._changes = self._waiting = 0

    @contextmanager
    def statement(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold off changes inside. check: called while it waits; what it raises ends the waiting."""
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
        """Hold off statements inside, once those that run have ended. check: as for `statement`."""
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
