"""Hashes that say which file a report is about."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Prints:
    """SHA-256 of the database file, and of its write-ahead log if there is one. size: bytes of both together."""

    file: str
    log: str | None
    size: int


def fingerprint(path: Path) -> Prints:
    """Hashes that identify the database file. Raises OSError."""
    log = path.with_name(path.name + ".wal")
    has_log = log.exists() and log.stat().st_size > 0
    size = path.stat().st_size + (log.stat().st_size if has_log else 0)
    return Prints(hashed(path), hashed(log) if has_log else None, size)


def hashed(path: Path) -> str:
    """The SHA-256 of a file's content. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
