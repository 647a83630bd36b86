"""Locks by key: those who ask for the same thing at the same time wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakValueDictionary

Key = tuple[str, str]


class _WeakLock:
    """A lock to which a weak reference is possible."""

    def __init__(self) -> None:
        self.lock = Lock()


class KeyedLocks:
    """A lock for each key, which is kept only while somebody uses it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Key, _WeakLock] = WeakValueDictionary()
        self._adding = Lock()

    @contextmanager
    def held(self, key: Key) -> Iterator[None]:
        """Hold the lock of a key."""
        with self._adding:
            one = self._locks.setdefault(key, _WeakLock())
        with one.lock:
            yield
