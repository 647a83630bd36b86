"""Why the file of a database cannot be opened: one sentence in place of DuckDB's error."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from duckanon.errors import InvalidInput

# Parts of DuckDB's errors, of the versions 1.4 to 2.0.
_IN_USE = ("Could not set lock", "being used by another process")
_FOREIGN = ("not a valid DuckDB database",)
_OTHER_VERSION = ("with version number", "newer DuckDB version", "newer version of DuckDB")
_ENCRYPTED = ("encrypted database", "without a key")
_DAMAGED = ("Could not read enough bytes", "Corrupt database file", "Failed to deserialize", "could not be replayed")
_DENIED = ("Permission denied", "Access is denied", "Operation not permitted")
_MISSING = ("database does not exist", "No such file or directory", "cannot find the path")
_SQLITE = b"SQLite format 3\0"


def unopened(database: str | os.PathLike[str], error: duckdb.Error, *, read_only: bool) -> InvalidInput | None:
    """The error to raise where a database could not be opened; None if the reason is not in its file."""
    path, text = Path(database), str(error)
    why = _why(path, text, read_only=read_only)
    return None if why is None else InvalidInput(f"{path} {why}")


def is_damaged(error: BaseException) -> bool:
    """Whether DuckDB fails because the file of a database is damaged. It may notice only when it reads that part."""
    return _holds(str(error), _DAMAGED)


def _why(path: Path, text: str, *, read_only: bool) -> str | None:
    if path.is_dir():
        return "is a folder: name a file in it."
    if not path.exists():
        return _unmade(path, text, read_only=read_only)
    if _holds(text, _IN_USE):
        return "is open elsewhere, perhaps in a server: stop that first."
    if _holds(text, _DENIED):
        return _denied(path, read_only=read_only)
    if _holds(text, _FOREIGN) or _is_sqlite(path):
        return "is no DuckDB database: name one, or a new file to make it."
    if _holds(text, _OTHER_VERSION):
        return "was written by another version of DuckDB: open it with that, or with a newer one."
    if _holds(text, _ENCRYPTED):
        return "is encrypted: ATTACH it with its key, on a connection to a database in memory."
    if _holds(text, _DAMAGED):
        return "is damaged, or was cut off when it was copied: take a copy that is whole."
    return None


def _unmade(path: Path, text: str, *, read_only: bool) -> str | None:
    if _holds(text, _DENIED):
        return "cannot be made, since its folder may not be written: choose another one."
    if not _holds(text, _MISSING):
        return None
    if read_only:
        return "does not exist: what is opened for reading only must be there."
    return None if path.parent.is_dir() else "cannot be made, since its folder does not exist: make that first."


def _denied(path: Path, *, read_only: bool) -> str:
    if not os.access(path, os.R_OK) or read_only:
        return "may not be read: ask its owner for permission."
    return (
        "may not be written: open it for reading only (read_only=True, on the command line --read-only), or ask its "
        "owner for permission."
    )


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _holds(text: str, parts: tuple[str, ...]) -> bool:
    return any(part in text for part in parts)
