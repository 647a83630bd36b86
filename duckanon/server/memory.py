"""The most memory of the server's process.

DuckDB counts what it keeps in blocks, not the texts and lists that an expression makes of 2,048 rows at once: so a
short text could take all of the machine's. Beyond the process's own limit DuckDB, Python and numpy are refused memory
and raise an error, where the machine would end a process of its choice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

try:
    import resource
except ImportError:  # Windows.
    resource = None  # type: ignore[assignment, unused-ignore]

# In bytes: the process without DuckDB's blocks and the arrays of engines.
_ITSELF = 2 << 30
# The share of the machine's memory that the process has at most, unless DuckDB's limit alone leaves less.
_SHARE = 0.9
# In seconds: how often the limit is moved.
_LOOK = 0.1
_PAGE, _STATM = 4096 if resource is None else resource.getpagesize(), Path("/proc/self/statm")
_UNITS = {"bytes": 1, "byte": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}


def size_in_bytes(said: str) -> int:
    """A size as DuckDB says it, such as '1.8 GiB'."""
    number, unit = said.split()
    return int(float(number) * _UNITS[unit])


def most(duckdbs: int, machines: int) -> int:
    """How many bytes the process may have. duckdbs: DuckDB's limit, also that of an engine's call, in addition."""
    return max(min(2 * duckdbs + _ITSELF, int(_SHARE * machines)), duckdbs + _ITSELF)


class ProcessMemory:
    """A limit of this process's memory, which Linux keeps. Elsewhere it does nothing.

    Linux limits what was mapped, and DuckDB's allocator keeps what it has mapped when it gives the memory back. So the
    limit moves: at each look, as much more may be mapped as the process may still have.
    """

    def __init__(self) -> None:
        self._lock, self._lifted, self._ended = Lock(), 0, Event()
        self._most: int | None = None

    def limit(self, duckdbs: int) -> None:
        """Limit it from now on. duckdbs: how many bytes DuckDB may have."""
        if resource is None or not _STATM.exists():
            return
        self._most = most(duckdbs, os.sysconf("SC_PHYS_PAGES") * _PAGE)
        self._look()
        Thread(target=self._watch, name="memory", daemon=True).start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK):
            # There may be too little memory to look.
            with suppress(MemoryError):
                self._look()

    def _look(self) -> None:
        with self._lock:
            if not self._lifted and self._most is not None:
                resident, mapped = _pages()
                _set_limit(mapped + max(self._most - resident, 0))

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """A context without the limit, for a draw: what others need has no say in whether it succeeds."""
        if self._most is None:
            yield
            return
        with self._lock:
            self._lifted += 1
            _set_limit(None)
        try:
            yield
        finally:
            with self._lock:
                self._lifted -= 1
            self._look()


def _pages() -> tuple[int, int]:
    """In bytes: the memory that this process has, and what it has mapped for its data."""
    parts = _STATM.read_text().split()
    return int(parts[1]) * _PAGE, int(parts[5]) * _PAGE


def _set_limit(soft: int | None) -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wished = hard if soft is None else soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    # A container may forbid it.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (wished, hard))
