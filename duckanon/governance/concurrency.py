"""Who works on an instance at the same time: cursors of its own, locks by key, and the user for whom a thread works."""

from __future__ import annotations

import getpass
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Lock
from weakref import WeakKeyDictionary, WeakValueDictionary

import duckdb

from duckanon.cancellation import Flag
from duckanon.cancellation import current as statement
from duckanon.errors import InvalidInput


class Cursors:
    """Opens cursors on a database instance. None is kept, since that would keep the file open after its last user.

    A cursor has a transaction of its own, so what it commits outlives the caller's ROLLBACK.
    """

    def __init__(self) -> None:
        self._known: list[weakref.ref[duckdb.DuckDBPyConnection]] = []

    def add(self, con: duckdb.DuckDBPyConnection) -> None:
        """Remember a connection to the instance, as a weak reference."""
        self._known = [one for one in self._known if one() not in (None, con)] + [weakref.ref(con)]

    def close(self) -> None:
        """Close all remembered connections, except those that another thread is using."""
        for reference in self._known:
            con = reference()
            if con is not None:
                with suppress(duckdb.Error):
                    con.close()

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A new cursor, closed at the end. Raises InvalidInput if all remembered connections are closed."""
        found = None
        for reference in self._known:
            con = reference()
            try:
                found = con.cursor() if con is not None else None
            except duckdb.ConnectionException:
                continue
            if found is not None:
                break
        if found is None:
            raise InvalidInput(
                "duckanon has no connection left to record a charge with: keep the connection that was registered open."
            )
        try:
            _prepare(found)
            yield found
        finally:
            found.close()


def _prepare(con: duckdb.DuckDBPyConnection) -> None:
    """Turn off the progress bar, and the use of Python variables as tables: one could be called `ledger`.

    A locked configuration cannot be changed; an analyst's instance has variables turned off already.
    """
    try:
        con.execute("SET enable_progress_bar = false; SET SESSION python_enable_replacements = false").fetchall()
    except duckdb.InvalidInputException:
        if con.execute("SELECT system.main.current_setting('python_enable_replacements')").fetchall() != [(False,)]:
            raise


Key = tuple[str, str]


class _WeakLock:
    """A lock to which a weak reference is possible."""

    def __init__(self) -> None:
        self.lock = Lock()


class KeyedLocks:
    """A lock for each key, so that those who ask for the same thing wait for each other.

    It is kept only while somebody uses it.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Key, _WeakLock] = WeakValueDictionary()
        self._adding = Lock()

    @contextmanager
    def held(self, key: Key) -> Iterator[None]:
        """Hold the lock of a key."""
        with self._adding:
            lock = self._locks.setdefault(key, _WeakLock())
        with lock.lock:
            yield


# In seconds: how often somebody who waits looks whether to go on.
_LOOK = 0.2
_ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)


@dataclass
class Asker:
    """A user for whom something is done: named in the ledger's lines, and whose allotment a charge spends.

    spent: what was charged for it meanwhile.
    """

    name: str
    spent: Fraction = field(default=Fraction(0))


# The users for whom statements run. DuckDB's threads know a statement by the number in its call.
_OF_STATEMENTS: WeakKeyDictionary[Flag, Asker] = WeakKeyDictionary()


@contextmanager
def asking(asker: Asker) -> Iterator[None]:
    """Until the block ends, this thread works for this user, and so does the statement that it works for."""
    token, flag = _ASKER.set(asker), statement()
    if flag is not None:
        _OF_STATEMENTS[flag] = asker
    try:
        yield
    finally:
        _ASKER.reset(token)


class Askers:
    """The users of one instance.

    DuckDB calls functions on threads of its own. Where their call has the number of its statement, that tells the user.
    Users whose statements call others that depend on it take turns, with `turn`.
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
        flag = statement()
        known = None if flag is None else _OF_STATEMENTS.get(flag)
        return _ASKER.get() or known or self._in_turn or Asker(_user())


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
