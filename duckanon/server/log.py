"""The server's log: one line of JSON for each event. It contains no value of the data, and no parameter.

The disk of the log may be full. Nobody's statement fails of that, as the ledger names who was charged; once there is
room again, a line says how many are missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

# In characters. A longer statement is cut.
_LONGEST = 10_000
_STANDARD_ERROR = 2
_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Log:
    """Where events are written: a file that only its owner may read, or the process's standard error."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock, self._path = Lock(), path
        self._file = _STANDARD_ERROR if path is None else _opened(path)
        # How many lines could not be written since the last that could. Whether the last is not whole.
        self._missing, self._is_torn = 0, False

    def write(self, event: str, **said: Any) -> None:
        """Write a line. Fields that are None are left out. Raises nothing where it cannot be written."""
        with self._lock:
            if self._missing:
                told = {"at": _now(), "event": "lines missing", "lines": self._missing}
                if not self._printed(json.dumps(told)):
                    self._missing += 1
                    return
                self._missing = 0
            self._missing += not self._printed(_line(event, said))

    def _printed(self, line: str) -> bool:
        """Whether a line could be written."""
        try:
            # Without a buffer, which would keep what cannot be written, and fail of it again.
            data = ("\n" * self._is_torn + line + "\n").encode(errors="replace")
            while data:
                written = os.write(self._file, data)
                self._is_torn, data = True, data[written:]
        except OSError:
            return False
        self._is_torn = False
        return True

    def reopen(self) -> None:
        """Write to a new file of the same name from now on, if the old one was renamed. Raises OSError."""
        if self._path is None:
            return
        new = _opened(self._path)
        with self._lock:
            old, self._file, self._is_torn = self._file, new, False
        os.close(old)

    def close(self) -> None:
        """Close the file, if it is one."""
        with self._lock:
            old, self._file = self._file, _STANDARD_ERROR
        if old != _STANDARD_ERROR:
            os.close(old)


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _line(event: str, said: Mapping[str, Any]) -> str:
    values = {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in said.items()}
    line = {"at": _now(), "event": event, **values}
    return _ENCODER.encode({name: value for name, value in line.items() if value is not None})
