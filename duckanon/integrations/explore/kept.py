"""A session that is kept in a file, by the user's choice: the choices, and the settings that were looked at.

It holds names of tables and columns, what was chosen, and the figures of each setting: loss, risk and sizes. No value
of the data is in it.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from duckanon.errors import InvalidInput

_FORM = "duckanon explore session 1"
# In a folder of several users, a link may lead to another file.
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
_SUFFIX = ".duckanon-session.json"
_FIGURES = ("k", "information_loss", "min_class", "classes", "suppressed")
# Of an address, of what a setting is called, and of settings.
_LONGEST, _CALLED, _MOST = 8_000, 2_000, 200


class Kept:
    """The file of a session about the file `source`. path: another one than that beside it.

    Raises InvalidInput if `path` is something else than a session.
    """

    def __init__(self, source: Path, path: Path | None = None) -> None:
        self._source = source
        self.path = path or source.with_name(f"{source.name}{_SUFFIX}")
        if path is not None:
            self._check_ours()

    def told(self) -> dict[str, object] | None:
        """What was kept: `at`, the choices as the page's address; `when`; and `solutions`, the settings with their
        figures, if the data are as they were: `is_same`. None if nothing was kept.
        """
        found = self._read()
        if found is None:
            return None
        is_same = found["content"] == self._content()
        shown = {"at": found["at"], "when": found["when"], "is_same": is_same}
        return shown | {"solutions": found["solutions"] if is_same else []}

    def keep(self, at: object, solutions: object) -> None:
        """Write the session. Raises InvalidInput for what is none, and if the file cannot be written."""
        kept = {
            "form": _FORM,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "content": self._content(),
            "at": _text(at, _LONGEST),
            "solutions": [_solution(value) for value in _list(solutions)],
        }
        self._check_ours()
        beside = self.path.with_name(f"{self.path.name}.part")
        try:
            with os.fdopen(os.open(beside, _WRITING, 0o600), "w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1)
            os.replace(beside, self.path)
        except OSError as error:
            raise InvalidInput(
                f"{self.path} cannot be written: {error.strerror}. Name another file by --session."
            ) from None

    def forget(self) -> None:
        """Delete the file."""
        self._check_ours()
        self.path.unlink(missing_ok=True)

    def _check_ours(self) -> None:
        if os.path.lexists(self.path) and self._read() is None:
            raise InvalidInput(f"{self.path} is no session of this page: name another file by --session.")

    def _read(self) -> dict[str, object] | None:
        """What the file holds, None if it is no session."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            if content["form"] != _FORM:
                return None
            solutions = [_solution(value) for value in _list(content["solutions"])]
            kept = {name: _text(content[name], _LONGEST) for name in ("at", "when", "content")}
        except (OSError, ValueError, KeyError, TypeError, RecursionError, InvalidInput):
            return None
        return {**kept, "solutions": solutions}

    def _content(self) -> str:
        """Sizes and times of the data, by which it is seen that they have changed."""
        files = (self._source, self._source.with_name(f"{self._source.name}.wal"))
        return " ".join(f"{file.stat().st_size} {file.stat().st_mtime_ns}" for file in files if file.exists())


def _solution(value: object) -> dict[str, object]:
    """A setting: its address, what it is called, and its figures. Raises InvalidInput for anything else."""
    if not isinstance(value, dict) or set(value) != {"at", "told", "row"} or not isinstance(value["row"], dict):
        raise _wrong()
    row = {name: value["row"].get(name) for name in _FIGURES}
    if not all(isinstance(figure, int | float) for figure in row.values()):
        raise _wrong()
    return {"at": _text(value["at"], _LONGEST), "told": _text(value["told"], _CALLED), "row": row}


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise _wrong()
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list) or len(value) > _MOST:
        raise _wrong()
    return value


def _wrong() -> InvalidInput:
    return InvalidInput("A session is an address and the settings that were looked at.")
