"""Why the file of a database cannot be opened: one sentence in place of DuckDB's error."""

from __future__ import annotations

import os
import re
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
_NO_FOLDER = ("Not a directory",)
_WRONG_KEY = ("Wrong encryption key",)
_NOT_WRITTEN = ("read-only crypto module",)
# The process that has a file open: its program and its number.
_HOLDER = re.compile(r"Conflicting lock is held in (.+?) \(PID (\d+)\)")
_NAMED = re.compile(r'"([^"]+)"')
_OPTION = re.compile(r"(?:options were not recognized|unrecognized configuration parameter)\W+(\w+)", re.IGNORECASE)
_ATTACH = re.compile(r"\s*attach\b", re.IGNORECASE)
_SQLITE = b"SQLite format 3\0"


def unopened(database: str | os.PathLike[str], error: duckdb.Error, *, read_only: bool) -> InvalidInput | None:
    """The error to raise where a database could not be opened; None if the reason is not in its file."""
    path, text = Path(database), str(error)
    why = _why(path, text, read_only=read_only)
    return None if why is None else InvalidInput(f"{path} {why}")


def unattached(statement: object, error: duckdb.Error) -> InvalidInput | None:
    """The error to raise where a statement could not ATTACH a database; None if that is not what failed."""
    text = str(error)
    if not isinstance(statement, str) or not _ATTACH.match(statement):
        return None
    if _holds(text, _WRONG_KEY):
        return InvalidInput("The key of the encrypted database is wrong: ATTACH it with the one that it was made with.")
    if _holds(text, _NOT_WRITTEN):
        return InvalidInput(
            "DuckDB writes encrypted databases only with its extension httpfs: LOAD httpfs, or ATTACH it READ_ONLY."
        )
    named = _NAMED.search(text)
    if named is None:
        return None
    if _holds(text, _ENCRYPTED):
        return InvalidInput(f"{named[1]} is encrypted: ATTACH it with its key, as in (ENCRYPTION_KEY '...').")
    why = _why(Path(named[1]), text, read_only=False)
    return None if why is None else InvalidInput(f"{named[1]} {why}")


def misconfigured(error: duckdb.Error) -> InvalidInput | None:
    """The error to raise for a `config` that DuckDB does not take; None if that is not the reason."""
    text = str(error)
    option = _OPTION.search(text)
    if option is not None:
        return InvalidInput(f"config names {option[1]}, which DuckDB does not know: look for the setting's name.")
    if isinstance(error, duckdb.InvalidInputException | duckdb.ConversionException) and "cast" in text:
        return InvalidInput("config has a value that its setting does not take: look for the setting's values.")
    return None


def is_damaged(error: BaseException) -> bool:
    """Whether DuckDB fails because the file of a database is damaged. It may notice only when it reads that part."""
    return _holds(str(error), _DAMAGED)


def _why(path: Path, text: str, *, read_only: bool) -> str | None:
    if path.is_dir():
        return "is a folder: name a file in it."
    if not path.exists():
        return _unmade(path, text, read_only=read_only)
    if _holds(text, _IN_USE):
        holder = _HOLDER.search(text)
        if holder is None:
            return "is open elsewhere, perhaps in a server: stop that first."
        return f"is open in process {holder[2]} ({Path(holder[1]).name}), perhaps a server: stop that first."
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
    if _holds(text, _NO_FOLDER):
        return "cannot be made, since a part of its path is a file and no folder: choose another one."
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
