"""The server's log: one line of JSON for each event. It contains no value of the data, and no parameter."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TextIO

# In characters. A longer statement is cut.
_LONGEST = 10_000


class Log:
    """Where events are written: a file that only its owner may read, or the process's standard error."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock, self._path = Lock(), path
        self._file: TextIO = sys.stderr if path is None else _opened(path)

    def write(self, event: str, **said: Any) -> None:
        """Write a line. Fields that are None are left out."""
        told = {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in said.items()}
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **told}
        text = json.dumps({name: value for name, value in line.items() if value is not None}, ensure_ascii=False)
        with self._lock:
            print(text, file=self._file, flush=True)

    def reopen(self) -> None:
        """Write to a new file of the same name from now on, if the old one was renamed. Raises OSError."""
        if self._path is None:
            return
        new = _opened(self._path)
        with self._lock:
            old, self._file = self._file, new
        old.close()

    def close(self) -> None:
        """Close the file, if it is one."""
        if self._file is not sys.stderr:
            self._file.close()


def _opened(path: Path) -> TextIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")
