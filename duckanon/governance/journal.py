"""The journal: what a ledger records, once more, in a file beside the database's own.

An older copy of a database knows nothing of the charges made since. So each line of a ledger is in the journal, and on
the disk, before it is committed; likewise that an answer is stored, and that a draw failed. An entry whose commit did
not follow costs budget and gives nothing back. Entries are only added. The file holds those of every ledger that the
database's path has had, told apart by the ledger's identity.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock, RLock
from typing import Any
from weakref import WeakValueDictionary

import duckdb

from duckanon.errors import InvalidInput
from duckanon.governance.ledger_state import Line

# The first line of the file.
_HEADER = b"duckanon journal 1\n"
# (Windows would write other ends of lines.)
_OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
# In hexadecimal digits: of the hash in front of each entry.
_HASH = 16


@dataclass
class Kept:
    """What a journal holds of one ledger.

    lines: by number; of several with one number the last counts, since the commit of the others is known to have
    failed before it was added (see `Journal.turn`). stored: the keys of answers that were stored, each with the number
    of the line that paid for it. failed: the keys of questions whose draws failed.
    """

    lines: dict[int, Line] = field(default_factory=dict)
    stored: set[tuple[str, int]] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)

    @property
    def last(self) -> int:
        """The number of the last line."""
        return max(self.lines, default=0)

    @property
    def is_whole(self) -> bool:
        """Whether no line is missing before the last one."""
        return len(self.lines) == self.last


def line_entry(line: Line) -> dict[str, Any]:
    """The entry of a ledger's line."""
    return {"line": {**asdict(line), "recorded_at": line.recorded_at.isoformat()}}


def stored_entry(key: str, number: int) -> dict[str, Any]:
    """The entry of an answer that is about to be stored. number: of the line that paid for it."""
    return {"stored": key, "number": number}


def failed_entry(key: str) -> dict[str, Any]:
    """The entry of a question whose draw failed."""
    return {"failed": key}


def journal_path(database: str | os.PathLike[str]) -> Path:
    """The path of the journal of a database's file."""
    path = Path(os.path.realpath(database))
    return path.with_name(f"{path.name}.journal")


class Journal:
    """The journal beside the file of one database. Threads may share it."""

    def __init__(self, database: str | os.PathLike[str]) -> None:
        self.database = Path(os.path.realpath(database))
        self.path = journal_path(database)
        # Held by who adds lines, from its transaction's beginning to its end. So nobody reads a line whose commit may
        # still fail, or adds one before it is taken back. (DuckDB lets no other process write to the file.)
        self.turn = RLock()
        self._lock = Lock()
        # How many of the first lines are there, by ledger; holds while the file is of that size.
        self._first: dict[str, int] = {}
        self._size: int | None = None

    def read(self, ledger: str) -> Kept:
        """What it holds of the ledger of that identity; nothing if there is no such file.

        Raises InvalidInput for a file that cannot be read, or that is no journal.
        """
        kept = Kept()
        for entry in self._entries():
            if entry.get("ledger") == ledger:
                _add(kept, entry)
        return kept

    def reaches(self, ledger: str) -> int:
        """The number of the line up to which it holds all of a ledger; 0 if it holds none."""
        with self._lock:
            if self._size is None or self._size != self._now():
                self._first = {}
                self._size = self._now()
            if ledger not in self._first:
                numbers = self.read(ledger).lines
                self._first[ledger] = next(at for at in range(len(numbers) + 1) if at + 1 not in numbers)
            return self._first[ledger]

    def add(self, ledger: str, entries: Sequence[Mapping[str, Any]]) -> Callable[[], None]:
        """Add entries to a ledger, and return once they are on the disk.

        What it returns takes them back, for a commit that is known to have failed; entries stay if more were added
        since. Raises duckdb.IOException where they cannot be written, as DuckDB does for its own file.
        """
        written = b"".join(_written({"ledger": ledger, **entry}) for entry in entries)
        with self._lock:
            try:
                before, after = self._append(written)
            except OSError as error:
                self._size = None
                raise duckdb.IOException(f"The journal could not be written: {error.strerror}") from None
            numbers = [entry["line"]["number"] for entry in entries if "line" in entry]
            if ledger in self._first and numbers:
                # (A line that comes again takes the place of one that was not committed.)
                self._first[ledger] = max(self._first[ledger], *numbers)
        return partial(self._take_back, before, after)

    def _take_back(self, before: int, after: int) -> None:
        with self._lock, suppress(OSError):
            if self._now() == after:
                self._size = None
                os.truncate(self.path, before)

    def _append(self, written: bytes) -> tuple[int, int]:
        """Append to the file, and return its size before and after."""
        is_new = not self.path.exists()
        descriptor = os.open(self.path, _OPEN, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            # What was begun and not ended, as the disk was full, is a line of its own, which is not read.
            os.lseek(descriptor, max(size - 1, 0), os.SEEK_SET)
            torn = size > 0 and os.read(descriptor, 1) != b"\n"
            whole = (b"\n" if torn else b"") + (_HEADER if size == 0 else b"") + written
            if is_new or size == 0:
                self._like_the_database(descriptor)
            try:
                rest = whole
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
            # Of another size than known, it was changed by others, and is read again.
            self._size = size + len(whole) if self._size == size else None
        finally:
            os.close(descriptor)
        if is_new:
            sync_folder(self.path.parent)
        return size, size + len(whole)

    def _like_the_database(self, descriptor: int) -> None:
        """Let those read and write the journal who may do so with the database."""
        if sys.platform == "win32":
            return
        status = self.database.stat()
        os.fchmod(descriptor, status.st_mode & 0o666)
        if os.geteuid() == 0:
            os.fchown(descriptor, status.st_uid, status.st_gid)

    def _now(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _entries(self) -> Iterator[Mapping[str, Any]]:
        """All entries. A line that is not whole was never the reason of a commit."""
        try:
            with self.path.open("rb") as file:
                first = file.readline()
                # (It may be cut off, too.)
                if not _HEADER.startswith(first.rstrip(b"\n")):
                    raise InvalidInput(
                        f"{self.path} is no journal that this version of duckanon reads: use the version that wrote "
                        "it, or move the file away."
                    )
                for line in file:
                    check, _, text = line.rstrip(b"\n").partition(b" ")
                    if check == _check(text):
                        yield json.loads(text)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InvalidInput(
                f"{self.path} cannot be read ({error.strerror}), and without it nobody knows whether the database is "
                "the newest one: ask for permission to read it."
            ) from error


_JOURNALS: WeakValueDictionary[Path, Journal] = WeakValueDictionary()
_ADDING = Lock()


def journal_of(database: str | os.PathLike[str]) -> Journal:
    """The journal of a database's file, one for all of this process."""
    with _ADDING:
        return _JOURNALS.setdefault(journal_path(database), Journal(database))


def _add(kept: Kept, entry: Mapping[str, Any]) -> None:
    if "line" in entry:
        values = entry["line"]
        line = Line(**{**values, "recorded_at": datetime.fromisoformat(values["recorded_at"])})
        kept.lines[line.number] = line
    elif "stored" in entry:
        kept.stored.add((entry["stored"], entry["number"]))
    elif "failed" in entry:
        kept.failed.add(entry["failed"])


def _written(entry: Mapping[str, Any]) -> bytes:
    text = json.dumps(entry, ensure_ascii=True).encode()
    return _check(text) + b" " + text + b"\n"


def _check(text: bytes) -> bytes:
    return sha256(text).hexdigest()[:_HASH].encode()


def sync_folder(folder: Path) -> None:
    """Make sure that the name of a new file is on the disk."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
